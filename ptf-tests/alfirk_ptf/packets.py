"""RoCEv2 packets as hosts send them, and as the switch is to forward them.

An expected packet is the sent one with each changed field given by name; scapy computes its IPv4 checksum and
ICRC.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils import checksum

from alfirk_ptf import contract, icrc
from alfirk_ptf.contract import ACK_TTL, FEEDBACK_TTL, FEEDBACK_UDP_SOURCE_PORT, MR_INFO_RKEY
from alfirk_ptf.group import VIRTUAL_QPN, Group, Member

ROCE_PORT = contract.UDP_PORT_ROCEV2
#: The MAC address of the fabric towards hosts.
VIRTUAL_MAC = contract.VIRTUAL_MAC.to_bytes(6, "big").hex(":")

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, ACKNOWLEDGE, FETCH_ADD, CNP = 0x0C, 0x11, 0x14, 0x81

#: AETH syndromes.
ACK = 0x1F
NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, NAK_OPERATIONAL = 0x60, 0x61, 0x62, 0x63
RNR_NAK = 0x2E

PSN_LIMIT = 1 << 24


@dataclass(frozen=True)
class Roce:
    """A RoCEv2 packet, field by field."""

    eth_dst: str = VIRTUAL_MAC
    eth_src: str = "02:00:00:00:00:01"
    src: str = "10.0.0.1"
    dst: str = "10.255.0.1"
    tos: int = 0
    ident: int = 0x1234
    ttl: int = 64
    sport: int = 0xC123
    opcode: int = SEND_ONLY
    solicited: int = 0
    migreq: int = 1
    padcount: int = 0
    becn: int = 0
    dqpn: int = VIRTUAL_QPN
    ackreq: int = 0
    psn: int = 0
    #: Extended headers and payload, without the ICRC.
    body: bytes = b""
    checksum: int = 0
    pkey: int = 0xFFFF
    #: VLAN tags, outermost first: EtherType and VLAN.
    tags: tuple[tuple[int, int], ...] = ()

    def frame(self) -> bytes:
        """Build the frame, with valid IPv4 checksum and ICRC."""
        frame = (
            Ether(dst=self.eth_dst, src=self.eth_src)
            / IP(src=self.src, dst=self.dst, tos=self.tos, id=self.ident, flags="DF", ttl=self.ttl)
            / UDP(sport=self.sport, dport=ROCE_PORT, chksum=self.checksum)
            / BTH(
                opcode=self.opcode,
                solicited=self.solicited,
                migreq=self.migreq,
                padcount=self.padcount,
                pkey=self.pkey,
                becn=self.becn,
                dqpn=self.dqpn,
                ackreq=self.ackreq,
                psn=self.psn % PSN_LIMIT,
            )
            / Raw(self.body)
        )
        # scapy's BTH computes its ICRC only directly above IP and UDP, so the tags are inserted afterwards.
        untagged = bytes(frame)
        tags = b"".join(struct.pack("!HH", ether_type, vlan) for ether_type, vlan in self.tags)
        return untagged[:12] + tags + untagged[12:]


def with_changed_bytes(frame: bytes, *changes: tuple[int, bytes]) -> bytes:
    """Write bytes at offsets of an untagged RoCEv2 frame, and update IPv4 checksum and ICRC."""
    changed = bytearray(frame)
    for offset, value in changes:
        changed[offset : offset + len(value)] = value
    changed[24:26] = bytes(2)
    changed[24:26] = checksum(bytes(changed[14:34])).to_bytes(2, "big")
    changed[-4:] = icrc.icrc(bytes(changed[14:-4]))
    return bytes(changed)


def reth(va: int, r_key: int, length: int) -> bytes:
    """Build a RETH: virtual address, R_Key and length of a WRITE."""
    return va.to_bytes(8, "big") + r_key.to_bytes(4, "big") + length.to_bytes(4, "big")


def mr_info(member: Member, sent: tuple[int, int], received: tuple[int, int]) -> bytes:
    """Build the body that announces to a member's leaf the region of the next WRITE to `sent`.

    Both are virtual address and R_Key; the format is that of `roce/src/wire/mr_info.rs`.
    """
    va_xor, rkey_xor = sent[0] ^ received[0], sent[1] ^ received[1]
    neutral = icrc.solve({icrc.VIRTUAL_ADDRESS: va_xor, icrc.R_KEY: rkey_xor})
    differences = struct.pack("!QIHH", va_xor, rkey_xor, neutral.id_xor, neutral.sport_xor)
    return reth(int(IPv4Address(member.ip)), MR_INFO_RKEY, len(differences)) + differences


def aeth(syndrome: int, msn: int) -> bytes:
    """Build an AETH: syndrome and MSN of an acknowledgement."""
    return bytes(AETH(syndrome=syndrome, msn=msn))


def feedback(member: Member, group: Group, syndrome: int, psn: int, msn: int = 1) -> Roce:
    """Build an ACK or NAK as a member's RNIC sends it."""
    return Roce(
        eth_src=member.mac,
        src=member.ip,
        dst=group.mcst_id,
        sport=0xC000 + member.qpn % 0x1000,
        ident=0x4000 + psn % 0x1000,
        opcode=ACKNOWLEDGE,
        psn=psn,
        body=aeth(syndrome, msn),
    )


