"""``interop/run``: builds the guests' image and runs the scenarios."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from alfirk_mininet.guests import Image, kvm_works

from alfirk_interop import image, speed
from alfirk_interop.errors import InteropError
from alfirk_interop.mpi_programs import MPI
from alfirk_interop.runner import Runner, own_namespace
from alfirk_interop.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="interop/run", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--alfirk",
        type=Path,
        default=TARGET / "release" / "alfirk",
        metavar="BIN",
        help="the alfirk command (default: %(default)s)",
    )
    common.add_argument(
        "--image", type=Path, default=TARGET / "guest", metavar="DIR", help="the image (default: %(default)s)"
    )
    build = commands.add_parser("build", parents=[common], help="build the image that guests boot")
    build.set_defaults(run=_build)
    run = commands.add_parser("run", parents=[common], help="run scenarios")
    run.add_argument("--quick", action="store_true", help="run only the quick scenarios")
    run.add_argument("--only", metavar="WORDS", help="run only scenarios whose names contain WORDS")
    run.add_argument(
        "--target",
        choices=("v1model", "tna", "t2na"),
        default="v1model",
        help="the switches' data plane; tna, t2na skip scenarios that need v1model (default: %(default)s)",
    )
    run.add_argument("--keep", type=Path, metavar="DIR", help="keep the captures of failed scenarios in DIR")
    run.set_defaults(run=_run)
    measure = commands.add_parser("speed", parents=[common], help="measure speeds, as ratios")
    measure.set_defaults(run=_speed)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
    except InteropError as error:
        sys.stderr.write(f"interop: {error}\n")
        return 1
    return code


def _build(options: argparse.Namespace) -> int:
    built = image.build(options.image.absolute(), options.alfirk.absolute())
    sys.stdout.write(f"{built.folder}: {'built' if built.fresh else 'up to date'}\n")
    return 0


def _run(options: argparse.Namespace) -> int:
    chosen = [
        scenario
        for scenario in SCENARIOS
        if (scenario.quick or not options.quick)
        and (options.only or "") in scenario.name
        and (options.target == "v1model" or not scenario.only_v1model)
    ]
    # These scenarios do not depend on the target.
    beside = options.target == "v1model" and not options.quick
    mpi = [name for name in MPI if beside and (options.only or "") in name]
    if not chosen and not mpi:
        message = f"no scenario name contains `{options.only}`"
        raise InteropError(message)
    _enter(options)
    runner = Runner(options.alfirk.absolute(), options.image.absolute(), options.target, options.keep)
    failed = runner.run_all(chosen, mpi=mpi, others=beside and not options.only)
    return 1 if failed else 0


def _speed(options: argparse.Namespace) -> int:
    _enter(options)
    speed.report(options.alfirk.absolute(), options.image.absolute())
    return 0


def _enter(options: argparse.Namespace) -> None:
    """Build the image, then enter a network namespace without access to packages."""
    image.build(options.image.absolute(), options.alfirk.absolute())
    own_namespace()
    os.environ["ALFIRK_KVM"] = str(int(kvm_works(Image(options.image.absolute()).kernel)))


if __name__ == "__main__":
    sys.exit(main())
