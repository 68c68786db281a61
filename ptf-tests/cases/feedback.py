"""Feedback aggregation: ACKs and NAKs of receivers become one stream to the source."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from alfirk_ptf import packets, registers
from alfirk_ptf.case import HOSTS, GroupTest, with_each_min_psn
from alfirk_ptf.contract import PacketInReason
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.packets import Roce, acknowledging, delivered, entered, feedback, passed
from alfirk_ptf.target import only_v1model


@with_each_min_psn
class SlowestReceiverDecides(FeedbackTest):
    def runTest(self) -> None:
        for order in permutations((2, 3, 4)):
            with self.subTest(order):
                self.begin()
                self.reports(order[0], 5)
                self.reports(order[1], 7)
                self.reports(order[2], 6, ToSource(5))
                self.reports(order[0], 8, ToSource(6))
                self.reports(order[2], 9, ToSource(7))


@with_each_min_psn
class TwoReceivers(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3)
        self.reports(3, 3, ToSource(3))
        self.reports(3, 4)
        self.reports(2, 9, ToSource(4))


@with_each_min_psn
class OneReceiverIsPassedOn(FeedbackTest):
    ports = (1, 4)

    def runTest(self) -> None:
        for psn in (0, 4, 9):
            self.reports(4, psn, ToSource(psn))


@with_each_min_psn
class SourceNeedNotBeThePathOfNumberZero(FeedbackTest):
    ports = (3, 4, 1, 2)

    def runTest(self) -> None:
        self.reports(2, 4)
        self.reports(3, 4)
        self.reports(4, 4, ToSource(4))


@with_each_min_psn
class RepeatedAndOldAcksTellNothing(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 5)
        self.reports(3, 5, ToSource(5))
        for port, psn in ((2, 5), (3, 5), (2, 4), (3, 0)):
            with self.subTest(port=port, psn=psn):
                self.reports(port, psn)


@with_each_min_psn
class PsnsWrapAround(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 4

    def runTest(self) -> None:
        first = self.first_psn
        self.reports(2, first + 2)
        self.reports(3, first + 7)
        self.reports(4, first + 5, ToSource(first + 2))
        self.reports(2, first + 9, ToSource(first + 5))
        self.reports(4, first + 3)
        self.reports(4, first + 9, ToSource(first + 7))
        self.assertEqual(
            self.registers.read(registers.AGG, self.group.index) >> 24, first + 7 - packets.PSN_LIMIT
        )


@with_each_min_psn
class WrappedMinimumStandsBehindUnwrappedOnes(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 2
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3)
        self.reports(3, packets.PSN_LIMIT - 1, ToSource(packets.PSN_LIMIT - 1))


@with_each_min_psn
class MsnBelongsToTheMinimum(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3, msn=2)
        self.reports(3, 7, ToSource(3, msn=2), msn=5)
        self.reports(2, 7, ToSource(7, msn=5), msn=5)


@with_each_min_psn
class MsnsBeyondSixteenBitsAreWhole(FeedbackTest):
    """Of a path's MSN the switch keeps sixteen bits: the rest is that of the MSN last sent to the source."""

    first_msn = 0x12FFFE
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3, msn=0x130002)
        self.reports(3, 7, ToSource(3, msn=0x130002), msn=0x130006)
        self.reports(2, 9, ToSource(7, msn=0x130006), msn=0x130008)


@with_each_min_psn
class MsnsWrapAround(FeedbackTest):
    first_msn = 0xFFFFFF
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3, msn=3)
        self.reports(3, 7, ToSource(3, msn=3), msn=7)


@with_each_min_psn
class AckFromASwitchCounts(FeedbackTest):
    uplinks = (4,)
    ports = (1, 2, 4)

    def runTest(self) -> None:
        self.reports(2, 5)
        # Inside the fabric both addresses are the McstID already.
        packet = replace(self.report(4, 4), src=self.group.mcst_id)
        to_source = delivered(acknowledging(passed(packet), 4, msn=1), self.group, 1, HOSTS[1])
        self.expect(4, packet.frame(), p1=to_source.frame())


@with_each_min_psn
class SourceBehindASwitchIsAnswered(GroupTest):
    uplinks = (1,)
    ports = (1, 2, 3)

    def runTest(self) -> None:
        data = Roce(src=self.group.mcst_id, dst=self.group.mcst_id, body=b"x")
        self.exchange(1, data.frame())
        self.expect(2, feedback(HOSTS[2], self.group, packets.ACK, 0).frame())
        last = feedback(HOSTS[3], self.group, packets.ACK, 0)
        to_source = acknowledging(entered(last, self.group, 3, HOSTS[3]), 0, msn=1)
        self.expect(3, last.frame(), p1=to_source.frame())


@with_each_min_psn
class NakWaitsUntilAllBeforeItIsThere(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, 6, syndrome=nak)
        self.reports(3, 3, ToSource(3))
        self.reports(3, 5, ToSource(6, nak))
        # Sent once: a second report of the same minimum tells nothing.
        self.reports(3, 5)


@with_each_min_psn
class NakThatIsNextIsSentAtOnce(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, 4)
        self.reports(3, 4, ToSource(4))
        self.reports(2, 5, ToSource(5, nak), syndrome=nak)


@with_each_min_psn
class SmallestNakGoesFirst(FeedbackTest):
    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, 8, syndrome=nak)
        self.reports(3, 5, syndrome=nak)
        # Host 4 has everything: the minimum is 4, and the NAK of 5 acknowledges just that.
        self.reports(4, 9, ToSource(5, nak))
        # Host 2 says it again when what comes after is there but 8 is not.
        self.reports(3, 9, ToSource(7))
        self.reports(2, 8, ToSource(8, nak), syndrome=nak)


