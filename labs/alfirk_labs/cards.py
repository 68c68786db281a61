"""Hosts with RoCE cards on a switch: `alfirk host`, which makes the checks of a card and counts drops."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alfirk_mininet.guests import START_LIMIT, Guest, Image, host_program
from alfirk_mininet.process import Child, stop_all
from alfirk_ptf.group import Member
from alfirk_ptf.live import MTU

from alfirk_labs.outcome import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from alfirk_labs.outcome import Setting

#: Time limit in seconds of a host's reply.
TIMEOUT = 20.0
TRANSFER = 1


class SilentError(LabError):
    """A host did not report an expected event in time."""


@dataclass(frozen=True)
class GroupOfCards:
    """Common parameters of a group's members."""

    mcst_id: str
    virtual_qpn: int
    first_psn: int
    #: Bytes per message, and number of messages.
    size: int
    messages: int


class Card:
    """A host with a card on a port of the switch."""

    def __init__(self, port: int, child: Child, path: str) -> None:
        self.port = port
        self.ip = f"10.0.0.{port}"
        self._child = child
        self._path = path
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def connect(self) -> None:
        """Connect to the host's control socket, once it listens."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            opened = socket.socket(socket.AF_UNIX)
            opened.settimeout(TIMEOUT)
            try:
                opened.connect(self._path)
            except OSError:
                opened.close()
            else:
                break
            if ended := self._child.ended():
                message = f"{self._child.what} {ended}: {self._child.last_lines()}"
                raise LabError(message)
            if time.monotonic() > deadline:
                message = f"{self._child.what} did not listen within {TIMEOUT:.0f} s"
                raise LabError(message)
            time.sleep(0.01)
        self._lines = opened.makefile("rw", encoding="utf-8")
        opened.close()

    def ask(self, request: str, **fields: object) -> dict[str, Any]:
        """Send a request to the host; return its reply."""
        self._number += 1
        self._lines.write(json.dumps({"id": self._number, "request": request, **fields}) + "\n")
        self._lines.flush()
        while True:
            line = self._line()
            if line.get("id") == self._number:
                if "error" in line:
                    message = f"host {self.port}: {line['error']}"
                    raise LabError(message)
                return line
            self._events.append(line)

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event of the host."""
        while True:
            line = self._events.pop(0) if self._events else self._line()
            if line.get("event") == "failed":
                message = f"host {self.port}: {line['error']}"
                raise LabError(message)
            if line.get("event") == name:
                return line

    def prepare(self, group: GroupOfCards, members: Sequence[str], rank: int) -> Member:
        """Create the host's queue pair in the group; return the parameters that its switch needs."""
        spec = {
            "algorithm": "alfirk",
            "rank": rank,
            "members": list(members),
            "size": group.size,
            "slices": group.messages,
            "group": {
                "mcst_id": group.mcst_id,
                "virtual_qpn": group.virtual_qpn,
                "initial_psn": group.first_psn,
                "va": 0,
                "rkey": 0,
            },
        }
        info = self.ask("info")
        (endpoint,) = self.ask("prepare", transfer=TRANSFER, spec=spec)["endpoints"]
        return Member(mac=info["mac"], ip=self.ip, qpn=endpoint["qpn"])

    def join(self) -> None:
        """Make the queue pair ready to receive; its peer is the group."""
        self.ask("connect", transfer=TRANSFER, peers=[])
        self.event("ready")

    def fate(self, packets: int) -> str | None:
        """Wait until the card has processed this many packets; return why it dropped one, or None.

        `drops` also counts frames other than RoCE: marks of the check.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            status = self.status()
            drops: dict[str, int] = status["host"]["drops"]
            reasons = [why for why, count in drops.items() if count and why != "no_listener"]
            if reasons:
                return reasons[0]
            (edge,) = status["edges"]
            if edge["stats"]["requests_received"] + edge["stats"]["duplicates"] >= packets:
                return None
            if time.monotonic() > deadline:
                return "never_came"
            time.sleep(0.01)

    def status(self) -> dict[str, Any]:
        """Return the progress of the transfer."""
        return self.ask("status", transfer=TRANSFER)

    def _line(self) -> dict[str, Any]:
        try:
            text = self._lines.readline()
        except TimeoutError:
            text = ""
        if not text:
            message = f"no event of host {self.port} for {TIMEOUT:.0f} s. {self._child.last_lines()}"
            raise SilentError(message)
        line: dict[str, Any] = json.loads(text)
        return line


@contextmanager
def cards(setting: Setting, interfaces: Mapping[int, str]) -> Iterator[list[Card]]:
    """Start a host with a card on each of these interfaces, which are keyed by switch port."""
    with ExitStack() as stack:
        started = []
        children: list[Child] = []
        stack.callback(stop_all, children)
        for port, interface in interfaces.items():
            path = str(setting.work / f"h{port}.sock")
            command = [
                *(str(setting.alfirk), "host", "--interface", interface, "--name", f"h{port}"),
                *("--ip", f"10.0.0.{port}/8", "--control", path),
            ]
            child = Child.spawn(f"host {port}", command, setting.work / f"h{port}.log")
            children.append(child)
            started.append(Card(port, child, path))
        for card in started:
            card.connect()
        yield started


@contextmanager
def guest_card(setting: Setting, image: Path, port: int, tap: str) -> Iterator[Card]:
    """Boot a guest with Linux's RDMA stack on a port."""
    Image(image).check(setting.alfirk)
    mac = f"02:00:00:00:01:{port:02x}"
    guest = Guest(f"h{port}", f"10.0.0.{port}/8", mac, MTU, tap, setting.work, Image(image))
    guest.program = host_program(guest, seed=1)
    guest.start()
    assert guest.child is not None
    try:
        deadline = time.monotonic() + START_LIMIT
        while not guest.is_ready():
            if ended := guest.child.ended():
                message = f"guest {port} {ended}: {guest.child.last_lines()}"
                raise LabError(message)
            if time.monotonic() > deadline:
                message = f"guest {port} did not boot within {START_LIMIT:.0f} s: {guest.child.last_lines()}"
                raise LabError(message)
            time.sleep(0.05)
        card = Card(port, guest.child, str(guest.control))
        card.connect()
        yield card
    finally:
        stop_all([guest.child])
