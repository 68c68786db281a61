"""Minimum PSN over different numbers of paths for each strategy, and the cost of each strategy."""

from __future__ import annotations

import random

from alfirk_ptf import packets
from alfirk_ptf.case import with_each_min_psn, with_tree_and_walk
from alfirk_ptf.collect import Frames
from alfirk_ptf.contract import MinPsn, Work
from alfirk_ptf.controller import Aggregate
from alfirk_ptf.feedback import FeedbackTest, ToSource
from alfirk_ptf.live import MAX_PATHS, SWITCH_PORTS
from alfirk_ptf.target import Feature, only_v1model

#: Numbers of paths around the sizes of the levels of the tournament tree.
_COUNTS = tuple(sorted({n for n in (2, 3, 4, 5, 16, 17, 64, 65) if n < MAX_PATHS} | {MAX_PATHS}))
#: A number of paths that needs more than two levels, if the pipeline has them.
_SOME = min(17, MAX_PATHS)


class LargeGroupTest(FeedbackTest):
    """Host 1 is the source; the order of paths is random.

    Frames are collected only from the source's port, except in `expect_nothing_else`.
    """

    paths = _SOME
    sent = 4

    def start_group(self) -> None:
        others = list(SWITCH_PORTS[: self.paths])
        random.Random(self.paths).shuffle(others)
        self.ports = tuple(others)
        self.watched = self.ports
        super().start_group()
        self.watched = (1,)
        self.receivers = [port for port in self.ports if port != 1]

    def expect_nothing_else(self) -> None:
        self.watched = self.ports
        self.assert_frames(self.collect(1), {})
        self.watched = (1,)


@with_each_min_psn
class SlowestOfAnyNumberOfReceiversDecides(LargeGroupTest):
    sent = 8

    def runTest(self) -> None:
        for count in _COUNTS:
            with self.subTest(paths=count):
                self.paths = count
                self.start_group()
                source = random.Random(count)
                acked = dict.fromkeys(self.receivers, -1)
                to_source = -1
                for furthest in (4, 7):
                    for port in source.sample(self.receivers, len(self.receivers)):
                        # PSNs of a path never decrease and may repeat; in the last round all acknowledge 7.
                        acked[port] = (
                            furthest if furthest == 7 else source.randint(max(0, acked[port]), furthest)
                        )
                        minimum = min(acked.values())
                        advances_minimum = minimum > to_source
                        to_source = max(to_source, minimum)
                        self.send_feedback(
                            port,
                            acked[port],
                            ToSource(minimum, msn=minimum + 1) if advances_minimum else None,
                            msn=acked[port] + 1,
                        )
                self.assertEqual(to_source, 7)
                self.expect_nothing_else()


@with_each_min_psn
class SourceReceivesTheLastAck(LargeGroupTest):
    """All acknowledge the last packet without waiting; the source receives an ACK of it for any order."""

    def runTest(self) -> None:
        for count in sorted({3, min(5, MAX_PATHS), _SOME, MAX_PATHS}):
            with self.subTest(paths=count):
                self.paths = count
                self.start_group()
                source = random.Random(count)
                for port in source.sample(self.receivers, len(self.receivers)):
                    self.send_any_feedback(port, source.randrange(0, 3))
                to_source: list[bytes] = []
                for port in source.sample(self.receivers, len(self.receivers)):
                    self.send(port, self.report(port, 3).frame())
                for port in self.receivers:
                    to_source += self.exchange(port).get(1, [])
                psns = [int.from_bytes(frame[51:54], "big") for frame in to_source]
                self.assertEqual(psns, sorted(set(psns)))
                self.assertEqual(psns[-1], 3)
                self.expect_nothing_else()

    def send_any_feedback(self, port: int, psn: int) -> Frames:
        return self.exchange(port, self.report(port, psn).frame())


