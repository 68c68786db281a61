"""Hostile members: forged feedback does not reach the source, and does not block the group."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, with_each_min_psn, with_tree_and_walk
from alfirk_ptf.collect import TIMEOUT
from alfirk_ptf.contract import (
    FATAL_NAK_PACKET_IN_BYTES,
    MRP_PACKET_IN_BYTES,
    PROBE_PACKET_IN_BYTES,
    Drop,
    IcrcMode,
    MinPsn,
    PacketInReason,
    RegisterName,
)
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.packets import (
    Roce,
    bridge_entry,
    bridge_exit,
    local_ack,
    merged_cnp,
    reth,
    with_changed_bytes,
)
from alfirk_ptf.target import TARGET, UNTAGGED_SURPLUS, Feature, only_v1model
from ptf import testutils
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alfirk_ptf.p4runtime import PacketIn

_PSN_AT = 14 + 28 + 9
_AETH_AT = _PSN_AT + 3
_BTH_AT = 14 + 28
#: Ports per reason in the meter of packets to the controller.
_METERED_PORTS = 512
_MRP_PORT = 4790
#: Length of a CNP window in seconds of the switch's clock, and maximum number of CNPs of a path in it.
_CNP_WINDOW, _CNP_LIMIT = 1024e-6, 63
#: Part of the maximum that a window gets: on v1model, half of the count remains for the next window.
_CNP_SHARE = 1 if TARGET.is_tofino else 0.5
#: Reserved syndromes: AETH type 2, unassigned NAK codes, and all with the reserved top bit.
_RESERVED = (*range(0x40, 0x60), *range(0x64, 0x80), *range(0x80, 0x100))


class HostileTest(FeedbackTest):
    """Host 1 is the source and has sent `sent` packets; host 2 is hostile, hosts 3 and 4 are not."""

    def start_group(self) -> None:
        super().start_group()
        self.template = self.report(2, 0).frame()

    def forged_feedback(self, syndrome: int, psn: int, msn: int = 1) -> bytes:
        """Build feedback of host 2 from a template: scapy is too slow for thousands of frames."""
        number = (psn % packets.PSN_LIMIT).to_bytes(3, "big")
        return with_changed_bytes(
            self.template, (_PSN_AT, number + bytes([syndrome]) + msn.to_bytes(3, "big"))
        )

    def acknowledged_psn(self, frame: bytes) -> int:
        """Return the newest PSN that a frame acknowledges; for a NAK, the one before its own."""
        psn = int.from_bytes(frame[_PSN_AT : _PSN_AT + 3], "big")
        return psn if frame[_AETH_AT] < 0x20 else (psn - 1) % packets.PSN_LIMIT

    def assert_acknowledges_at_most(self, minimum: int, frames: Iterable[bytes]) -> None:
        """Check that no frame acknowledges packets after `minimum`."""
        for frame in frames:
            ahead = (self.acknowledged_psn(frame) - minimum) % packets.PSN_LIMIT
            if 0 < ahead < packets.PSN_LIMIT // 2:
                self.fail(f"{ahead} packets beyond the minimum are acknowledged: {frame.hex()}")


@with_each_min_psn
class ReservedSyndromesAreDropped(HostileTest):
    def runTest(self) -> None:
        for psn in (0, 5, self.sent - 1, self.sent):
            with self.subTest(psn=psn):
                frames = [self.forged_feedback(syndrome, psn) for syndrome in _RESERVED]
                self.expect_drop(Drop.RESERVED_SYNDROME, 2, *frames)
        # The state of the group is unchanged.
        self.send_feedback(3, 5)
        self.send_feedback(4, 4)
        self.send_feedback(2, 7, ToSource(4))


@with_tree_and_walk
class NoSyndromeAcknowledgesMoreThanAllHave(HostileTest):
    def runTest(self) -> None:
        self.send_feedback(3, 6)
        self.send_feedback(4, 4)
        near = (*range(-2, self.sent + 3), 1 << 23, (1 << 23) - 1)
        for psn in near:
            got = self.exchange(
                2, *(self.forged_feedback(syndrome, psn, 0x400000) for syndrome in range(256))
            )
            self.assertLessEqual(set(got), {1})
            self.assert_acknowledges_at_most(4, got.get(1, []))
            self.registers.take_punted()
        got = self.exchange(4, self.report(4, 5).frame())
        self.assert_acknowledges_at_most(5, got.get(1, []))


class NakOfAnUnsentPacketIsAnAck(HostileTest):
    """A packet that was not sent is not lost, so the source must not get a NAK for it."""

    def runTest(self) -> None:
        for syndrome in (packets.NAK_SEQUENCE, packets.RNR_NAK):
            with self.subTest(syndrome=syndrome):
                self.start_group()
                for port in (3, 4):
                    self.send_feedback(port, self.sent - 1)
                self.send_feedback(2, self.sent - 1, ToSource(self.sent - 1))
                self.send_feedback(2, self.sent, syndrome=syndrome)
                self.data(self.sent, 1)
                for port in (3, 4):
                    self.send_feedback(port, self.sent)
                self.send_feedback(2, self.sent, ToSource(self.sent))


@with_each_min_psn
class ForgedMsnIsNotForwarded(HostileTest):
    """Each packet is a message, so a valid MSN is the PSN plus one."""

    def runTest(self) -> None:
        self.send_feedback(3, 0, msn=1)
        self.send_feedback(4, 0, msn=1)
        self.send_feedback(2, 0, ToSource(0, msn=0), msn=0x400000)
        for psn in (1, 2):
            self.send_feedback(2, psn, msn=psn + 1)
            self.send_feedback(3, psn, msn=psn + 1)
            self.send_feedback(4, psn, ToSource(psn, msn=psn + 1), msn=psn + 1)


@with_each_min_psn
class ForgedMsnOfAnOldAckIsNotForwarded(HostileTest):
    """For a PSN nearly half the number space back, the difference of PSN and MSN wraps around."""

    def runTest(self) -> None:
        self.send_feedback(2, 0, msn=1)
        self.send_feedback(3, 0, msn=1)
        self.send_feedback(4, 0, ToSource(0, msn=1), msn=1)
        for back in (0x600000, (1 << 23) - 20):
            self.assert_frames(self.exchange(2, self.forged_feedback(packets.ACK, -back, 0x700000)), {})
        self.send_feedback(2, 1, msn=2)
        self.send_feedback(3, 2, msn=3)
        self.send_feedback(4, 2, ToSource(1, msn=2), msn=3)


@with_each_min_psn
class HeaderFieldsOfAMembersAckAreNotForwarded(HostileTest):
    """Merged ACKs have header fields of the group, not those of the last member's ACK."""

    sent = 40

    def runTest(self) -> None:
        for psn, (what, changes) in enumerate(
            {
                "IPv4 and UDP length": ((16, b"\x05\xdc"), (38, b"\x05\xc8")),
                "short IPv4 length": ((16, b"\x00\x14"),),
                "short UDP length": ((38, b"\x00\x00"),),
                "TTL": ((22, b"\x02"),),
                "TOS with CE": ((15, b"\xff"),),
                "identification": ((18, b"\xff\xff"),),
                "no DF": ((20, b"\x00\x00"),),
                "UDP source port": ((34, b"\x00\x00"),),
                "UDP checksum": ((40, b"\x12\x34"),),
                "solicited event": ((_BTH_AT + 1, b"\xc0"),),
                "no MigReq": ((_BTH_AT + 1, b"\x00"),),
                "pad count": ((_BTH_AT + 1, b"\x70"),),
                "transport version": ((_BTH_AT + 1, b"\x43"),),
                "limited P_Key": ((_BTH_AT + 2, b"\x7f"),),
                "FECN, BECN, reserved": ((_BTH_AT + 4, b"\xff"),),
                "ACK request, reserved": ((_BTH_AT + 8, b"\xff"),),
                "Ethernet source": ((6, b"\xff\xff\xff\xff\xff\xff"),),
            }.items()
        ):
            with self.subTest(what):
                self.send_feedback(3, psn)
                self.send_feedback(4, psn)
                packet = self.report(2, psn)
                to_source = self.at_source(packet, 2, ToSource(psn))
                self.assert_frames(
                    self.exchange(2, with_changed_bytes(packet.frame(), *changes)), {1: [to_source]}
                )

    # VlanTagsAndTrailersAreNotForwarded tests tags and bytes after the packet.


