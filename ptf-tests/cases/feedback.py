"""Feedback aggregation: the switch merges ACKs and NAKs of receivers for the source."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from alfirk_ptf import packets, registers
from alfirk_ptf.case import HOSTS, GroupTest, with_each_min_psn
from alfirk_ptf.contract import PacketInReason
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.packets import Roce, bridge_entry, bridge_exit, decrement_ttl, feedback, merged_ack
from alfirk_ptf.target import Feature, only_v1model


@with_each_min_psn
class SlowestReceiverDecides(FeedbackTest):
    def runTest(self) -> None:
        for order in permutations((2, 3, 4)):
            with self.subTest(order):
                self.start_group()
                self.send_feedback(order[0], 5)
                self.send_feedback(order[1], 7)
                self.send_feedback(order[2], 6, ToSource(5))
                self.send_feedback(order[0], 8, ToSource(6))
                self.send_feedback(order[2], 9, ToSource(7))


@with_each_min_psn
class MinimumOfTwoReceiversIsForwarded(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3)
        self.send_feedback(3, 3, ToSource(3))
        self.send_feedback(3, 4)
        self.send_feedback(2, 9, ToSource(4))


@with_each_min_psn
class AcksOfASingleReceiverAreForwarded(FeedbackTest):
    ports = (1, 4)

    def runTest(self) -> None:
        for psn in (0, 4, 9):
            self.send_feedback(4, psn, ToSource(psn))


@with_each_min_psn
class SourceMayBeOnAnyPath(FeedbackTest):
    ports = (3, 4, 1, 2)

    def runTest(self) -> None:
        self.send_feedback(2, 4)
        self.send_feedback(3, 4)
        self.send_feedback(4, 4, ToSource(4))


@with_each_min_psn
class RepeatedAndOldAcksAreNotForwarded(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 5)
        self.send_feedback(3, 5, ToSource(5))
        for port, psn in ((2, 5), (3, 5), (2, 4), (3, 0)):
            with self.subTest(port=port, psn=psn):
                self.send_feedback(port, psn)


@with_each_min_psn
class PsnsWrapAround(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 4

    def runTest(self) -> None:
        first = self.first_psn
        self.send_feedback(2, first + 2)
        self.send_feedback(3, first + 7)
        self.send_feedback(4, first + 5, ToSource(first + 2))
        self.send_feedback(2, first + 9, ToSource(first + 5))
        self.send_feedback(4, first + 3)
        self.send_feedback(4, first + 9, ToSource(first + 7))
        self.assertEqual(
            self.registers.read(registers.AGG, self.group.index) >> 24, first + 7 - packets.PSN_LIMIT
        )


@with_each_min_psn
class PsnBeforeTheWrapIsSmallerThanAfterIt(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 2
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3)
        self.send_feedback(3, packets.PSN_LIMIT - 1, ToSource(packets.PSN_LIMIT - 1))


@with_each_min_psn
class MsnIsThatOfTheMinimum(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3, msn=2)
        self.send_feedback(3, 7, ToSource(3, msn=2), msn=5)
        self.send_feedback(2, 7, ToSource(7, msn=5), msn=5)


@with_each_min_psn
class MsnsOfMoreThan16BitsAreForwarded(FeedbackTest):
    """The switch stores 16 bits of a path's MSN; the upper bits are those of the last MSN for the source."""

    first_msn = 0x12FFFE
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3, msn=0x130002)
        self.send_feedback(3, 7, ToSource(3, msn=0x130002), msn=0x130006)
        self.send_feedback(2, 9, ToSource(7, msn=0x130006), msn=0x130008)


@with_each_min_psn
class MsnsWrapAround(FeedbackTest):
    first_msn = 0xFFFFFF
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3, msn=3)
        self.send_feedback(3, 7, ToSource(3, msn=3), msn=7)


@with_each_min_psn
class AckFromAnotherSwitchIsMerged(FeedbackTest):
    uplinks = (4,)
    ports = (1, 2, 4)

    def runTest(self) -> None:
        self.send_feedback(2, 5)
        # Between switches, both addresses are the McstID.
        packet = replace(self.report(4, 4), src=self.group.mcst_id)
        to_source = bridge_exit(merged_ack(decrement_ttl(packet), 4, msn=1), self.group, 1, HOSTS[1])
        self.expect(4, packet.frame(), p1=to_source.frame())


