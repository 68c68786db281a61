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
    #: PSN of a NAK that was sent to the source, which has not acted on it. A controller leaves that to the
    #: pipeline, which sees the data that is sent again.
    suppresses_sent_naks: bool = False
    nak_sent: int | None = None
    #: PSN and MSN last acknowledged to the source.
    agg: tuple[int, int] = (0, 0)
    #: The PSN with which the MSN last rose; at first that of `agg`.
    msn_base: int = -1

    def __post_init__(self) -> None:
        """Begin to count messages where the group begins."""
        if self.msn_base < 0:
            self.msn_base = self.agg[0]

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Process an ACK, a NAK or a probe; return the packets for the source or the sender of the probe."""
        feedback = Feedback.unpack(packet.payload)
        frame = packet.payload[Feedback.SIZE :]
        port = packet.metadata["ingress_port"]
        path = next(n for n, path in enumerate(self.group.paths) if path.port == port)
        psn = int.from_bytes(frame[_BTH_PSN : _BTH_PSN + 3], "big")
        # The pipeline knows what has got through.
        self._raise((feedback.agg_psn, feedback.agg_msn))
        syndrome, msn = frame[_AETH], int.from_bytes(frame[_AETH + 1 : _AETH + 4], "big")
        if packet.metadata["reason"] == PacketInReason.PROBE:
            return self._answer(feedback, frame, port, path, psn, msn)
        to_source = self.report(feedback.port, path, psn, syndrome, msn)
        return self._send(0, frame, *to_source) if to_source and feedback.port else None

    def report(
        self, source_port: int, path: int, psn: int, syndrome: int, msn: int
    ) -> tuple[int, int, int] | None:
        """Take an ACK or NAK of a path; give syndrome, PSN and MSN of what is to go to the source."""
        is_nak = syndrome >> 5 in (_NAK, _RNR_NAK)
        acked = (psn - 1) % _PSN_LIMIT if is_nak else psn
        is_accepted = not _lt(acked, self.acked[path])
        if is_accepted:
            self.acked[path], self.msn[path] = acked, msn
        minimum, minimum_msn = self._minimum(source_port)
        if acked == minimum:
            minimum_msn = msn
        if self.nak_sent is not None and not _lt(minimum, self.nak_sent):
            self.nak_sent = None
        is_known = self.nak_sent is not None and not _lt(psn, self.nak_sent)
        if is_nak and is_accepted and _lt(minimum, psn) and not is_known:
            self._store_nak(syndrome, psn)
        to_source = None
        if self.nak and (minimum + 1) % _PSN_LIMIT == self.nak[1]:
            to_source, self.nak = self.nak, None
            self.nak_sent = to_source[1] if self.suppresses_sent_naks else None
        elif _lt(self.agg[0], minimum):
            to_source = (_ACK_WITHOUT_CREDITS, minimum)
        if self.nak and not _lt(minimum, self.nak[1]):
            self.nak = None
        if to_source is None:
            return None
        minimum_msn = self._plausible_msn(minimum, minimum_msn)
        self._raise((minimum, minimum_msn))
        return (*to_source, minimum_msn)

    def _plausible_msn(self, psn: int, msn: int) -> int:
        """Believe a count that rises by no more than the packets since it last rose; else keep the last."""
        room = (psn - self.msn_base) % _PSN_LIMIT
        step = (msn - self.agg[1]) % _PSN_LIMIT
        return msn if step <= room < _PSN_LIMIT // 2 else self.agg[1]

    def _raise(self, agg: tuple[int, int]) -> None:
        if agg[1] != self.agg[1]:
            self.msn_base = agg[0]
        self.agg = agg

    def _store_nak(self, syndrome: int, psn: int) -> None:
        """Keep the oldest NAK; of one PSN an RNR NAK rather than a sequence error, and the longest timer."""
        if (
            self.nak is None
            or _lt(psn, self.nak[1])
            or (psn == self.nak[1] and _rnr_delay_rank(syndrome) > _rnr_delay_rank(self.nak[0]))
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
        minimum_msn = self._plausible_msn(minimum, minimum_msn)
        if _lt(self.agg[0], minimum):
            self._raise((minimum, minimum_msn))
        if port == feedback.port:
            psn, msn = minimum, minimum_msn
        return self._send(port, frame, _ACK_WITHOUT_CREDITS, psn, msn)

    def _minimum(self, source_port: int) -> tuple[int, int]:
        """Find the oldest PSN of all paths but the source's, and its MSN.

        No member lacks what was acknowledged to the source: a path with less was a sender before.
        """
        to_source = self.agg[0]
        found: tuple[int, int] | None = None
        for path, acked, msn in zip(self.group.paths, self.acked, self.msn, strict=True):
            if path.port == source_port:
                continue
            if _lt(acked, to_source):
                found = self.agg
            elif found is None or _lt(acked, found[0]):
                found = (acked, msn)
        return found or self.agg

    def _send(self, port: int, frame: bytes, syndrome: int, psn: int, msn: int) -> PacketOut:
        header = Feedback(self.group.index, port, *self.agg)
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
            group, acked=[before] * paths, msn=[msn] * paths, agg=(before, msn)
        )

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Answer a PacketIn, if it asks for anything."""
        reason = packet.metadata["reason"]
        if reason in (PacketInReason.FEEDBACK, PacketInReason.PROBE):
            return self.aggregates[Feedback.unpack(packet.payload).group].handle(packet)
        if reason == PacketInReason.ICRC:
            return PacketOut(
                with_icrc(packet.payload), PacketOutKind.FORWARD, packet.metadata["ingress_port"]
            )
        msg = f"the model of a controller has no answer to {packet}"
        raise AssertionError(msg)


def with_icrc(frame: bytes) -> bytes:
    """Put the right ICRC at the end of a RoCEv2 packet; what Ethernet has padded it with stays behind it."""
    end = _ETHERNET + int.from_bytes(frame[_ETHERNET + 2 : _ETHERNET + 4], "big")
    return frame[: end - 4] + icrc(frame[_ETHERNET : end - 4]) + frame[end:]


def _rnr_delay_rank(syndrome: int) -> int:
    """Order how long receivers want the source to wait: of RNR timers 1 is the shortest, 0 the longest."""
    return 1 + (syndrome - 1) % 32 if syndrome >> 5 == _RNR_NAK else 0


def _lt(a: int, b: int) -> bool:
    """Compare PSNs by serial arithmetic."""
    return a != b and (b - a) % _PSN_LIMIT < _PSN_LIMIT // 2
