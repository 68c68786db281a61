"""The commands that bear the names of p4c and BMv2: each is ``alfirk`` under that name."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from alfirk.command import AlfirkError, find_command


def main() -> NoReturn:
    """Become the command ``alfirk`` with the name by which this one was called."""
    name = Path(sys.argv[0]).name
    try:
        command = find_command()
    except AlfirkError as error:
        sys.exit(f"{name}: {error}")
    os.execv(command, [name, *sys.argv[1:]])


#: Folders as in the repository: labs, packet test classes, Mininet classes, P4 sources and topologies.
SHARE = Path(__file__).resolve().parent / "share"


def _choose_command() -> None:
    """Let the Python packages use the command of this environment."""
    with contextlib.suppress(AlfirkError):
        os.environ.setdefault("ALFIRK", str(find_command()))


def labs() -> NoReturn:
    """Check programs of a lab, as ``labs/run``."""
    from alfirk_labs.__main__ import main as check  # noqa: PLC0415 - it loads slowly

    _choose_command()
    sys.exit(check())


def ptf() -> NoReturn:
    """Run the packet tests, as ``ptf-tests/run``."""
    from alfirk_ptf.run import main as test  # noqa: PLC0415 - it loads slowly

    _choose_command()
    sys.exit(test())


def mininet() -> NoReturn:
    """Run networks on Mininet, as ``mininet/run``. Debian's mininet is a package of the system's Python."""
    _choose_command()
    os.execv("/bin/sh", ["sh", str(SHARE / "mininet" / "run"), *sys.argv[1:]])
