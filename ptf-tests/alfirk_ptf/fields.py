"""Compares packets field by field, with `alfirk packet diff`."""

from __future__ import annotations

import subprocess

#: Bytes of a packet that are shown where its fields are not.
_SHOWN_BYTES = 64


def differences(
    alfirk: str, expected: bytes, received: bytes, mask: bytes = b"", program: str = ""
) -> list[str]:
    """Describe each field in which a packet differs from the expected one.

    Only the bits of `mask` are compared, and all bits after its end. Fields have the names of `program`, a P4
    source or BMv2 JSON, if its parser accepts both packets. Without `alfirk`, the packets are shown as bytes.
    """
    if alfirk:
        packets = ["packet", "diff", expected.hex(), received.hex(), "--mask", mask.hex()]
        for names in ([["--p4", program]] if program else []) + [[]]:
            done = run(alfirk, [*packets, *names])
            if done.returncode == 1 and done.stdout.strip():
                return done.stdout.strip().splitlines()
    return [f"expected {shown(expected)}", f"received {shown(received)}"]


def run(alfirk: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of `alfirk` that reads no input."""
    command = [alfirk, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def shown(packet: bytes) -> str:
    """Return a packet in hexadecimal digits; of a long one, the first bytes."""
    more = "" if len(packet) <= _SHOWN_BYTES else f"... ({len(packet)} bytes)"
    return packet[:_SHOWN_BYTES].hex() + more
