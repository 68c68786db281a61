"""What a controller does with the frames that the pipeline sends it: a plain model, apart from the Rust one.

It finds the minimum PSN of groups of `MinPsn.PUNT` and makes the ICRC of data right for `IcrcMode.PUNT`.
Pure: takes a PacketIn and gives PacketOuts; `p4src/shared` has the contract.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alfirk_ptf.contract import Feedback, PacketInReason, PacketOutKind
from alfirk_ptf.icrc import icrc

if TYPE_CHECKING:
    from alfirk_ptf.group import Group
    from alfirk_ptf.p4runtime import PacketIn

_ETHERNET = 14
_BTH_PSN = _ETHERNET + 28 + 9
_AETH = _ETHERNET + 28 + 12
_PSN_LIMIT = 1 << 24
_ACK, _NAK, _RNR_NAK = 0, 3, 1
_ACK_WITHOUT_CREDITS = 0x1F


@dataclass(frozen=True)
class PacketOut:
    """A frame for the switch."""

    payload: bytes
    kind: int
    egress_port: int = 0


@dataclass
class Aggregate:
    """Where a group of `MinPsn.PUNT` stands."""

    group: Group
    #: Newest acknowledged PSN and the MSN that came with it, by path.
    acked: list[int]
    msn: list[int]
    #: Syndrome and PSN of the NAK that waits.
    nak: tuple[int, int] | None = None
    #: PSN of a NAK that the source was told and has not acted on. A controller leaves that to the
    #: pipeline, which sees the data that is sent again.
    remembers_naks: bool = False
    nak_told: int | None = None
    #: What the source was told last.
    told: tuple[int, int] = (0, 0)

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Take an ACK, a NAK or a probe; say what the source or the asker is to be told."""
        feedback = Feedback.unpack(packet.payload)
        frame = packet.payload[Feedback.SIZE :]
        port = packet.metadata["ingress_port"]
        path = next(n for n, path in enumerate(self.group.paths) if path.port == port)
        psn = int.from_bytes(frame[_BTH_PSN : _BTH_PSN + 3], "big")
        # The pipeline knows what has got through.
        self.told = (feedback.agg_psn, feedback.agg_msn)
        syndrome, msn = frame[_AETH], int.from_bytes(frame[_AETH + 1 : _AETH + 4], "big")
        if packet.metadata["reason"] == PacketInReason.PROBE:
            return self._answer(feedback, frame, port, path, psn, msn)
        told = self.report(feedback.port, path, psn, syndrome, msn)
        return self._tell(0, frame, *told) if told and feedback.port else None

    def report(
        self, source_port: int, path: int, psn: int, syndrome: int, msn: int
    ) -> tuple[int, int, int] | None:
        """Take an ACK or NAK of a path; give syndrome, PSN and MSN if the source is to be told anything."""
        is_nak = syndrome >> 5 in (_NAK, _RNR_NAK)
        acked = (psn - 1) % _PSN_LIMIT if is_nak else psn
        is_news = not _lt(acked, self.acked[path])
        if is_news:
            self.acked[path], self.msn[path] = acked, msn
        minimum, minimum_msn = self._minimum(source_port)
        if acked == minimum:
            minimum_msn = msn
        if self.nak_told is not None and not _lt(minimum, self.nak_told):
            self.nak_told = None
        is_known = self.nak_told is not None and not _lt(psn, self.nak_told)
        if is_nak and is_news and _lt(minimum, psn) and not is_known:
            self._wait_for(syndrome, psn)
        told = None
        if self.nak and (minimum + 1) % _PSN_LIMIT == self.nak[1]:
            told, self.nak = self.nak, None
            self.nak_told = told[1] if self.remembers_naks else None
        elif _lt(self.told[0], minimum):
            told = (_ACK_WITHOUT_CREDITS, minimum)
        if self.nak and not _lt(minimum, self.nak[1]):
            self.nak = None
        if told is None:
            return None
        self.told = (minimum, minimum_msn)
        return (*told, minimum_msn)

    def _wait_for(self, syndrome: int, psn: int) -> None:
        """Keep the oldest NAK; of one PSN an RNR NAK rather than a sequence error, and the longest timer."""
        if (
            self.nak is None
            or _lt(psn, self.nak[1])
            or (psn == self.nak[1] and _patience(syndrome) > _patience(self.nak[0]))
        ):
            self.nak = (syndrome, psn)

    def _answer(
        self, feedback: Feedback, frame: bytes, port: int, path: int, psn: int, msn: int
    ) -> PacketOut | None:
        if _lt(self.acked[path], psn):
            self.acked[path] = psn
        minimum, minimum_msn = self._minimum(feedback.port)
        if _lt(minimum, psn):
            return None
        if _lt(self.told[0], minimum):
            self.told = (minimum, minimum_msn)
        if port == feedback.port:
            psn, msn = minimum, minimum_msn
        return self._tell(port, frame, _ACK_WITHOUT_CREDITS, psn, msn)

    def _minimum(self, source_port: int) -> tuple[int, int]:
        """Find the oldest PSN of all paths but the source's, and its MSN.

        Nobody lacks what the source was told: a path that says less was a sender before.
        """
        told = self.told[0]
        found: tuple[int, int] | None = None
        for path, acked, msn in zip(self.group.paths, self.acked, self.msn, strict=True):
            if path.port == source_port:
                continue
            if _lt(acked, told):
                found = self.told
            elif found is None or _lt(acked, found[0]):
                found = (acked, msn)
        return found or self.told

    def _tell(self, port: int, frame: bytes, syndrome: int, psn: int, msn: int) -> PacketOut:
        header = Feedback(self.group.index, port, *self.told)
        changed = bytearray(frame)
        changed[_BTH_PSN : _BTH_PSN + 3] = psn.to_bytes(3, "big")
        changed[_AETH : _AETH + 4] = bytes([syndrome]) + msn.to_bytes(3, "big")
        return PacketOut(header.pack() + bytes(changed), PacketOutKind.FEEDBACK)


