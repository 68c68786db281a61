"""Explains failed tests inside PTF's process: the fields in which packets differ, and the packet's trace."""

from __future__ import annotations

import json
import os
import sys
import traceback
import unittest
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import ptf
import ptf.dataplane
from ptf.mask import Mask

from alfirk_ptf.bfrt.schema import BfRtError
from alfirk_ptf.fields import differences, run, shown
from alfirk_ptf.p4runtime import P4RuntimeError
from alfirk_ptf.settings import Settings
from alfirk_ptf.trace import Sends, Steps, TraceFile, suspects

if TYPE_CHECKING:
    from types import TracebackType

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType]

#: Maximum number of packets of a failed test whose traces are shown.
_SHOWN_TRACES = 2
_PTF = str(Path(ptf.__file__).parent)
#: Folders whose frames are left out of tracebacks of failed checks: PTF, Python's unittest, our classes.
_HIDDEN = (_PTF, str(Path(unittest.__file__).parent), str(Path(__file__).parent))

#: Names of exceptions that are left out in front of their messages.
_PREFIXES = (
    "AssertionError: ",
    f"{P4RuntimeError.__module__}.P4RuntimeError: ",
    f"{BfRtError.__module__}.BfRtError: ",
)


@dataclass(frozen=True)
class Poll:
    """A wait of the test for a packet."""

    #: The port; `None` for any.
    port: int | None
    result: Any


class Recorder:
    """What the present test has sent and waited for."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sends = Sends()
        self.poll: Poll | None = None
        self._traces = TraceFile(Path(settings.trace)) if settings.trace else None

    def start(self) -> None:
        """Begin a test."""
        self.sends.start()
        self.poll = None
        if self._traces is not None:
            self._traces.discard()

    def traces(self, port: int | None, *, is_missing: bool) -> list[str]:
        """Describe how the switch processed the packets of the last burst, the most suspect one first.

        If the test sent none by itself, the newest packets of the controller are described.
        """
        if self._traces is None:
            return []
        found = self._traces.of(self.sends.burst) or self._traces.newest()
        lines = []
        chosen = suspects(found, port, is_missing=is_missing)
        for index in chosen[:_SHOWN_TRACES]:
            arrival, steps = found[index]
            which = "the packet" if len(found) == 1 else f"packet {index + 1} of {len(found)}"
            lines.append(f"trace of {which} sent into port {arrival.port}:")
            lines += [f"  {line}" for line in _steps(steps)]
        if len(found) > _SHOWN_TRACES:
            lines.append(f"traces of all packets: {self.settings.trace}")
        return lines


def _steps(steps: Steps | None) -> list[str]:
    return steps.shown() if steps else ["the switch received no such packet"]


def explain(recorder: Recorder) -> list[str]:
    """Explain a failure of PTF's functions that verify packets, from the last wait for a packet."""
    poll = recorder.poll
    if poll is None:
        return recorder.traces(None, is_missing=True)
    if isinstance(poll.result, ptf.dataplane.DataPlane.PollSuccess):
        port = poll.result.port
        fields = _dissect(recorder.settings, bytes(poll.result.packet))
        return [f"received at port {port}: {fields}", *recorder.traces(port, is_missing=False)]
    expected = poll.result.expected_packet
    lines: list[str] = []
    if expected is not None:
        lines = _missing(recorder.settings, expected, poll.port, list(poll.result.recent_packets))
    return lines + recorder.traces(poll.port, is_missing=True)


def _missing(settings: Settings, expected: Any, port: int | None, received: list[bytes]) -> list[str]:
    where = "any port" if port is None else f"port {port}"
    if received:
        mask, frame = _bytes(expected)
        nearest = min(received, key=lambda other: _distance(frame, bytes(other), mask))
        count = "the packet" if len(received) == 1 else f"the most similar one of {len(received)} packets"
        lines = [f"{count} at {where} differs from the expected one:"]
        return lines + [f"  {line}" for line in _differences(settings, expected, bytes(nearest))]
    queues = ptf.dataplane_instance.packet_queues
    others = {at: [bytes(packet) for packet, _ in queue] for (_, at), queue in queues.items() if queue}
    for other, packets in sorted(others.items()):
        if any(ptf.dataplane.match_exp_pkt(expected, packet) for packet in packets):
            return [f"nothing left {where}; the expected packet left port {other}"]
    counts = ", ".join(f"port {other}: {len(packets)}" for other, packets in sorted(others.items()))
    lines = [f"nothing left {where}; packets at other ports: {counts or 'none'}"]
    for other, packets in sorted(others.items())[:1]:
        lines.append(f"the packet at port {other} differs from the expected one:")
        lines += [f"  {line}" for line in _differences(settings, expected, packets[0])]
    return lines