@with_tree_and_walk
class RandomFeedbackEqualsTheModel(LargeGroupTest):
    """Random ACKs, NAKs and RNR NAKs, many of them old, across the PSN wrap-around."""

    first_psn = packets.PSN_LIMIT - 9
    first_msn = 0xFFFA
    sent = 20

    def runTest(self) -> None:
        only_v1model("a NAK that is held while another one is forwarded")
        for count in sorted({4, min(5, MAX_PATHS), _SOME}):
            with self.subTest(paths=count):
                self.paths = count
                self.start_group()
                before = (self.first_psn - 1) % packets.PSN_LIMIT
                model = Aggregate(
                    self.group,
                    acked=[before] * count,
                    msn=[self.first_msn] * count,
                    agg=(before, self.first_msn),
                    suppresses_sent_naks=True,
                )
                source = random.Random(count)
                for _ in range(120):
                    port = source.choice(self.receivers)
                    path = self.ports.index(port)
                    # Mostly equal or a few PSNs newer, seldom older.
                    at = (model.acked[path] - self.first_psn) % packets.PSN_LIMIT
                    at = -1 if at == packets.PSN_LIMIT - 1 else at
                    at = min(self.sent - 1, max(0, at + source.choice((-3, 0, 0, 1, 2, 4))))
                    syndrome = source.choices(
                        (packets.ACK, packets.NAK_SEQUENCE, packets.RNR_NAK), (6, 2, 1)
                    )[0]
                    msn = self.first_msn + at + (syndrome == packets.ACK)
                    psn = (self.first_psn + at) % packets.PSN_LIMIT
                    expected = model.report(1, path, psn, syndrome, msn)
                    to_source = ToSource(expected[1], expected[0], expected[2]) if expected else None
                    self.send_feedback(port, psn, to_source, syndrome=syndrome, msn=msn)
                self.expect_nothing_else()


class TreeNeitherRecirculatesNorPunts(LargeGroupTest):
    features = (Feature.WORK,)
    paths = MAX_PATHS

    def runTest(self) -> None:
        for port in self.receivers:
            self.exchange(port, self.report(port, 0).frame())
        self.assertEqual(self.work(), {Work.FEEDBACK: self.paths - 1, Work.FORWARDED: 1})

    def start_group(self) -> None:
        only_v1model("counters of the cost of a strategy")
        super().start_group()
        self.before = self.read_work()

    def read_work(self) -> dict[Work, int]:
        cells = self.switch.counters("ingress.ack_aggregate.work")
        return {work: cells.get(8 * self.min_psn + work, 0) for work in Work}

    def work(self) -> dict[Work, int]:
        """Return the work of the group's strategy since the start of the group, without zeros."""
        counted = self.read_work()
        return {work: counted[work] - self.before[work] for work in Work if counted[work] > self.before[work]}


class WalkRecirculatesOnlyWhenTheSlowestPathAdvances(TreeNeitherRecirculatesNorPunts):
    min_psn = MinPsn.WALK
    paths = _SOME

    def runTest(self) -> None:
        by_path = sorted(self.receivers, key=self.ports.index)
        # The first ACK starts a walk, which finds that the other paths are the slowest. Of these, only the
        # ACK of the last one starts another. Each walk visits the other leaf nodes.
        for port in by_path:
            self.exchange(port, self.report(port, 0).frame())
        rounds = 2 * (self.group.leaf_nodes - 1)
        recirculated = {Work.RECIRCULATIONS: rounds} if rounds else {}
        self.assertEqual(self.work(), {Work.FEEDBACK: self.paths - 1, Work.FORWARDED: 1, **recirculated})


class GroupOfOneLeafNodeNeedsNoWalk(TreeNeitherRecirculatesNorPunts):
    min_psn = MinPsn.WALK
    paths = 4

    def runTest(self) -> None:
        for port in self.receivers:
            self.exchange(port, self.report(port, 0).frame())
        self.assertEqual(self.work(), {Work.FEEDBACK: 3, Work.FORWARDED: 1})


class PuntSendsAllFeedbackToTheController(TreeNeitherRecirculatesNorPunts):
    min_psn = MinPsn.PUNT
    paths = _SOME

    def runTest(self) -> None:
        for port in self.receivers:
            self.exchange(port, self.report(port, 0).frame())
        self.assertEqual(self.work(), {Work.FEEDBACK: self.paths - 1, Work.PUNTS: self.paths - 1})
