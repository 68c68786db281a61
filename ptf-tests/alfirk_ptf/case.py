"""What the test cases build on: a programmed switch, groups, and cleaning up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ptf import testutils
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from alfirk_ptf.collect import PORTS, SENTINEL_MARK, CollectingTest
from alfirk_ptf.contract import DEFAULT_WINDOW, RECOMPUTE_NETWORK, Drop, IcrcMode, MinPsn
from alfirk_ptf.controller import Controller
from alfirk_ptf.group import Entry, Group, Member
from alfirk_ptf.group import Path as TreePath
from alfirk_ptf.live import CPU_PORT, SWITCH_PORTS
from alfirk_ptf.p4runtime import Client
from alfirk_ptf.packets import VIRTUAL_MAC
from alfirk_ptf.registers import Registers
from alfirk_ptf.target import (
    FEEDBACK_BYTES,
    FIRST_LOCAL_ACK_SESSION,
    LOCAL_ACK_BYTES,
    REGISTRATION_BYTES,
    TARGET,
    only_v1model,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alfirk_ptf.collect import Frames
    from alfirk_ptf.p4runtime import PacketIn

#: McstIDs are allocated from here, unless the pipeline computes the ICRC of data.
GROUP_NETWORK = int(IPv4Address("10.255.0.0"))
#: Sentinels for port p go to this network's address p.
SENTINEL_NETWORK = int(IPv4Address("192.0.2.0"))

#: A host behind each port.
HOSTS = {
    port: Member(
        mac=f"02:00:00:00:00:{port:02x}",
        ip=f"10.0.0.{port}",
        qpn=0x100 * port + 0x11,
        va=0x7F00_0000_0000 + (port << 24),
        r_key=0x0101_0101 * port,
    )
    for port in SWITCH_PORTS
}

_Test = TypeVar("_Test", bound="GroupTest")


class SwitchTest(CollectingTest):
    """A test on one switch whose program and sentinels' routes are loaded."""

    _client: Client | None = None

    def setUp(self) -> None:
        """Connect, and drop what earlier tests left on the wire."""
        super().setUp()
        self.switch = _connect()
        self.registers = Registers(self.switch)
        self._mark = self.switch.mark()

    def tearDown(self) -> None:
        """Delete what the test inserted; all that went to the controller must have been read."""
        self.switch.undo(self._mark)
        super().tearDown()
        if unread := self.registers.take_punted():
            self.fail(f"frames went to the controller that the test knows nothing of: {unread}")

    def sentinel(self, into: int, out: int) -> bytes:
        """Build the head of a frame that the program routes from one port to another."""
        return _sentinel(into, out)

    def drops(self, reason: Drop, pipeline: str = "ingress") -> int:
        """Read how often a pipeline has dropped a packet for a reason."""
        counters = [f"{pipeline}.drops"]
        if TARGET.is_tofino and pipeline == "ingress":
            # Those of the last stage.
            counters.append("ingress.final_verdict.late_drops")
        return sum(self.switch.counters(name).get(reason, 0) for name in counters)

    def expect_drop(self, reason: Drop, port: int, *frames: bytes) -> None:
        """Send frames: each is dropped in ingress for this reason, and nothing comes out anywhere."""
        before = self.drops(reason)
        self.assert_frames(self.exchange(port, *frames), {})
        counted = self.drops(reason) - before
        if counted != len(frames):
            self.fail(f"{counted} of {len(frames)} frames were dropped for {reason.name}")


