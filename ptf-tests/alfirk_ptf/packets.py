"""RoCEv2 packets as hosts send them, and what should become of them.

An expected packet is the sent one with each changed field named; IPv4 checksum and ICRC of what is expected
are computed by scapy from the result, never taken from the switch.
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
#: The one address by which hosts see the fabric.
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
    #: Extended headers and payload; the trailer is added.
    body: bytes = b""
    checksum: int = 0
    pkey: int = 0xFFFF
    #: VLAN tags, outermost first: EtherType and VLAN.
    tags: tuple[tuple[int, int], ...] = ()

    def frame(self) -> bytes:
        """Build the frame with right checksum and ICRC."""
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
        # scapy's BTH knows its ICRC below IP alone, so the tags go in afterwards.
        untagged = bytes(frame)
        tags = b"".join(struct.pack("!HH", ether_type, vlan) for ether_type, vlan in self.tags)
        return untagged[:12] + tags + untagged[12:]


def with_changed_bytes(frame: bytes, *changes: tuple[int, bytes]) -> bytes:
    """Write bytes at offsets of an untagged RoCEv2 frame, and make IPv4 checksum and ICRC right again."""
    changed = bytearray(frame)
    for offset, value in changes:
        changed[offset : offset + len(value)] = value
    changed[24:26] = bytes(2)
    changed[24:26] = checksum(bytes(changed[14:34])).to_bytes(2, "big")
    changed[-4:] = icrc.icrc(bytes(changed[14:-4]))
    return bytes(changed)


def reth(va: int, r_key: int, length: int) -> bytes:
    """Build the header that says where a WRITE goes."""
    return va.to_bytes(8, "big") + r_key.to_bytes(4, "big") + length.to_bytes(4, "big")


def mr_info(member: Member, sent: tuple[int, int], received: tuple[int, int]) -> bytes:
    """Build what tells a member's leaf where the next WRITE to `sent` (address and R_Key) is to go there.

    As `roce/src/wire/mr_info.rs` has it.
    """
    va_xor, rkey_xor = sent[0] ^ received[0], sent[1] ^ received[1]
    neutral = icrc.solve({icrc.VIRTUAL_ADDRESS: va_xor, icrc.R_KEY: rkey_xor})
    differences = struct.pack("!QIHH", va_xor, rkey_xor, neutral.id_xor, neutral.sport_xor)
    return reth(int(IPv4Address(member.ip)), MR_INFO_RKEY, len(differences)) + differences


def aeth(syndrome: int, msn: int) -> bytes:
    """Build the header of an acknowledgement."""
    return bytes(AETH(syndrome=syndrome, msn=msn))


def feedback(member: Member, group: Group, syndrome: int, psn: int, msn: int = 1) -> Roce:
    """Build an ACK or NAK as a member's NIC sends it."""
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
    """Apply the entry half of the bridge: what the packet is inside the fabric, one hop further."""
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
    """Take a packet of another switch one hop further inside the fabric."""
    return replace(packet, ttl=packet.ttl - 1)


def bridge_exit(packet: Roce, group: Group, port: int, member: Member) -> Roce:
    """Apply the exit half of the bridge: what reaches a member."""
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
    """Build the feedback that a switch makes of a packet: all but opcode, PSN and AETH is the group's."""
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
    """Turn a packet on its way to the source into an acknowledgement of `psn`."""
    return replace(merged_feedback(packet), opcode=ACKNOWLEDGE, psn=psn, body=aeth(syndrome, msn))


def local_ack(packet: Roce, psn: int, syndrome: int = ACK, msn: int = 0) -> Roce:
    """Turn a request into the switch's own acknowledgement, whose way begins here."""
    return replace(merged_ack(packet, psn, syndrome, msn), ttl=ACK_TTL)


def merged_cnp(packet: Roce) -> Roce:
    """Turn a member's CNP into the one that the source gets."""
    return replace(merged_feedback(packet), becn=1, psn=0, body=bytes(16))


def arp_request(requester: Member, target: str, sender_ip: str | None = None) -> Ether:
    """Ask who has an address."""
    return Ether(src=requester.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(
        op="who-has", hwsrc=requester.mac, psrc=requester.ip if sender_ip is None else sender_ip, pdst=target
    )
