"""Finds the ``alfirk`` command, and checks the tools that networks need."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Cargo profiles that the Makefile uses.
PROFILES = ("release", "quick", "debug")


def find_alfirk() -> Path:
    """Find the command: the value of ALFIRK, one on the PATH, or the newest build of this source tree."""
    named = os.environ.get("ALFIRK") or shutil.which("alfirk")
    if named:
        return Path(named)
    built = [path for path in _builds() if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime, default=Path("alfirk"))


def _builds() -> Iterator[Path]:
    root = Path(__file__).resolve().parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
    for profile in PROFILES:
        yield target / profile / "alfirk"


def check_tools(alfirk: Path) -> None:
    """Fail if a tool that every network needs is missing."""
    tools = {"mnexec": "mininet", "ip": "iproute2", "ethtool": "ethtool", "ifconfig": "net-tools"}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            raise NetworkError(f"{tool} is not on PATH", f"sudo apt-get install {package}")
    if shutil.which(str(alfirk)) is None:
        raise NetworkError(f"{alfirk} is not an executable", "build it: make build")
    # If the shell cannot start, Mininet waits forever for its prompt.
    probe = subprocess.run(["mnexec", "-n", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        raise NetworkError(
            f"the system refuses a new network namespace: {probe.stderr.strip()}",
            "in a container, grant the rights to create namespaces and mounts (docker run --privileged)",
        )