class GroupTest(SwitchTest):
    """A test on a switch that knows a group: the first four hosts unless `ports` says otherwise."""

    #: PSN of the group's first packet, and messages before it.
    first_psn = 0
    first_msn = 0
    #: The ports of the tree, in the order of their numbers.
    ports: tuple[int, ...] = PORTS
    #: Those of them that lead to another switch.
    uplinks: tuple[int, ...] = ()
    #: Those of them whose members may not be a source.
    only_receive: tuple[int, ...] = ()
    #: The group's strategies.
    min_psn = MinPsn.TREE
    icrc_mode = IcrcMode.NEUTRAL
    #: Packets that its source may be ahead, and whether its queue pairs repeat selectively.
    window = DEFAULT_WINDOW
    is_selective = False
    #: Where the McstID is from, unless its ICRC mode says that.
    network: int | None = None
    #: Address and key that senders use in a WRITE.
    va, r_key = 0x4000_0000, 0x55AA
    #: Its index, unless any will do.
    index: int | None = None
    _next_index = 0

    def setUp(self) -> None:
        """Register a group."""
        super().setUp()
        self.controller = Controller()
        self.start_group()

    def start_group(self) -> None:
        """Bring a group to where the test starts: a new one, so this may be called again."""
        self.register()

    def member(self, port: int) -> Member:
        """Name the member behind a port."""
        return replace(HOSTS[port], only_receives=port in self.only_receive)

    def register(self) -> None:
        """Write a new group as a controller does; what the last one left in registers is not its own."""
        if self.min_psn is not MinPsn.TREE or self.icrc_mode is not IcrcMode.NEUTRAL:
            only_v1model(f"{self.min_psn.name}, {self.icrc_mode.name}")
        index = self.index
        if index is None:
            index = GroupTest._next_index
            GroupTest._next_index += 1
        paths = tuple(TreePath(p, None if p in self.uplinks else self.member(p)) for p in self.ports)
        network = self.network
        if network is None:
            network = RECOMPUTE_NETWORK if self.icrc_mode is IcrcMode.RECOMPUTE else GROUP_NETWORK
        self.group = Group(
            str(IPv4Address(network + index + 1)),
            index,
            paths,
            va=self.va,
            r_key=self.r_key,
            min_psn=self.min_psn,
            icrc_mode=self.icrc_mode,
            window=self.window,
            is_selective=self.is_selective,
        )
        self.install()

    def install(self) -> None:
        """Write the group, its registers first."""
        self.controller.register(self.group, self.first_psn, self.first_msn)
        group, paths = self.group, self.group.paths
        self.registers.init_group(group.index, len(paths), self.first_psn, self.first_msn)
        self.registers.init_regions(group.slot(paths[0].port), len(paths), self.first_psn)
        self.switch.insert_multicast(self.group.multicast())
        self.switch.insert(*self.group.entries())

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port and collect all that comes out, with what the controller does about it."""
        self.send(port, *frames)
        # A walk looks at each leaf node once, and a probe goes round once before it begins to.
        walks = self.group.min_psn is MinPsn.WALK and len(frames) > 0
        collected = self.collect(port, 1 + self.group.leaf_nodes if walks else 1)
        if self.group.min_psn is MinPsn.PUNT or self.group.icrc_mode is IcrcMode.PUNT:
            for packet in self.registers.take_punted():
                self.control(packet)
            self.registers.take_punted()
            for out, more in self.collect(port).items():
                collected.setdefault(out, []).extend(more)
        return collected

    def control(self, packet: PacketIn) -> None:
        """Do what the controller does about a frame."""
        if answer := self.controller.handle(packet):
            self.switch.packet_out(answer.payload, kind=answer.kind, egress_port=answer.egress_port)


def with_each_min_psn(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the three strategies."""
    return _with_each("min_psn", tuple(MinPsn), test)


def with_tree_and_walk(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the two strategies that need no controller."""
    return _with_each("min_psn", (MinPsn.TREE, MinPsn.WALK), test)


def with_each_icrc(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the three ways to keep the ICRC right."""
    return _with_each("icrc_mode", tuple(IcrcMode), test)


def _with_each(name: str, values: Sequence[MinPsn | IcrcMode], test: type[_Test]) -> type[_Test]:
    once: Callable[[_Test], None] = vars(test)["runTest"]

    def run_test(self: _Test) -> None:
        # Tofino has the first strategy of each kind alone.
        for value in values[:1] if TARGET.is_tofino else values:
            with self.subTest(f"{name}={value.name}"):
                setattr(self, name, value)
                self.start_group()
                once(self)

    setattr(test, "runTest", run_test)  # noqa: B010, a class of its own has no such attribute for mypy
    return test


def _connect() -> Client:
    """Connect and load the program once for all tests of a run."""
    if SwitchTest._client is None:
        client = Client(
            testutils.test_param_get("grpc"),
            int(testutils.test_param_get("device_id")),
            Path(testutils.test_param_get("p4info")),
        )
        client.push(Path(testutils.test_param_get("program")))
        if TARGET.is_tofino:
            client.insert_clone_sessions({port: port for port in SWITCH_PORTS})
            client.insert_clone_sessions({TARGET.session_of(CPU_PORT): CPU_PORT}, length=FEEDBACK_BYTES)
            client.insert_clone_sessions({TARGET.last_session: CPU_PORT}, length=REGISTRATION_BYTES)
            again = TARGET.recirculation_ports.start
            client.insert_clone_sessions({again: again}, length=FEEDBACK_BYTES)
            answers = {FIRST_LOCAL_ACK_SESSION + port: port for port in SWITCH_PORTS}
            client.insert_clone_sessions(answers, length=LOCAL_ACK_BYTES)
            client.insert(*(_mirrors(port) for port in SWITCH_PORTS))
        else:
            client.insert_clone_sessions({port: port for port in (*SWITCH_PORTS, CPU_PORT)})
        client.insert(*(_route(SENTINEL_NETWORK + port, port) for port in SWITCH_PORTS))
        SwitchTest._client = client
    return SwitchTest._client


def _route(address: int, port: int) -> Entry:
    return Entry(
        "ingress.ipv4_routing.routes",
        {"dst_ip": (address, 32)},
        "ingress.ipv4_routing.to_switch",
        {"port": port},
    )


def _mirrors(port: int) -> Entry:
    """Name the sessions of a port's mirrors, on Tofino."""
    return Entry(
        "ingress.mirrors",
        {"ingress_port": port},
        "ingress.set_sessions",
        {"record": port, "answer": FIRST_LOCAL_ACK_SESSION + port},
    )


@cache
def _sentinel(into: int, out: int) -> bytes:
    return bytes(
        Ether(src=HOSTS[into].mac, dst=VIRTUAL_MAC)
        / IP(src=HOSTS[into].ip, dst=str(IPv4Address(SENTINEL_NETWORK + out)))
        / UDP(sport=9, dport=9, chksum=0)
        / Raw(SENTINEL_MARK + bytes(8))
    )[:-8]
