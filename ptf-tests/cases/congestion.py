"""Congestion control: ECN marking, and forwarding of CNPs from the most congested path only."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest
from alfirk_ptf.collect import TIMEOUT
from alfirk_ptf.contract import Drop, IcrcMode
from alfirk_ptf.group import Entry
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import Roce, bridge_entry, bridge_exit, feedback, merged_cnp
from alfirk_ptf.target import Feature, only_v1model

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_ECT, _ECT_1, _ECT_0, _CE = range(4)


class CnpTest(GroupTest):
    """Host 1 is the source and has sent a packet.

    CNP counts age with the switch's clock, in windows of about a millisecond.  So results for two paths
    depend on how fast the test sends; tests for which that matters try repeatedly.
    """

    features = (Feature.CONGESTION,)
    ports = (1, 2, 3)
    #: Number of CNPs that saturates a path's count.
    many = 40

    def start_group(self) -> None:
        super().start_group()
        self.exchange(
            1, Roce(eth_src=HOSTS[1].mac, src=HOSTS[1].ip, dst=self.group.mcst_id, body=b"x").frame()
        )

    def cnp(self, port: int) -> Roce:
        host = HOSTS[port]
        return Roce(
            eth_src=host.mac,
            src=host.ip,
            dst=self.group.mcst_id,
            ident=0x700 + port,
            opcode=packets.CNP,
            becn=1,
            body=bytes(16),
        )

    def at_source(self, port: int) -> bytes:
        return bridge_exit(merged_cnp(self.cnp(port)), self.group, 1, HOSTS[1]).frame()

    def attempts(self) -> Iterator[None]:
        """Yield until the timeout expires, once for each attempt of a test."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            yield


class CnpsOfASinglePathAreForwarded(CnpTest):
    def runTest(self) -> None:
        for _ in range(self.many):
            self.expect(2, self.cnp(2).frame(), p1=self.at_source(2))


class CnpsOfALessCongestedPathAreDropped(CnpTest):
    """After many CNPs of one path, a single one of another path is dropped.

    Forwarded CNPs of all paths are equal, so the test counts them.
    """

    def runTest(self) -> None:
        # The frames are built first and sent without waiting in between, because counts age meanwhile.
        burst = [self.cnp(2).frame()] * self.many
        other = self.cnp(3).frame()
        for _ in self.attempts():
            before = self.drops(Drop.CNP_FILTERED)
            self.send(2, *burst)
            self.send(3, other)
            passed = [frame for port in (2, 3) for frame in self.collect(port).get(1, [])]
            self.assertEqual(set(passed), {self.at_source(2)})
            if len(passed) == self.many and self.drops(Drop.CNP_FILTERED) == before + 1:
                return
        self.fail("no CNP of the less congested path was dropped")


class CnpCountOfAQuietPathAges(CnpTest):
    """No count can exceed that of a saturated path, so CNPs of another path pass only because counts age."""

    def runTest(self) -> None:
        self.send(2, *[self.cnp(2).frame()] * self.many)
        self.assert_frames(self.collect(2), {1: [self.at_source(2)] * self.many})
        other = self.cnp(3).frame()
        for _ in self.attempts():
            if got := self.exchange(3, other):
                self.assert_frames(got, {1: [self.at_source(3)]})
                break
        else:
            self.fail("no CNP of the other path came through")
        # Path 3 is now the most congested one.
        self.expect(3, other, p1=self.at_source(3))


class CnpsOfANewMostCongestedPathAreForwarded(CnpTest):
    """The path that sends more CNPs becomes the most congested one."""

    def runTest(self) -> None:
        self.expect(2, self.cnp(2).frame(), p1=self.at_source(2))
        self.send(3, *[self.cnp(3).frame()] * self.many)
        got = self.collect(3).get(1, [])
        # Only the first may be dropped, when the count of path 3 equals that of path 2.
        self.assertGreaterEqual(len(got), self.many - 1)
        self.assertEqual(set(got), {self.at_source(3)})


class CnpBeforeAnyDataIsDropped(GroupTest):
    features = (Feature.CONGESTION,)

    def runTest(self) -> None:
        host = HOSTS[2]
        cnp = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, opcode=packets.CNP, body=bytes(16))
        self.expect_drop(Drop.NO_SOURCE, 2, cnp.frame())


