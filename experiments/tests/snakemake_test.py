"""Runs the points of an experiment as jobs of Snakemake, with its executor for one machine."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
SNAKEMAKE = ROOT / ".venv" / "clients" / "snakemake" / "bin" / "snakemake"

EXPERIMENT = """\
name: two
run: {topology: testbed}
sweep: {size: [64B, 8KiB], algorithms: [alfirk, chain]}
"""


def _run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def snakemake_jobs_have_the_same_results_as_one_command(tmp_path: Path) -> None:
    spec = tmp_path / "two.yaml"
    spec.write_text(EXPERIMENT)
    _run(ALFIRK, "experiment", "run", spec, "--out", "together", folder=tmp_path)
    snakefile = ROOT / "experiments" / "Snakefile"
    jobs: list[str | Path] = [SNAKEMAKE, "--snakefile", snakefile, "--cores", "2", "--config"]
    config = [f"experiment={spec}", "out=jobs", f"alfirk={ALFIRK}"]
    said = _run(*jobs, *config, folder=tmp_path)
    assert "5 of 5 steps (100%) done" in said
    results = [(tmp_path / out / "results.csv").read_bytes() for out in ("together", "jobs")]
    assert results[0] == results[1]
    assert len(results[0].splitlines()) == 1 + 4
    assert "Nothing to be done" in _run(*jobs, *config, folder=tmp_path)
