"""The files of the wheel: they work in another place, with the layout that pip gives them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import build_wheel
import pytest
import tomllib

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the wheel's files as in `site-packages`."""
    folder = tmp_path_factory.mktemp("site")
    build_wheel.stage(folder)
    return folder


def _run(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # As Python reads .pth files of site-packages.
    paths = [site, *(site / line for line in (site / "alfirk.pth").read_text().splitlines())]
    environment = {
        "PATH": os.environ["PATH"],
        "ALFIRK": str(Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def a_lab_is_checked_without_a_source_tree(site: Path) -> None:
    done = _run(site, "from alfirk.names import labs; labs()", "race", "solution.py")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All parts hold."), done.stderr


@pytest.mark.root
@pytest.mark.parametrize("lab", ["replicate", "icrc"])
def a_lab_with_a_switch_is_checked_without_a_source_tree(site: Path, lab: str) -> None:
    solution = "solution.py" if lab == "icrc" else "solution.p4"
    done = _run(site, "from alfirk.names import labs; labs()", lab, solution)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All parts hold."), done.stderr


def packages_are_those_of_the_wheel(site: Path) -> None:
    code = (
        "import alfirk, alfirk_labs, alfirk_mininet, alfirk_ptf; print(alfirk_ptf.__file__, alfirk.__file__)"
    )
    done = _run(site, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site))


def tests_are_not_in_the_wheel(site: Path) -> None:
    assert not [path for path in site.rglob("*") if "tests" in path.relative_to(site).parts]
    assert (site / "alfirk" / "share" / "p4src" / "v1model" / "main.p4").is_file()


def each_command_has_its_function() -> None:
    scripts = tomllib.loads((_ROOT / "python" / "pyproject.toml").read_text())["tool"]["alfirk"]["scripts"]
    names = {"p4c", "p4c-bm2-ss", "simple_switch", "simple_switch_grpc", "simple_switch_CLI"}
    assert {name for name, function in scripts.items() if function == "alfirk.names:main"} == names


@pytest.mark.parametrize("name", ["p4c", "simple_switch_CLI"])
def the_command_appears_under_its_other_names(site: Path, name: str) -> None:
    code = f"import sys; sys.argv[0] = '/somewhere/{name}'; from alfirk.names import main; main()"
    done = _run(site, code, "--help")
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
