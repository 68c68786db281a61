"""Isolation: packets of hosts that are not members are dropped, and counted by reason."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest, SwitchTest, with_each_min_psn
from alfirk_ptf.contract import Drop
from alfirk_ptf.group import Entry
from alfirk_ptf.packets import (
    VIRTUAL_MAC,
    Roce,
    arp_request,
    bridge_entry,
    bridge_exit,
    feedback,
    local_ack,
    merged_ack,
    reth,
)
from alfirk_ptf.target import Feature, needs
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw


class NonMemberTest(GroupTest):
    """Host 1 has sent a packet to hosts 2 and 3; host 4 is not a member."""

    ports = (1, 2, 3)

    def start_group(self) -> None:
        super().start_group()
        self.exchange(1, self.sent().frame())

    def sent(self, **fields: object) -> Roce:
        host = HOSTS[1]
        base = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, body=b"x")
        return replace(base, **fields)  # type: ignore[arg-type]

    def sent_by(self, port: int, **fields: object) -> Roce:
        return self.sent(eth_src=HOSTS[port].mac, src=HOSTS[port].ip, **fields)

    def report(self, **fields: object) -> Roce:
        return replace(feedback(HOSTS[2], self.group, packets.ACK, 0), **fields)  # type: ignore[arg-type]

    def assert_group_unchanged(self) -> None:
        """Check that the group works as before: its first packet is acknowledged by the ACKs of both."""
        self.assert_frames(self.exchange(2, self.report().frame()), {})
        last = feedback(HOSTS[3], self.group, packets.ACK, 0)
        to_source = merged_ack(bridge_entry(last, self.group, 3, HOSTS[3]), 0, msn=1)
        self.expect(3, last.frame(), p1=bridge_exit(to_source, self.group, 1, HOSTS[1]).frame())


@with_each_min_psn
class DataOfNonMembersIsDropped(NonMemberTest):
    def runTest(self) -> None:
        new = 1
        for what, reason, port, packet in (
            ("address of no member", Drop.NOT_A_MEMBER, 1, self.sent(psn=new, src="10.0.0.99")),
            ("a member's address on another's port", Drop.NOT_A_MEMBER, 2, self.sent(psn=new)),
            (
                "the McstID as a host's source",
                Drop.NOT_A_MEMBER,
                1,
                self.sent(psn=new, src=self.group.mcst_id),
            ),
            ("port outside the tree", Drop.NOT_A_PATH, 4, self.sent(psn=new, src=HOSTS[4].ip)),
            ("a member's address outside the tree", Drop.NOT_A_PATH, 4, self.sent(psn=new)),
            ("another queue pair", Drop.WRONG_QPN, 1, self.sent(psn=new, dqpn=2)),
            ("a member's own queue pair", Drop.WRONG_QPN, 1, self.sent(psn=new, dqpn=HOSTS[2].qpn)),
            ("another partition", Drop.WRONG_PKEY, 1, self.sent(psn=new, pkey=0x8001)),
            ("TTL 1", Drop.TTL_EXPIRED, 1, self.sent(psn=new, ttl=1)),
            ("a member that is not the source", Drop.NOT_THE_SOURCE, 2, self.sent_by(2, psn=100)),
            (
                "a member that is not the source, with an old PSN",
                Drop.NOT_THE_SOURCE,
                2,
                self.sent_by(2, psn=0),
            ),
        ):
            with self.subTest(what):
                self.expect_drop(reason, port, packet.frame())
        self.assert_group_unchanged()


@with_each_min_psn
class FeedbackOfNonMembersIsDropped(NonMemberTest):
    def runTest(self) -> None:
        good = self.report()
        wrong = good.frame()
        for what, reason, port, frame in (
            ("address of no member", Drop.NOT_A_MEMBER, 2, self.report(src="10.0.0.77").frame()),
            ("a member's address on another's port", Drop.NOT_A_MEMBER, 3, good.frame()),
            (
                "the McstID as a host's source",
                Drop.NOT_A_MEMBER,
                2,
                self.report(src=self.group.mcst_id).frame(),
            ),
            ("port outside the tree", Drop.NOT_A_PATH, 4, good.frame()),
            ("another queue pair", Drop.WRONG_QPN, 2, self.report(dqpn=7).frame()),
            ("wrong ICRC", Drop.FEEDBACK_ICRC, 2, wrong[:-1] + bytes([wrong[-1] ^ 0x80])),
            (
                "reserved syndrome",
                Drop.RESERVED_SYNDROME,
                2,
                self.report(body=packets.aeth(0x40, 1)).frame(),
            ),
        ):
            with self.subTest(what):
                self.expect_drop(reason, port, frame)
        self.assert_group_unchanged()


@with_each_min_psn
class PacketsForAnEarlierGroupAreDropped(NonMemberTest):
    """A new group has the McstID, index and members of a deleted one, whose queue pairs still exist.

    If the switch accepted their packets, one with the next PSN would make its sender the source.
    """

    def runTest(self) -> None:
        mark = self.switch.mark()
        self.start_group()
        self.switch.undo(mark)
        old = self.group
        self.group = replace(old, virtual_qpn=old.virtual_qpn + 1)
        self.install()
        late = old.virtual_qpn
        cnp = self.report(opcode=packets.CNP, becn=1, body=bytes(16), dqpn=late)
        for what, port, packet in (
            ("data with the next PSN", 1, self.sent(psn=1, dqpn=late)),
            ("retransmission", 1, self.sent(psn=0, dqpn=late)),
            ("data of another member", 3, self.sent_by(3, psn=77, dqpn=late)),
            ("ACK", 2, self.report(dqpn=late)),
            ("NAK", 2, replace(feedback(HOSTS[2], self.group, packets.NAK_SEQUENCE, 0), dqpn=late)),
            ("fatal NAK", 2, replace(feedback(HOSTS[2], self.group, packets.NAK_ACCESS, 0), dqpn=late)),
            ("CNP", 2, cnp),
        ):
            with self.subTest(what):
                if packet is cnp:
                    needs(Feature.CONGESTION)
                self.expect_drop(Drop.WRONG_QPN, port, packet.frame())
        self.assertEqual({2, 3}, set(self.exchange(1, self.sent(dqpn=self.group.virtual_qpn).frame())))
        own = self.group.virtual_qpn
        self.assert_frames(self.exchange(2, self.report(dqpn=own).frame()), {})
        to_source = self.exchange(
            3, replace(feedback(HOSTS[3], self.group, packets.ACK, 0), dqpn=own).frame()
        )
        self.assertEqual({1}, set(to_source))


class CnpsOfNonMembersAreDropped(NonMemberTest):
    features = (Feature.CONGESTION,)

    def runTest(self) -> None:
        cnp = self.report(opcode=packets.CNP, becn=1, body=bytes(16))
        self.expect_drop(Drop.NOT_A_MEMBER, 3, cnp.frame())
        self.expect_drop(Drop.NOT_A_PATH, 4, cnp.frame())
        self.expect_drop(Drop.WRONG_QPN, 2, replace(cnp, dqpn=3).frame())


class OtherTransportsAreDropped(NonMemberTest):
    def runTest(self) -> None:
        for what, opcode in (
            ("read response", 0x0D),
            ("atomic acknowledge", 0x12),
            ("unreliable connection", 0x24),
            ("unreliable datagram", 0x64),
            ("extended reliable connection", 0xA4),
        ):
            with self.subTest(what):
                sent = self.sent(psn=1, opcode=opcode, body=bytes(40))
                self.expect_drop(Drop.UNSUPPORTED_OPCODE, 1, sent.frame())
        head = Ether(src=HOSTS[1].mac, dst=VIRTUAL_MAC) / IP(src=HOSTS[1].ip, dst=self.group.mcst_id)
        for what, packet in (
            ("ping", head / ICMP() / b"?"),
            ("another port", head / UDP(sport=5, dport=4789) / Raw(bytes(40))),
            ("TCP", head / TCP(dport=4791)),
        ):
            with self.subTest(what):
                self.expect_drop(Drop.UNSUPPORTED_OPCODE, 1, bytes(packet))
        self.assert_group_unchanged()


class FragmentsAndIpOptionsAreDropped(NonMemberTest):
    def runTest(self) -> None:
        for what, changes in (
            ("the first fragment", {"flags": "MF"}),
            ("a later fragment", {"flags": 0, "frag": 10}),
            ("options", {"options": [IPOption(b"\x94\x04\x00\x00")]}),
        ):
            with self.subTest(what):
                packet = Ether(self.sent(psn=1).frame())
                for name, value in changes.items():
                    setattr(packet[IP], name, value)
                for name in ("chksum", "ihl", "len"):
                    delattr(packet[IP], name)
                self.expect_drop(Drop.FRAGMENT, 1, bytes(packet))
        self.assert_group_unchanged()


@with_each_min_psn
class UnsupportedRequestGetsAFatalNak(NonMemberTest):
    """The first switch rejects READ and ATOMIC with a fatal NAK, which acknowledges no new packet."""

    features = (Feature.REFUSALS,)

    def runTest(self) -> None:
        for opcode, body in ((packets.READ_REQUEST, reth(0, 0, 8)), (packets.FETCH_ADD, bytes(28))):
            for port, psn, named in ((1, 1, 0), (2, 7, 0)):
                with self.subTest(opcode=opcode, port=port):
                    sent = self.sent_by(port, psn=psn, opcode=opcode, body=body)
                    inside = bridge_entry(sent, self.group, port, HOSTS[port])
                    nak = local_ack(inside, named, packets.NAK_INVALID, msn=0)
                    self.expect(
                        port,
                        sent.frame(),
                        **{f"p{port}": bridge_exit(nak, self.group, port, HOSTS[port]).frame()},
                    )
        self.assert_group_unchanged()


@with_each_min_psn
class DataOfAReceiveOnlyMemberIsDropped(NonMemberTest):
    only_receive = (3,)

    def runTest(self) -> None:
        for port in (2, 3):
            self.exchange(port, feedback(HOSTS[port], self.group, packets.ACK, 0).frame())
        self.expect_drop(Drop.MAY_NOT_SEND, 3, self.sent_by(3, psn=1).frame())
        self.assertEqual(set(self.exchange(2, self.sent_by(2, psn=1).frame())), {1, 3})


@with_each_min_psn
class FeedbackBeyondSentPacketsIsDropped(NonMemberTest):
    """Also for PSNs half the number space ahead, where serial numbers have no order."""

    def runTest(self) -> None:
        for syndrome, psn in (
            (packets.ACK, 1),
            (packets.ACK, (1 << 23) - 1),
            (packets.NAK_SEQUENCE, 2),
            (packets.RNR_NAK, 1000),
            (packets.NAK_ACCESS, 2),
        ):
            with self.subTest(syndrome=syndrome, psn=psn):
                self.expect_drop(Drop.BEYOND_SENT, 2, feedback(HOSTS[2], self.group, syndrome, psn).frame())
        self.assert_group_unchanged()


@with_each_min_psn
class NewSourceMustContinueItsPathAndTheGroup(NonMemberTest):
    """A member becomes the source with the next PSN, if its path has acknowledged all earlier packets."""

    def runTest(self) -> None:
        new = self.sent_by(3, psn=1).frame()
        self.expect_drop(Drop.NOT_THE_SOURCE, 3, new)
        self.exchange(3, feedback(HOSTS[3], self.group, packets.ACK, 0).frame())
        self.expect_drop(Drop.NOT_THE_SOURCE, 3, self.sent_by(3, psn=2).frame())
        self.assertEqual(set(self.exchange(3, new)), {1, 2})


class VlanTaggedPacketsAreForwarded(NonMemberTest):
    """Copies and ACKs for the source have the tags of the data: priority tags, VLANs, stacked tags."""

    features = (Feature.TAGS,)

    def runTest(self) -> None:
        for psn, tags in enumerate(
            (((0x8100, 0x6000),), ((0x8100, 0x2005),), ((0x88A8, 7), (0x8100, 9))), start=1
        ):
            with self.subTest(tags=tags):
                sent = self.sent(psn=psn, tags=tags, checksum=0x1234)
                inside = bridge_entry(sent, self.group, 1, HOSTS[1])
                copies = {p: [bridge_exit(inside, self.group, p, HOSTS[p]).frame()] for p in (2, 3)}
                self.assert_frames(self.exchange(1, sent.frame()), copies)
                first = replace(feedback(HOSTS[2], self.group, packets.ACK, psn), tags=tags)
                self.assert_frames(self.exchange(2, first.frame()), {})
                last = replace(feedback(HOSTS[3], self.group, packets.ACK, psn), tags=((0x8100, 0x123),))
                # The merged ACK has the tags of the source's data, not those of the member's ACK.
                merged = merged_ack(bridge_entry(last, self.group, 3, HOSTS[3]), psn, msn=1)
                to_source = replace(merged, tags=tags)
                self.expect(3, last.frame(), p1=bridge_exit(to_source, self.group, 1, HOSTS[1]).frame())
                answer = replace(local_ack(inside, psn, msn=1), tags=tags)
                self.expect(1, sent.frame(), p1=bridge_exit(answer, self.group, 1, HOSTS[1]).frame())


class InvalidIpChecksumIsDropped(NonMemberTest):
    def runTest(self) -> None:
        frame = bytearray(self.sent(psn=1).frame())
        frame[24] ^= 1
        self.expect_drop(Drop.IPV4_CHECKSUM, 1, bytes(frame))
        self.assert_group_unchanged()


class FabricPortsAcceptOnlyPacketsOfTheFabric(NonMemberTest):
    """Between switches, both IP addresses of a group's packets are the McstID."""

    uplinks = (1,)

    def start_group(self) -> None:
        super(NonMemberTest, self).start_group()

    def runTest(self) -> None:
        self.expect_drop(Drop.NOT_A_MEMBER, 1, self.sent().frame())
        self.expect_drop(Drop.WRONG_QPN, 1, self.sent(src=self.group.mcst_id, dqpn=5).frame())