def bridge_entry(packet: Roce, group: Group, port: int, member: Member) -> Roce:
    """Apply the entry half of the bridge: return the packet as switches forward it, one hop later."""
    params = group.entry_half(port, member).params
    return replace(
        packet,
        ttl=packet.ttl - 1,
        checksum=0,
        src=group.mcst_id,
        ident=packet.ident ^ params["id_xor"],
        sport=packet.sport ^ params["sport_xor"],
    )


def decrement_ttl(packet: Roce) -> Roce:
    """Return a packet of another switch one hop later."""
    return replace(packet, ttl=packet.ttl - 1)


def bridge_exit(packet: Roce, group: Group, port: int, member: Member) -> Roce:
    """Apply the exit half of the bridge: return the packet as a member receives it."""
    params = group.exit_half(port, member).params
    with_reth = packet.opcode in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM)
    prefix = "reth_" if with_reth else ""
    body = packet.body
    if with_reth:
        va = int.from_bytes(body[:8], "big") ^ params["va_xor"]
        r_key = int.from_bytes(body[8:12], "big") ^ params["rkey_xor"]
        body = va.to_bytes(8, "big") + r_key.to_bytes(4, "big") + body[12:]
    return replace(
        packet,
        eth_src=VIRTUAL_MAC,
        eth_dst=member.mac,
        dst=member.ip,
        dqpn=member.qpn,
        ident=packet.ident ^ params[f"{prefix}id_xor"],
        sport=packet.sport ^ params[f"{prefix}sport_xor"],
        body=body,
    )


def merged_feedback(packet: Roce, ttl: int = FEEDBACK_TTL) -> Roce:
    """Build the feedback that a switch makes of a packet, which has only opcode, PSN and AETH in common."""
    return Roce(
        eth_dst=VIRTUAL_MAC,
        eth_src=VIRTUAL_MAC,
        src=packet.dst,
        dst=packet.dst,
        ident=0,
        ttl=ttl,
        sport=FEEDBACK_UDP_SOURCE_PORT,
        opcode=packet.opcode,
        dqpn=packet.dqpn,
        psn=packet.psn,
        body=packet.body,
    )


def merged_ack(packet: Roce, psn: int, syndrome: int = ACK, msn: int = 0) -> Roce:
    """Build the acknowledgement of `psn` that a switch makes of feedback for the source."""
    return replace(merged_feedback(packet), opcode=ACKNOWLEDGE, psn=psn, body=aeth(syndrome, msn))


def local_ack(packet: Roce, psn: int, syndrome: int = ACK, msn: int = 0) -> Roce:
    """Build the acknowledgement that a switch itself sends for a request, with the initial TTL."""
    return replace(merged_ack(packet, psn, syndrome, msn), ttl=ACK_TTL)


def merged_cnp(packet: Roce) -> Roce:
    """Build the CNP that a switch forwards to the source for a member's CNP."""
    return replace(merged_feedback(packet), becn=1, psn=0, body=bytes(16))


def arp_request(requester: Member, target: str, sender_ip: str | None = None) -> Ether:
    """Build an ARP request for an address."""
    return Ether(src=requester.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(
        op="who-has", hwsrc=requester.mac, psrc=requester.ip if sender_ip is None else sender_ip, pdst=target
    )
