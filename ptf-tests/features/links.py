"""Links that the switch emulates, modified with `alfirk link` while it runs."""

from __future__ import annotations

import json
import subprocess
import time

from alfirk_ptf.collect import TIMEOUT
from alfirk_ptf.features import FeatureTest
from alfirk_ptf.probes import Op, Probe
from ptf import testutils


class LinkTest(FeatureTest):
    def setUp(self) -> None:
        super().setUp()
        if not testutils.test_param_get("alfirk"):
            self.skipTest("BMv2 emulates no links")

    def link(self, *arguments: str) -> str:
        """Run `alfirk link` and return its output."""
        alfirk, switch = testutils.test_param_get("alfirk"), testutils.test_param_get("grpcaddr")
        command = [alfirk, "link", "--switch", switch, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def set_link(self, *change: str, reset: tuple[str, ...]) -> None:
        """Change the link of port 2; `reset` resets it after the test."""
        self.addCleanup(self.link, "set", "2", *reset)
        self.link("set", "2", *change)


class CutLinksDropFramesUntilTheyAreRestored(LinkTest):
    def runTest(self) -> None:
        before = self.lost_frames()
        self.set_link("--down", reset=("--up",))
        lost, seen = (Probe(Op.FORWARD, port=2, key=key).frame() for key in (1, 2))
        # Sentinels for port 2 would be lost as well.
        self.watched = (1, 3, 4)
        self.assert_frames(self.exchange(1, lost), {})
        self.assertEqual(self.lost_frames() - before, 1)
        self.watched = (1, 2, 3, 4)
        self.link("set", "2", "--up")
        self.expect(1, seen, p2=seen)

    def lost_frames(self) -> int:
        (port,) = json.loads(self.link("show", "2", "--json"))["ports"]
        return int(port["lost"])


class FramesArriveAfterTheDelay(LinkTest):
    def runTest(self) -> None:
        self.set_link("--delay", "200ms", reset=("--delay", "0ms"))
        frame = Probe(Op.FORWARD, port=2).frame()
        begin = time.monotonic()
        self.send(1, frame)
        found = self.dataplane.poll(0, 2, timeout=TIMEOUT)
        if not isinstance(found, self.dataplane.PollSuccess):
            self.fail(f"no frame came within {TIMEOUT:.0f} s")
        self.assertEqual(bytes(found.packet), frame)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)


class HighPrioritiesAreSentFirst(LinkTest):
    def runTest(self) -> None:
        self.set_link("--rate", "20pps", reset=("--rate", "none"))
        low = [Probe(Op.PRIORITY, key=0, other=n, port=2).frame() for n in range(8)]
        high = Probe(Op.PRIORITY, key=7, port=2).frame()
        got = self.exchange(1, *low, high)[2]
        self.assertEqual([frame for frame in got if frame != high], low, "in order")
        # One frame is on the link when the high priority arrives; on a slow machine there may be more.
        self.assertLess(got.index(high), len(low) - 1)
