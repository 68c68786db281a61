"""Selective NAKs: the source gets one per loss, not one per receiver, and they acknowledge no packet."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS
from alfirk_ptf.contract import AETH_NAK, NAK_SELECTIVE, Drop
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.packets import Roce, bridge_entry, merged_ack
from alfirk_ptf.target import Feature, only_v1model

SYNDROME = AETH_NAK << 5 | NAK_SELECTIVE


class SelectiveTest(FeedbackTest):
    features = (Feature.SELECTIVE_REPEAT,)
    is_selective = True

    def start_group(self) -> None:
        only_v1model("selective NAKs")
        super().start_group()

    def report_loss(
        self, port: int, psn: int, reports: int = 1, *, is_forwarded: bool, acked: int = -1
    ) -> None:
        """Send the given report of a loss from a port; check whether the source receives a report.

        Requesters take a NAK as an ACK of all PSNs before its own. So a selective NAK for the source has the
        PSN after the last acknowledged one, and the PSN of the lost packet in the MSN field.
        """
        to_source = ToSource(self.first_psn + acked + 1, SYNDROME, psn) if is_forwarded else None
        self.send_feedback(port, psn, to_source, syndrome=SYNDROME, msn=reports)


class EachLossIsReportedOnce(SelectiveTest):
    def runTest(self) -> None:
        self.report_loss(3, 4, is_forwarded=True)
        self.report_loss(2, 4, is_forwarded=False)
        self.report_loss(3, 4, is_forwarded=False)
        self.report_loss(2, 5, is_forwarded=True)
        self.report_loss(2, 7, is_forwarded=True)
        self.report_loss(4, 7, is_forwarded=False)


class ReportWithAHigherCountIsForwarded(SelectiveTest):
    def runTest(self) -> None:
        self.report_loss(2, 4, 1, is_forwarded=True)
        self.report_loss(2, 4, 2, is_forwarded=True)
        self.report_loss(3, 4, 1, is_forwarded=False)
        self.report_loss(3, 4, 2, is_forwarded=False)
        self.report_loss(3, 4, 3, is_forwarded=True)
        self.report_loss(4, 4, 0, is_forwarded=False)


class CountOf255DoesNotSuppressOtherReports(SelectiveTest):
    """A report with count 255 is forwarded, and counts as the next report."""

    def runTest(self) -> None:
        self.report_loss(2, 4, 255, is_forwarded=True)
        self.report_loss(3, 4, 1, is_forwarded=False)
        self.report_loss(3, 4, 2, is_forwarded=True)
        self.report_loss(3, 4, 3, is_forwarded=True)
        self.report_loss(2, 4, 255, is_forwarded=True)
        self.report_loss(3, 4, 4, is_forwarded=False)
        self.report_loss(3, 4, 5, is_forwarded=True)


class GoBackNGroupsDropSelectiveNaks(SelectiveTest):
    is_selective = False

    def runTest(self) -> None:
        for psn in (0, 4, self.sent - 1):
            self.expect_drop(Drop.RESERVED_SYNDROME, 2, self.report(2, psn, SYNDROME).frame())


class NakBetweenSwitchesHasTheLostPsnAndCount(SelectiveTest):
    """The source is behind another switch, which merges reports again."""

    uplinks = (1,)

    def packet(self, psn: int) -> Roce:
        return replace(super().packet(psn), src=self.group.mcst_id)

    def runTest(self) -> None:
        for reports, forwarded in ((1, 1), (200, 2)):
            packet = self.report(2, 4, SYNDROME, reports)
            inside = merged_ack(bridge_entry(packet, self.group, 2, HOSTS[2]), 4, SYNDROME, forwarded)
            self.expect(2, packet.frame(), p1=inside.frame())


class RetransmittedPacketMayBeReportedAgain(SelectiveTest):
    def runTest(self) -> None:
        self.report_loss(2, 4, is_forwarded=True)
        self.data(4, 1)
        self.report_loss(3, 4, is_forwarded=True)
        # A retransmission of another packet does not allow a further report.
        self.data(5, 1)
        self.report_loss(4, 4, is_forwarded=False)


class SelectiveNakAcknowledgesNothing(SelectiveTest):
    def runTest(self) -> None:
        self.send_feedback(2, 3)
        self.send_feedback(3, 3)
        self.report_loss(4, 6, is_forwarded=True)
        self.send_feedback(4, 2, ToSource(2))
        self.send_feedback(4, 3, ToSource(3))


class AcknowledgedAndUnsentPacketsAreNotLost(SelectiveTest):
    def runTest(self) -> None:
        for port in (2, 3):
            self.send_feedback(port, 5)
        self.send_feedback(4, 5, ToSource(5))
        self.report_loss(2, 5, is_forwarded=False)
        self.report_loss(2, self.sent, is_forwarded=False)
        self.report_loss(2, 1 << 23, is_forwarded=False)
        self.report_loss(2, 6, is_forwarded=True, acked=5)


class SourceCannotReportLosses(SelectiveTest):
    def runTest(self) -> None:
        self.report_loss(1, 4, is_forwarded=False)
        self.report_loss(2, 4, is_forwarded=True)


class PacketsAtDistance64ShareASlot(SelectiveTest):
    """Two packets at distance 64 share a slot, which stores the last report."""

    sent = 100

    def runTest(self) -> None:
        self.report_loss(2, 4, is_forwarded=True)
        self.report_loss(2, 68, is_forwarded=True)
        self.report_loss(3, 68, is_forwarded=False)
        self.report_loss(3, 4, is_forwarded=True)
        # The slot stores the loss of packet 4, so retransmission of 68 does not clear it.
        self.data(68, 1)
        self.report_loss(4, 4, is_forwarded=False)


class LossesAcrossTheWrapAround(SelectiveTest):
    first_psn = packets.PSN_LIMIT - 4

    def runTest(self) -> None:
        for psn in (packets.PSN_LIMIT - 1, 0, 2):
            self.report_loss(2, psn, is_forwarded=True)
            self.report_loss(3, psn, is_forwarded=False)
        self.data(packets.PSN_LIMIT - 1, 2)
        self.report_loss(3, packets.PSN_LIMIT - 1, is_forwarded=True)
        self.report_loss(3, 0, is_forwarded=True)


class GroupsHaveSeparateLosses(SelectiveTest):
    def runTest(self) -> None:
        self.report_loss(2, 4, is_forwarded=True)
        first = self.group
        self.start_group()
        self.report_loss(3, 4, is_forwarded=True)
        self.group = first
        self.report_loss(3, 4, is_forwarded=False)
