"""The ``alfirk`` command: where it is, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AlfirkError(Exception):
    """The command has failed; its message says what, where and what to do."""


def find_command() -> Path:
    """Find the command: the value of ALFIRK, the one installed with this package, or one on the PATH.

    Raises:
        AlfirkError: there is none.

    """
    named = os.environ.get("ALFIRK")
    if named:
        return Path(named).absolute()
    beside = Path(sys.executable).parent / "alfirk"
    found = str(beside) if beside.is_file() else shutil.which("alfirk")
    if found is None:
        message = "no alfirk command on the PATH; install the wheel here, or set ALFIRK to its path"
        raise AlfirkError(message)
    return Path(found)


def execute(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, whatever its exit code.

    Raises:
        AlfirkError: there is no command.

    """
    command = [str(find_command()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def failure(done: subprocess.CompletedProcess[str]) -> AlfirkError:
    """Return the error of a command that has failed: what it wrote to standard error."""
    return AlfirkError(done.stderr.strip() or f"alfirk ended with exit code {done.returncode}")
