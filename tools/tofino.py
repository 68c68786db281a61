"""Compiles the data plane for Tofino and Tofino 2 with bf-p4c, and prints its use of their resources.

All figures come from the compiler's logs (``pipe/logs`` of its output). Called by ``make tofino``; fails
without the compiler, which no other target needs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "p4src" / "tna" / "main.p4"
NO_COMPILER = "no bf-p4c: put it on PATH or name it in BF_P4C; it is the Tofino back end of p4c (https://github.com/p4lang/p4c)"


@dataclass(frozen=True)
class Edition:
    """A chip, and the compiler's arguments for it."""

    name: str
    target: str
    arch: str


EDITIONS = (Edition("Tofino", "tofino", "tna"), Edition("Tofino 2", "tofino2", "t2na"))

# Resources of a stage: the name shown, and the compiler's list of those in use (resources.json).
RESOURCES = (
    ("SRAMs", "rams", "srams"),
    ("TCAMs", "tcams", "tcams"),
    ("map RAMs", "map_rams", "maprams"),
    ("stateful and meter ALUs", "meter_alus", "meters"),
    ("statistics ALUs", "statistic_alus", "stats"),
    ("hash bits", "hash_bits", "bits"),
    ("hash distribution units", "hash_distribution_units", "units"),
    ("gateways", "gateways", "gateways"),
    ("match crossbar bytes", "xbar_bytes", "bytes"),
    ("logical tables", "logical_tables", "ids"),
)


def main() -> int:
    """Compile the selected editions; 1 if there is no compiler, or if one does not compile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--path-bits", type=int, help="groups of 2^BITS paths (default: as in sizes.p4)")
    parser.add_argument("--only", choices=[edition.target for edition in EDITIONS], help="one edition")
    parser.add_argument("--output", type=Path, help="folder that keeps the output of the compiler")
    options = parser.parse_args()
    compiler = shutil.which(os.environ.get("BF_P4C") or "bf-p4c")
    if compiler is None:
        sys.stderr.write(f"{NO_COMPILER}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="alfirk-tofino-") as scratch:
        output = options.output or Path(scratch)
        good = [
            report(compiler, edition, options.path_bits, (output / edition.target).absolute())
            for edition in EDITIONS
            if options.only in (None, edition.target)
        ]
    return 0 if all(good) else 1


def report(compiler: str, edition: Edition, path_bits: int | None, output: Path) -> bool:
    """Compile for one edition and print its use of resources."""
    output.mkdir(parents=True, exist_ok=True)
    command = [compiler, "--target", edition.target, "--arch", edition.arch, "-g", "-o", str(output)]
    if path_bits is not None:
        # Cells of all groups' paths have 16 bits (p4src/tna/metadata.p4).
        command += [f"-DPATH_BITS={path_bits}", f"-DGROUP_BITS={min(10, 16 - path_bits)}"]
    done = subprocess.run(
        [*command, str(PROGRAM)], cwd=PROGRAM.parent, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]
        sys.stderr.write(f"{edition.name}: {compiler} has failed\n")
        sys.stderr.write("\n".join(errors[:20] or done.stderr.splitlines()[-20:]) + "\n")
        return False
    logs = output / "pipe" / "logs"
    sys.stdout.write("\n".join([edition.name, *(f"  {line}" for line in figures(logs)), ""]))
    return True


def figures(logs: Path) -> Iterator[str]:
    """Read the compiler's logs; one line for each figure."""
    whole = json.loads((logs / "resources.json").read_text())
    yield f"compiler: {whole.get('compiler_version', 'of unknown version')}"
    mau = whole["resources"]["mau"]
    yield from stages(logs.parent, mau["nStages"])
    for name, group, items in RESOURCES:
        used = [in_use(stage[group][items]) for stage in mau["mau_stages"]]
        yield f"{name}: {sum(used)} ({' '.join(map(str, used))} by stage)"
    yield from phv(json.loads((logs / "phv.json").read_text()))


def stages_of(pipe: Path) -> dict[str, int]:
    """Count the stages of each gress."""
    # A line of the assembly: `stage 4 ingress:`.
    assembly = next(iter(pipe.glob("*.bfa")), None)
    found = re.findall(r"^stage (\d+) (\w+):", assembly.read_text() if assembly else "", re.M)
    return {gress: max(int(stage) for stage, of in found if of == gress) + 1 for _, gress in found}


def stages(pipe: Path, available: int) -> Iterator[str]:
    """List the stages of each gress, and the lower bound if the compiler reports one."""
    needed = stages_of(pipe)
    parts = ", ".join(f"{count} of {gress}" for gress, count in sorted(needed.items(), reverse=True))
    yield f"stages: {max(needed.values(), default='?')} of {available} ({parts})"
    summary = pipe / "logs" / "table_summary.log"
    if summary.is_file():
        path = r"Critical path length through the table dependency graph: (\d+)"
        critical = re.findall(path, summary.read_text())
        yield f"critical path: {critical[-1] if critical else '?'} stages"


def in_use(items: list[dict[str, Any]]) -> int:
    """Count the listed items that are in use; the compiler also lists unused ones of some kinds."""
    return sum(1 for item in items if item.get("usages", True))


def phv(log: dict[str, Any]) -> Iterator[str]:
    """Count the used bits of the packet header vector (PHV), by the size of the containers."""
    used: dict[tuple[str, int], int] = {}
    for container in log["containers"]:
        if container["slices"]:
            key = (container["container_type"], container["bit_width"])
            used[key] = used.get(key, 0) + 1
    by_size = ", ".join(f"{count} {kind} of {width} bits" for (kind, width), count in sorted(used.items()))
    bits = sum(width * count for (_, width), count in used.items())
    yield f"header containers: {bits} bits ({by_size})"


if __name__ == "__main__":
    sys.exit(main())
