"""Collects exactly the frames that a switch sends for a stimulus, without a timeout for absent frames.

After each stimulus, the test sends a *sentinel* for every port into the same port.  A switch keeps the order
of packets between two ports, so all frames that the stimulus causes leave a port before its sentinel.
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

#: Ports that most tests use and collect frames from.
PORTS = (1, 2, 3, 4)
#: Seconds to wait for an expected frame.
TIMEOUT = 10.0
SENTINEL_MARK = b"alfirk sentinel "
#: Frames that are sent into a port at once. BMv2 loses frames when more than 32 wait in the buffer of a port.
BURST = 16

#: Frames by egress port, without ports that sent none.
Frames = dict[int, list[bytes]]


class CollectingTest(BaseTest):
    """A test on one switch; subclasses build sentinels that the switch's program forwards."""

    #: Ports from which frames are collected.
    watched: tuple[int, ...] = PORTS
    _serial = 0

    def setUp(self) -> None:
        """Discard frames that earlier tests left on the links."""
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()

    def sentinel(self, into: int, out: int) -> bytes:
        """Build a frame that the program forwards from one port to another, without its serial number.

        It ends with the mark; the caller appends eight bytes of serial number.
        """
        raise NotImplementedError

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port, and collect the frames of all watched ports."""
        collected: Frames = {}
        for first in range(0, max(1, len(frames)), BURST):
            for out, more in self.exchange_burst(port, *frames[first : first + BURST]).items():
                collected.setdefault(out, []).extend(more)
        return collected

    def exchange_burst(self, port: int, *frames: bytes) -> Frames:
        """Send at most `BURST` frames into a port, and collect the frames of all watched ports."""
        self.send(port, *frames)
        return self.collect(port)

    def send(self, port: int, *frames: bytes) -> None:
        """Send frames into a port."""
        for frame in frames:
            self.dataplane.send(0, port, frame)

    def collect(self, port: int, rounds: int = 1) -> Frames:
        """Collect the frames that the switch sends for what was sent into a port.

        `rounds` is one more than the number of times that the switch recirculates a packet: each round of
        sentinels is sent when the previous one has left, so it is behind the packet's next pass.
        """
        collected: Frames = {}
        for last in range(1, rounds + 1):
            outs = self.watched if last == rounds else (port,)
            CollectingTest._serial += 1
            for first in range(0, len(outs), BURST):
                burst = outs[first : first + BURST]
                for out in burst:
                    self.dataplane.send(0, port, self.sentinel(port, out) + self._serial.to_bytes(8, "big"))
                for out in burst:
                    if got := self._until_sentinel(out):
                        collected.setdefault(out, []).extend(got)
        return collected

    def expect(self, port: int, frame: bytes | Sequence[bytes], **out: bytes) -> None:
        """Send frames and check all that leave: ``p2=frame`` expects one frame at port 2."""
        frames = [frame] if isinstance(frame, bytes) else list(frame)
        expected = {int(name[1:]): [packet] for name, packet in out.items()}
        self.assert_frames(self.exchange(port, *frames), expected)

    def assert_frames(self, got: Frames, expected: Frames) -> None:
        """Compare frames byte for byte; report the first difference as decoded packets."""
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
                self.fail(f"port {port}: no sentinel arrived within {TIMEOUT:.0f} s")
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
