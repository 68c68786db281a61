"""Compares ``alfirk p4c --report`` with bf-p4c's own report, program by program.

Called by ``make tofino-compare PROGRAMS=FOLDER``. Every file of the folder that instantiates ``Switch`` is a
program; if the folder has a ``programs.txt``, its lines are the programs instead: a path, and flags for both
compilers after it (``-D`` and ``-I``, folders relative to the list, and ``--arch t2na`` for Tofino 2).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tofino

LIST = "programs.txt"
INCLUDES = "P4C_16_INCLUDE_PATH"
# How compilers begin their errors: `error[E0404]: ...`, `a.p4(1): error: ...`.
ERROR = re.compile(r"\berror(\[\w+\])?:|Compiler Bug|terminated", re.I)
SWITCH = re.compile(r"^\s*Switch\s*(<[^;]*>)?\s*\(", re.M)

# The compared resources: our name (Resources in compiler/src/targets/tofino/stages/chip.rs),
# and the name in resources.json of bf-p4c.
COMPARED = (
    ("SRAM", "sram", "rams", "srams"),
    ("TCAM", "tcam", "tcams", "tcams"),
    ("hash bits", "hash_bits", "hash_bits", "bits"),
    ("stateful", "stateful", "meter_alus", "meters"),
    ("statistics", "statistics", "statistic_alus", "stats"),
)

# Results are close if memory blocks differ by at most a fifth of bf-p4c's, and stages by at most one.
SHARE = 0.2
STAGES = 1


@dataclass(frozen=True)
class Program:
    """A program and its flags for the compilers."""

    name: str
    path: Path
    arch: str
    flags: tuple[str, ...]

    @property
    def target(self) -> str:
        """Return bf-p4c's name of the chip."""
        return next(edition.target for edition in tofino.EDITIONS if edition.arch == self.arch)


