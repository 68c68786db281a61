"""A model of how the controller handles frames of the pipeline, written independently of the Rust one.

It finds the minimum PSN of groups with `MinPsn.PUNT`, and computes the ICRC of data for `IcrcMode.PUNT`.
It does no input or output: it takes a PacketIn and returns a PacketOut, as defined in `p4src/shared`.
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
    """A frame that the controller sends to the switch."""

    payload: bytes
    kind: int
    egress_port: int = 0


@dataclass
class Aggregate:
    """The aggregation state of a group with `MinPsn.PUNT`."""

    group: Group
    #: Newest acknowledged PSN of each path, and the MSN of that acknowledgement.
    acked: list[int]
    msn: list[int]
    #: Syndrome and PSN of the NAK that is held until all earlier packets are acknowledged.
    nak: tuple[int, int] | None = None
    #: Whether a NAK is forwarded only once until the packet is retransmitted. The pipeline does that for a
    #: controller, which does not see retransmissions.
    suppresses_sent_naks: bool = False
    #: PSN of the NAK that was forwarded to the source and not answered with a retransmission yet.
    nak_sent: int | None = None
    #: PSN and MSN last acknowledged to the source.
    agg: tuple[int, int] = (0, 0)
    #: The PSN of the acknowledgement that last increased the MSN; initially that of `agg`.
    msn_base: int = -1

    def __post_init__(self) -> None:
        """Set `msn_base` to the group's first state."""
        if self.msn_base < 0:
            self.msn_base = self.agg[0]

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Handle an ACK, a NAK or a probe; return the packet for the source or the sender of the probe."""
        feedback = Feedback.unpack(packet.payload)
        frame = packet.payload[Feedback.SIZE :]
        port = packet.metadata["ingress_port"]
        path = next(n for n, path in enumerate(self.group.paths) if path.port == port)
        psn = int.from_bytes(frame[_BTH_PSN : _BTH_PSN + 3], "big")
        # The pipeline knows which of our packets it has forwarded to the source.
        self._advance((feedback.agg_psn, feedback.agg_msn))
        syndrome, msn = frame[_AETH], int.from_bytes(frame[_AETH + 1 : _AETH + 4], "big")
        if packet.metadata["reason"] == PacketInReason.PROBE:
            return self._reply_to_probe(feedback, frame, port, path, psn, msn)
        to_source = self.report(feedback.port, path, psn, syndrome, msn)
        return self._send(0, frame, *to_source) if to_source and feedback.port else None

    def report(
        self, source_port: int, path: int, psn: int, syndrome: int, msn: int
    ) -> tuple[int, int, int] | None:
        """Record an ACK or NAK of a path; return syndrome, PSN and MSN of the feedback for the source."""
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
        self._advance((minimum, minimum_msn))
        return (*to_source, minimum_msn)

    def _plausible_msn(self, psn: int, msn: int) -> int:
        """Return the MSN if it could be true, else the last one.

        An MSN can rise by no more than the number of packets since it last rose.
        """
        packets = (psn - self.msn_base) % _PSN_LIMIT
        step = (msn - self.agg[1]) % _PSN_LIMIT
        return msn if step <= packets < _PSN_LIMIT // 2 else self.agg[1]

    def _advance(self, agg: tuple[int, int]) -> None:
        if agg[1] != self.agg[1]:
            self.msn_base = agg[0]
        self.agg = agg

    def _store_nak(self, syndrome: int, psn: int) -> None:
        """Hold the oldest NAK; of NAKs for one PSN, that with the longest RNR timer."""
        if (
            self.nak is None
            or _lt(psn, self.nak[1])
            or (psn == self.nak[1] and _rnr_delay_rank(syndrome) > _rnr_delay_rank(self.nak[0]))
        ):
            self.nak = (syndrome, psn)

    def _reply_to_probe(
        self, feedback: Feedback, frame: bytes, port: int, path: int, psn: int, msn: int
    ) -> PacketOut | None:
        if _lt(self.acked[path], psn):
            self.acked[path] = psn
        minimum, minimum_msn = self._minimum(feedback.port)
        if _lt(minimum, psn):
            return None
        minimum_msn = self._plausible_msn(minimum, minimum_msn)
        if _lt(self.agg[0], minimum):
            self._advance((minimum, minimum_msn))
        if port == feedback.port:
            psn, msn = minimum, minimum_msn
        return self._send(port, frame, _ACK_WITHOUT_CREDITS, psn, msn)

    def _minimum(self, source_port: int) -> tuple[int, int]:
        """Return the oldest acknowledged PSN of all paths except the source's, and its MSN.

        All members have received what was acknowledged to the source; one with an older PSN was the source.
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
    """The part of a controller that handles packets of the data plane."""

    aggregates: dict[int, Aggregate] = field(default_factory=dict)

    def register(self, group: Group, first_psn: int, msn: int = 0) -> None:
        """Start the aggregation of a group."""
        before = (first_psn - 1) % _PSN_LIMIT
        paths = len(group.paths)
        self.aggregates[group.index] = Aggregate(
            group, acked=[before] * paths, msn=[msn] * paths, agg=(before, msn)
        )

    def handle(self, packet: PacketIn) -> PacketOut | None:
        """Handle a PacketIn; return the packet to send, if any."""
        reason = packet.metadata["reason"]
        if reason in (PacketInReason.FEEDBACK, PacketInReason.PROBE):
            return self.aggregates[Feedback.unpack(packet.payload).group].handle(packet)
        if reason == PacketInReason.ICRC:
            return PacketOut(
                with_icrc(packet.payload), PacketOutKind.FORWARD, packet.metadata["ingress_port"]
            )
        msg = f"the model of the controller does not handle {packet}"
        raise AssertionError(msg)


def with_icrc(frame: bytes) -> bytes:
    """Compute the ICRC of a RoCEv2 packet; Ethernet padding after it is kept."""
    end = _ETHERNET + int.from_bytes(frame[_ETHERNET + 2 : _ETHERNET + 4], "big")
    return frame[: end - 4] + icrc(frame[_ETHERNET : end - 4]) + frame[end:]


def _rnr_delay_rank(syndrome: int) -> int:
    """Rank syndromes by how long the source is to wait: RNR timer 1 is the shortest, 0 the longest."""
    return 1 + (syndrome - 1) % 32 if syndrome >> 5 == _RNR_NAK else 0


def _lt(a: int, b: int) -> bool:
    """Compare PSNs by serial arithmetic."""
    return a != b and (b - a) % _PSN_LIMIT < _PSN_LIMIT // 2
