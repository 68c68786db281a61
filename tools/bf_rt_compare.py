"""Compares the BfRuntime schema of ``alfirk p4c --bf-rt-schema`` with bf-p4c's, field by field.

Every folder ``NAME`` with a file ``NAME.p4`` in the given folder is a program. bf-p4c's schemas are read from
the folder of ``--output``, as ``NAME.json``; with ``--bf-p4c`` they are written there first. Tables of
snapshots and of hashes, which the software model does not have, are counted, not compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Kinds of tables that the schema of the software model does not have.
ABSENT = {
    "SnapshotCfg",
    "SnapshotTrigger",
    "SnapshotData",
    "SnapshotLiveness",
    "DynHashConfigure",
    "DynHashAlgorithm",
    "DynHashCompute",
}
# Members of lists are matched by these members, in this order.
KEYS = ("name", "id")


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def arch_of(name: str) -> tuple[str, str]:
    """Return the architecture of a program, and bf-p4c's name of its chip."""
    return ("t2na", "tofino2") if name.startswith("t2na") else ("tna", "tofino")


def programs(folder: Path, only: str) -> Iterator[Path]:
    """Yield the programs of a folder."""
    for path in sorted(folder.iterdir()):
        program = path / f"{path.name}.p4"
        if only in path.name and program.exists():
            yield program


def differences(ours: Any, theirs: Any, place: str) -> Iterator[str]:
    """Yield the places at which two schemas differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours:
                yield f"{place}.{key}: absent, bf-p4c has {json.dumps(theirs[key])[:80]}"
            elif key not in theirs:
                yield f"{place}.{key}: {json.dumps(ours[key])[:80]}, bf-p4c has none"
            else:
                yield from differences(ours[key], theirs[key], f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{place}: {len(ours)} elements, bf-p4c has {len(theirs)}"
        for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            yield from differences(one, other, f"{place}[{number}]")
    elif ours != theirs:
        yield f"{place}: {json.dumps(ours)[:80]}, bf-p4c has {json.dumps(theirs)[:80]}"


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[list[str], Counter[str]]:
    """Return the differences of two schemas, and the numbers of equal, different and not compared tables."""
    found: list[str] = []
    count: Counter[str] = Counter()
    for kind in ("tables", "learn_filters"):
        own = {table["name"]: table for table in ours[kind]}
        other = {table["name"]: table for table in theirs[kind]}
        for name in sorted(own.keys() | other.keys()):
            if name not in own:
                if other[name].get("table_type") in ABSENT:
                    count["not compared"] += 1
                    continue
                found.append(f"{name}: absent ({other[name].get('table_type')})")
                count["different"] += 1
            elif name not in other:
                found.append(f"{name}: bf-p4c has none")
                count["different"] += 1
            else:
                here = list(differences(own[name], other[name], name))
                count["different" if here else "equal"] += 1
                found.extend(here)
    return found, count


def main() -> int:
    """Compare the programs; the exit code is 1 if a schema differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the programs")
    parser.add_argument("--alfirk", required=True, help="the command that compiles, such as `alfirk p4c`")
    parser.add_argument("--output", type=Path, required=True, help="folder of bf-p4c's schemas")
    parser.add_argument("--bf-p4c", type=Path, help="bf-p4c, to write schemas that the folder lacks")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--seconds", type=int, default=600, help="time limit for one program")
    args = parser.parse_args()
    all_tables: Counter[str] = Counter()
    for program in programs(args.folder, args.only):
        name = program.stem
        arch, chip = arch_of(name)
        reference = args.output / f"{name}.json"
        if args.bf_p4c and not reference.exists():
            command = [str(args.bf_p4c), "--target", chip, "--arch", arch, "--bf-rt-schema", str(reference)]
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(
                    [*command, "-o", folder, str(program)],
                    capture_output=True,
                    timeout=args.seconds,
                    check=False,
                )
        if not reference.exists():
            show(f"{name}: bf-p4c writes no schema")
            continue
        with tempfile.TemporaryDirectory() as folder:
            schema = Path(folder) / "bf-rt.json"
            command = [*args.alfirk.split(), "--arch", arch, "--bf-rt-schema", str(schema), str(program)]
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=args.seconds, check=False
            )
            if not schema.exists():
                first = next((line for line in result.stderr.splitlines() if "error" in line), "no schema")
                show(f"{name}: {first}")
                all_tables["no schema"] += 1
                continue
            ours = json.loads(schema.read_text())
        found, count = compare(ours, json.loads(reference.read_text()))
        all_tables.update(count)
        show(f"{name}: {', '.join(f'{number} {what}' for what, number in sorted(count.items()))}")
        for line in found:
            show(f"  {line}")
    show(f"all: {', '.join(f'{number} {what}' for what, number in sorted(all_tables.items()))}")
    return int(all_tables["different"] + all_tables["no schema"] > 0)


if __name__ == "__main__":
    sys.exit(main())