class MarkingTest(GroupTest):
    """Ports 2 and 3 mark packets at any queue length; port 4 has no marking profile."""

    features = (Feature.CONGESTION,)
    profile = (0, 0, 0)

    def start_group(self) -> None:
        only_v1model("profiles in a table")
        super().start_group()
        k_min, k_max, slope = self.profile
        self.switch.insert(
            *(
                Entry(
                    "egress.ecn_marking.profiles",
                    {"egress_port": port},
                    "egress.ecn_marking.profile",
                    {"min": k_min, "max": k_max, "rise": slope},
                )
                for port in (2, 3)
            )
        )

    def data(self, psn: int, ecn: int) -> Roce:
        host = HOSTS[1]
        return Roce(
            eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn, tos=0x60 | ecn, body=bytes(99)
        )

    def copy(self, sent: Roce, port: int, ecn: int) -> bytes:
        copy = bridge_exit(bridge_entry(sent, self.group, 1, HOSTS[1]), self.group, port, HOSTS[port])
        return replace(copy, tos=0x60 | ecn).frame()


class EcnCapablePacketsAreMarked(MarkingTest):
    def runTest(self) -> None:
        for psn, ecn in enumerate((_NOT_ECT, _ECT_1, _ECT_0, _CE)):
            with self.subTest(ecn=ecn):
                sent = self.data(psn, ecn)
                marked = _NOT_ECT if ecn == _NOT_ECT else _CE
                got = self.exchange(1, sent.frame())
                expected = {port: [self.copy(sent, port, marked if port != 4 else ecn)] for port in (2, 3, 4)}
                self.assert_frames(got, expected)
                for frames in got.values():
                    self.assertTrue(is_icrc_valid(frames[0][14:]), "the ICRC does not cover the mark")


class EcnCapablePacketsAreMarkedWithRecomputedIcrc(EcnCapablePacketsAreMarked):
    icrc_mode = IcrcMode.RECOMPUTE


class PacketsAreNotMarkedWhenTheQueueIsEmpty(MarkingTest):
    #: Marks no packet up to a queue length of 500, and every packet from 1,000.
    profile = (500, 1000, 0x10000 // 500)

    def runTest(self) -> None:
        sent = self.data(0, _ECT_0)
        self.assert_frames(
            self.exchange(1, sent.frame()), {port: [self.copy(sent, port, _ECT_0)] for port in (2, 3, 4)}
        )


class UnicastPacketsAreMarkedToo(MarkingTest):
    """Unicast packets share queues with groups, and their senders react in the same way."""

    def runTest(self) -> None:
        self.switch.insert(
            Entry(
                "ingress.ipv4_routing.routes",
                {"dst_ip": (0x0A00_0003, 32)},
                "ingress.ipv4_routing.to_switch",
                {"port": 3},
            )
        )
        for ecn, marked in ((_NOT_ECT, _NOT_ECT), (_ECT_0, _CE), (_ECT_1, _CE), (_CE, _CE)):
            with self.subTest(ecn=ecn):
                sent = Roce(src=HOSTS[1].ip, dst=HOSTS[3].ip, dqpn=9, tos=ecn, body=b"to one")
                self.expect(1, sent.frame(), p3=replace(sent, tos=marked, ttl=63).frame())


class AcksAreNotMarked(MarkingTest):
    """ACKs are not ECN-capable, even if the acknowledged data is."""

    ports = (2, 1)

    def runTest(self) -> None:
        host = HOSTS[2]
        data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, tos=_ECT_0, body=b"x")
        self.exchange(2, data.frame())
        ack = feedback(HOSTS[1], self.group, packets.ACK, 0)
        merged = packets.merged_ack(ack, 0, msn=1)
        self.expect(1, ack.frame(), p2=bridge_exit(merged, self.group, 2, host).frame())
        self.assert_frames(
            self.exchange(2, data.frame()),
            {
                2: [
                    bridge_exit(
                        packets.local_ack(bridge_entry(data, self.group, 2, host), 0, msn=1),
                        self.group,
                        2,
                        host,
                    ).frame()
                ]
            },
        )
