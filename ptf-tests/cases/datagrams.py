"""Unreliable datagrams to a multicast group: replicated from any port, and not modified."""

from __future__ import annotations

import struct
from dataclasses import replace

from alfirk_ptf import contract
from alfirk_ptf.case import HOSTS, SwitchTest
from alfirk_ptf.contract import Drop
from alfirk_ptf.group import Entry, MulticastGroup
from alfirk_ptf.packets import SEND_ONLY, Roce
from alfirk_ptf.target import Feature

_GROUP = "239.129.2.3"
#: The lower 23 bits of the group's address.
_MAC = "01:00:5e:01:02:03"
_UD_SEND_ONLY, _UD_SEND_ONLY_IMM = 0x64, 0x65


def _deth(qkey: int, source: int) -> bytes:
    return struct.pack(">II", qkey, source)


class DatagramTest(SwitchTest):
    """Ports 1 to 3 belong to a multicast group."""

    features = (Feature.DATAGRAMS,)
    ports = (1, 2, 3)

    def setUp(self) -> None:
        """Write the group as a controller does."""
        super().setUp()
        index = 5
        replicas = tuple((port, 0) for port in self.ports)
        self.switch.insert_multicast(MulticastGroup(contract.FIRST_DATAGRAM_PRE_GROUP + index, replicas))
        match = {"group_ip": int.from_bytes(bytes(map(int, _GROUP.split("."))), "big")}
        name = "ingress.datagram_multicast"
        self.switch.insert(Entry(f"{name}.groups", match, f"{name}.replicate", {"index": index}))

    def sent(self, port: int, **fields: object) -> Roce:
        host = HOSTS[port]
        base = Roce(
            eth_dst=_MAC,
            eth_src=host.mac,
            src=host.ip,
            dst=_GROUP,
            opcode=_UD_SEND_ONLY,
            dqpn=contract.MULTICAST_QPN,
            body=_deth(0x1234, 0x11) + b"to whom it may concern",
        )
        return replace(base, **fields)  # type: ignore[arg-type]


class DatagramIsCopiedUnchangedToAllOtherPorts(DatagramTest):
    def runTest(self) -> None:
        for port in self.ports:
            with self.subTest(port=port):
                frame = self.sent(port, psn=port).frame()
                self.expect(port, frame, **{f"p{other}": frame for other in self.ports if other != port})


class NonMemberMaySendDatagrams(DatagramTest):
    def runTest(self) -> None:
        frame = self.sent(4).frame()
        self.expect(4, frame, p1=frame, p2=frame, p3=frame)


class DatagramWithTtl1IsForwarded(DatagramTest):
    def runTest(self) -> None:
        immediate = _deth(0x1234, 0x11) + bytes(4)
        frame = self.sent(1, ttl=1, opcode=_UD_SEND_ONLY_IMM, body=immediate).frame()
        self.expect(1, frame, p2=frame, p3=frame)


class LargeDatagramsAreNotTruncated(DatagramTest):
    def runTest(self) -> None:
        frame = self.sent(2, body=_deth(1, 2) + bytes(range(256)) * 16).frame()
        self.expect(2, frame, p1=frame, p3=frame)


class DatagramToAnUnknownGroupIsDropped(DatagramTest):
    def runTest(self) -> None:
        # The two group addresses have equal lower 23 bits, and so the same MAC address.
        self.expect_drop(Drop.NO_ROUTE, 1, self.sent(1, dst="239.1.2.3").frame())


class InvalidDatagramsToAGroupAreDropped(DatagramTest):
    def runTest(self) -> None:
        self.expect_drop(Drop.UNSUPPORTED_OPCODE, 1, self.sent(1, opcode=SEND_ONLY).frame())
        self.expect_drop(Drop.WRONG_QPN, 1, self.sent(1, dqpn=0x11).frame())
        self.expect_drop(Drop.WRONG_MULTICAST_MAC, 1, self.sent(1, eth_dst="01:00:5e:81:02:03").frame())
        self.expect_drop(Drop.WRONG_MULTICAST_MAC, 1, self.sent(1, eth_dst="ff:ff:ff:ff:ff:ff").frame())
        # The address of another group.
        self.expect_drop(Drop.WRONG_MULTICAST_MAC, 1, self.sent(1, eth_dst="01:00:5e:01:02:04").frame())


class DatagramWithASpoofedSourceIsDropped(DatagramTest):
    def runTest(self) -> None:
        entry = Entry(
            "ingress.source_guard.hosts",
            {"ingress_port": 1},
            "ingress.source_guard.attached",
            {"ip": int.from_bytes(bytes(map(int, HOSTS[1].ip.split("."))), "big")},
        )
        self.switch.insert(entry)
        self.expect_drop(Drop.SPOOFED_SOURCE, 1, self.sent(1, src=HOSTS[2].ip).frame())
