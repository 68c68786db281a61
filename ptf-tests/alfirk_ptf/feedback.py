"""Base class of the feedback tests: receivers send ACKs and NAKs, and the source receives merged ones."""

from __future__ import annotations

from dataclasses import dataclass

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest
from alfirk_ptf.collect import Frames
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import Roce, bridge_entry, bridge_exit, feedback, merged_ack


@dataclass(frozen=True)
class ToSource:
    """The feedback that the source is to receive."""

    psn: int
    syndrome: int = packets.ACK
    msn: int = 1


class FeedbackTest(GroupTest):
    """Host 1 is the source and has sent `sent` packets."""

    sent = 10

    def start_group(self) -> None:
        """Register a new group, and send the data of the source."""
        super().start_group()
        self.data(self.first_psn, self.sent)

    def packet(self, psn: int) -> Roce:
        """Build a data packet of the source."""
        host = HOSTS[1]
        return Roce(
            eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn % packets.PSN_LIMIT, body=b"x"
        )

    def data(self, first: int, count: int) -> Frames:
        """Send data packets of the source."""
        return self.exchange(1, *(self.packet(first + n).frame() for n in range(count)))

    def report(self, port: int, psn: int, syndrome: int = packets.ACK, msn: int = 1) -> Roce:
        """Build the feedback packet of a port."""
        return feedback(HOSTS[port], self.group, syndrome, psn % packets.PSN_LIMIT, msn)

    def at_source(self, packet: Roce, port: int, to_source: ToSource) -> bytes:
        """Build what reaches the source when the feedback packet of a port is turned into `to_source`."""
        inside = bridge_entry(packet, self.group, port, HOSTS[port])
        merged = merged_ack(inside, to_source.psn % packets.PSN_LIMIT, to_source.syndrome, to_source.msn)
        return bridge_exit(merged, self.group, 1, HOSTS[1]).frame()

    def send_feedback(
        self,
        port: int,
        psn: int,
        to_source: ToSource | None = None,
        *,
        syndrome: int = packets.ACK,
        msn: int = 1,
    ) -> None:
        """Send feedback from a port; check that only the source receives feedback, or that no port does."""
        packet = self.report(port, psn, syndrome, msn)
        got = self.exchange(port, packet.frame())
        self.assert_frames(got, {1: [self.at_source(packet, port, to_source)]} if to_source else {})
        for frame in got.get(1, []):
            if not is_icrc_valid(frame[14:]):
                self.fail(f"wrong ICRC: {frame.hex()}")
