"""Test sequences of one sender and its receivers, with the packets of labs/shared/lab.p4."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from alfirk_ptf.group import MulticastGroup

from alfirk_labs.bench import ETHERTYPE_LAB, live
from alfirk_labs.outcome import Outcome, part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alfirk_labs.bench import Bench
    from alfirk_labs.outcome import Setting

#: The sender's port; the receivers' ports follow.
SENDER = 1

_HEADER = struct.Struct("!6s6sHI")


class Kind(IntEnum):
    """KIND_* of labs/shared/lab.p4."""

    DATA = 0
    ACK = 1
    NAK = 2

    @property
    def word(self) -> str:
        """Name in messages."""
        return "data" if self is Kind.DATA else self.name


@dataclass(frozen=True)
class Packet:
    """Content of the lab's header."""

    kind: Kind | int
    psn: int

    def frame(self, port: int) -> bytes:
        """Build the frame that the host on a port sends."""
        source = bytes((2, 0, 0, 0, 0, port))
        return _HEADER.pack(b"\xff" * 6, source, ETHERTYPE_LAB, self.kind << 24 | self.psn)

    @staticmethod
    def of(frame: bytes) -> Packet:
        """Parse a frame."""
        *_, word = _HEADER.unpack_from(frame)
        known = word >> 24 in tuple(Kind)
        return Packet(Kind(word >> 24) if known else word >> 24, word & 0xFFFFFF)

    def __str__(self) -> str:
        """Describe the packet; large PSNs in hex, which shows a wrap-around."""
        number = str(self.psn) if self.psn < 1000 else f"{self.psn:#08x}"
        return f"{self.kind.word if isinstance(self.kind, Kind) else f'kind {self.kind}'} {number}"


@dataclass(frozen=True)
class Step:
    """A receiver (or the sender) sends a packet; the sender must get the given packet, or none."""

    port: int
    sent: Packet
    gets: Packet | None = None


def ack(port: int, psn: int, *, gets: int | None = None) -> Step:
    """A receiver sends an ACK, and the sender gets an ACK or nothing."""
    return Step(port, Packet(Kind.ACK, psn), None if gets is None else Packet(Kind.ACK, gets))


@dataclass(frozen=True)
class Story:
    """A part of a lab: its claim, the steps that test it, and a hint if it does not hold."""

    claim: str
    steps: tuple[Step, ...]
    hint: str


def check_stories(setting: Setting, stories: Sequence[Story], receivers: int) -> Iterator[Outcome]:
    """Run all stories on a live switch, each from the program's initial state."""
    ports = tuple(range(SENDER, SENDER + receivers + 1))
    with live(setting, ports) as switch:
        group = MulticastGroup(1, tuple((port, 0) for port in ports[1:]))
        switch.client.insert_multicast(group)
        yield _data(switch.bench, ports[1:])
        for story in stories:
            switch.restart(group)
            yield _play(switch.bench, story)


def _data(bench: Bench, receivers: tuple[int, ...]) -> Outcome:
    sent = Packet(Kind.DATA, 1)
    claim = "data reaches every receiver"
    if _exchange(bench, SENDER, sent) == {port: [sent] for port in receivers}:
        return Outcome(claim)
    return part(
        claim, "not one packet at each receiver", "leave KIND_DATA as it was in the starter", bench.trace()
    )


def _play(bench: Bench, story: Story) -> Outcome:
    """Run the steps up to the first problem."""
    for step in story.steps:
        got = _exchange(bench, step.port, step.sent)
        if step.port == SENDER:
            # For data, only packets to the sender are checked.
            got = {port: packets for port, packets in got.items() if port == SENDER}
        wanted = {} if step.gets is None else {SENDER: [step.gets]}
        if got != wanted:
            problem = f"{_sent(step)}: the sender should get {step.gets or 'nothing'}, it got {_got(got)}"
            fields = []
            if step.gets is not None and list(map(len, got.values())) == [1]:
                fields = _fields(step.gets, *next(iter(got.values())))
            return part(story.claim, problem, story.hint, [*fields, *bench.trace()])
    return Outcome(story.claim)


def _fields(wanted: Packet, got: Packet) -> list[str]:
    """Describe each field in which a packet differs from the expected one."""
    pairs = (("kind", 4, wanted.kind, got.kind), ("psn", 8, wanted.psn, got.psn))
    return [
        f"hdr.lab.{name}: expected {one:#0{width}x}, received {other:#0{width}x}"
        for name, width, one, other in pairs
        if one != other
    ]


def _exchange(bench: Bench, port: int, packet: Packet) -> dict[int, list[Packet]]:
    frames = bench.exchange(port, packet.frame(port))
    return {out: [Packet.of(frame) for frame in got] for out, got in frames.items()}


def _sent(step: Step) -> str:
    if step.port == SENDER:
        return f"the sender sent {step.sent}"
    if step.sent.kind == Kind.NAK:
        return f"receiver {step.port} sent {step.sent}"
    return f"receiver {step.port} acknowledged {str(step.sent).removeprefix('ACK ')}"


def _got(got: dict[int, list[Packet]]) -> str:
    words = " and ".join(map(str, got.get(SENDER, []))) or "nothing"
    astray = [f"{packet} at port {port}" for port in sorted(got) if port != SENDER for packet in got[port]]
    return f"{words}, and {' and '.join(astray)} left the switch" if astray else words
