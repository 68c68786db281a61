"""``interop/run``: the guests' image, and the scenarios."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from alfirk_interop import image
from alfirk_interop.errors import InteropError

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
    build = commands.add_parser("build", parents=[common], help="build what guests boot")
    build.set_defaults(run=_build)
    options = parser.parse_args()
    try:
        run: int = options.run(options)
    except InteropError as error:
        sys.stderr.write(f"interop: {error}\n")
        return 1
    return run


def _build(options: argparse.Namespace) -> int:
    built = image.build(options.image.absolute(), options.alfirk.absolute())
    sys.stdout.write(f"{built.folder}: {'built' if built.fresh else 'up to date'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
