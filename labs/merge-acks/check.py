"""Checks a program of the lab "merge the ACKs" on a live switch, and tells the story as it goes.

usage: labs/run merge-acks [PROGRAM.p4]
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from alfirk_ptf.group import MulticastGroup
from alfirk_ptf.live import DEVICE_ID, RunError, compile_program, switch, veth_pairs
from alfirk_ptf.p4runtime import Client, P4RuntimeError

SENDER, RECEIVERS = 1, (2, 3, 4)
DATA, ACK, MARK = 0, 1, 2
ETHERTYPE = 0x88B6
#: Seconds within which a frame must have come.
PATIENCE = 10.0

_HEADER = struct.Struct("!6s6sHI")


@dataclass(frozen=True)
class Step:
    """A receiver says something; the sender must be told this, or nothing."""

    port: int
    psn: int
    told: int | None = None


@dataclass(frozen=True)
class Part:
    """A part of the lab: its claim, the steps that show it, and what to look at when it does not hold."""

    claim: str
    steps: tuple[Step, ...]
    hint: str


PARTS = (
    Part(
        "the sender hears of what all receivers have",
        (Step(2, 5), Step(3, 7), Step(4, 6, told=5), Step(2, 9, told=6), Step(4, 9, told=7)),
        "TODO 1 to 4: keep each receiver's PSN, and send on the smallest",
    ),
    Part(
        "an ACK that changes nothing is not passed on",
        (Step(2, 9), Step(4, 9), Step(3, 8, told=8), Step(3, 8)),
        "TODO 4: compare with what the sender was told last",
    ),
    Part(
        "an old ACK, overtaken on its way, takes nothing back",
        (Step(3, 20, told=9), Step(2, 20), Step(3, 4), Step(4, 20, told=20)),
        "TODO 2: a receiver's PSN never goes back",
    ),
    Part(
        "all this holds when PSNs wrap around",
        (
            *(Step(port, 0x700000) for port in (2, 3)),
            Step(4, 0x700000, told=0x700000),
            *(Step(port, 0xE00000) for port in (2, 3)),
            Step(4, 0xE00000, told=0xE00000),
            Step(2, 0xFFFFFE),
            Step(3, 3),
            Step(4, 1, told=0xFFFFFE),
            Step(2, 2, told=1),
            Step(4, 3, told=2),
        ),
        "TODO 5: a is older than b when (b - a) mod 2^24 is below 2^23",
    ),
)


class Bench:
    """The four hosts: packet sockets at the far ends of the switch's ports."""

    def __init__(self, interfaces: dict[int, str]) -> None:
        self._serial = 0
        self._sockets = {}
        for port, interface in interfaces.items():
            self._sockets[port] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self._sockets[port].bind((interface, ETHERTYPE))

    def exchange(self, port: int, kind: int, psn: int) -> dict[int, list[tuple[int, int]]]:
        """Send one packet; give kind and PSN of all that come out, by port.

        Behind it goes one mark for each port, by the same way: what comes before a mark is all there is.
        """
        self._serial += 1
        self._send(port, kind, psn)
        for out in self._sockets:
            self._send(port, MARK, out)
        return {out: got for out in self._sockets if (got := self._until_mark(out))}

    def _send(self, port: int, kind: int, psn: int) -> None:
        source = bytes((2, 0, 0, 0, self._serial & 0xFF, port))
        frame = _HEADER.pack(b"\xff" * 6, source, ETHERTYPE, kind << 24 | psn)
        self._sockets[port].send(frame + bytes(60 - len(frame)))

    def _until_mark(self, port: int) -> list[tuple[int, int]]:
        got = []
        deadline = time.monotonic() + PATIENCE
        while True:
            self._sockets[port].settimeout(max(0.01, deadline - time.monotonic()))
            try:
                frame = self._sockets[port].recv(2048)
            except TimeoutError:
                message = f"port {port}: nothing comes out any more; did the program drop KIND_MARK?"
                raise RunError(message) from None
            _, source, _, word = _HEADER.unpack_from(frame)
            if word >> 24 != MARK:
                got.append((word >> 24, word & 0xFFFFFF))
            elif source[4] == self._serial & 0xFF:
                return got


def check(bench: Bench) -> list[str]:
    """Play all parts; give the lines to show, of which the last says how it went."""
    lines = []
    failed = 0
    if bench.exchange(SENDER, DATA, 1) == {port: [(DATA, 1)] for port in RECEIVERS}:
        lines.append("ok      data reaches every receiver")
    else:
        lines.append("FAILED  data reaches every receiver: leave KIND_DATA as it was in the starter")
        failed += 1
    for part in PARTS:
        problem = play(bench, part)
        if problem:
            failed += 1
            lines += [f"FAILED  {part.claim}", f"        {problem}", f"        {part.hint}"]
        else:
            lines.append(f"ok      {part.claim}")
    lines.append("All parts hold." if not failed else f"{failed} of {len(PARTS) + 1} parts do not hold.")
    return lines


def play(bench: Bench, part: Part) -> str | None:
    """Play the steps of a part; say what went wrong first.

    The steps behind it are played too, so that the next part begins where it should.
    """
    problem = None
    for step in part.steps:
        got = bench.exchange(step.port, ACK, step.psn)
        wanted = {} if step.told is None else {SENDER: [(ACK, step.told)]}
        if got != wanted and problem is None:
            should = "nothing" if step.told is None else show([(ACK, step.told)])
            problem = (
                f"receiver {step.port} acknowledged {number(step.psn)}: the sender should hear {should}, "
                f"it heard {show(got.get(SENDER, []))}"
            )
    return problem


def show(packets: list[tuple[int, int]]) -> str:
    """Show packets in words."""
    names = {DATA: "data", ACK: "ACK"}
    words = [f"{names.get(kind, f'kind {kind}')} {number(psn)}" for kind, psn in packets]
    return " and ".join(words) or "nothing"


def number(psn: int) -> str:
    """Show small numbers plainly and large ones in hex, where a wrap is seen."""
    return str(psn) if psn < 1000 else f"{psn:#08x}"


def run(alfirk: Path, program: Path) -> int:
    """Check one program; 0 when all parts hold."""
    with tempfile.TemporaryDirectory(prefix="alfirk-lab-") as directory:
        work = Path(directory)
        compiled = compile_program(alfirk, program, work)
        ports = (SENDER, *RECEIVERS)
        with veth_pairs(ports) as pairs, switch([str(alfirk), "switch"], work, pairs) as address:
            client = Client(address, DEVICE_ID, compiled.with_suffix(".p4info.txtpb"))
            client.push(compiled)
            client.insert_multicast(MulticastGroup(1, tuple((port, 0) for port in RECEIVERS)))
            lines = check(Bench({port: ends[1] for port, ends in pairs.items()}))
            client.close()
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if lines[-1] == "All parts hold." else 1


def main() -> int:
    """Check the program named on the command line."""
    alfirk, program = (Path(argument) for argument in sys.argv[1:3])
    try:
        return run(alfirk, program)
    except (RunError, P4RuntimeError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
