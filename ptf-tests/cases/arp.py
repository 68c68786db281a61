"""ARP: the switch replies to requests for addresses of the fabric, and to no others."""

from __future__ import annotations

from ipaddress import IPv4Address

from alfirk_ptf.case import HOSTS, SwitchTest
from alfirk_ptf.group import Entry
from alfirk_ptf.packets import VIRTUAL_MAC, arp_request
from scapy.layers.l2 import ARP, Ether


class ArpTest(SwitchTest):
    def setUp(self) -> None:
        super().setUp()
        self.switch.insert(
            *(
                Entry(
                    "ingress.arp_responder.arp_targets",
                    {"target_ip": (int(IPv4Address(address)), prefix)},
                    "ingress.arp_responder.reply",
                    {"mac": int(mac.replace(":", ""), 16)},
                )
                for address, prefix, mac in (
                    ("10.255.0.0", 16, VIRTUAL_MAC),
                    ("10.255.7.7", 32, "02:00:00:00:77:77"),
                )
            )
        )


class RequestForAGroupAddressGetsTheVirtualMac(ArpTest):
    def runTest(self) -> None:
        requester = HOSTS[2]
        reply = Ether(src=VIRTUAL_MAC, dst=requester.mac) / ARP(
            op="is-at", hwsrc=VIRTUAL_MAC, psrc="10.255.0.9", hwdst=requester.mac, pdst=requester.ip
        )
        self.expect(2, bytes(arp_request(requester, "10.255.0.9")), p2=bytes(reply))


class LongerPrefixWins(ArpTest):
    def runTest(self) -> None:
        requester = HOSTS[1]
        reply = Ether(src="02:00:00:00:77:77", dst=requester.mac) / ARP(
            op="is-at", hwsrc="02:00:00:00:77:77", psrc="10.255.7.7", hwdst=requester.mac, pdst=requester.ip
        )
        self.expect(1, bytes(arp_request(requester, "10.255.7.7")), p1=bytes(reply))


class RequestForAnUnknownAddressGetsNoReply(ArpTest):
    def runTest(self) -> None:
        self.expect(1, bytes(arp_request(HOSTS[1], "10.254.0.1")))


class ProbesAndAnnouncementsGetNoReply(ArpTest):
    """A host would take a reply as a conflict with its own address (RFC 5227)."""

    def runTest(self) -> None:
        self.expect(1, bytes(arp_request(HOSTS[1], "10.255.0.9", sender_ip="0.0.0.0")))
        self.expect(1, bytes(arp_request(HOSTS[1], "10.255.0.9", sender_ip="10.255.0.9")))


class RepliesGetNoReply(ArpTest):
    def runTest(self) -> None:
        reply = arp_request(HOSTS[1], "10.255.0.9")
        reply[ARP].op = 2
        self.expect(1, bytes(reply))


class RequestsForOtherNetworksGetNoReply(ArpTest):
    """Of other hardware than Ethernet (IEEE 802), and of other protocols than IPv4."""

    def runTest(self) -> None:
        for field, value in (("hwtype", 6), ("ptype", 0x86DD)):
            with self.subTest(field=field):
                request = arp_request(HOSTS[1], "10.255.0.9")
                setattr(request[ARP], field, value)
                self.expect(1, bytes(request))
