"""Base classes of the test cases: a programmed switch, registered groups, and cleanup."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, TypeVar

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
from alfirk_ptf.parameters import connect, pipeline
from alfirk_ptf.registers import Registers
from alfirk_ptf.target import (
    FEEDBACK_BYTES,
    FIRST_LOCAL_ACK_SESSION,
    HAS_STRATEGIES,
    LOCAL_ACK_BYTES,
    REGISTRATION_BYTES,
    TARGET,
    Feature,
    needs,
    only_v1model,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alfirk_ptf.collect import Frames
    from alfirk_ptf.p4runtime import PacketIn

#: Network of the McstIDs, except for groups whose data gets its ICRC from the pipeline.
GROUP_NETWORK = int(IPv4Address("10.255.0.0"))
#: Sentinels for port p are sent to address p of this network.
SENTINEL_NETWORK = int(IPv4Address("192.0.2.0"))

#: The host attached to each port.
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
    """A test on one switch, with the program loaded and routes for the sentinels."""

    _client: Client | None = None
    #: Optional parts of the data plane that the test needs.
    features: tuple[Feature, ...] = ()

    def setUp(self) -> None:
        """Connect, and discard frames that earlier tests left on the links."""
        needs(*self.features)
        super().setUp()
        self.switch = _connect()
        self.registers = Registers(self.switch)
        self._mark = self.switch.mark()

    def tearDown(self) -> None:
        """Delete what the test inserted; fail if frames for the controller were not read."""
        self.switch.undo(self._mark)
        super().tearDown()
        if unread := self.registers.take_punted():
            self.fail(f"unexpected frames to the controller: {unread}")

    def sentinel(self, into: int, out: int) -> bytes:
        """Build a frame that the program routes from one port to another, without its serial number."""
        return _sentinel(into, out)

    def drops(self, reason: Drop, pipeline: str = "ingress") -> int:
        """Read how often a pipeline has dropped a packet for a reason."""
        counters = [f"{pipeline}.drops"]
        if TARGET.is_tofino and pipeline == "ingress":
            # Drops of the last ingress stage are counted apart.
            counters.append("ingress.final_verdict.late_drops")
        return sum(self.switch.counters(name).get(reason, 0) for name in counters)

    def expect_drop(self, reason: Drop, port: int, *frames: bytes) -> None:
        """Send frames; check that all are dropped in ingress for this reason, and that none leaves."""
        before = self.drops(reason)
        self.assert_frames(self.exchange(port, *frames), {})
        counted = self.drops(reason) - before
        if counted != len(frames):
            self.fail(f"{counted} of {len(frames)} frames were dropped for {reason.name}")


class GroupTest(SwitchTest):
    """A test on a switch with a registered group, which has the first four hosts unless `ports` is set."""

    #: PSN of the group's first packet, and number of messages before it.
    first_psn = 0
    first_msn = 0
    #: The ports of the tree, in the order of path numbers.
    ports: tuple[int, ...] = PORTS
    #: Ports of the tree that lead to another switch.
    uplinks: tuple[int, ...] = ()
    #: Ports of the tree whose members may not be a source.
    only_receive: tuple[int, ...] = ()
    #: How the group finds the minimum PSN, and how it keeps the ICRC valid.
    min_psn = MinPsn.TREE
    icrc_mode = IcrcMode.NEUTRAL
    #: Number of packets that may be unacknowledged, and whether queue pairs retransmit selectively.
    window = DEFAULT_WINDOW
    is_selective = False
    #: Network of the McstID; None for that of the ICRC mode.
    network: int | None = None
    #: Virtual address and R_Key that senders use in a WRITE.
    va, r_key = 0x4000_0000, 0x55AA
    #: Group index; None for the next unused one.
    index: int | None = None
    _next_index = 0

    def setUp(self) -> None:
        """Register a group."""
        super().setUp()
        self.controller = Controller()
        self.start_group()

    def start_group(self) -> None:
        """Register a new group and bring it to the state where the test starts; may be called repeatedly."""
        self.register()

    def member(self, port: int) -> Member:
        """Return the member attached to a port."""
        return replace(HOSTS[port], only_receives=port in self.only_receive)

    def register(self) -> None:
        """Write a new group as a controller does, with a new index, and so with registers of its own."""
        if self.min_psn is not MinPsn.TREE or self.icrc_mode is not IcrcMode.NEUTRAL:
            only_v1model(f"{self.min_psn.name}, {self.icrc_mode.name}")
            needs(Feature.STRATEGIES)
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
        """Write the group: registers first, then multicast group and table entries."""
        self.controller.register(self.group, self.first_psn, self.first_msn)
        group, paths = self.group, self.group.paths
        self.registers.init_group(group.index, len(paths), self.first_psn, self.first_msn)
        self.registers.init_regions(group.slot(paths[0].port), len(paths), self.first_psn)
        self.switch.insert_multicast(self.group.multicast())
        self.switch.insert(*self.group.entries())

    def exchange_burst(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port; collect what the switch sends, also after replies of the controller."""
        self.send(port, *frames)
        # A walk recirculates once for each leaf node, and a probe once more before that.
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
        """Let the controller handle a frame, and send its reply to the switch."""
        if answer := self.controller.handle(packet):
            self.switch.packet_out(answer.payload, kind=answer.kind, egress_port=answer.egress_port)


def with_each_min_psn(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the three strategies for the minimum PSN."""
    return _with_each("min_psn", tuple(MinPsn), test)


def with_tree_and_walk(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the two minimum strategies that need no controller."""
    return _with_each("min_psn", (MinPsn.TREE, MinPsn.WALK), test)


def with_each_icrc(test: type[_Test]) -> type[_Test]:
    """Run a test with a new group for each of the three ICRC modes."""
    return _with_each("icrc_mode", tuple(IcrcMode), test)


def _with_each(name: str, values: Sequence[MinPsn | IcrcMode], test: type[_Test]) -> type[_Test]:
    once: Callable[[_Test], None] = vars(test)["runTest"]

    def run_test(self: _Test) -> None:
        # Tofino's data plane and the core profile implement only the first one of each enumeration.
        for value in values if HAS_STRATEGIES else values[:1]:
            with self.subTest(f"{name}={value.name}"):
                setattr(self, name, value)
                self.start_group()
                once(self)

    setattr(test, "runTest", run_test)  # noqa: B010, a class of its own has no such attribute for mypy
    return test


def _connect() -> Client:
    """Connect, and load the program, once for all tests of a run."""
    if SwitchTest._client is None:
        client = connect(Client)
        client.push(pipeline())
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
    """Build the entry that selects the mirror sessions of a port, on Tofino."""
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