class TruncatedPacketsAreDropped(NonMemberTest):
    def runTest(self) -> None:
        for what, frame, left in (
            ("in the BTH", self.sent(psn=1).frame(), 50),
            ("in the RETH", self.sent(psn=1, opcode=packets.WRITE_ONLY, body=reth(0, 0, 0)).frame(), 62),
            ("in the AETH", self.report().frame(), 56),
            ("in the ICRC of an ACK", self.report().frame(), 60),
        ):
            with self.subTest(what):
                self.expect_drop(Drop.PARSER_ERROR, 1 if "ACK" not in what else 2, frame[:left])
        self.assert_group_unchanged()


class GuardTest(SwitchTest):
    """The hosts behind ports 1 and 2 are bound to their addresses; port 4 leads to a switch."""

    def setUp(self) -> None:
        super().setUp()
        for port in (1, 2):
            self.switch.insert(
                Entry(
                    "ingress.source_guard.hosts",
                    {"ingress_port": port},
                    "ingress.source_guard.attached",
                    {"ip": int(IPv4Address(HOSTS[port].ip))},
                )
            )
        self.switch.insert(
            Entry(
                "ingress.ipv4_routing.routes",
                {"dst_ip": (int(IPv4Address(HOSTS[3].ip)), 32)},
                "ingress.ipv4_routing.to_switch",
                {"port": 3},
            ),
            Entry(
                "ingress.arp_responder.arp_targets",
                {"target_ip": (int(IPv4Address("10.255.0.0")), 16)},
                "ingress.arp_responder.reply",
                {"mac": int(VIRTUAL_MAC.replace(":", ""), 16)},
            ),
        )

    def packet(self, source: str) -> bytes:
        ether = Ether(src=HOSTS[1].mac, dst=VIRTUAL_MAC)
        return bytes(ether / IP(src=source, dst=HOSTS[3].ip) / UDP(sport=7, dport=7) / Raw(b"mine?"))


