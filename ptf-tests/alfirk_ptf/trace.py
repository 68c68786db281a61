"""Finds the trace of a packet in the output of `alfirk switch --trace`.

A line of a trace begins with `#N`, or `#N.C` for a copy: N is the number of the packet, C that of the copy.
The first line of a packet has its ingress port and its length. Other lines of the output are skipped.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LINE = re.compile(r"#(\d+)(?:\.(\d+))? ")
_FIRST = re.compile(r"#\d+ in port (\d+), (\d+) bytes")
_OUT = re.compile(r"#\d+(?:\.\d+)? out port (\d+), ")
#: Maximum number of lines of one packet that are shown, and how many of these are the last ones.
_SHOWN = 40
_SHOWN_LAST = 12
#: Seconds to wait for the trace of a packet.
_TRACE_TIME = 1.0


@dataclass(frozen=True)
class Arrival:
    """A packet by its arrival: the `number`-th packet of a length into a port, from 1."""

    port: int
    #: Length of the frame in bytes.
    length: int
    number: int


@dataclass
class Steps:
    """The trace of one packet."""

    lines: list[str] = field(default_factory=list)

    @property
    def out_ports(self) -> set[int]:
        """The ports by which the packet, or a copy of it, has left the switch."""
        return {int(found[1]) for line in self.lines if (found := _OUT.match(line))}

    def without_copies(self, ports: set[int]) -> Steps:
        """Return the trace without the copies that have left by these ports."""
        copy = {line: _copy(line) for line in self.lines}
        omitted = {
            copy[line] for line in self.lines if (found := _OUT.match(line)) and int(found[1]) in ports
        }
        return Steps([line for line in self.lines if copy[line] is None or copy[line] not in omitted])

    def shown(self) -> list[str]:
        """Return the lines; of a long trace, the first and the last ones."""
        left_out = len(self.lines) - _SHOWN
        if left_out <= 0:
            return list(self.lines)
        first = self.lines[: _SHOWN - _SHOWN_LAST]
        return [*first, f"... {left_out} more lines", *self.lines[-_SHOWN_LAST:]]


def _copy(line: str) -> str | None:
    """Return the number of the copy whose step a line is; `None` for the packet itself."""
    found = _LINE.match(line)
    return found[2] if found else None


class Traces:
    """The traces of packets, read as the switch writes them."""

    def __init__(self) -> None:
        self._arrived: Counter[tuple[int, int]] = Counter()
        self._kept: dict[Arrival, Steps] = {}
        #: The newest packet with each number; numbers begin again at 1 when a program is loaded.
        self._open: dict[str, Steps] = {}
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take more output of the switch, which may end within a line."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            found = _LINE.match(line)
            if found is None:
                continue
            if first := _FIRST.match(line):
                port, length = int(first[1]), int(first[2])
                self._arrived[port, length] += 1
                steps = self._open[found[1]] = Steps()
                self._kept[Arrival(port, length, self._arrived[port, length])] = steps
            else:
                steps = self._open.setdefault(found[1], Steps())
            steps.lines.append(line)

    def discard(self) -> None:
        """Discard the traces of packets that have arrived; their numbers still count."""
        self._kept.clear()
        self._open.clear()

    def of(self, arrival: Arrival) -> Steps | None:
        """Return the trace of a packet; `None` if it has not arrived, or was discarded."""
        return self._kept.get(arrival)

    def newest(self) -> list[tuple[Arrival, Steps | None]]:
        """Return the traces of all packets that are not discarded, the newest first."""
        return list(reversed(self._kept.items()))


class TraceFile:
    """The traces of packets in a file to which a switch writes its output."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._traces = Traces()

    def _read(self) -> None:
        with self._path.open("rb") as output:
            output.seek(self._offset)
            more = output.read()
        self._offset += len(more)
        self._traces.feed(more.decode(errors="replace"))

    def discard(self) -> None:
        """Discard the traces of all packets so far."""
        self._read()
        self._traces.discard()

    def of(self, arrivals: Sequence[Arrival]) -> list[tuple[Arrival, Steps | None]]:
        """Return the traces of packets; waits if they are not in the file yet."""
        deadline = time.monotonic() + _TRACE_TIME
        while True:
            self._read()
            found = [(arrival, self._traces.of(arrival)) for arrival in arrivals]
            if all(steps for _, steps in found) or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def newest(self) -> list[tuple[Arrival, Steps | None]]:
        """Return the traces of all packets that are not discarded, the newest first."""
        self._read()
        return self._traces.newest()


class Sends:
    """The packets that tests have sent."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[int, int]] = Counter()
        self._burst: list[Arrival] = []
        self._is_open = False

    def send(self, port: int, length: int) -> None:
        """Record a packet that was sent into a port of the switch."""
        self._sent[port, length] += 1
        if not self._is_open:
            self._burst = []
        self._is_open = True
        self._burst.append(Arrival(port, length, self._sent[port, length]))

    def receive(self) -> None:
        """Record that the test waits for packets: the next packet that it sends belongs to another burst."""
        self._is_open = False

    def start(self) -> None:
        """Begin a test."""
        self._burst = []
        self._is_open = False

    @property
    def burst(self) -> list[Arrival]:
        """The packets that the test sent before it last waited for packets."""
        return list(self._burst)


def suspects(found: list[tuple[Arrival, Steps | None]], port: int | None, *, is_missing: bool) -> list[int]:
    """Return the indexes of packets in the order of suspicion.

    The first are packets that did not leave by `port`, if a packet is missing there; those that did, if a
    packet is unexpected there. Without a port the order is that of sending.
    """

    def is_suspect(steps: Steps | None) -> bool:
        return steps is None or port is None or (port in steps.out_ports) != is_missing

    return sorted(range(len(found)), key=lambda index: not is_suspect(found[index][1]))
