"""``ptf-tests/run``: starts a switch on veth pairs, and runs PTF tests against it."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.binary import find_alfirk

from alfirk_ptf.collect import PORTS
from alfirk_ptf.live import (
    CPU_PORT,
    MAIN_PROGRAM,
    PATH_BITS_VARIABLE,
    ROOT,
    RunError,
    compile_program,
    main_program,
    switch_ports,
)
from alfirk_ptf.runner import Run, coverage_flags, in_work_folder, run_ptf, summarise
from alfirk_ptf.target import PROFILE_VARIABLE, TARGET_VARIABLE, Profile, Target

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Suite:
    """Test cases that use the same program, and so the same switch."""

    #: Name of their folder in ptf-tests.
    name: str
    program: Path
    ports: Callable[[Target, int], tuple[int, ...]]
    #: Whether the program can be compiled for other numbers of paths.
    has_paths: bool
    #: Number of nanoseconds that one nanosecond of the switch's clock takes.
    time_scale: int

    @property
    def folder(self) -> Path:
        """Path of the folder of the test cases."""
        return ROOT / "ptf-tests" / self.name

    def chosen(self, tests: list[str]) -> list[str]:
        """Return the tests that are in this suite."""
        return [test for test in tests if (self.folder / f"{test.split('.')[0]}.py").is_file()]


SUITES = (
    # With a slower clock a burst of packets takes less than a millisecond of it, also on a busy machine.
    Suite("cases", MAIN_PROGRAM, switch_ports, has_paths=True, time_scale=16),
    Suite(
        "features",
        ROOT / "ptf-tests" / "programs" / "features.p4",
        lambda *_: PORTS,
        has_paths=False,
        time_scale=1,
    ),
)


def main() -> int:
    """Run the command: return 0 if all tests passed, 1 if a test failed, 2 if they could not be run."""
    parser = argparse.ArgumentParser(prog="ptf-tests/run", description=__doc__)
    parser.add_argument(
        "--alfirk",
        type=Path,
        default=find_alfirk(),
        help="the alfirk command, which compiles the program (default: %(default)s)",
    )
    parser.add_argument(
        "--switch",
        default=os.environ.get("SIMPLE_SWITCH_GRPC"),
        metavar="EXE",
        help="test this simple_switch_grpc instead of `alfirk switch` (or set SIMPLE_SWITCH_GRPC)",
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="JSON",
        action="append",
        default=[],
        help="take this compiled main.json or features.json, with its .p4info.txtpb beside it, instead of "
        "compiling (may be repeated)",
    )
    parser.add_argument(
        "--path-bits",
        type=int,
        choices=range(2, 8),
        help="compile the pipeline for groups of 2^BITS paths (default: "
        + ", ".join(f"{target.path_bits} for {target.value}" for target in Target)
        + ")",
    )
    parser.add_argument(
        "--target",
        type=Target,
        choices=list(Target),
        default=Target.V1MODEL,
        metavar="{v1model,tna,t2na}",
        help="run cases/ on the data plane for this target (default: v1model)",
    )
    parser.add_argument(
        "--profile",
        type=Profile,
        choices=list(Profile),
        default=Profile.FULL,
        metavar="{full,core}",
        help="run cases/ on this profile of v1model's data plane; tests of parts that it does not have are "
        "skipped (default: full)",
    )
    parser.add_argument(
        "--coverage",
        type=Path,
        metavar="FILE",
        help="add the coverage of the programs to this LCOV file, which `alfirk coverage` shows",
    )
    parser.add_argument("--keep", action="store_true", help="also keep logs and captures if all tests passed")
    parser.add_argument(
        "tests", nargs="*", help="modules or module.Class of cases/ and features/ (default: all)"
    )
    options = parser.parse_args()
    if options.profile is Profile.CORE and options.target is not Target.V1MODEL:
        parser.error("--profile core: only v1model has profiles")
    if options.coverage and options.switch:
        parser.error("--coverage: only `alfirk switch` counts what packets execute")
    if options.path_bits is None:
        options.path_bits = options.target.path_bits
    # PTF runs in another working directory.
    options.alfirk = options.alfirk.absolute()
    return in_work_folder("ptf-tests/run", partial(run, options), keep=options.keep)


def run(options: argparse.Namespace, work: Path) -> int:
    """Compile the programs and run the chosen tests of each suite; return the exit code."""
    if os.geteuid() != 0:
        msg = "veth pairs need root: run it with sudo"
        raise RunError(msg)
    compiled = {program.stem: program for program in options.program}
    if unknown := compiled.keys() - {suite.program.stem for suite in SUITES}:
        msg = f"--program: no suite runs {', '.join(sorted(unknown))}.json"
        raise RunError(msg)
    if unknown := set(options.tests) - {test for suite in SUITES for test in suite.chosen(options.tests)}:
        msg = f"no test {', '.join(sorted(unknown))}; see ptf-tests/cases and ptf-tests/features"
        raise RunError(msg)
    outcomes: Counter[str] = Counter()
    for suite in SUITES:
        tests = suite.chosen(options.tests)
        if options.tests and not tests:
            continue
        is_default = options.target is Target.V1MODEL and options.profile is Profile.FULL
        if not is_default and not suite.has_paths:
            # Its program has neither targets nor profiles.
            continue
        folder = work / suite.name
        folder.mkdir()
        program = compiled.get(suite.program.stem)
        if program is None:
            flags = [f"-DPATH_BITS={options.path_bits}"] if suite.has_paths else []
            source = suite.program
            if suite.has_paths:
                source = main_program(options.target)
                flags += options.target.flags(CPU_PORT) + options.profile.flags()
            program = compile_program(options.alfirk, source, folder, *flags)
        outcomes += run_suite(options, suite, program.absolute(), folder, tests)
    return summarise(outcomes, ", which this target or switch does not support")


def run_suite(
    options: argparse.Namespace, suite: Suite, program: Path, work: Path, tests: list[str]
) -> Counter[str]:
    """Run tests of a suite on a new switch."""
    time_scale = 1 if options.switch else suite.time_scale
    command = [options.switch] if options.switch else [str(options.alfirk), "switch"]
    if not options.switch:
        command += ["--time-scale", str(time_scale), *coverage_flags(options.coverage)]
    suite_run = Run(
        program=program,
        p4info=program.with_suffix(".p4info.txtpb"),
        folder=suite.folder,
        tests=tests,
        ports=suite.ports(options.target, options.path_bits),
        switch=command,
        target=[] if options.switch else ["--priority-queues", "8"],
        alfirk=options.alfirk,
        parameters={
            # Empty for another switch: tests that need the alfirk command are skipped.
            "alfirk": "" if options.switch else str(options.alfirk),
            "time_scale": time_scale,
        },
        environment={
            PATH_BITS_VARIABLE: str(options.path_bits),
            TARGET_VARIABLE: options.target.value,
            PROFILE_VARIABLE: options.profile.value,
        },
    )
    return run_ptf(suite_run, work)


if __name__ == "__main__":
    sys.exit(main())
