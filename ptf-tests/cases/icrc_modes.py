"""ICRC of data in the three modes: neutral rewrite, recomputed in the pipeline, by the controller."""

from __future__ import annotations

import random
from dataclasses import replace

from alfirk_ptf import packets
from alfirk_ptf.case import GROUP_NETWORK, HOSTS, GroupTest, with_each_icrc
from alfirk_ptf.collect import PORTS, Frames
from alfirk_ptf.contract import Drop, IcrcMode, PacketInReason
from alfirk_ptf.controller import with_icrc
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import (
    Roce,
    bridge_entry,
    bridge_exit,
    decrement_ttl,
    feedback,
    merged_cnp,
    merged_feedback,
    reth,
)
from alfirk_ptf.target import Feature

#: Lengths of payloads, which are padded to a multiple of four bytes.
_LENGTHS = (0, 1, 2, 3, 4, 63, 1023, 1024, 4095, 4096)


class IcrcTest(GroupTest):
    def sent(self, **fields: object) -> Roce:
        host = HOSTS[1]
        base = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id)
        return replace(base, **fields)  # type: ignore[arg-type]

    def copies(self, sent: Roce, source: int = 1) -> Frames:
        inside = (
            decrement_ttl(sent)
            if source in self.uplinks
            else bridge_entry(sent, self.group, source, HOSTS[source])
        )
        return {
            port: [
                (
                    inside if port in self.uplinks else bridge_exit(inside, self.group, port, HOSTS[port])
                ).frame()
            ]
            for port in self.ports
            if port != source
        }

    def assert_icrcs(self, got: Frames) -> None:
        """Check the ICRCs with `alfirk_ptf.icrc`, in addition to the comparison with scapy."""
        for frames in got.values():
            for frame in frames:
                self.assertTrue(is_icrc_valid(frame[14:]))


def _padded(length: int) -> tuple[bytes, int]:
    """Return a padded payload, and the number of bytes of padding."""
    padding = -length % 4
    return random.Random(length).randbytes(length) + bytes(padding), padding


@with_each_icrc
class SendsOfAnyLengthHaveAValidIcrc(IcrcTest):
    def runTest(self) -> None:
        for psn, length in enumerate(_LENGTHS):
            with self.subTest(length=length):
                payload, padding = _padded(length)
                sent = self.sent(psn=psn, padcount=padding, body=payload, tos=0x62, ident=psn * 999)
                got = self.exchange(1, sent.frame())
                self.assert_frames(got, self.copies(sent))
                self.assert_icrcs(got)


@with_each_icrc
class WritesOfAnyLengthHaveAValidIcrc(IcrcTest):
    def runTest(self) -> None:
        psn = 0
        for length in _LENGTHS:
            for opcode in (packets.WRITE_FIRST, packets.WRITE_ONLY, packets.WRITE_ONLY_IMM):
                with self.subTest(opcode=opcode, length=length):
                    payload, padding = _padded(length)
                    immediate = b"\xfe\xdc\xba\x98" if opcode == packets.WRITE_ONLY_IMM else b""
                    body = reth(self.group.va + 0x40, self.group.r_key, length) + immediate + payload
                    sent = self.sent(psn=psn, opcode=opcode, padcount=padding, body=body)
                    got = self.exchange(1, sent.frame())
                    self.assert_frames(got, self.copies(sent))
                    self.assert_icrcs(got)
                    psn += 1


@with_each_icrc
class EveryOpcodeHasAValidIcrc(IcrcTest):
    def runTest(self) -> None:
        for psn, opcode in enumerate(
            (
                *(packets.SEND_FIRST, packets.SEND_MIDDLE, packets.SEND_LAST, packets.SEND_LAST_IMM),
                *(packets.SEND_ONLY_IMM, packets.WRITE_MIDDLE, packets.WRITE_LAST, packets.WRITE_LAST_IMM),
            )
        ):
            with self.subTest(opcode=opcode):
                sent = self.sent(psn=psn, opcode=opcode, ackreq=1, solicited=1, body=bytes(range(200)))
                got = self.exchange(1, sent.frame())
                self.assert_frames(got, self.copies(sent))
                self.assert_icrcs(got)


@with_each_icrc
class CopyToASwitchHasTheExpectedIcrc(IcrcTest):
    uplinks = (4,)

    def runTest(self) -> None:
        sent = self.sent(body=bytes(range(100)))
        got = self.exchange(1, sent.frame())
        if self.icrc_mode is IcrcMode.PUNT:
            # The controller computes the ICRC only of copies for hosts.
            inside = bridge_entry(sent, self.group, 1, HOSTS[1]).frame()
            self.assert_frames({4: [with_icrc(got[4][0])]}, {4: [inside]})
            got = {**got, 4: [inside]}
        self.assert_frames(got, self.copies(sent))


@with_each_icrc
class PacketFromASwitchHasAValidIcrc(IcrcTest):
    uplinks = (1,)

    def runTest(self) -> None:
        sent = self.sent(src=self.group.mcst_id, body=bytes(range(100)))
        got = self.exchange(1, sent.frame())
        self.assert_frames(got, self.copies(sent))
        self.assert_icrcs(got)


