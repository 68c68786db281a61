"""Runs perftest between two guests."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import DEVICE, Shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Index of the GID with the IPv4 address, under rdma_rxe with IPv6 disabled.
GID_INDEX = 1


def measure(
    client: Shell, server: Shell, address: str, tool: str, size: int, count: int
) -> tuple[float, float]:
    """Run a bandwidth test. Return messages and megabytes per second."""
    command = f"{tool} -d {DEVICE} -x {GID_INDEX} -s {size} -n {count} -F"
    server.run(f"{command} >/tmp/perftest 2>&1 &")
    output = ""
    # Clients are rejected until the server listens.
    for _ in range(20):
        time.sleep(0.3)
        code, output = client.attempt(f"{command} {address}", 90)
        found = re.search(rf"^\s*{size}\s+{count}\s+\S+\s+(\S+)\s+(\S+)\s*$", output, re.MULTILINE)
        if code == 0 and found:
            # MiB/s, and millions of messages per second.
            return float(found[2]) * 1e6, float(found[1]) * 1.048576
        if "Couldn't connect" not in output:
            break
    raise NetworkError(f"{tool} between {server.guest} and {client.guest} failed", output.strip()[-400:])


def beside(server: str, client: str) -> Callable[[Path, Path], str | None]:
    """Run SENDs and WRITEs between two guests while a run is in progress."""

    def meanwhile(workdir: Path, _alfirk: Path) -> str | None:
        shells = [Shell(name, workdir / f"{name}.shell") for name in (client, server)]
        address = f"10.0.0.{server.removeprefix('h')}"
        try:
            for tool in ("ib_send_bw", "ib_write_bw"):
                measure(shells[0], shells[1], address, tool, 4096, 100)
        except NetworkError as error:
            return f"{error.what}: {error.hint}"
        return None

    return meanwhile