@with_each_min_psn
class VlanTagsAndTrailersAreNotForwarded(HostileTest):
    features = (Feature.TAGS,)

    def runTest(self) -> None:
        for psn, tags, trailer in (
            (0, ((0x8100, 0x0005),), b""),
            (1, ((0x88A8, 7), (0x8100, 9)), b""),
            (2, (), b"\xaa" * 400),
        ):
            self.send_feedback(3, psn)
            self.send_feedback(4, psn)
            packet = replace(self.report(2, psn), tags=tags)
            to_source = self.at_source(packet, 2, ToSource(psn))
            self.assert_frames(self.exchange(2, packet.frame() + trailer), {1: [to_source]})


class MalformedRequestsAreDropped(HostileTest):
    """Receivers would drop malformed requests, so they do not count as sent."""

    def runTest(self) -> None:
        frame = self.packet(self.sent).frame()
        # Tofino's parsers do not know the length of a frame.
        longer = ("both too long", with_changed_bytes(frame, (16, b"\x05\xdc"), (38, b"\x05\xc8")))
        both_too_long = () if TARGET.is_tofino else (longer,)
        for what, odd in (
            ("transport version", with_changed_bytes(frame, (_BTH_AT + 1, b"\x41"))),
            ("IPv4 length", with_changed_bytes(frame, (16, b"\x05\xdc"))),
            ("UDP length", with_changed_bytes(frame, (38, b"\x00\x40"))),
            ("both too short", with_changed_bytes(frame, (16, b"\x00\x20"), (38, b"\x00\x0c"))),
            *both_too_long,
            ("more padding than payload", with_changed_bytes(frame, (_BTH_AT + 1, b"\x70"))),
        ):
            with self.subTest(what):
                self.expect_drop(Drop.MALFORMED, 1, odd)
        self.assertEqual({2, 3, 4}, set(self.exchange(1, frame)))


