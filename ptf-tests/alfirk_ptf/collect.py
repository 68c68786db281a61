"""Exact collection of what a switch sends, without waiting for silence.

Behind each stimulus a *sentinel* for every port enters by the same port; switches keep packets of one way in
order, so the frames that leave a port before its sentinel is all that the stimulus caused there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import ptf
from ptf.base_tests import BaseTest
from scapy.layers.l2 import Ether

from alfirk_ptf.target import as_received

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ports that most tests use and watch.
PORTS = (1, 2, 3, 4)
#: Seconds within which a frame must have come.
TIMEOUT = 10.0
SENTINEL_MARK = b"alfirk sentinel "

#: Frames by port of exit; ports without any are left out.
Frames = dict[int, list[bytes]]


class CollectingTest(BaseTest):
    """A test on one switch, which knows how to get sentinels through its program."""

    #: Ports where anything that comes out is seen.
    watched: tuple[int, ...] = PORTS
    _serial = 0

    def setUp(self) -> None:
        """Drop what earlier tests left on the wire."""
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()

    def sentinel(self, into: int, out: int) -> bytes:
        """Build the head of a frame that the program sends from one port to another.

        It ends with the mark; eight bytes follow.
        """
        raise NotImplementedError

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port and collect all that comes out of any watched one."""
        self.send(port, *frames)
        return self.collect(port)

    def send(self, port: int, *frames: bytes) -> None:
        """Send frames into a port."""
        for frame in frames:
            self.dataplane.send(0, port, frame)

    def collect(self, port: int, rounds: int = 1) -> Frames:
        """Collect what frames that have gone into a port bring about.

        A frame that the switch sends round comes back before the sentinel that leaves its port behind it, so
        each time round takes one more of `rounds`.
        """
        collected: Frames = {}
        for last in range(1, rounds + 1):
            outs = self.watched if last == rounds else (port,)
            CollectingTest._serial += 1
            for out in outs:
                self.dataplane.send(0, port, self.sentinel(port, out) + self._serial.to_bytes(8, "big"))
            for out in outs:
                if got := self._until_sentinel(out):
                    collected.setdefault(out, []).extend(got)
        return collected

    def expect(self, port: int, frame: bytes | Sequence[bytes], **out: bytes) -> None:
        """Send and compare: ``p2=frame`` is what must leave port 2; nothing else may."""
        frames = [frame] if isinstance(frame, bytes) else list(frame)
        expected = {int(name[1:]): [packet] for name, packet in out.items()}
        self.assert_frames(self.exchange(port, *frames), expected)

    def assert_frames(self, got: Frames, expected: Frames) -> None:
        """Compare byte for byte and show the first difference as packets."""
        for out in sorted(got.keys() | expected.keys()):
            for number, (a, b) in enumerate(zip(got.get(out, []), expected.get(out, []), strict=False)):
                if a != b:
                    self.fail(f"port {out}, frame {number}: {_difference(a, b)}")
            surplus = len(got.get(out, [])) - len(expected.get(out, []))
            if surplus:
                what = "missing" if surplus < 0 else "too many"
                frames = (expected if surplus < 0 else got)[out][-abs(surplus) :]
                shown = "; ".join(Ether(frame).summary() for frame in frames)
                self.fail(f"port {out}: {abs(surplus)} {what}: {shown}")

    def _until_sentinel(self, port: int) -> list[bytes]:
        frames: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT
        while True:
            found = self.dataplane.poll(0, port, timeout=max(0.01, deadline - time.monotonic()))
            if not isinstance(found, self.dataplane.PollSuccess):
                self.fail(f"port {port}: the sentinel did not come within {TIMEOUT:.0f} s")
            frame = as_received(bytes(found.packet))
            if SENTINEL_MARK in frame:
                if frame.endswith(self._serial.to_bytes(8, "big")):
                    return frames
            else:
                frames.append(frame)


def _difference(got: bytes, expected: bytes) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
        min(len(got), len(expected)),
    )
    return (
        f"differs at byte {at} of {len(expected)} (got {len(got)} bytes)\n"
        f"got      {got.hex()}\nexpected {expected.hex()}\n"
        f"got:\n{Ether(got).show(dump=True)}\nexpected:\n{Ether(expected).show(dump=True)}"
    )
