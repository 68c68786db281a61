#!/usr/bin/python3
"""Replaces the alfirk command in tests that only start and stop its processes.

A file DIE_<what> in the log's folder makes the process `what` (switch or host) fail at its start.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def switch() -> None:
    host, port = option("--grpc-server-addr").split(":")
    with socket.create_server((host, int(port))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")


def host() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(option("--control"))
        server.listen()
        while True:
            server.accept()[0].close()


def topology() -> None:
    """Let the real command read the file."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from alfirk_mininet.binary import find_alfirk  # noqa: PLC0415 - the others need no path

    alfirk = str(find_alfirk())
    os.execv(alfirk, [alfirk, *sys.argv[1:]])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.environ.get("FAKE_ALFIRK_FAILS") == sys.argv[1]:
        sys.exit(f"fake {sys.argv[1]} fails on demand")
    {"switch": switch, "host": host, "topology": topology}[sys.argv[1]]()