def _bytes(expected: Any) -> tuple[bytes, bytes]:
    """Return mask and bytes of an expected packet."""
    if isinstance(expected, Mask):
        return bytes(expected.mask), bytes(expected.exp_pkt)
    frame = bytes(expected)
    return b"\xff" * len(frame), frame


def _distance(expected: bytes, received: bytes, mask: bytes) -> int:
    """Return the number of compared bits that differ; bytes that only one packet has count fully."""
    bits = sum(((a ^ b) & m).bit_count() for a, b, m in zip(expected, received, mask, strict=False))
    return bits + 8 * abs(len(expected) - len(received))


def _differences(settings: Settings, expected: Any, received: bytes) -> list[str]:
    mask, frame = _bytes(expected)
    if isinstance(expected, Mask) and expected.ignore_extra_bytes:
        received = received[: len(frame)]
    return differences(settings.alfirk, frame, received, mask, settings.program)


def _dissect(settings: Settings, packet: bytes) -> str:
    if settings.alfirk:
        for names in (["--p4", settings.program], []):
            done = run(settings.alfirk, ["packet", "dissect", packet.hex(), "--summary", *names])
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout.strip()
    return shown(packet)


def describe(error: ExcInfo, explanation: list[str]) -> str:
    """Write an exception with the lines of the test that led to it, and the explanation.

    Of a message of PTF about packets, only the first line stays if there is an explanation.
    """
    _, value, where = error
    frames = list(traceback.extract_tb(where))
    if isinstance(value, AssertionError | P4RuntimeError | BfRtError):
        frames = [frame for frame in frames if not frame.filename.startswith(_HIDDEN)]
    message = "".join(traceback.format_exception_only(value)).rstrip()
    if explanation and _is_of_ptf(where):
        message = message.partition("\n")[0]
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return "".join(traceback.format_list(frames)) + "\n".join([message, *explanation]) + "\n"


def _is_of_ptf(where: TracebackType) -> bool:
    return any(frame.filename.startswith(_PTF) for frame in traceback.extract_tb(where))


class Result(unittest.TextTestResult):
    """Prints each test as unittest does, and at the end each failure with its explanation."""

    #: That of the tests in this process, and the numbers of `passed`, `failed` and `skipped` ones.
    recorder: ClassVar[Recorder]
    outcomes: ClassVar[Counter[str]] = Counter()

    def startTest(self, test: unittest.TestCase) -> None:
        """Begin a test."""
        self.recorder.start()
        super().startTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Count a passed test."""
        super().addSuccess(test)
        self.outcomes["passed"] += 1

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Count a skipped test."""
        super().addSkip(test, reason)
        self.outcomes["skipped"] += 1

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Explain a failed test."""
        super().addFailure(test, err)
        self._failed(self.failures, test, err, is_failure=True)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Describe a test with an error, which is not explained by packets."""
        super().addError(test, err)
        self._failed(self.errors, test, err, is_failure=False)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """Explain a failed part of a test."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            is_failure = issubclass(err[0], test.failureException)
            listed = self.failures if is_failure else self.errors
            self._failed(listed, subtest, err, is_failure=is_failure)

    def _failed(self, listed: list[Any], test: unittest.TestCase, err: Any, *, is_failure: bool) -> None:
        self.outcomes["failed"] += 1
        explanation: list[str] = []
        if is_failure:
            is_of_ptf = _is_of_ptf(err[2])
            explanation = explain(self.recorder) if is_of_ptf else self.recorder.traces(None, is_missing=True)
        listed[-1] = (test, describe(err, explanation))

    def printErrors(self) -> None:
        """Print the failures, and write the results: what PTF would print after this is the runner's."""
        super().printErrors()
        self.stream.flush()
        results = Path(self.recorder.settings.results)
        results.write_text(json.dumps(self.outcomes), encoding="utf-8")
        with Path(os.devnull).open("w", encoding="utf-8") as nothing:
            sys.stdout.flush()
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)


def install(arguments: str) -> None:
    """Let PTF record packets and explain failures. `arguments` are `Settings` as text."""
    recorder = Recorder(Settings.parse(arguments))

    class RecordingDataPlane(ptf.dataplane.DataPlane):
        """PTF's data plane; records what tests send and wait for."""

        def send(self, device_number: int, port_number: int, packet: bytes) -> int:
            recorder.sends.send(port_number, len(packet))
            return super().send(device_number, port_number, packet)

        def poll(
            self,
            device_number: int = 0,
            port_number: int | None = None,
            timeout: float | None = None,
            exp_pkt: Any = None,
            filters: Any = (),
        ) -> Any:
            recorder.sends.receive()
            result = super().poll(device_number, port_number, timeout, exp_pkt, filters)
            recorder.poll = Poll(port_number, result)
            return result

    ptf.dataplane.DataPlane = RecordingDataPlane  # type: ignore[misc]
    Result.recorder = recorder
    unittest.TextTestRunner.resultclass = Result  # type: ignore[assignment]