@with_each_min_psn
class AcksAreForwardedToASourceBehindASwitch(GroupTest):
    uplinks = (1,)
    ports = (1, 2, 3)

    def runTest(self) -> None:
        data = Roce(src=self.group.mcst_id, dst=self.group.mcst_id, body=b"x")
        self.exchange(1, data.frame())
        self.expect(2, feedback(HOSTS[2], self.group, packets.ACK, 0).frame())
        last = feedback(HOSTS[3], self.group, packets.ACK, 0)
        to_source = merged_ack(bridge_entry(last, self.group, 3, HOSTS[3]), 0, msn=1)
        self.expect(3, last.frame(), p1=to_source.frame())


@with_each_min_psn
class NakIsHeldUntilAllEarlierPacketsAreAcknowledged(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, 6, syndrome=nak)
        self.send_feedback(3, 3, ToSource(3))
        self.send_feedback(3, 5, ToSource(6, nak))
        # The NAK is forwarded once; another report of the same minimum causes no feedback.
        self.send_feedback(3, 5)


@with_each_min_psn
class NakOfTheNextPsnIsForwardedImmediately(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, 4)
        self.send_feedback(3, 4, ToSource(4))
        self.send_feedback(2, 5, ToSource(5, nak), syndrome=nak)


@with_each_min_psn
class NakOfTheSmallestPsnIsForwardedFirst(FeedbackTest):
    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, 8, syndrome=nak)
        self.send_feedback(3, 5, syndrome=nak)
        # Host 4 has all packets: the minimum is 4, which the NAK of 5 acknowledges.
        self.send_feedback(4, 9, ToSource(5, nak))
        # Host 2 sends its NAK again when later packets arrive and 8 does not.
        self.send_feedback(3, 9, ToSource(7))
        self.send_feedback(2, 8, ToSource(8, nak), syndrome=nak)