@with_each_min_psn
class TruncatedFramesHaveNoEffect(HostileTest):
    """Truncated data, unsupported requests, ACKs and CNPs are dropped and change no state."""

    def runTest(self) -> None:
        data = self.packet(self.sent)
        whole = (
            (1, data),
            (1, replace(data, opcode=packets.WRITE_ONLY, body=reth(0, 0, 4) + b"data")),
            (1, replace(data, opcode=packets.READ_REQUEST, body=reth(0, 0, 4))),
            (2, self.report(2, 5)),
            (2, self.report(2, 5, packets.NAK_ACCESS)),
            (2, replace(self.report(2, 5), opcode=packets.CNP, becn=1, body=bytes(16))),
        )
        # Tofino's parsers do not know the length of a frame: receivers get and drop truncated requests.
        for port, packet in whole[3:] if TARGET.is_tofino else whole:
            frame = packet.frame()
            with self.subTest(opcode=packet.opcode):
                self.assert_frames(
                    self.exchange(port, *(frame[:length] for length in range(15, len(frame)))), {}
                )
        for port in (3, 4):
            self.send_feedback(port, 0)
        self.send_feedback(2, 0, ToSource(0))
        self.assertEqual({2, 3, 4}, set(self.exchange(1, data.frame())))


@with_each_min_psn
class OnlyTheNextPsnMakesAMemberTheSource(HostileTest):
    sent = 0

    def runTest(self) -> None:
        host = HOSTS[2]
        # A PSN half the number space ahead counts as old.
        for psn in (1, 100, 0x400000, (1 << 23) - 2):
            stray = replace(self.packet(psn), eth_src=host.mac, src=host.ip)
            self.expect_drop(Drop.NOT_THE_SOURCE, 2, stray.frame())
        self.assertEqual({2, 3, 4}, set(self.data(0, 1)))