class HostMaySendOnlyFromItsOwnAddress(GuardTest):
    def runTest(self) -> None:
        for source in (HOSTS[2].ip, "10.255.0.1", "0.0.0.0", "192.0.2.1"):
            with self.subTest(source):
                self.expect_drop(Drop.SPOOFED_SOURCE, 1, self.packet(source))
        self.assertEqual(list(self.exchange(1, self.packet(HOSTS[1].ip))), [3])


class PortToASwitchAcceptsAnySource(GuardTest):
    def runTest(self) -> None:
        self.assertEqual(list(self.exchange(4, self.packet(HOSTS[2].ip))), [3])


class HostMayNotSendFromAMcstId(GuardTest):
    """The packet is sent directly to a receiver's queue pair, which would accept the address."""

    def runTest(self) -> None:
        spoofed = Roce(eth_src=HOSTS[1].mac, src="10.255.0.1", dst=HOSTS[3].ip, dqpn=HOSTS[3].qpn, body=b"x")
        self.expect_drop(Drop.SPOOFED_SOURCE, 1, spoofed.frame())


class ArpWithASpoofedSenderIsDropped(GuardTest):
    def runTest(self) -> None:
        requester = HOSTS[1]
        for sender in (HOSTS[2].ip, "10.255.0.3"):
            with self.subTest(sender):
                self.expect_drop(
                    Drop.SPOOFED_SOURCE, 1, bytes(arp_request(requester, "10.255.0.9", sender_ip=sender))
                )
        answer = Ether(src=VIRTUAL_MAC, dst=requester.mac) / ARP(
            op="is-at", hwsrc=VIRTUAL_MAC, psrc="10.255.0.9", hwdst=requester.mac, pdst=requester.ip
        )
        self.expect(1, bytes(arp_request(requester, "10.255.0.9")), p1=bytes(answer))
        # An ARP probe (RFC 5227) has sender address 0.0.0.0, which does not count as spoofed.
        self.expect_drop(
            Drop.ARP_NOT_FOR_US, 1, bytes(arp_request(requester, "10.255.0.9", sender_ip="0.0.0.0"))
        )


class RegistrationWithASpoofedSourceIsDropped(GuardTest):
    def runTest(self) -> None:
        frame = Ether(src=HOSTS[1].mac, dst=VIRTUAL_MAC) / IP(src=HOSTS[2].ip, dst="10.255.0.9")
        self.expect_drop(Drop.SPOOFED_SOURCE, 1, bytes(frame / UDP(sport=4790, dport=4790) / Raw(bytes(24))))
