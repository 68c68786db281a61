"""Congestion: marks on packets that waited, and CNPs of the most congested path alone."""

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
from alfirk_ptf.target import only_v1model

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_ECT, _ECT_1, _ECT_0, _CE = range(4)


class CnpTest(GroupTest):
    """Host 1 is the source.

    Counts age by the switch's clock, a window of about a millisecond each, so what a test sees of two paths
    depends on how quickly it comes through: where that matters it tries again.
    """

    ports = (1, 2, 3)
    #: CNPs that saturate a path's count.
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

    def passed(self, port: int) -> bytes:
        return bridge_exit(merged_cnp(self.cnp(port)), self.group, 1, HOSTS[1]).frame()

    def tries(self) -> Iterator[None]:
        """Let a test try again for as long as it is willing to wait."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            yield


class CnpsOfASinglePathAreForwarded(CnpTest):
    def runTest(self) -> None:
        for _ in range(self.many):
            self.expect(2, self.cnp(2).frame(), p1=self.passed(2))


class CnpsOfALessCongestedPathAreDropped(CnpTest):
    """Behind many CNPs of one path comes one of another, which is the one that is dropped.

    CNPs of all paths are equal when they have left the switch, so it is their number that tells.
    """

    def runTest(self) -> None:
        # Made beforehand, and nothing is awaited between them, as counts age meanwhile.
        burst = [self.cnp(2).frame()] * self.many
        other = self.cnp(3).frame()
        for _ in self.tries():
            before = self.drops(Drop.CNP_FILTERED)
            self.send(2, *burst)
            self.send(3, other)
            passed = [frame for port in (2, 3) for frame in self.collect(port).get(1, [])]
            self.assertEqual(set(passed), {self.passed(2)})
            if len(passed) == self.many and self.drops(Drop.CNP_FILTERED) == before + 1:
                return
        self.fail("no CNP of the less congested path was dropped")


class CnpCountOfAQuietPathAges(CnpTest):
    """A count cannot rise beyond that of a saturated path, so what passes in the end does so by age alone."""

    def runTest(self) -> None:
        self.send(2, *[self.cnp(2).frame()] * self.many)
        self.assert_frames(self.collect(2), {1: [self.passed(2)] * self.many})
        other = self.cnp(3).frame()
        for _ in self.tries():
            if got := self.exchange(3, other):
                self.assert_frames(got, {1: [self.passed(3)]})
                break
        else:
            self.fail("no CNP of the other path came through")
        # Now it is the most congested one.
        self.expect(3, other, p1=self.passed(3))


class CnpsOfANewMostCongestedPathAreForwarded(CnpTest):
    """The path that sends more CNPs becomes the most congested one."""

    def runTest(self) -> None:
        self.expect(2, self.cnp(2).frame(), p1=self.passed(2))
        self.send(3, *[self.cnp(3).frame()] * self.many)
        got = self.collect(3).get(1, [])
        # At most the first is no more than path 2's one.
        self.assertGreaterEqual(len(got), self.many - 1)
        self.assertEqual(set(got), {self.passed(3)})


class CnpBeforeAnyDataIsDropped(GroupTest):
    def runTest(self) -> None:
        host = HOSTS[2]
        cnp = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, opcode=packets.CNP, body=bytes(16))
        self.expect_drop(Drop.NO_SOURCE, 2, cnp.frame())


class MarkingTest(GroupTest):
    """Ports 2 and 3 mark whatever queue a packet found; port 4 marks nothing."""

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
    #: Always from 1,000 packets on, never up to 500.
    profile = (500, 1000, 0x10000 // 500)

    def runTest(self) -> None:
        sent = self.data(0, _ECT_0)
        self.assert_frames(
            self.exchange(1, sent.frame()), {port: [self.copy(sent, port, _ECT_0)] for port in (2, 3, 4)}
        )


class UnicastPacketsAreMarkedToo(MarkingTest):
    """It shares the queue with groups, and its senders react in the same way."""

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
    """They are not ECN-capable, whatever the data was that they answer."""

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