@with_each_min_psn
class DataBeyondTheWindowIsDropped(HostileTest):
    sent = 1
    window = 8

    def runTest(self) -> None:
        # The last acknowledged PSN is -1.
        self.expect_drop(Drop.BEYOND_WINDOW, 1, self.packet(8).frame())
        self.expect_drop(Drop.BEYOND_WINDOW, 1, self.packet(0x400000).frame())
        self.assertEqual({2, 3, 4}, set(self.data(7, 1)))
        for port in (2, 3):
            self.send_feedback(port, 0)
        self.send_feedback(4, 0, ToSource(0))
        self.assertEqual({2, 3, 4}, set(self.data(8, 1)))
        self.expect_drop(Drop.BEYOND_WINDOW, 1, self.packet(9).frame())


class AcksBeyondSentPacketsAreRecorded(HostileTest):
    """After a restart, the controller reads from them how far the group had advanced."""

    def runTest(self) -> None:
        only_v1model("claims by path")
        self.expect_drop(Drop.BEYOND_SENT, 2, self.forged_feedback(packets.ACK, 77))
        self.expect_drop(Drop.BEYOND_SENT, 2, self.forged_feedback(packets.ACK, 70))
        self.send_feedback(3, 5)
        claimed = [self.registers.read(RegisterName.CLAIMED, self.group.index, path) for path in (1, 2, 3)]
        self.assertEqual(claimed, [77, 5, packets.PSN_LIMIT - 1])


class UnsupportedRequestsGetAFatalNak(HostileTest):
    """READ, ATOMIC, SEND with Invalidate, FLUSH and ATOMIC WRITE get a NAK that acknowledges no data."""

    features = (Feature.REFUSALS,)

    def runTest(self) -> None:
        for opcode in (0x0C, 0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D):
            with self.subTest(opcode=hex(opcode)):
                self.start_group()
                sent = replace(self.packet(self.sent), opcode=opcode, body=bytes(28))
                inside = bridge_entry(sent, self.group, 1, HOSTS[1])
                nak = local_ack(inside, 0, packets.NAK_INVALID, msn=0)
                self.expect(1, sent.frame(), p1=bridge_exit(nak, self.group, 1, HOSTS[1]).frame())


class AllOtherOpcodesAreDropped(HostileTest):
    def runTest(self) -> None:
        known = {*range(0x0D), 0x11, 0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D, 0x81}
        for port in (1, 2):
            base = replace(self.report(port, 5), body=bytes(40))
            frames = [replace(base, opcode=opcode).frame() for opcode in range(256) if opcode not in known]
            self.expect_drop(Drop.UNSUPPORTED_OPCODE, port, *frames)


class CnpTest(HostileTest):
    features = (Feature.CONGESTION,)

    def cnp(self, port: int) -> Roce:
        return replace(self.report(port, 7), opcode=packets.CNP, becn=1, body=bytes(16))

    def cnp_at_source(self, port: int) -> bytes:
        return bridge_exit(merged_cnp(self.cnp(port)), self.group, 1, HOSTS[1]).frame()


class CnpsWithAWrongIcrcDoNotSuppressOthers(CnpTest):
    def runTest(self) -> None:
        wrong = bytearray(self.cnp(2).frame())
        wrong[-1] ^= 0xFF
        self.expect_drop(Drop.FEEDBACK_ICRC, 2, *[bytes(wrong)] * 40)
        self.expect(3, self.cnp(3).frame(), p1=self.cnp_at_source(3))


class CnpsOfTheSourceAreDropped(CnpTest):
    def runTest(self) -> None:
        self.expect_drop(Drop.OWN_CNP, 1, self.cnp(1).frame())
        self.expect(3, self.cnp(3).frame(), p1=self.cnp_at_source(3))


