"""Unicast IPv4: routes to hosts and switches, equal-cost multipath, and drop reasons."""

from __future__ import annotations

import random
from ipaddress import IPv4Address

from alfirk_ptf.case import HOSTS, SwitchTest
from alfirk_ptf.collect import PORTS
from alfirk_ptf.contract import Drop
from alfirk_ptf.group import Entry
from alfirk_ptf.packets import VIRTUAL_MAC
from alfirk_ptf.target import TARGET
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

_ROUTES = "ingress.ipv4_routing.routes"


class UnicastTest(SwitchTest):
    def route(self, address: str, prefix: int, action: str, **params: int) -> None:
        match = {"dst_ip": (int(IPv4Address(address)), prefix)}
        self.switch.insert(Entry(_ROUTES, match, f"ingress.ipv4_routing.{action}", params))

    def packet(self, destination: str, *, sport: int = 5000, ttl: int = 64) -> Packet:
        return (
            Ether(src=HOSTS[1].mac, dst=VIRTUAL_MAC)
            / IP(src=HOSTS[1].ip, dst=destination, ttl=ttl, id=77)
            / UDP(sport=sport, dport=5001)
            / Raw(b"to one only")
        )


class PacketToAHostHasItsMacAndADecrementedTtl(UnicastTest):
    def runTest(self) -> None:
        host = HOSTS[3]
        self.route(host.ip, 32, "to_host", port=3, mac=int(host.mac.replace(":", ""), 16))
        sent = self.packet(host.ip)
        expected = sent.copy()
        expected[Ether].src = VIRTUAL_MAC
        expected[Ether].dst = host.mac
        expected[IP].ttl = 63
        self.expect(1, bytes(sent), p3=bytes(expected))


class PacketToASwitchHasADecrementedTtl(UnicastTest):
    def runTest(self) -> None:
        self.route("10.1.0.0", 16, "to_switch", port=4)
        sent = self.packet("10.1.2.3")
        expected = sent.copy()
        expected[IP].ttl = 63
        self.expect(1, bytes(sent), p4=bytes(expected))


class LongestPrefixWins(UnicastTest):
    def runTest(self) -> None:
        self.route("10.1.0.0", 16, "to_switch", port=4)
        self.route("10.1.2.0", 24, "to_switch", port=3)
        self.route("10.1.2.3", 32, "to_switch", port=2)
        for destination, port in (("10.1.1.1", 4), ("10.1.2.2", 3), ("10.1.2.3", 2)):
            with self.subTest(destination):
                got = self.exchange(1, bytes(self.packet(destination)))
                self.assertEqual(list(got), [port])


class OtherProtocolsAreRoutedToo(UnicastTest):
    def runTest(self) -> None:
        self.route("10.1.0.0", 16, "to_switch", port=4)
        for layer in (ICMP() / b"ping", TCP(dport=80) / b"GET", UDP(sport=1, dport=53) / b"?"):
            with self.subTest(layer.name):
                sent = self.packet("10.1.2.3")
                sent[IP].remove_payload()
                sent /= layer
                expected = sent.copy()
                expected[IP].ttl = 63
                self.expect(1, bytes(sent), p4=bytes(expected))


class EqualCostPathsShareFlowsAndKeepEachInOrder(UnicastTest):
    def runTest(self) -> None:
        ports = list(PORTS[1:])
        if TARGET.is_tofino:
            # The lower bits of the hash select the next hop, so the number of next hops is a power of two.
            ports.append(PORTS[1])
            self.route("10.1.0.0", 16, "ecmp", group=5, mask=len(ports) - 1, seed=99)
        else:
            self.route("10.1.0.0", 16, "ecmp", group=5, size=len(ports), seed=99)
        for index, port in enumerate(ports):
            self.switch.insert(
                Entry(
                    "ingress.ipv4_routing.next_hops",
                    {"ecmp_group": 5, "ecmp_index": index},
                    "ingress.ipv4_routing.to_switch_hop",
                    {"port": port},
                )
            )
        taken: dict[int, list[int]] = {}
        for sport in random.Random(3).sample(range(0xC000, 0x10000), 60):
            frame = bytes(self.packet("10.1.2.3", sport=sport))
            got = self.exchange(1, frame, frame)
            (port,) = got
            self.assertEqual(len(got[port]), 2, "both packets of a flow take the same path")
            taken.setdefault(port, []).append(sport)
        self.assertEqual(sorted(taken), [2, 3, 4])
        # Expected are 20 flows for each port, or 15 if it has one of four next hops.
        self.assertGreaterEqual(min(map(len, taken.values())), 8)


class PacketWithoutRouteIsDroppedAndCounted(UnicastTest):
    def runTest(self) -> None:
        self.expect_drop(Drop.NO_ROUTE, 1, bytes(self.packet("10.77.0.1")))


class PacketWithExpiredTtlIsDropped(UnicastTest):
    def runTest(self) -> None:
        self.route("10.1.0.0", 16, "to_switch", port=4)
        self.expect_drop(Drop.TTL_EXPIRED, 1, bytes(self.packet("10.1.2.3", ttl=1)))


class WrongChecksumIsDroppedAndCounted(UnicastTest):
    def runTest(self) -> None:
        self.route("10.1.0.0", 16, "to_switch", port=4)
        sent = self.packet("10.1.2.3")
        sent[IP].chksum = 0xDEAD
        self.expect_drop(Drop.IPV4_CHECKSUM, 1, bytes(sent))


class UnknownEthertypeIsDroppedAndCounted(UnicastTest):
    def runTest(self) -> None:
        self.expect_drop(
            Drop.UNKNOWN_ETHERTYPE,
            1,
            bytes(Ether(src=HOSTS[1].mac, dst=VIRTUAL_MAC, type=0x88B5) / Raw(b"x" * 46)),
        )
