"""Selective NAKs: the source gets one per loss, not one per receiver, and they acknowledge nothing."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS
from alfirk_ptf.contract import AETH_NAK, NAK_SELECTIVE, Drop
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.packets import Roce, acknowledging, entered
from alfirk_ptf.target import only_v1model

SYNDROME = AETH_NAK << 5 | NAK_SELECTIVE


class SelectiveTest(FeedbackTest):
    is_selective = True

    def begin(self) -> None:
        only_v1model("selective NAKs")
        super().begin()

    def loses(self, port: int, psn: int, reports: int = 1, *, is_forwarded: bool, acked: int = -1) -> None:
        """Let a port report a packet for that many times: the source gets one report, or nothing.

        A requester takes any NAK as an acknowledgement of what is before its PSN. So that is the one after
        what was last acknowledged to it; the lost packet's stands in the place of the message count.
        """
        to_source = ToSource(self.first_psn + acked + 1, SYNDROME, psn) if is_forwarded else None
        self.reports(port, psn, to_source, syndrome=SYNDROME, msn=reports)


class EachLossIsReportedOnce(SelectiveTest):
    def runTest(self) -> None:
        self.loses(3, 4, is_forwarded=True)
        self.loses(2, 4, is_forwarded=False)
        self.loses(3, 4, is_forwarded=False)
        self.loses(2, 5, is_forwarded=True)
        self.loses(2, 7, is_forwarded=True)
        self.loses(4, 7, is_forwarded=False)


class ReportThatIsRepeatedMoreOftenIsNews(SelectiveTest):
    def runTest(self) -> None:
        self.loses(2, 4, 1, is_forwarded=True)
        self.loses(2, 4, 2, is_forwarded=True)
        self.loses(3, 4, 1, is_forwarded=False)
        self.loses(3, 4, 2, is_forwarded=False)
        self.loses(3, 4, 3, is_forwarded=True)
        self.loses(4, 4, 0, is_forwarded=False)


class CountOf255DoesNotSuppressOtherReports(SelectiveTest):
    """It counts as the next report."""

    def runTest(self) -> None:
        self.loses(2, 4, 255, is_forwarded=True)
        self.loses(3, 4, 1, is_forwarded=False)
        self.loses(3, 4, 2, is_forwarded=True)
        self.loses(3, 4, 3, is_forwarded=True)
        self.loses(2, 4, 255, is_forwarded=True)
        self.loses(3, 4, 4, is_forwarded=False)
        self.loses(3, 4, 5, is_forwarded=True)


class GoBackNKnowsNoSelectiveNak(SelectiveTest):
    is_selective = False

    def runTest(self) -> None:
        for psn in (0, 4, self.sent - 1):
            self.refuses(Drop.RESERVED_SYNDROME, 2, self.report(2, psn, SYNDROME).frame())


class BetweenSwitchesALossHasItsPsnAndCount(SelectiveTest):
    """The source is behind another switch, which merges the reports of all below."""

    uplinks = (1,)

    def packet(self, psn: int) -> Roce:
        return replace(super().packet(psn), src=self.group.mcst_id)

    def runTest(self) -> None:
        for reports, passed in ((1, 1), (200, 2)):
            packet = self.report(2, 4, SYNDROME, reports)
            inside = acknowledging(entered(packet, self.group, 2, HOSTS[2]), 4, SYNDROME, passed)
            self.expect(2, packet.frame(), p1=inside.frame())


class WhatIsSentAgainMayBeLostAgain(SelectiveTest):
    def runTest(self) -> None:
        self.loses(2, 4, is_forwarded=True)
        self.data(4, 1)
        self.loses(3, 4, is_forwarded=True)
        # Of another packet that came by, nothing follows.
        self.data(5, 1)
        self.loses(4, 4, is_forwarded=False)


class NothingIsAcknowledged(SelectiveTest):
    def runTest(self) -> None:
        self.reports(2, 3)
        self.reports(3, 3)
        self.loses(4, 6, is_forwarded=True)
        self.reports(4, 2, ToSource(2))
        self.reports(4, 3, ToSource(3))


class AcknowledgedAndUnsentPacketsAreNotLost(SelectiveTest):
    def runTest(self) -> None:
        for port in (2, 3):
            self.reports(port, 5)
        self.reports(4, 5, ToSource(5))
        self.loses(2, 5, is_forwarded=False)
        self.loses(2, self.sent, is_forwarded=False)
        self.loses(2, 1 << 23, is_forwarded=False)
        self.loses(2, 6, is_forwarded=True, acked=5)


class TheSourceCannotReport(SelectiveTest):
    def runTest(self) -> None:
        self.loses(1, 4, is_forwarded=False)
        self.loses(2, 4, is_forwarded=True)


class LossesShareSlots(SelectiveTest):
    """Two packets that are 64 apart have one slot: the newer report has it."""

    sent = 100

    def runTest(self) -> None:
        self.loses(2, 4, is_forwarded=True)
        self.loses(2, 68, is_forwarded=True)
        self.loses(3, 68, is_forwarded=False)
        self.loses(3, 4, is_forwarded=True)
        # The slot has another packet's loss.
        self.data(68, 1)
        self.loses(4, 4, is_forwarded=False)


class LossesAcrossTheWrapAround(SelectiveTest):
    first_psn = packets.PSN_LIMIT - 4

    def runTest(self) -> None:
        for psn in (packets.PSN_LIMIT - 1, 0, 2):
            self.loses(2, psn, is_forwarded=True)
            self.loses(3, psn, is_forwarded=False)
        self.data(packets.PSN_LIMIT - 1, 2)
        self.loses(3, packets.PSN_LIMIT - 1, is_forwarded=True)
        self.loses(3, 0, is_forwarded=True)


class GroupsHaveTheirOwnLosses(SelectiveTest):
    def runTest(self) -> None:
        self.loses(2, 4, is_forwarded=True)
        first = self.group
        self.begin()
        self.loses(3, 4, is_forwarded=True)
        self.group = first
        self.loses(3, 4, is_forwarded=False)