class ForwardedCnpHasOnlyFieldsOfTheGroup(CnpTest):
    """Reserved bytes, PSN and all other fields of the member's CNP are replaced."""

    def runTest(self) -> None:
        odd = replace(self.cnp(3), body=b"\xaa" * 16, psn=9, tos=3, ttl=2, migreq=0, tags=((0x8100, 5),))
        self.expect(3, odd.frame(), p1=self.cnp_at_source(3))


class CnpsPerPathAreRateLimited(CnpTest):
    #: Number of frames sent at once, limited by the receive buffer of a test port.
    burst = 200

    def runTest(self) -> None:
        window = _CNP_WINDOW * int(testutils.test_param_get("time_scale"))
        before = self.drops(Drop.CNP_LIMITED)
        frames = [self.cnp(2).frame()] * self.burst
        deadline = time.monotonic() + TIMEOUT
        # On a slow machine, a burst may span several windows, so that no CNP exceeds the limit.
        while self.drops(Drop.CNP_LIMITED) == before:
            self.assertLess(time.monotonic(), deadline, "no CNP was limited")
            begin = time.monotonic()
            self.send(2, *frames)
            passed = len(self.collect(2).get(1, []))
            windows = 2 + (time.monotonic() - begin) / window
            self.assertGreater(passed, 0)
            self.assertLess(passed, _CNP_LIMIT + windows * (_CNP_LIMIT + 1) * _CNP_SHARE)


