"""Where the ``alfirk`` command is, and whether everything is here that it needs for networks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Cargo's profiles, as the Makefile uses them.
PROFILES = ("release", "quick", "debug")


def find_alfirk() -> Path:
    """Find the command: what ALFIRK names, one on the PATH, or the newest build of this source tree."""
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
    """Fail when something is missing that every network needs."""
    tools = {"mnexec": "mininet", "ip": "iproute2", "ethtool": "ethtool", "ifconfig": "net-tools"}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            raise NetworkError(f"there is no {tool} here", f"sudo apt-get install {package}")
    if shutil.which(str(alfirk)) is None:
        raise NetworkError(f"{alfirk} is not an executable", "build it: make build")
    # Mininet itself would wait for ever for the prompt of a shell that could not start.
    probe = subprocess.run(["mnexec", "-n", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        raise NetworkError(
            f"the system refuses a new network namespace: {probe.stderr.strip()}",
            "in a container, give it the rights to make namespaces and mounts (docker run --privileged)",
        )
