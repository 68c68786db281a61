"""What the test cases build on: a programmed switch, exact collection of what it sends, and cleaning up.

Collection needs no waiting for silence.  Behind each stimulus a *sentinel* for every port enters by the same
port; switches keep packets of one way in order, so what came out of a port before its sentinel is all that
the stimulus caused there.
"""

from __future__ import annotations

import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

import ptf
from ptf import testutils
from ptf.base_tests import BaseTest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from alfirk_ptf.group import Entry, Group, Member
from alfirk_ptf.group import Path as TreePath
from alfirk_ptf.p4runtime import Client
from alfirk_ptf.registers import Registers

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ports of the switch; beyond them is the CPU.
PORTS = (1, 2, 3, 4)
#: Seconds within which a frame must have come.
PATIENCE = 10.0
#: Sentinels for port p go to this network's address p.
SENTINEL_NETWORK = int(IPv4Address("192.0.2.0"))
SENTINEL_MARK = b"alfirk sentinel "

#: A host behind each port.
HOSTS = {
    port: Member(
        mac=f"02:00:00:00:00:{port:02x}",
        ip=f"10.0.0.{port}",
        qpn=0x100 * port + 0x11,
        va=0x7F00_0000_0000 + (port << 24),
        r_key=0x0101_0101 * port,
    )
    for port in PORTS
}

#: Frames by port of exit; ports without any are left out.
Frames = dict[int, list[bytes]]


class SwitchTest(BaseTest):
    """A test on one switch with four ports, whose program and sentinels' routes are loaded."""

    _client: Client | None = None

    def setUp(self) -> None:
        """Connect, and drop what earlier tests left on the wire."""
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.switch = _connect()
        self._mark = self.switch.mark()
        self._serial = 0

    def tearDown(self) -> None:
        """Delete what the test inserted."""
        self.switch.undo(self._mark)
        super().tearDown()

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port and collect all that comes out of any."""
        for frame in frames:
            self.dataplane.send(0, port, frame)
        self._serial += 1
        for out in PORTS:
            self.dataplane.send(0, port, _sentinel(out, self._serial))
        collected = {out: self._until_sentinel(out) for out in PORTS}
        return {out: got for out, got in collected.items() if got}

    def expect(self, port: int, frame: bytes | Sequence[bytes], **out: bytes) -> None:
        """Send and compare: ``p2=frame`` is what must leave port 2; nothing else may."""
        frames = [frame] if isinstance(frame, bytes) else list(frame)
        wanted = {int(name[1:]): [packet] for name, packet in out.items()}
        self.same(self.exchange(port, *frames), wanted)

    def same(self, got: Frames, wanted: Frames) -> None:
        """Compare byte for byte and show the first difference as packets."""
        for out in PORTS:
            for number, (a, b) in enumerate(zip(got.get(out, []), wanted.get(out, []), strict=False)):
                if a != b:
                    self.fail(f"port {out}, frame {number}: {_difference(a, b)}")
            surplus = len(got.get(out, [])) - len(wanted.get(out, []))
            if surplus:
                what = "missing" if surplus < 0 else "too many"
                frames = (wanted if surplus < 0 else got)[out][-abs(surplus) :]
                shown = "; ".join(Ether(frame).summary() for frame in frames)
                self.fail(f"port {out}: {abs(surplus)} {what}: {shown}")

    def _until_sentinel(self, port: int) -> list[bytes]:
        frames: list[bytes] = []
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.dataplane.poll(0, port, timeout=max(0.01, deadline - time.monotonic()))
            if not isinstance(found, self.dataplane.PollSuccess):
                self.fail(f"port {port}: the sentinel did not come within {PATIENCE:.0f} s")
            frame = bytes(found.packet)
            if SENTINEL_MARK in frame:
                if _sentinel(port, self._serial)[-8:] == frame[-8:]:
                    return frames
            else:
                frames.append(frame)


class GroupTest(SwitchTest):
    """A test on a switch that knows a group: all four hosts unless `paths` says otherwise."""

    #: PSN of the group's first packet.
    first_psn = 0
    #: The ports of the tree, in the order of their numbers.
    ports: tuple[int, ...] = PORTS
    #: Those of them that lead to another switch.
    uplinks: tuple[int, ...] = ()
    _next_index = 0

    def setUp(self) -> None:
        """Register a group."""
        super().setUp()
        self.register()

    def register(self) -> None:
        """Write a new group as a controller does; what the last one left in registers is not its own."""
        index = GroupTest._next_index
        GroupTest._next_index += 1
        paths = tuple(TreePath(p, None if p in self.uplinks else HOSTS[p]) for p in self.ports)
        self.group = Group(f"10.255.1.{index + 1}", index, paths, va=0x4000_0000, r_key=0x55AA)
        self.registers = Registers(self.switch)
        self.registers.init_group(index, len(paths), self.first_psn)
        self.switch.insert_multicast(self.group.multicast())
        self.switch.insert(*self.group.entries())


def _connect() -> Client:
    """Connect and load the program once for all tests of a run."""
    if SwitchTest._client is None:
        client = Client(
            testutils.test_param_get("grpc"),
            int(testutils.test_param_get("device_id")),
            Path(testutils.test_param_get("p4info")),
        )
        client.push(Path(testutils.test_param_get("program")))
        client.insert_clone_sessions({port: port for port in PORTS})
        client.insert(*(_route(SENTINEL_NETWORK + port, port) for port in PORTS))
        SwitchTest._client = client
    return SwitchTest._client


def _route(address: int, port: int) -> Entry:
    return Entry(
        "ingress.ipv4_routing.routes",
        {"dst_ip": (address, 32)},
        "ingress.ipv4_routing.to_switch",
        {"port": port},
    )


def _sentinel(port: int, serial: int) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:ff")
        / IP(src="192.0.2.254", dst=str(IPv4Address(SENTINEL_NETWORK + port)))
        / UDP(sport=9, dport=9)
        / Raw(SENTINEL_MARK + serial.to_bytes(8, "big"))
    )


def _difference(got: bytes, wanted: bytes) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted))
    )
    return (
        f"differs at byte {at} of {len(wanted)} (got {len(got)} bytes)\n"
        f"got      {got.hex()}\nexpected {wanted.hex()}\n"
        f"got:\n{Ether(got).show(dump=True)}\nexpected:\n{Ether(wanted).show(dump=True)}"
    )