class FloodTest(HostileTest):
    """A port floods one kind of packets to the controller: they are rate-limited and truncated."""

    reason: PacketInReason
    #: Rate of the meter in packets per second, its burst, and number of flooded frames.
    rate, burst, flood = 1, 10, 100
    #: Number of frames sent at once, limited by the receive buffer of a test port: on Tofino the source gets
    #: all of them.
    at_once = 20

    def set_punt_rates(self) -> None:
        self.limited_since = time.monotonic()
        for port in self.ports:
            cell = self.reason * _METERED_PORTS + port
            self.switch.set_rate("punt_limit.rates", cell, self.rate, self.burst)

    def send_flood(self, port: int, frame: bytes) -> list[PacketIn]:
        """Send a frame `flood` times; return the packets that reached the controller."""
        self.registers.take_punted()
        for _ in range(self.flood // self.at_once):
            self.send(port, *[frame] * self.at_once)
            self.collect(port)
        punted = self.registers.take_punted()
        self.assertGreater(len(punted), 0)
        self.assertEqual({packet.metadata["reason"] for packet in punted}, {self.reason})
        return punted

    def assert_limited(self, punted: list[PacketIn], packets_per_frame: int = 1) -> None:
        """Check that one port has sent at most what the meter passes since its rate was set."""
        frames = self.burst + 1 + self.rate * (time.monotonic() - self.limited_since)
        self.assertLessEqual(len(punted), packets_per_frame * frames)

    def assert_truncated(self, punted: list[PacketIn], length: int) -> None:
        # P4Runtime transmits the three bytes of the PacketIn header as metadata, not in the payload.
        self.assertEqual({len(packet.payload) for packet in punted}, {length - 3 + UNTAGGED_SURPLUS})


class FeedbackToTheControllerIsRateLimited(FloodTest):
    min_psn = MinPsn.PUNT
    reason = PacketInReason.FEEDBACK

    def runTest(self) -> None:
        self.set_punt_rates()
        punted = self.send_flood(2, self.forged_feedback(packets.ACK, 5) + bytes(1000))
        self.assert_limited(punted)
        self.assert_truncated(punted, PROBE_PACKET_IN_BYTES)


class FatalNaksToTheControllerAreRateLimited(FloodTest):
    reason = PacketInReason.FATAL_NAK

    def runTest(self) -> None:
        self.set_punt_rates()
        punted = self.send_flood(2, self.forged_feedback(packets.NAK_ACCESS, 5) + bytes(1000))
        self.assert_limited(punted)
        self.assert_truncated(punted, FATAL_NAK_PACKET_IN_BYTES)


class ProbesToTheControllerAreRateLimited(FloodTest):
    """Old data causes probes, which are limited for the source and for other members."""

    min_psn = MinPsn.PUNT
    reason = PacketInReason.PROBE

    def runTest(self) -> None:
        self.set_punt_rates()
        for port in (1, 2):
            with self.subTest(port=port):
                sent = replace(self.packet(3), eth_src=HOSTS[port].mac, src=HOSTS[port].ip, body=bytes(400))
                punted = self.send_flood(port, sent.frame())
                self.assert_limited(punted)
                self.assert_truncated(punted, PROBE_PACKET_IN_BYTES)


class ProbesOfPuntedDataAreRateLimited(FloodTest):
    """If the controller computes the ICRC as well, probes still have their own limit."""

    min_psn = MinPsn.PUNT
    icrc_mode = IcrcMode.PUNT
    reason = PacketInReason.PROBE

    def runTest(self) -> None:
        # All members have the data, so the filter drops its copies, and the controller gets only probes.
        for port in self.ports[1:]:
            self.send(port, self.report(port, self.sent - 1).frame())
            self.collect(port)
        self.set_punt_rates()
        punted = self.send_flood(1, replace(self.packet(3), body=bytes(400)).frame())
        self.assert_limited(punted)
        self.assert_truncated(punted, PROBE_PACKET_IN_BYTES)


class DroppedDataIsNotSentToTheController(FloodTest):
    """Data that is dropped for any reason is not cloned: it causes no probe and no copy for the ICRC."""

    min_psn = MinPsn.PUNT
    icrc_mode = IcrcMode.PUNT
    reason = PacketInReason.PROBE

    def runTest(self) -> None:
        new = replace(self.packet(self.sent + 5), eth_src=HOSTS[2].mac, src=HOSTS[2].ip)
        old = self.packet(3)
        cases = (
            (Drop.NOT_THE_SOURCE, 2, new),
            (Drop.WRONG_QPN, 1, replace(old, dqpn=7)),
            (Drop.WRONG_PKEY, 1, replace(old, pkey=0x8001)),
            (Drop.TTL_EXPIRED, 1, replace(old, ttl=1)),
            (Drop.NOT_A_MEMBER, 2, replace(old, src=self.group.mcst_id)),
        )
        for reason, port, sent in cases:
            with self.subTest(reason=reason.name):
                self.expect_drop(reason, port, *[sent.frame()] * self.flood)
                self.assertEqual(self.registers.take_punted(), [])


class DataToTheControllerIsRateLimited(FloodTest):
    icrc_mode = IcrcMode.PUNT
    reason = PacketInReason.ICRC

    def runTest(self) -> None:
        self.set_punt_rates()
        self.assert_limited(self.send_flood(1, self.packet(self.sent - 1).frame()), packets_per_frame=3)


class CnpsToTheControllerAreRateLimited(FloodTest):
    icrc_mode = IcrcMode.PUNT
    reason = PacketInReason.ICRC

    def runTest(self) -> None:
        self.set_punt_rates()
        cnp = replace(self.report(2, 0), opcode=packets.CNP, becn=1, body=bytes(16))
        self.assert_limited(self.send_flood(2, cnp.frame()))


class LongRegistrationsAreTruncated(FloodTest):
    reason = PacketInReason.MRP

    def runTest(self) -> None:
        self.set_punt_rates()
        frame = bytes(
            Ether(src=HOSTS[2].mac, dst=packets.VIRTUAL_MAC)
            / IP(src=HOSTS[2].ip, dst=self.group.mcst_id)
            / UDP(sport=_MRP_PORT, dport=_MRP_PORT)
            / Raw(bytes(4000))
        )
        punted = self.send_flood(2, frame)
        self.assert_limited(punted)
        self.assert_truncated(punted, MRP_PACKET_IN_BYTES)
