"""Replication of data: each member receives one bridged copy, compared byte by byte."""

from __future__ import annotations

import random
from dataclasses import replace

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest
from alfirk_ptf.collect import PORTS, Frames
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import Roce, bridge_entry, bridge_exit, decrement_ttl, reth


class DataTest(GroupTest):
    def sent(self, **fields: object) -> Roce:
        host = HOSTS[1]
        base = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id)
        return replace(base, **fields)  # type: ignore[arg-type]

    def copies(self, sent: Roce, source: int = 1) -> Frames:
        """Return the copies that all other ports of the tree are to send."""
        member = HOSTS[source]
        inside = (
            decrement_ttl(sent) if source in self.uplinks else bridge_entry(sent, self.group, source, member)
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


class EveryMemberGetsItsOwnCopy(DataTest):
    def runTest(self) -> None:
        sent = self.sent(psn=0, body=b"one write reaches all")
        got = self.exchange(1, sent.frame())
        self.assert_frames(got, self.copies(sent))
        for port in (2, 3, 4):
            (frame,) = got[port]
            self.assertTrue(is_icrc_valid(frame[14:]))
            self.assertEqual(frame[-4:], sent.frame()[-4:], "the ICRC itself is not modified")


class PayloadsOfAnyLengthKeepTheirIcrc(DataTest):
    def runTest(self) -> None:
        source = random.Random(7)
        for psn, length in enumerate((0, 1, 3, 4, 64, 255, 1000, 1024, 2048, 4096)):
            with self.subTest(length=length):
                sent = self.sent(
                    psn=psn,
                    body=source.randbytes(length),
                    ident=source.randrange(1 << 16),
                    sport=source.randrange(0xC000, 1 << 16),
                    tos=source.randrange(256) & 0xFC,
                )
                self.assert_frames(self.exchange(1, sent.frame()), self.copies(sent))


class FirstPacketOfAWriteHasEachMembersRegion(DataTest):
    def runTest(self) -> None:
        group = self.group
        for psn, opcode in enumerate((packets.WRITE_FIRST, packets.WRITE_ONLY, packets.WRITE_ONLY_IMM)):
            with self.subTest(opcode=opcode):
                immediate = b"\x01\x02\x03\x04" if opcode == packets.WRITE_ONLY_IMM else b""
                body = reth(group.va + 0x1000, group.r_key, 8192) + immediate + bytes(range(256)) * 4
                sent = self.sent(psn=psn, opcode=opcode, body=body)
                got = self.exchange(1, sent.frame())
                self.assert_frames(got, self.copies(sent))
                # Checks bytes directly instead of by the model: the RETH is at offset 14 + 20 + 8 + 12.
                self.assertEqual(got[3][0][54:62], (HOSTS[3].va + 0x1000).to_bytes(8, "big"))
                self.assertEqual(got[3][0][62:66], HOSTS[3].r_key.to_bytes(4, "big"))


class LaterPacketsOfAMessageAreBridgedWithoutReth(DataTest):
    def runTest(self) -> None:
        opcodes = (
            *(packets.SEND_FIRST, packets.SEND_MIDDLE, packets.SEND_LAST),
            *(packets.WRITE_MIDDLE, packets.WRITE_LAST),
        )
        for psn, opcode in enumerate(opcodes):
            with self.subTest(opcode=opcode):
                sent = self.sent(psn=psn, opcode=opcode, ackreq=psn & 1, body=b"\xa5" * 1024)
                self.assert_frames(self.exchange(1, sent.frame()), self.copies(sent))


class AnyMemberMaySend(DataTest):
    """In a new group, the member that sends first becomes the source."""

    def runTest(self) -> None:
        for source in PORTS:
            with self.subTest(source=source):
                self.start_group()
                host = HOSTS[source]
                sent = self.sent(eth_src=host.mac, src=host.ip, body=b"from another")
                self.assert_frames(self.exchange(source, sent.frame()), self.copies(sent, source))


class CopyToASwitchIsNotBridged(DataTest):
    uplinks = (4,)

    def runTest(self) -> None:
        sent = self.sent(body=b"up")
        got = self.exchange(1, sent.frame())
        self.assert_frames(got, self.copies(sent))
        self.assertEqual(got[4][0][26:30], got[4][0][30:34], "source and destination are the McstID")


class PacketFromASwitchIsBridgedOnlyAtTheExit(DataTest):
    uplinks = (1,)

    def runTest(self) -> None:
        sent = self.sent(src=self.group.mcst_id, body=b"down")
        self.assert_frames(self.exchange(1, sent.frame()), self.copies(sent))


class GroupOfTwoHasOneReceiver(DataTest):
    ports = (1, 3)

    def runTest(self) -> None:
        sent = self.sent(body=b"alone")
        self.assert_frames(self.exchange(1, sent.frame()), self.copies(sent))