@with_each_min_psn
class NakNeverCoversAnEarlierLoss(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        only_v1model("a NAK that is held while another one is forwarded")
        nak = packets.NAK_SEQUENCE
        self.send_feedback(3, 3, syndrome=nak)
        # Host 2 lacks only 7; its NAK must not reach the source, which would take it as an ACK of 3 to 6.
        self.send_feedback(2, 7, ToSource(3, nak), syndrome=nak)
        self.send_feedback(3, 3, ToSource(3))


@with_each_min_psn
class NakIsClearedWhenAllPathsHaveAcknowledgedIt(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, 6, syndrome=nak)
        # A retransmission of 6 has arrived in the meantime.
        self.send_feedback(2, 9)
        self.send_feedback(3, 9, ToSource(9))
        self.assertEqual(self.registers.read(registers.NAK, self.group.index), 0)


@with_each_min_psn
class NakOlderThanAnAckIsNotForwarded(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, 9)
        self.send_feedback(2, 5, syndrome=nak)
        self.send_feedback(3, 4, ToSource(4))


@with_each_min_psn
class NakIsHeldAcrossThePsnWrap(FeedbackTest):
    first_psn = packets.PSN_LIMIT - 3
    ports = (1, 2, 3)

    def runTest(self) -> None:
        nak = packets.NAK_SEQUENCE
        self.send_feedback(2, packets.PSN_LIMIT + 1, syndrome=nak)
        self.send_feedback(3, packets.PSN_LIMIT + 0, ToSource(packets.PSN_LIMIT + 1, nak))


@with_each_min_psn
class RnrNakKeepsItsTimer(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 6, syndrome=packets.RNR_NAK)
        self.send_feedback(3, 9, ToSource(6, packets.RNR_NAK))


@with_each_min_psn
class MergedAcksHaveNoCredits(FeedbackTest):
    """Merged ACKs carry the syndrome for invalid credits, whatever credits receivers send."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3, syndrome=0x05)
        self.send_feedback(3, 3, ToSource(3), syndrome=0x0A)


@with_each_min_psn
class OneNakPerRetransmissionIsForwarded(FeedbackTest):
    """All receivers lack the same packet; further NAKs are held until it is retransmitted."""

    def runTest(self) -> None:
        for nak in (packets.NAK_SEQUENCE, packets.RNR_NAK):
            with self.subTest(nak=nak):
                self.start_group()
                for port in (2, 3):
                    self.send_feedback(port, 4, syndrome=nak)
                self.send_feedback(4, 4, ToSource(4, nak), syndrome=nak)
                for port in (2, 3, 4):
                    self.send_feedback(port, 4, syndrome=nak)
                self.data(self.first_psn + 5, 1)
                self.send_feedback(3, 4, syndrome=nak)
                self.data(self.first_psn + 4, 1)
                self.send_feedback(3, 4, ToSource(4, nak), syndrome=nak)
                self.send_feedback(2, 4, syndrome=nak)
                self.send_feedback(2, 5)
                self.send_feedback(3, 5)
                self.send_feedback(4, 5, ToSource(5))


@with_each_min_psn
class LongestRnrTimerIsForwarded(FeedbackTest):
    """Of held NAKs for one PSN, the RNR NAK with the longest timer is forwarded; timer 0 is the longest."""

    def runTest(self) -> None:
        sequence, rnr = packets.NAK_SEQUENCE, 0x20
        for syndromes, to_source in (
            ((sequence, rnr | 3), rnr | 3),
            ((rnr | 3, sequence), rnr | 3),
            ((rnr | 3, rnr | 9), rnr | 9),
            ((rnr | 9, rnr | 3), rnr | 9),
            ((rnr | 31, rnr | 0), rnr | 0),
        ):
            with self.subTest(syndromes=syndromes):
                self.start_group()
                self.send_feedback(2, 4, syndrome=syndromes[0])
                self.send_feedback(3, 4, syndrome=syndromes[1])
                self.send_feedback(4, 9, ToSource(4, to_source))


@with_each_min_psn
class FatalNakAcknowledgesNothingNew(FeedbackTest):
    """A forwarded fatal NAK has the PSN of the first packet that a member may lack.

    Requesters take a NAK as an ACK of all earlier packets.
    """

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 3)
        self.send_feedback(3, 2, ToSource(2))
        for syndrome in (packets.NAK_INVALID, packets.NAK_ACCESS, packets.NAK_OPERATIONAL):
            with self.subTest(syndrome=hex(syndrome)):
                packet = self.report(2, 5, syndrome)
                self.send(2, packet.frame())
                self.assert_frames(self.collect(2), {1: [self.at_source(packet, 2, ToSource(3, syndrome))]})
                # The controller gets an unmodified copy, with the ingress port.
                (copy,) = self.registers.take_punted()
                self.assertEqual(copy.payload, packet.frame())
                self.assertEqual(copy.metadata["reason"], PacketInReason.FATAL_NAK)
                self.assertEqual(copy.metadata["ingress_port"], 2)
        # The fatal NAKs have not acknowledged any packet.
        self.send_feedback(3, 9, ToSource(3))


@with_each_min_psn
class CnpIsForwardedToTheSource(FeedbackTest):
    features = (Feature.CONGESTION,)
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
        forwarded = packets.merged_cnp(packet)
        self.expect(2, packet.frame(), p1=bridge_exit(forwarded, self.group, 1, HOSTS[1]).frame())


@with_each_min_psn
class FeedbackBeforeAnyDataIsDropped(GroupTest):
    ports = (1, 2)

    def runTest(self) -> None:
        for port in (2, 1):
            self.expect(port, feedback(HOSTS[port], self.group, packets.ACK, 5).frame())


@with_each_min_psn
class SourceMayChange(FeedbackTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.send_feedback(2, 9)
        self.send_feedback(3, 9, ToSource(9))
        host = HOSTS[3]
        data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=10, body=b"mine now")
        self.exchange(3, data.frame())
        self.expect(1, self.report(1, 10).frame())
        last = self.report(2, 10)
        merged = merged_ack(bridge_entry(last, self.group, 2, HOSTS[2]), 10, msn=1)
        self.expect(2, last.frame(), p3=bridge_exit(merged, self.group, 3, HOSTS[3]).frame())
