"""The receivers' ACKs and NAKs become the one stream that the sender's queue pair expects."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from alfirk_ptf import packets, registers
from alfirk_ptf.case import HOSTS, GroupTest, with_each_min_psn
from alfirk_ptf.contract import PacketInReason
from alfirk_ptf.feedback import FeedbackTest, Told
from alfirk_ptf.packets import Roce, acknowledging, delivered, entered, feedback, passed
from alfirk_ptf.target import only_v1model


@with_each_min_psn
class SlowestReceiverDecides(FeedbackTest):
    def runTest(self) -> None:
        for order in permutations((2, 3, 4)):
            with self.subTest(order):
                self.begin()
                self.hears(order[0], 5)
                self.hears(order[1], 7)
                self.hears(order[2], 6, Told(5))
                self.hears(order[0], 8, Told(6))
                self.hears(order[2], 9, Told(7))


@with_each_min_psn
class TwoReceivers(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3)
        self.hears(3, 3, Told(3))
        self.hears(3, 4)
        self.hears(2, 9, Told(4))


@with_each_min_psn
class OneReceiverIsPassedOn(FeedbackTest):
    ports = (1, 4)

    def runTest(self) -> None:
        for psn in (0, 4, 9):
            self.hears(4, psn, Told(psn))


@with_each_min_psn
class SourceNeedNotBeThePathOfNumberZero(FeedbackTest):
    ports = (3, 4, 1, 2)

    def runTest(self) -> None:
        self.hears(2, 4)
        self.hears(3, 4)
        self.hears(4, 4, Told(4))


@with_each_min_psn
class RepeatedAndOldAcksTellNothing(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 5)
        self.hears(3, 5, Told(5))
        for port, psn in ((2, 5), (3, 5), (2, 4), (3, 0)):
            with self.subTest(port=port, psn=psn):
                self.hears(port, psn)


@with_each_min_psn
class PsnsWrapAround(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 4

    def runTest(self) -> None:
        first = self.first_psn
        self.hears(2, first + 2)
        self.hears(3, first + 7)
        self.hears(4, first + 5, Told(first + 2))
        self.hears(2, first + 9, Told(first + 5))
        self.hears(4, first + 3)
        self.hears(4, first + 9, Told(first + 7))
        self.assertEqual(
            self.registers.read(registers.AGG, self.group.index) >> 24, first + 7 - packets.PSN_LIMIT
        )


@with_each_min_psn
class WrappedMinimumStandsBehindUnwrappedOnes(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 2
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3)
        self.hears(3, packets.PSN_LIMIT - 1, Told(packets.PSN_LIMIT - 1))


@with_each_min_psn
class MsnBelongsToTheMinimum(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3, msn=2)
        self.hears(3, 7, Told(3, msn=2), msn=5)
        self.hears(2, 7, Told(7, msn=5), msn=5)


@with_each_min_psn
class MsnsBeyondSixteenBitsAreWhole(FeedbackTest):
    """Of a path's MSN the switch keeps sixteen bits: the rest is that of what the source was told last."""

    first_msn = 0x12FFFE
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3, msn=0x130002)
        self.hears(3, 7, Told(3, msn=0x130002), msn=0x130006)
        self.hears(2, 9, Told(7, msn=0x130006), msn=0x130008)


@with_each_min_psn
class MsnsWrapAround(FeedbackTest):
    first_msn = 0xFFFFFF
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3, msn=3)
        self.hears(3, 7, Told(3, msn=3), msn=7)


@with_each_min_psn
class AckFromASwitchCounts(FeedbackTest):
    uplinks = (4,)
    ports = (1, 2, 4)

    def runTest(self) -> None:
        self.hears(2, 5)
        # Inside the fabric both addresses are the McstID already.
        packet = replace(self.report(4, 4), src=self.group.mcst_id)
        told = delivered(acknowledging(passed(packet), 4, msn=1), self.group, 1, HOSTS[1])
        self.expect(4, packet.frame(), p1=told.frame())


@with_each_min_psn
class SourceBehindASwitchIsTold(GroupTest):
    uplinks = (1,)
    ports = (1, 2, 3)

    def runTest(self) -> None:
        data = Roce(src=self.group.mcst_id, dst=self.group.mcst_id, body=b"x")
        self.exchange(1, data.frame())
        self.expect(2, feedback(HOSTS[2], self.group, packets.ACK, 0).frame())
        last = feedback(HOSTS[3], self.group, packets.ACK, 0)
        told = acknowledging(entered(last, self.group, 3, HOSTS[3]), 0, msn=1)
        self.expect(3, last.frame(), p1=told.frame())


@with_each_min_psn
class NakWaitsUntilAllBeforeItIsThere(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, 6, syndrome=nak)
        self.hears(3, 3, Told(3))
        self.hears(3, 5, Told(6, nak))
        # Sent once: a second report of the same minimum tells nothing.
        self.hears(3, 5)


@with_each_min_psn
class NakThatIsNextIsSentAtOnce(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, 4)
        self.hears(3, 4, Told(4))
        self.hears(2, 5, Told(5, nak), syndrome=nak)


