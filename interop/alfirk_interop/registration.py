"""What a guest takes to register memory for one message, beside copying the message."""

from __future__ import annotations

import subprocess
from pathlib import Path

from alfirk_mininet.guests import DEVICE, Guest

from alfirk_interop.errors import InteropError

SOURCE = Path(__file__).resolve().parents[1] / "registration.c"


def measure(guest: Guest, folder: Path) -> list[tuple[int, int, int]]:
    """Give bytes, nanoseconds of registering them and nanoseconds of copying them, for growing sizes.

    The folder is one that the guest sees, too.
    """
    program = folder / "registration"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE), "-libverbs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"cannot compile {SOURCE.name}: {done.stderr.strip()[-400:]}"
        raise InteropError(message)
    said = guest.shell.run(f"ulimit -l unlimited; {program} {DEVICE}", 120)
    rows = [[int(word) for word in line.split()] for line in said.splitlines()]
    return [(size, registration, copy) for size, registration, copy in rows]
