"""Parts that the modules of ``make bench`` share: printing of results, and programs that cargo builds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def print_result(what: str, result: str) -> None:
    """Print one result."""
    sys.stdout.write(f"{what:<39} {result}\n")
    sys.stdout.flush()


def rate(nanoseconds: float) -> str:
    """Return the packets per second of processor time for a time per packet."""
    return f"{1e3 / nanoseconds:.3g} M packets/s"


def built(command: str, name: str, *arguments: str) -> Path:
    """Build a target by a cargo command; return the path of the executable file of that name."""
    done = subprocess.run(
        [str(ROOT / "tools" / "cargo"), command, "--quiet", *arguments, "--message-format", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    found = (message for message in messages if message.get("target", {}).get("name") == name)
    return next(Path(message["executable"]) for message in found if message.get("executable"))