@with_each_min_psn
class SmallestNakGoesFirst(FeedbackTest):
    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, 8, syndrome=nak)
        self.hears(3, 5, syndrome=nak)
        # Host 4 has everything: the minimum is 4, and the NAK of 5 acknowledges just that.
        self.hears(4, 9, Told(5, nak))
        # Host 2 says it again when what comes after is there but 8 is not.
        self.hears(3, 9, Told(7))
        self.hears(2, 8, Told(8, nak), syndrome=nak)


@with_each_min_psn
class NakNeverCoversAnEarlierLoss(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        only_v1model("two NAKs in one turn, one that waits and one that has become due")
        nak = packets.NAK_SEQUENCE
        self.hears(3, 3, syndrome=nak)
        # Host 2 misses 7 only: its NAK must not reach the source, which would take 3 to 6 as received.
        self.hears(2, 7, Told(3, nak), syndrome=nak)
        self.hears(3, 3, Told(3))


@with_each_min_psn
class NakThatEveryoneHasPassedIsForgotten(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, 6, syndrome=nak)
        # A retransmission has filled the gap meanwhile.
        self.hears(2, 9)
        self.hears(3, 9, Told(9))
        self.assertEqual(self.registers.read(registers.NAK, self.group.index), 0)


@with_each_min_psn
class OvertakenNakIsNotTold(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, 9)
        self.hears(2, 5, syndrome=nak)
        self.hears(3, 4, Told(4))


@with_each_min_psn
class NakAcrossTheWrap(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 3
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.hears(2, packets.PSN_LIMIT + 1, syndrome=nak)
        self.hears(3, packets.PSN_LIMIT + 0, Told(packets.PSN_LIMIT + 1, nak))


@with_each_min_psn
class ReceiverNotReadyKeepsItsTimer(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 6, syndrome=packets.RNR_NAK)
        self.hears(3, 9, Told(6, packets.RNR_NAK))


@with_each_min_psn
class CreditsOfOneReceiverAreNotTheGroups(FeedbackTest):
    """The source is told that there are no credits to count, whatever a receiver gives."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3, syndrome=0x05)
        self.hears(3, 3, Told(3), syndrome=0x0A)


@with_each_min_psn
class OneLossIsToldOnceInEachRound(FeedbackTest):
    """All receivers lack the same packet; a round ends when it is sent again."""

    def runTest(self) -> None:
        for nak in (packets.NAK_SEQUENCE, packets.RNR_NAK):
            with self.subTest(nak=nak):
                self.begin()
                for port in (2, 3):
                    self.hears(port, 4, syndrome=nak)
                self.hears(4, 4, Told(4, nak), syndrome=nak)
                for port in (2, 3, 4):
                    self.hears(port, 4, syndrome=nak)
                self.data(self.first_psn + 5, 1)
                self.hears(3, 4, syndrome=nak)
                self.data(self.first_psn + 4, 1)
                self.hears(3, 4, Told(4, nak), syndrome=nak)
                self.hears(2, 4, syndrome=nak)
                self.hears(2, 5)
                self.hears(3, 5)
                self.hears(4, 5, Told(5))


@with_each_min_psn
class LongestTimerCounts(FeedbackTest):
    """Of RNR NAKs that wait for one PSN; timer 0 is the longest. Who resends at once comes too early."""

    def runTest(self) -> None:
        sequence, rnr = packets.NAK_SEQUENCE, 0x20
        for said, told in (
            ((sequence, rnr | 3), rnr | 3),
            ((rnr | 3, sequence), rnr | 3),
            ((rnr | 3, rnr | 9), rnr | 9),
            ((rnr | 9, rnr | 3), rnr | 9),
            ((rnr | 31, rnr | 0), rnr | 0),
        ):
            with self.subTest(said=said):
                self.begin()
                self.hears(2, 4, syndrome=said[0])
                self.hears(3, 4, syndrome=said[1])
                self.hears(4, 9, Told(4, told))


@with_each_min_psn
class FatalNakCompletesNothing(FeedbackTest):
    """A requester takes a NAK as an ACK of all before it: the source gets one of what somebody may lack."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.hears(2, 3)
        self.hears(3, 2, Told(2))
        for syndrome in (packets.NAK_INVALID, packets.NAK_ACCESS, packets.NAK_OPERATIONAL):
            with self.subTest(syndrome=hex(syndrome)):
                packet = self.report(2, 5, syndrome)
                self.send(2, packet.frame())
                self.same(self.collect(2), {1: [self.at_source(packet, 2, Told(3, syndrome))]})
                # The controller learns of it too: as it came in, and from where.
                (copy,) = self.registers.punted()
                self.assertEqual(copy.payload, packet.frame())
                self.assertEqual(copy.metadata["reason"], PacketInReason.FATAL_NAK)
                self.assertEqual(copy.metadata["ingress_port"], 2)
        # They acknowledge nothing.
        self.hears(3, 9, Told(3))


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
        inside = entered(packet, self.group, 2, host)
        self.expect(2, packet.frame(), p1=delivered(inside, self.group, 1, HOSTS[1]).frame())


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
        self.hears(2, 9)
        self.hears(3, 9, Told(9))
        host = HOSTS[3]
        data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=10, body=b"mine now")
        self.exchange(3, data.frame())
        self.expect(1, self.report(1, 10).frame())
        last = self.report(2, 10)
        merged = acknowledging(entered(last, self.group, 2, HOSTS[2]), 10, msn=1)
        self.expect(2, last.frame(), p3=delivered(merged, self.group, 3, HOSTS[3]).frame())
