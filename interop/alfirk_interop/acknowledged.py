"""Compares, from captures of ports, the ACKs sent to a source with those of the receivers by that time."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ACKNOWLEDGE = 0x11
_ROCE_PORT = 4791
_PSN_SPACE = 1 << 24
#: Magic numbers of pcap files with microseconds and nanoseconds, in this machine's byte order.
_MAGICS = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}
_UDP = 17
#: Ethernet 14, IPv4 20, UDP 8, BTH 12, AETH 4, ICRC 4.
_SHORTEST = 62


@dataclass(frozen=True)
class Acknowledgement:
    """An ACKNOWLEDGE packet."""

    #: Capture time in nanoseconds.
    time: int
    psn: int
    syndrome: int

    @property
    def acknowledged(self) -> int:
        """The newest PSN acknowledged; a NAK of any code acknowledges all packets before its PSN."""
        is_ack = self.syndrome < 0x20
        return self.psn if is_ack else (self.psn - 1) % _PSN_SPACE


def _frames(pcap: Path) -> Iterator[tuple[int, bytes]]:
    """Read the RoCEv2 frames of a capture that have the length of an ACK, untagged, without IP options."""
    data = pcap.read_bytes()
    (magic,) = struct.unpack_from("=I", data)
    unit = _MAGICS[magic]
    at = 24
    while at + 16 <= len(data):
        seconds, part, captured, _ = struct.unpack_from("=IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        is_udp = len(frame) >= _SHORTEST and frame[12:15] == b"\x08\x00\x45" and frame[23] == _UDP
        if is_udp and int.from_bytes(frame[36:38], "big") == _ROCE_PORT:
            yield seconds * 1_000_000_000 + part * unit, frame


def _psn(frame: bytes) -> int:
    return int.from_bytes(frame[51:54], "big")


def acknowledgements(pcap: Path) -> Iterator[Acknowledgement]:
    """Read the ACKNOWLEDGE packets of a capture."""
    for time, frame in _frames(pcap):
        if frame[42] == _ACKNOWLEDGE:
            yield Acknowledgement(time, _psn(frame), frame[54])


def first_psn(from_source: Path) -> int | None:
    """Return the PSN of the first request that a source sent."""
    requests = (_psn(frame) for _, frame in _frames(from_source) if frame[42] < _ACKNOWLEDGE)
    return next(requests, None)


def is_newer(psn: int, than: int) -> bool:
    """Compare two PSNs in serial arithmetic."""
    return 0 < (psn - than) % _PSN_SPACE < _PSN_SPACE // 2


def false_acknowledgement(from_source: Path, to_source: Path, receivers: dict[str, Path]) -> str | None:
    """Find an acknowledgement to the source of a packet that a receiver had not acknowledged yet.

    `from_source` has the packets from the source, `to_source` those of the switch to the source; `receivers`
    has the packets from each receiver.
    """
    first = first_psn(from_source)
    if first is None:
        return "the source sent nothing"
    events = [(ack.time, 1, "", ack) for ack in acknowledgements(to_source)]
    for name, pcap in receivers.items():
        events += [(ack.time, 0, name, ack) for ack in acknowledgements(pcap)]
    # At equal times, received packets come before sent ones.
    events.sort(key=lambda event: event[:2])
    newest = dict.fromkeys(receivers, (first - 1) % _PSN_SPACE)
    for _, _, name, ack in events:
        acknowledged = ack.acknowledged
        if name:
            if is_newer(acknowledged, newest[name]):
                newest[name] = acknowledged
            continue
        for receiver, has in newest.items():
            if is_newer(acknowledged, has):
                syndrome = f"syndrome {ack.syndrome:#04x}"
                return (
                    f"PSN {acknowledged} was acknowledged to the source ({syndrome}) when "
                    f"{receiver} had acknowledged {has}"
                )
    return None
