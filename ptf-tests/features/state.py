"""Stateful objects of a program: counters, meters and registers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from alfirk_ptf.client import Action, Rates, Rule
from alfirk_ptf.collect import TIMEOUT
from alfirk_ptf.features import FeatureTest, hit
from alfirk_ptf.probes import Op, Probe
from ptf import testutils

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = "hdr.probe.key"
GREEN, YELLOW, RED = range(3)
#: The slowest rates: the buckets get no token while a burst is sent.
_RATES = Rates(cir=1, cburst=2, pir=1, pburst=5)
_COLOURS = [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED]


class CountersCountPacketsAndBytes(FeatureTest):
    def runTest(self) -> None:
        frames = [Probe(Op.FORWARD, port=2, payload=b"x" * n).frame() for n in (46, 100, 1000)]
        before = self.switch.counter("arrivals", 3)
        self.exchange(3, *frames)
        packets, size = self.switch.counter("arrivals", 3)
        # The counter includes the sentinels, one for each port.
        sentinels = len(self.watched)
        length = len(self.sentinel(3, 1)) + 8
        self.assertEqual(packets - before[0], len(frames) + sentinels)
        self.assertEqual(size - before[1], sum(map(len, frames)) + sentinels * length)


class DirectCountersCountHitsOfTheirEntry(FeatureTest):
    def runTest(self) -> None:
        rules = [Rule("exact_table", {_KEY: key, "hdr.probe.other": 0}, hit(2, key)) for key in (1, 2)]
        self.switch.add(*rules)
        frame = Probe(Op.EXACT, 1).frame()
        self.exchange(1, frame, frame, Probe(Op.EXACT, 3).frame())
        self.assertEqual(self.switch.direct_counter(rules[0]), (2, 2 * len(frame)))
        self.assertEqual(self.switch.direct_counter(rules[1]), (0, 0))


class MeterTest(FeatureTest):
    def expect_colours(self, probe: Probe, fill: Callable[[], None], expected: list[int]) -> None:
        """Fill the buckets, send a burst, and check the colours that packets got.

        If the machine pauses for a second, a bucket gets another token; then the burst is repeated.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            fill()
            got = self.exchange(1, *[probe.frame()] * len(expected))
            colours = [Probe.parse(frame).result for frame in got.get(2, [])]
            if colours == expected:
                return
            if time.monotonic() > deadline:
                self.fail(f"colours are {colours}, not {expected}")


class MetersMarkPacketsByTwoRates(MeterTest):
    def runTest(self) -> None:
        self.addCleanup(self.switch.set_meter, "rates", 4, None)
        metered = Probe(Op.METER, key=4, port=2)
        self.expect_colours(metered, lambda: self.switch.set_meter("rates", 4, _RATES), _COLOURS)
        # Packets are green in cells that are not configured, and in this one after its reset.
        other = Probe(Op.METER, key=5, port=2)
        self.expect_colours(other, lambda: self.switch.set_meter("rates", 4, None), [GREEN] * 10)
        self.expect_colours(metered, lambda: None, [GREEN] * 10)


class DirectMetersBelongToTheirEntry(MeterTest):
    def runTest(self) -> None:
        rules = [Rule("metered_table", {_KEY: key}, Action("metered_hit", {"port": 2})) for key in (1, 2)]
        self.switch.add(*rules)
        first = rules[0]
        self.expect_colours(
            Probe(Op.DIRECT_METER, 1), lambda: self.switch.set_direct_meter(first, _RATES), _COLOURS
        )
        self.expect_colours(Probe(Op.DIRECT_METER, 2), lambda: None, [GREEN] * 10)


class RegistersKeepValuesBetweenPackets(FeatureTest):
    def runTest(self) -> None:
        self.exchange(1, Probe(Op.REGISTER, key=3, other=0xC0FFEE).frame())
        self.expect_result(Probe(Op.REGISTER, key=3, other=0, port=2), 2, 0xC0FFEE)
        self.expect_result(Probe(Op.REGISTER, key=3, other=0, port=2), 2, 0)


class RegistersAreSharedWithTheController(FeatureTest):
    def runTest(self) -> None:
        if not testutils.test_param_get("alfirk"):
            self.skipTest("BMv2 offers no registers by P4Runtime")
        self.switch.set_register("cells", 2, 0xFEED)
        self.expect_result(Probe(Op.REGISTER, key=2, other=0xBEEF, port=2), 2, 0xFEED)
        self.assertEqual(self.switch.register("cells", 2), 0xBEEF)
        self.assertEqual(self.switch.register("cells", 1), 0)