@dataclass(frozen=True)
class Figures:
    """The resources of a program as a compiler reports them, or its error."""

    stages: int = 0
    totals: tuple[int, ...] = ()
    # Blocks of SRAM and of TCAM by table, register or other object.
    sram: tuple[tuple[str, int], ...] = ()
    tcam: tuple[tuple[str, int], ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Compared:
    """Both reports of a program."""

    program: Program
    ours: Figures
    theirs: Figures


def main() -> int:
    """Compile all programs with both compilers and print both reports; return 1 if there is no program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the programs")
    parser.add_argument("--alfirk", type=Path, required=True, help="the alfirk command")
    parser.add_argument("--output", type=Path, help="folder that keeps the output of bf-p4c, and is reused")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--tables", action="store_true", help="list the tables whose memories differ")
    parser.add_argument("--jobs", type=int, default=1, help="number of bf-p4c processes at once")
    parser.add_argument("--seconds", type=int, default=600, help="time limit for one program")
    options = parser.parse_args()
    compiler = shutil.which(os.environ.get("BF_P4C") or "bf-p4c")
    if compiler is None and options.output is None:
        sys.stderr.write(f"{tofino.NO_COMPILER}\n")
        return 1
    chosen = [program for program in programs(options.folder) if options.only in program.name]
    if not chosen:
        sys.stderr.write(f"{options.folder}: no program for Tofino\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="alfirk-tofino-") as scratch:
        output = (options.output or Path(scratch)).absolute()

        def both(program: Program) -> Compared:
            theirs = of_bf_p4c(compiler, program, output / program.name, options.seconds)
            return Compared(program, of_alfirk(options.alfirk, program), theirs)

        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(both, chosen))
    sys.stdout.write("\n".join([*table(rows), "", *summary(rows), ""]))
    if options.tables:
        sys.stdout.write("\n".join(["", *differences(rows), ""]))
    return 0


def programs(folder: Path) -> list[Program]:
    """List the programs of a folder, in the order of its list or of their names."""
    listed = folder / LIST
    if listed.is_file():
        lines = (line.partition("#")[0].split() for line in listed.read_text().splitlines())
        return [program(folder, words[0], words[1:]) for words in lines if words]
    found = (path for path in sorted(folder.rglob("*.p4")) if SWITCH.search(path.read_text(errors="replace")))
    return [program(folder, str(path.relative_to(folder)), []) for path in found]


def program(folder: Path, path: str, words: list[str]) -> Program:
    """Parse a line of a list; its folders become absolute."""
    flags: list[str] = []
    name = path.removesuffix(".p4").replace("/", ".")
    arch = "t2na" if only_second(folder / path) else "tna"
    rest = iter(words)
    for word in rest:
        if word == "--arch":
            arch = next(rest, arch)
        elif word == "--name":
            name = next(rest, name)
        elif word.startswith("-I"):
            flags.append(f"-I{(folder / word[2:]).absolute()}")
        else:
            flags.append(word)
    return Program(name, (folder / path).absolute(), arch, tuple(flags))


def only_second(path: Path) -> bool:
    """Whether a program includes Tofino 2's architecture (t2na.p4) and not Tofino's (tna.p4)."""
    text = path.read_text(errors="replace")
    return "<t2na.p4>" in text and "<tna.p4>" not in text


def of_bf_p4c(compiler: str | None, program: Program, output: Path, seconds: int) -> Figures:
    """Return the resources that bf-p4c reports, from ``output`` if it has run before."""
    failed = output / "failure.txt"
    if not failed.is_file() and not list(output.glob("*/logs/resources.json")):
        if compiler is None:
            return Figures(failure="not compiled")
        output.mkdir(parents=True, exist_ok=True)
        command = [compiler, "--target", program.target, "--arch", program.arch, "-g", "-o", str(output)]
        command += [*program.flags, str(program.path)]
        try:
            done = subprocess.run(
                command, cwd=program.path.parent, capture_output=True, text=True, check=False, timeout=seconds
            )
            text, code = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            text, code = f"error: no end within {seconds} s", 1
        (output / "command.txt").write_text(shlex.join(command) + "\n")
        if code != 0:
            failed.write_text(first_error(text, code) + "\n")
    if failed.is_file():
        return Figures(failure=failed.read_text().strip())
    logs = sorted(output.glob("*/logs/resources.json"))
    return added([resources(json.loads(log.read_text()), log.parent.parent) for log in logs])


def first_error(text: str, code: int) -> str:
    """Return the first error of a compiler, on one line."""
    errors = [line.strip() for line in text.splitlines() if ERROR.search(line)]
    return errors[0] if errors else f"exit code {code}"


def added(pipes: list[Figures]) -> Figures:
    """Add up the figures of several pipes, each of which has stages of its own."""
    return Figures(
        max((pipe.stages for pipe in pipes), default=0),
        tuple(map(sum, zip(*(pipe.totals for pipe in pipes), strict=True))),
        tuple(one for pipe in pipes for one in pipe.sram),
        tuple(one for pipe in pipes for one in pipe.tcam),
    )


def resources(log: dict[str, Any], pipe: Path) -> Figures:
    """Read the figures of a pipe from ``resources.json`` and the assembly."""
    stages = log["resources"]["mau"]["mau_stages"]
    totals = tuple(
        sum(tofino.in_use(stage[group][items]) for stage in stages) for _, _, group, items in COMPARED
    )
    needed = max(tofino.stages_of(pipe).values(), default=0)
    sram = (one for stage in stages for one in stage["rams"]["srams"])
    tcam = (one for stage in stages for one in stage["tcams"]["tcams"])
    return Figures(needed, totals, by_user(sram), by_user(tcam))


def by_user(blocks: Iterable[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    """Count the blocks of each table or array; parts of a table, as ``t$st0``, belong to the table."""
    counts: Counter[str] = Counter()
    for block in blocks:
        for usage in block.get("usages", [])[:1]:
            counts[usage["used_by"].partition("$")[0]] += 1
    return tuple(sorted(counts.items()))


def of_alfirk(alfirk: Path, program: Program) -> Figures:
    """Return the resources that `alfirk p4c --report` reports."""
    command = [str(alfirk.absolute()), "p4c", "--arch", program.arch, *program.flags, str(program.path)]
    with tempfile.TemporaryDirectory(prefix="alfirk-tofino-") as scratch:
        report = Path(scratch) / "report.json"
        # This variable has the include path of bf-p4c, and would also affect our compiler.
        environment = {name: value for name, value in os.environ.items() if name != INCLUDES}
        done = subprocess.run(
            [*command, f"--report={report}"],
            cwd=program.path.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.is_file():
            return Figures(failure=first_error(done.stdout + done.stderr, done.returncode))
        pipes = json.loads(report.read_text())
    return added([pipe_of_alfirk(pipe) for pipe in (pipes if isinstance(pipes, list) else [pipes])])


def pipe_of_alfirk(report: dict[str, Any]) -> Figures:
    """Read the resources of a pipe from our report."""
    totals = tuple(sum(stage.get(ours, 0) for stage in report["used"]) for _, ours, _, _ in COMPARED)
    parts = report["memories"]
    sram = tuple((part["name"], part["sram"]) for part in parts if part["sram"])
    tcam = tuple((part["name"], part["tcam"]) for part in parts if part["tcam"])
    return Figures(report["needed"], totals, sram, tcam)


def table(rows: list[Compared]) -> Iterator[str]:
    """Format a line for each program, with our figures and theirs."""
    heads = ["stages", *(head for head, _, _, _ in COMPARED)]
    width = max(len(row.program.name) for row in rows)
    yield f"{'program':<{width}}  {'chip':<4}  " + "  ".join(f"{head:>11}" for head in heads)
    for row in rows:
        start = f"{row.program.name:<{width}}  {row.program.arch:<4}  "
        if row.ours.failure or row.theirs.failure:
            parts = ("alfirk", row.ours.failure), ("bf-p4c", row.theirs.failure)
            yield start + "; ".join(f"{who}: {why}" for who, why in parts if why)
            continue
        pairs = zip((row.ours.stages, *row.ours.totals), (row.theirs.stages, *row.theirs.totals), strict=True)
        yield start + "  ".join(f"{ours:>5}/{theirs:<5}" for ours, theirs in pairs)


def near(ours: int, theirs: int) -> bool:
    """Whether our number of memory blocks is within a fifth of bf-p4c's."""
    return abs(ours - theirs) <= SHARE * theirs


def summary(rows: list[Compared]) -> Iterator[str]:
    """Count the programs whose results are close."""
    refused = [row for row in rows if row.ours.failure]
    yield f"programs: {len(rows)}, of which alfirk compiles {len(rows) - len(refused)}"
    yield f"bf-p4c compiles {sum(not row.theirs.failure for row in rows)}"
    both = [row for row in rows if not row.ours.failure and not row.theirs.failure]
    stages = sum(abs(row.ours.stages - row.theirs.stages) <= STAGES for row in both)
    same = sum(row.ours.stages == row.theirs.stages for row in both)
    yield f"both compile {len(both)}; stages within {STAGES}: {stages}, the same: {same}"
    for at, (head, _, _, _) in enumerate(COMPARED):
        pairs = [(row.ours.totals[at], row.theirs.totals[at]) for row in both]
        ours, theirs = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        count = sum(near(*pair) for pair in pairs)
        yield f"{head} within {SHARE:.0%}: {count} of {len(both)}; all programs together {ours}/{theirs}"


def differences(rows: list[Compared]) -> Iterator[str]:
    """List tables and arrays whose memories differ."""
    for row in rows:
        if row.ours.failure or row.theirs.failure:
            continue
        for memory, ours, theirs in (
            ("SRAM", row.ours.sram, row.theirs.sram),
            ("TCAM", row.ours.tcam, row.theirs.tcam),
        ):
            mine, its = dict(ours), dict(theirs)
            for name in sorted(mine.keys() | its.keys()):
                if mine.get(name, 0) != its.get(name, 0):
                    yield f"{row.program.name}: {memory} of {name}: {mine.get(name, 0)}/{its.get(name, 0)}"


if __name__ == "__main__":
    sys.exit(main())