@with_each_icrc
class FeedbackHasAValidIcrc(IcrcTest):
    ports = (1, 2)

    def runTest(self) -> None:
        self.exchange(1, self.sent(body=b"x").frame())
        for syndrome in (packets.ACK, packets.NAK_SEQUENCE, packets.RNR_NAK):
            psn = 0 if syndrome == packets.ACK else 1
            report = feedback(HOSTS[2], self.group, syndrome, psn)
            to_source = bridge_exit(merged_feedback(report), self.group, 1, HOSTS[1])
            got = self.exchange(2, report.frame())
            self.assert_frames(got, {1: [to_source.frame()]})
            # The NAK of a packet is forwarded again only after the packet was retransmitted.
            self.exchange(1, self.sent(psn=1, body=b"x").frame())


@with_each_icrc
class CnpHasAValidIcrc(IcrcTest):
    features = (Feature.CONGESTION,)
    ports = (1, 2)

    def runTest(self) -> None:
        self.exchange(1, self.sent(body=b"x").frame())
        host = HOSTS[2]
        cnp = Roce(
            eth_src=host.mac,
            src=host.ip,
            dst=self.group.mcst_id,
            opcode=packets.CNP,
            becn=1,
            body=bytes(16),
        )
        to_source = bridge_exit(merged_cnp(cnp), self.group, 1, HOSTS[1])
        got = self.exchange(2, cnp.frame())
        self.assert_frames(got, {1: [to_source.frame()]})


class InvalidIcrcIsDroppedWhereItIsRecomputed(IcrcTest):
    icrc_mode = IcrcMode.RECOMPUTE

    def runTest(self) -> None:
        write = reth(self.group.va, self.group.r_key, 8) + bytes(8)
        for sent in (
            self.sent(body=bytes(64)),
            self.sent(body=b""),
            self.sent(opcode=packets.WRITE_ONLY, body=write),
        ):
            frame = sent.frame()
            for at in (14 + 4, 14 + 20, 14 + 28 + 5, len(frame) - 5, len(frame) - 1):
                with self.subTest(opcode=sent.opcode, length=len(frame), byte=at):
                    broken = frame[:at] + bytes([frame[at] ^ 0x10]) + frame[at + 1 :]
                    if at == 18:
                        # Byte 18 is in the identification: the IPv4 checksum must be valid here.
                        changed = replace(sent, ident=sent.ident ^ 0x1000).frame()
                        broken = changed[:-4] + frame[-4:]
                    self.expect_drop(Drop.DATA_ICRC, 1, broken)
        # The dropped packets have not changed the state of the group.
        sent = self.sent(body=b"first")
        self.assert_frames(self.exchange(1, sent.frame()), self.copies(sent))


class InvalidIcrcStaysInvalidInNeutralMode(IcrcTest):
    """The switch does not check the ICRC of data; the receiver drops the packet."""

    def runTest(self) -> None:
        sent = self.sent(body=bytes(64))
        broken = bytearray(sent.frame())
        broken[-1] ^= 1
        for port, (frame,) in self.exchange(1, bytes(broken)).items():
            right = self.copies(sent)[port][0]
            self.assertEqual(frame, right[:-1] + bytes([right[-1] ^ 1]))


class DataOfAGroupOutsideTheRecomputeRangeIsDropped(IcrcTest):
    """The pipeline does not parse such data, so it could only send copies with a wrong ICRC."""

    icrc_mode = IcrcMode.RECOMPUTE
    network = GROUP_NETWORK

    def runTest(self) -> None:
        self.expect_drop(Drop.DATA_ICRC, 1, self.sent(body=bytes(10)).frame())


class InconsistentLengthsAreDropped(IcrcTest):
    icrc_mode = IcrcMode.RECOMPUTE

    def runTest(self) -> None:
        frame = self.sent(body=bytes(40)).frame()
        for what, length in (
            ("shorter than its headers", 20),
            ("longer than the frame", 100),
            ("maximum", 0xFFFF),
        ):
            with self.subTest(what):
                broken = frame[:38] + length.to_bytes(2, "big") + frame[40:]
                self.expect_drop(Drop.PARSER_ERROR, 1, broken)


class CopiesAreSentByTheControllerInPuntMode(IcrcTest):
    """The controller receives each copy, computes its ICRC and sends it; the switch itself sends none."""

    icrc_mode = IcrcMode.PUNT

    def runTest(self) -> None:
        before = self.drops(Drop.ICRC_PUNTED, "egress")
        body = reth(self.group.va, self.group.r_key, 300) + bytes(300)
        sent = self.sent(opcode=packets.WRITE_ONLY, body=body)
        self.send(1, sent.frame())
        self.assert_frames(self.collect(1), {})
        punted = {packet.metadata["ingress_port"]: packet for packet in self.registers.take_punted()}
        self.assertEqual(sorted(punted), list(PORTS[1:]))
        self.assertEqual(self.drops(Drop.ICRC_PUNTED, "egress") - before, 3)
        for port, packet in punted.items():
            self.assertEqual(packet.metadata["reason"], PacketInReason.ICRC)
            self.assertEqual(with_icrc(packet.payload), self.copies(sent)[port][0])


@with_each_icrc
class EthernetPaddingIsNotPayload(IcrcTest):
    """The shortest RoCEv2 packet is shorter than the minimum Ethernet frame, so NICs append padding."""

    def runTest(self) -> None:
        for psn, added in enumerate((b"\x00\x00", b"\xaa\x55")):
            sent = self.sent(psn=psn)
            frame = sent.frame()
            self.assertEqual(len(frame), 58)
            expected = {port: [copy + added] for port, (copy,) in self.copies(sent).items()}
            self.assert_frames(self.exchange(1, frame + added), expected)
