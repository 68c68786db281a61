"""``labs/run``: checks programs of a lab and reports which parts hold."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alfirk_mininet.binary import find_alfirk
from alfirk_mininet.errors import NetworkError
from alfirk_ptf.live import RunError
from alfirk_ptf.p4runtime import P4RuntimeError

from alfirk_labs.outcome import Lab, LabError, Setting, report

if TYPE_CHECKING:
    from alfirk_labs.outcome import Outcome

#: Time limit of a check in seconds, for programs that do not end. A guest needs more time to boot.
LIMIT, LIMIT_WITH_GUEST = 100, 300
LABS = Path(__file__).resolve().parents[1]
ROOT = LABS.parent


def names() -> list[str]:
    """List the labs."""
    return sorted(check.parent.name for check in LABS.glob("*/check.py"))


def load(name: str) -> Lab:
    """Load a lab's check."""
    spec = importlib.util.spec_from_file_location(f"check_{name}", LABS / name / "check.py")
    if spec is None or spec.loader is None:
        message = f"cannot load labs/{name}/check.py"
        raise LabError(message)
    module = importlib.util.module_from_spec(spec)
    # Needed by dataclasses.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    lab = module.LAB
    assert isinstance(lab, Lab)
    return lab


def main() -> int:
    """Run the command line; return 0 if all parts hold, 1 if not, 2 if a program cannot be checked."""
    parser = argparse.ArgumentParser(
        prog="labs/run", description="Checks programs of a lab and reports which parts hold."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each file, in a line")
    parser.add_argument(
        "--alfirk",
        type=Path,
        default=find_alfirk(),
        help="the alfirk command (default: %(default)s)",
    )
    parser.add_argument(
        "--guest",
        action="store_true",
        help="also test a QEMU guest with Linux's RDMA stack (bridge and icrc; needs `make guest-image`)",
    )
    parser.add_argument(
        "--image",
        type=Path,
        default=ROOT / "target" / "guest",
        metavar="DIR",
        help="folder of the guests' kernel and image (default: %(default)s)",
    )
    parser.add_argument("lab", choices=names(), metavar="LAB", help=", ".join(names()))
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="program to check (default: the lab's start)"
    )
    options = parser.parse_args()
    lab = load(options.lab)
    if not os.access(options.alfirk, os.X_OK):
        sys.stderr.write(f"{options.alfirk} does not exist; run `make build` first\n")
        return 2
    if lab.needs_root and os.geteuid() != 0:
        sys.stderr.write(f"this lab creates veth pairs, which needs root: sudo labs/run {options.lab}\n")
        return 2
    if options.guest and not lab.has_guest:
        sys.stderr.write(f"the lab {options.lab} does not use guests; leave out --guest\n")
        return 2
    worst = 0
    for name in options.files or [lab.starter]:
        if len(options.files) > 1 and not options.json:
            sys.stdout.write(f"{name}:\n")
        worst = max(worst, _check(options, lab, name))
    return worst


def _check(options: argparse.Namespace, lab: Lab, name: str) -> int:
    """Check one program, given as a path or as a name in the lab's folder, and print the result."""
    program = Path(name) if Path(name).is_file() else LABS / options.lab / name
    outcomes: list[Outcome] = []
    error = None
    if program.is_file():
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(LIMIT_WITH_GUEST if options.guest else LIMIT)
        try:
            with tempfile.TemporaryDirectory(prefix="alfirk-lab-") as work:
                image = options.image.absolute() if options.guest else None
                setting = Setting(options.alfirk.absolute(), program.absolute(), Path(work), image)
                outcomes = list(lab.check(setting))
        except (LabError, NetworkError, RunError, P4RuntimeError) as problem:
            error = str(problem)
        finally:
            signal.alarm(0)
    else:
        error = f"there is no file {name} here or in labs/{options.lab}"
    if options.json:
        sys.stdout.write(json.dumps(_object(options.lab, name, outcomes, error)) + "\n")
    elif error is not None:
        sys.stderr.write(f"{error}\n")
    else:
        sys.stdout.write("\n".join(report(outcomes)) + "\n")
    sys.stdout.flush()
    if error is not None:
        return 2
    return int(any(outcome.problem is not None for outcome in outcomes))


def _too_long(*_: object) -> NoReturn:
    message = "the check exceeded its time limit; make sure that the program ends"
    raise LabError(message)


def _object(lab: str, name: str, outcomes: list[Outcome], error: str | None) -> dict[str, object]:
    """Return the JSON object of a program's result; `error` is why it could not be checked."""
    return {
        "lab": lab,
        "file": name,
        "passed": sum(outcome.problem is None for outcome in outcomes),
        "parts": [
            {
                "claim": o.claim,
                "holds": o.problem is None,
                "problem": o.problem,
                "hint": o.hint,
                "trace": list(o.trace),
            }
            for o in outcomes
        ],
        "error": error,
    }


if __name__ == "__main__":
    sys.exit(main())
