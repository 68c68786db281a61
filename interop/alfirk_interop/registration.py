"""Measures, in a guest, the time to register memory for one message, compared with copying the message."""

from __future__ import annotations

import subprocess
from pathlib import Path

from alfirk_mininet.guests import DEVICE, Guest

from alfirk_interop.errors import InteropError

SOURCE = Path(__file__).resolve().parents[1] / "registration.c"


def measure(guest: Guest, folder: Path) -> list[tuple[int, int, int]]:
    """Return bytes, nanoseconds to register them and nanoseconds to copy them, for growing sizes.

    The guest must see the folder, too.
    """
    program = folder / "registration"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE), "-libverbs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"cannot compile {SOURCE.name}: {done.stderr.strip()[-400:]}"
        raise InteropError(message)
    output = guest.shell.run(f"ulimit -l unlimited; {program} {DEVICE}", 120)
    rows = [[int(word) for word in line.split()] for line in output.splitlines()]
    return [(size, registration, copy) for size, registration, copy in rows]