@dataclass
class Controller:
    """The part of a controller that packets wait for."""

    aggregates: dict[int, Aggregate] = field(default_factory=dict)

    def register(self, group: Group, first_psn: int, msn: int = 0) -> None:
        """Begin a group."""
        before = (first_psn - 1) % _PSN_LIMIT
        paths = len(group.paths)
        self.aggregates[group.index] = Aggregate(
            group, acked=[before] * paths, msn=[msn] * paths, told=(before, msn)
        )

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Answer a PacketIn, if it asks for anything."""
        reason = packet.metadata["reason"]
        if reason in (PacketInReason.FEEDBACK, PacketInReason.PROBE):
            return self.aggregates[Feedback.unpack(packet.payload).group].handle(packet)
        if reason == PacketInReason.ICRC:
            return PacketOut(repaired(packet.payload), PacketOutKind.FORWARD, packet.metadata["ingress_port"])
        msg = f"the model of a controller has no answer to {packet}"
        raise AssertionError(msg)


def repaired(frame: bytes) -> bytes:
    """Put the right ICRC at the end of a RoCEv2 packet; what Ethernet has padded it with stays behind it."""
    end = _ETHERNET + int.from_bytes(frame[_ETHERNET + 2 : _ETHERNET + 4], "big")
    return frame[: end - 4] + icrc(frame[_ETHERNET : end - 4]) + frame[end:]


def _patience(syndrome: int) -> int:
    """Order how long receivers want the source to wait: of RNR timers 1 is the shortest, 0 the longest."""
    return 1 + (syndrome - 1) % 32 if syndrome >> 5 == _RNR_NAK else 0


def _lt(a: int, b: int) -> bool:
    """Compare PSNs by serial arithmetic."""
    return a != b and (b - a) % _PSN_LIMIT < _PSN_LIMIT // 2