@with_each_min_psn
class NakNeverCoversAnEarlierLoss(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        only_v1model("two NAKs in one turn, one that waits and one that has become due")
        nak = packets.NAK_SEQUENCE
        self.reports(3, 3, syndrome=nak)
        # Host 2 misses 7 only: its NAK must not reach the source, which would take 3 to 6 as received.
        self.reports(2, 7, ToSource(3, nak), syndrome=nak)
        self.reports(3, 3, ToSource(3))


@with_each_min_psn
class NakThatAllPathsHavePassedIsCleared(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, 6, syndrome=nak)
        # A retransmission has filled the gap meanwhile.
        self.reports(2, 9)
        self.reports(3, 9, ToSource(9))
        self.assertEqual(self.registers.read(registers.NAK, self.group.index), 0)


@with_each_min_psn
class OvertakenNakIsNotSentOn(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, 9)
        self.reports(2, 5, syndrome=nak)
        self.reports(3, 4, ToSource(4))


@with_each_min_psn
class NakAcrossTheWrap(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 3
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.reports(2, packets.PSN_LIMIT + 1, syndrome=nak)
        self.reports(3, packets.PSN_LIMIT + 0, ToSource(packets.PSN_LIMIT + 1, nak))


@with_each_min_psn
class ReceiverNotReadyKeepsItsTimer(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 6, syndrome=packets.RNR_NAK)
        self.reports(3, 9, ToSource(6, packets.RNR_NAK))


@with_each_min_psn
class CreditsOfOneReceiverAreNotTheGroups(FeedbackTest):
    """The source gets ACKs that say there are no credits to count, whatever a receiver gives."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3, syndrome=0x05)
        self.reports(3, 3, ToSource(3), syndrome=0x0A)


@with_each_min_psn
class OneLossIsReportedOncePerRound(FeedbackTest):
    """All receivers lack the same packet; a round ends when it is sent again."""

    def runTest(self) -> None:
        for nak in (packets.NAK_SEQUENCE, packets.RNR_NAK):
            with self.subTest(nak=nak):
                self.begin()
                for port in (2, 3):
                    self.reports(port, 4, syndrome=nak)
                self.reports(4, 4, ToSource(4, nak), syndrome=nak)
                for port in (2, 3, 4):
                    self.reports(port, 4, syndrome=nak)
                self.data(self.first_psn + 5, 1)
                self.reports(3, 4, syndrome=nak)
                self.data(self.first_psn + 4, 1)
                self.reports(3, 4, ToSource(4, nak), syndrome=nak)
                self.reports(2, 4, syndrome=nak)
                self.reports(2, 5)
                self.reports(3, 5)
                self.reports(4, 5, ToSource(5))


@with_each_min_psn
class LongestTimerCounts(FeedbackTest):
    """Of RNR NAKs that wait for one PSN; timer 0 is the longest. Who resends at once comes too early."""

    def runTest(self) -> None:
        sequence, rnr = packets.NAK_SEQUENCE, 0x20
        for said, to_source in (
            ((sequence, rnr | 3), rnr | 3),
            ((rnr | 3, sequence), rnr | 3),
            ((rnr | 3, rnr | 9), rnr | 9),
            ((rnr | 9, rnr | 3), rnr | 9),
            ((rnr | 31, rnr | 0), rnr | 0),
        ):
            with self.subTest(said=said):
                self.begin()
                self.reports(2, 4, syndrome=said[0])
                self.reports(3, 4, syndrome=said[1])
                self.reports(4, 9, ToSource(4, to_source))


@with_each_min_psn
class FatalNakCompletesNothing(FeedbackTest):
    """The source receives a NAK of the first packet that a member may lack.

    The reason is that a requester takes a NAK as an ACK of all packets before it.
    """

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 3)
        self.reports(3, 2, ToSource(2))
        for syndrome in (packets.NAK_INVALID, packets.NAK_ACCESS, packets.NAK_OPERATIONAL):
            with self.subTest(syndrome=hex(syndrome)):
                packet = self.report(2, 5, syndrome)
                self.send(2, packet.frame())
                self.same(self.collect(2), {1: [self.at_source(packet, 2, ToSource(3, syndrome))]})
                # The controller learns of it too: as it came in, and from where.
                (copy,) = self.registers.punted()
                self.assertEqual(copy.payload, packet.frame())
                self.assertEqual(copy.metadata["reason"], PacketInReason.FATAL_NAK)
                self.assertEqual(copy.metadata["ingress_port"], 2)
        # They acknowledge nothing.
        self.reports(3, 9, ToSource(3))


@with_each_min_psn
class CongestionNotificationReachesTheSource(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        host = HOSTS[2]
        packet = Roce(
            eth_src=host.mac,
            src=host.ip,
            dst=self.group.mcst_id,
            opcode=packets.CNP,
            becn=1,
            body=bytes(16),
        )
        passed = packets.notifying(packet)
        self.expect(2, packet.frame(), p1=delivered(passed, self.group, 1, HOSTS[1]).frame())


@with_each_min_psn
class FeedbackBeforeAnyDataGoesNowhere(GroupTest):
    ports = (1, 2)

    def runTest(self) -> None:
        for port in (2, 1):
            self.expect(port, feedback(HOSTS[port], self.group, packets.ACK, 5).frame())


@with_each_min_psn
class SourceMayChange(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.reports(2, 9)
        self.reports(3, 9, ToSource(9))
        host = HOSTS[3]
        data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=10, body=b"mine now")
        self.exchange(3, data.frame())
        self.expect(1, self.report(1, 10).frame())
        last = self.report(2, 10)
        merged = acknowledging(entered(last, self.group, 2, HOSTS[2]), 10, msn=1)
        self.expect(2, last.frame(), p3=delivered(merged, self.group, 3, HOSTS[3]).frame())
