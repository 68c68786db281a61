"""What tests of feedback build on: reports of receivers, and what the source must be told."""

from __future__ import annotations

from dataclasses import dataclass

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest
from alfirk_ptf.collect import Frames
from alfirk_ptf.icrc import icrc_is_right
from alfirk_ptf.packets import Roce, acknowledging, delivered, entered, feedback


@dataclass(frozen=True)
class Told:
    """What the source must see."""

    psn: int
    syndrome: int = packets.ACK
    msn: int = 1


class FeedbackTest(GroupTest):
    """The source is host 1; its packets up to `sent` are on their way."""

    sent = 10

    def begin(self) -> None:
        """Send the data."""
        super().begin()
        self.data(self.first_psn, self.sent)

    def packet(self, psn: int) -> Roce:
        """Build data as the source sends it."""
        host = HOSTS[1]
        return Roce(
            eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn % packets.PSN_LIMIT, body=b"x"
        )

    def data(self, first: int, count: int) -> Frames:
        """Send data."""
        return self.exchange(1, *(self.packet(first + n).frame() for n in range(count)))

    def report(self, port: int, psn: int, syndrome: int = packets.ACK, msn: int = 1) -> Roce:
        """Build the feedback packet of a port."""
        return feedback(HOSTS[port], self.group, syndrome, psn % packets.PSN_LIMIT, msn)

    def at_source(self, packet: Roce, port: int, told: Told) -> bytes:
        """Build what reaches the source when the feedback packet of a port is turned into `told`."""
        inside = entered(packet, self.group, port, HOSTS[port])
        merged = acknowledging(inside, told.psn % packets.PSN_LIMIT, told.syndrome, told.msn)
        return delivered(merged, self.group, 1, HOSTS[1]).frame()

    def hears(
        self,
        port: int,
        psn: int,
        told: Told | None = None,
        *,
        syndrome: int = packets.ACK,
        msn: int = 1,
    ) -> None:
        """Let a port report: the source is told that, or nothing, and nobody else anything."""
        packet = self.report(port, psn, syndrome, msn)
        got = self.exchange(port, packet.frame())
        self.same(got, {1: [self.at_source(packet, port, told)]} if told else {})
        for frame in got.get(1, []):
            if not icrc_is_right(frame[14:]):
                self.fail(f"wrong ICRC: {frame.hex()}")
