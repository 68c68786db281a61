"""Mininet nodes: a switch that runs ``alfirk switch``, a host that runs ``alfirk host``, the link between."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import socket
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mininet.link import Intf, Link
from mininet.log import info
from mininet.node import Controller, Host, Node, Switch

from alfirk_mininet import entries as table_entries
from alfirk_mininet import interfaces
from alfirk_mininet.binary import check_tools, find_alfirk
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.process import Child, stop_all
from alfirk_mininet.program import load_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from alfirk_mininet.part import Part
    from alfirk_mininet.topology import Attributes

#: Time limit in seconds until all processes are ready.
START_LIMIT = 30.0
#: Port number of the controller in all our pipelines (CPU_PORT in p4src).
CPU_PORT = 510
#: Maximum length of a Unix socket's path (sun_path without the final zero).
LONGEST_SOCKET_PATH = 107

# Connection preface of an HTTP/2 client (RFC 9113, section 3.4) and an empty SETTINGS frame; a gRPC server
# replies with a SETTINGS frame of its own.
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP2_SETTINGS = 4


@dataclass(frozen=True)
class Settings:
    """Settings of all nodes of a network."""

    #: Path of the alfirk command.
    alfirk: Path
    #: Folder for logs, sockets and captures.
    workdir: Path
    journal: Journal | None = None
    #: Loss probability of frames on each link, in each direction.
    loss: float = 0.0
    #: Seed of everything random.
    seed: int = 1
    #: How many times slower than real time the clock is. With it, links have the rates, delays and queues of
    #: the topology; without it, they have none.
    time_scale: int | None = None
    #: Host model on that clock, as for `alfirk host --host-model`.
    host_model: str | None = None
    #: Pipeline latency of switches on that clock, in nanoseconds.
    pipeline_latency: int = 0
    #: Folder for captures; none by default.
    pcap: Path | None = None
    #: Whether hosts' kernels have the hosts' addresses, as ping, iperf and other programs need.
    kernel_ip: bool = False
    #: Whether hosts run `alfirk host`.
    rdma: bool = True
    #: Additional options for every switch, before the `--`.
    switch_options: Sequence[str] = field(default=())
    #: Drop rules for ports of switches, as for `alfirk switch --port-drop`, by switch.
    port_drops: Sequence[tuple[str, str]] = field(default=())
    #: Hosts that are QEMU guests, their image, and whether they use Linux's RDMA stack or alfirk's own.
    guests: Sequence[str] = field(default=())
    guest_image: Path | None = None
    guest_verbs: bool = True
    #: This machine's part of the network; the whole network if not set.
    part: Part | None = None
    #: Whether switches serve BMv2's Thrift services; a switch with a program of its own always does.
    thrift: bool = False

    @property
    def listen(self) -> str:
        """Address of P4Runtime servers, which must be reachable if the controller is on another machine."""
        return self.part.address if self.part else "127.0.0.1"

    def has(self, *nodes: str) -> bool:
        """Whether these nodes are all on this machine."""
        return self.part is None or self.part.nodes.issuperset(nodes)

    @property
    def is_timed(self) -> bool:
        """Whether links have rates, so that the scheduling of processes matters."""
        return self.time_scale is not None


@cache
def shared_settings() -> Settings:
    """Default settings of nodes in a script or in ``mn``: one folder and journal for all."""
    alfirk = find_alfirk()
    check_tools(alfirk)
    clean()
    journal = Journal()
    atexit.register(journal.close)
    folder = Path(tempfile.mkdtemp(prefix="alfirk-mn-"))
    return Settings(alfirk.absolute(), folder, journal=journal, kernel_ip=True, rdma=False, thrift=True)


class DeviceIds:
    """Allocator of device ids for the switches of this process."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def choose(self, name: str, wanted: int | None = None) -> int:
        """Return the wanted id, else the first number in the name as Mininet does, else a free one."""
        if wanted is None:
            number = re.search(r"\d+", name)
            wanted = int(number[0]) if number else 0
            if wanted in self._taken or wanted == 0:
                wanted = next(i for i in itertools.count(1) if i not in self._taken)
        self._taken.add(wanted)
        return wanted

    def free(self, device_id: int) -> None:
        """Release an id."""
        self._taken.discard(device_id)


_DEVICE_IDS = DeviceIds()


class AlfirkSwitch(Switch):
    """A switch whose data plane is an ``alfirk switch`` process, with P4Runtime on a port of the machine.

    Without a `program` it starts empty, and a controller loads one.  `program` is a P4 file, which is
    compiled, or BMv2 JSON; `entries` is a JSON file with table entries (:mod:`alfirk_mininet.entries`).
    Device id and settings have defaults.  `port_loss` is the loss probability of frames on a port in each
    direction, `port_delay` the delay of frames sent on a port, such as ``2ms``, and `port_links` the
    attributes of links if the settings have a `time_scale`.
    """

    def __init__(
        self,
        name: str,
        device_id: int | None = None,
        settings: Settings | None = None,
        port_loss: Mapping[int, float] | None = None,
        port_delay: Mapping[int, str] | None = None,
        port_links: Mapping[int, Attributes] | None = None,
        program: str | Path | None = None,
        entries: str | Path | None = None,
        **params: Any,
    ) -> None:
        settings = settings or shared_settings()
        self.device_id = _DEVICE_IDS.choose(name, device_id)
        # Its gRPC port must be reachable from the root namespace.
        super().__init__(name, **{**params, "dpid": f"{self.device_id:x}", "inNamespace": False})
        self.settings = settings
        if entries is not None and program is None:
            raise NetworkError(
                f"switch {name} has entries but no program", "give the program with the tables"
            )
        self.program = load_program(Path(program), settings.alfirk, settings.workdir) if program else None
        self.entries = table_entries.load(Path(entries)) if entries else None
        self.port_loss = dict(port_loss or {})
        self.port_delay = dict(port_delay or {})
        self.port_links = dict(port_links or {})
        self.child: Child | None = None
        self.grpc_port = 0
        #: Port of Thrift's services on 127.0.0.1; 0 if there are none.
        self.thrift_port = 0
        _note(self, settings)

    @property
    def address(self) -> str:
        """The P4Runtime server."""
        return f"{self.settings.listen}:{self.grpc_port}"

    def describe(self) -> str:
        """Describe how to reach the switch, and its program."""
        words = [f"{self.name}: device id {self.device_id}", f"P4Runtime {self.address}"]
        words += [f"Thrift 127.0.0.1:{self.thrift_port}"] if self.thrift_port else []
        words += [f"{self.program.json}, {self.program.p4info}"] if self.program else []
        return ", ".join(words)

    def command(self) -> list[str]:
        """Build the command line of the switch process."""
        settings = self.settings
        line = [str(settings.alfirk), "switch", "--device-id", str(self.device_id)]
        line += self._start_with()
        for port, intf in sorted(self.intfs.items()):
            if port > 0:
                line += ["-i", f"{port}@{intf.name}"]
        for port, loss in sorted(self.port_loss.items()):
            line += ["--port-loss", f"{port}={loss!r}"] if loss > 0 else []
        for port, delay in sorted(self.port_delay.items()):
            line += ["--port-delay", f"{port}={delay}"]
        for switch, drop in settings.port_drops:
            line += ["--port-drop", drop] if switch == self.name else []
        line += self._emulation()
        line += ["--seed", str(settings.seed * 65536 + self.device_id)]
        if settings.pcap is not None:
            line += ["--pcap", str(settings.pcap)]
        line += settings.switch_options
        return [*line, "--", "--grpc-server-addr", self.address, "--cpu-port", str(CPU_PORT)]

    def _start_with(self) -> list[str]:
        """Build the arguments for the initial program and for Thrift."""
        line = [str(self.program.json)] if self.program else ["--no-p4"]
        return line + (["--thrift-port", str(self.thrift_port)] if self.thrift_port else [])

    def _emulation(self) -> list[str]:
        """Build the options for link emulation, if it is enabled."""
        settings = self.settings
        if settings.time_scale is None:
            return []
        line = ["--time-scale", str(settings.time_scale), "--rate-on-wire"]
        for port, link in sorted(self.port_links.items()):
            line += ["--port-rate", f"{port}={link.rate_bps}bps"]
            line += ["--port-delay", f"{port}={link.delay_ns + settings.pipeline_latency}ns"]
            line += ["--port-queue", f"{port}={link.queue_bytes}B"]
        return line

    def start(self, controllers: Sequence[Controller]) -> None:  # noqa: ARG002 - they come by P4Runtime
        """Start the process; :meth:`batchStartup` waits until it is ready."""
        self.grpc_port = _free_port(self.settings.listen)
        if self.program or self.settings.thrift:
            self.thrift_port = _free_port("127.0.0.1")
        for port, intf in self.intfs.items():
            if port > 0:
                _without_kernel(self, intf)
        log = self.settings.workdir / f"{self.name}.log"
        self.child = Child.spawn(f"switch {self.name}", self.command(), log, real_time=self.settings.is_timed)
        if self.settings.journal:
            self.settings.journal.process(self.child.pid)

    @classmethod
    def batchStartup(cls, switches: Sequence[AlfirkSwitch], **_: Any) -> Sequence[AlfirkSwitch]:  # noqa: N802
        """Wait until all switches reply to gRPC (Mininet calls this after starting all of them)."""
        wait_ready([(switch.child, switch.is_ready) for switch in switches if switch.child])
        for switch in switches:
            if switch.entries is not None and switch.program:
                commands = table_entries.commands(switch.entries, switch.program.tables())
                table_entries.apply(commands, switch.settings.alfirk, switch.thrift_port, switch.name)
        described = [switch.describe() for switch in switches if switch.thrift_port]
        info("".join(f"\n*** {line}" for line in described))
        return switches

    def is_ready(self) -> bool:
        """Return whether the gRPC server is ready."""
        try:
            with socket.create_connection((self.settings.listen, self.grpc_port), timeout=0.5) as connection:
                connection.sendall(_HTTP2_HELLO)
                frame = connection.recv(9, socket.MSG_WAITALL)
                return len(frame) == 9 and frame[3] == _HTTP2_SETTINGS
        except OSError:
            return False

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Stop the process and remove the ports."""
        if self.child:
            stop_all([self.child])
        _DEVICE_IDS.free(self.device_id)
        super().stop(deleteIntfs)


class AlfirkHost(Host):
    """A host in its own namespace that runs ``alfirk host``, controlled through a Unix socket."""

    def __init__(
        self, name: str, address: str, settings: Settings, link: Attributes | None = None, **params: Any
    ) -> None:
        self.address = address
        self.link = link
        self.settings = settings
        self.child: Child | None = None
        super().__init__(name, **params)
        _note(self, settings)
        self.cmd(interfaces.DISABLE_IPV6)

    @property
    def control(self) -> Path:
        """Path of the host's control socket."""
        return self.settings.workdir / f"{self.name}.sock"

    def command(self) -> list[str]:
        """Build the command line of the host process."""
        settings = self.settings
        line = [str(settings.alfirk), "host", "--name", self.name]
        line += ["--interface", self.defaultIntf().name, "--ip", self.address]
        line += ["--mac", self.params["mac"], "--mtu", str(self.params["mtu"])]
        line += ["--control", str(self.control), "--seed", str(settings.seed)]
        if settings.time_scale is not None and self.link is not None:
            line += ["--time-scale", str(settings.time_scale)]
            line += ["--rate", f"{self.link.rate_bps}bps", "--delay", f"{self.link.delay_ns}ns"]
            line += ["--host-model", settings.host_model] if settings.host_model else []
        if settings.pcap is not None:
            line += ["--pcap", str(settings.pcap / f"{self.name}.pcap")]
        return line

    def config(self, mac: str | None = None, ip: str | None = None, **params: Any) -> dict[str, Any]:
        """Set the interface up; its Ethernet address is set already."""
        del mac, ip
        result = super().config(ip=self.address if self.settings.kernel_ip else None, **params)
        interface = self.defaultIntf().name
        output = self.cmd(interfaces.offloads_off(interface)).strip()
        # ethtool lists features that cannot be changed, which is harmless; any other output is a failure.
        if "not found" in output or "Operation not" in output:
            raise NetworkError(
                f"host {self.name}: cannot switch off the offloads of {interface}: {output}",
                "install ethtool: sudo apt-get install ethtool",
            )
        return result

    def start_rdma(self) -> None:
        """Start ``alfirk host`` in the host's namespace; :meth:`is_ready` is true when it is ready."""
        self.control.unlink(missing_ok=True)
        log = self.settings.workdir / f"{self.name}.log"
        # -a attaches to the namespace and calls exec, so the process is alfirk itself.
        command = ["mnexec", "-a", str(self.pid), *self.command()]
        self.child = Child.spawn(f"host {self.name}", command, log, real_time=self.settings.is_timed)
        if self.settings.journal:
            self.settings.journal.process(self.child.pid)

    def is_ready(self) -> bool:
        """Return whether the control socket is ready."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(0.5)
            return connection.connect_ex(str(self.control)) == 0

    def terminate(self) -> None:
        """Stop the process, then the namespace."""
        if self.child:
            stop_all([self.child])
        self.control.unlink(missing_ok=True)
        super().terminate()


class AlfirkLink(Link):
    """A veth pair with an MTU; its switch ends are in the journal, and the kernel does not send on them."""

    #: Default MTU: enough for RoCE packets with 4,096 bytes of payload.
    usual_mtu = 4200

    def __init__(self, node1: Node, node2: Node, mtu: int | None = None, **params: Any) -> None:
        self.mtu = mtu or self.usual_mtu
        self.nodes = (node1, node2)
        super().__init__(node1, node2, **params)

    def intfName(self, node: Node, n: int) -> str:  # noqa: N802 - Mininet's name
        """Return the name of an interface."""
        return self.name_interface(node, n)

    @staticmethod
    def name_interface(node: Node, n: int) -> str:
        """Return a name for an interface that is short enough and unique among networks."""
        if isinstance(node, AlfirkSwitch):
            network = node.settings.journal.number if node.settings.journal else 1
            return interfaces.switch_interface(node.name, node.device_id, n, network)
        return interfaces.host_interface(node.name, n)

    def switch_ends(self) -> list[str]:
        """Names of the ends in the namespace of the switches."""
        ends = (self.intf1, self.intf2)
        return [intf.name for intf in ends if intf and isinstance(intf.node, AlfirkSwitch)]

    def drop_interfaces(self) -> None:
        """Remove the deleted interfaces from the nodes."""
        for intf in (self.intf1, self.intf2):
            if intf:
                intf.node.delIntf(intf)
        self.intf1 = self.intf2 = None

    def makeIntfPair(  # noqa: N802 - Mininet's name
        self,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Node | None = None,  # noqa: ARG002 - known since the constructor
        node2: Node | None = None,  # noqa: ARG002
        deleteIntfs: bool = True,  # noqa: ARG002, N803 - never: they might be foreign
    ) -> None:
        """Create the pair."""
        names = (intfname1, intfname2)
        both = list(zip(names, self.nodes, (addr1, addr2), strict=True))
        ours = [name for name, node, _ in both if not node.inNamespace]
        for node in self.nodes:
            if isinstance(node, AlfirkSwitch) and node.settings.journal:
                node.settings.journal.interfaces(ours)
                break
        interfaces.make_pair(
            [(name, node.pid, _station(node, address)) for name, node, address in both], self.mtu, ours
        )


def _station(node: Node, address: str | None) -> str | None:
    """Return the Ethernet address of a node's end: its parameter, else what Mininet chose and will report."""
    ours = isinstance(node, (AlfirkHost, AlfirkSwitch))
    return node.params.get("mac") or (None if ours else address)


class EthernetLink(AlfirkLink):
    """An `AlfirkLink` with Ethernet's MTU, for programs that expect it."""

    usual_mtu = 1500


def _without_kernel(switch: AlfirkSwitch, intf: Intf) -> None:
    """Disable kernel features at both ends of a link that do not work with a switch on packet sockets.

    Our own links and hosts have them disabled already; Mininet's do not.
    """
    link = intf.link
    if not isinstance(link, AlfirkLink):
        interfaces.silence_kernel(intf.name)
    ends = (link.intf1, link.intf2) if link else ()
    for far in (end for end in ends if end and end is not intf):
        node = far.node
        if not isinstance(node, (AlfirkHost, AlfirkSwitch)) and node.inNamespace and switch is not node:
            interfaces.configure_as_nic(node.pid, far.name)


def wait_ready(waiting: Sequence[tuple[Child, Callable[[], bool]]], limit: float = START_LIMIT) -> None:
    """Poll until every process is ready; fail if one ends or the time limit passes."""
    todo = list(waiting)
    deadline = time.monotonic() + limit
    pause = 0.005
    while todo:
        for child, _ in todo:
            check_alive(child)
        todo = [(child, is_ready) for child, is_ready in todo if not is_ready()]
        if todo and time.monotonic() > deadline:
            names = ", ".join(child.what for child, _ in todo)
            raise NetworkError(
                f"{names} not ready within {limit:.0f} s",
                f"the end of {todo[0][0].log}: {todo[0][0].last_lines() or 'nothing'}",
            )
        if todo:
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
    # If our process could not start, another one may have replied.
    for child, _ in waiting:
        check_alive(child)


def check_alive(child: Child) -> None:
    """Fail if the process has ended."""
    how = child.ended()
    if how:
        text = child.last_lines()
        raise NetworkError(
            f"{child.what} {how}",
            f"last line of its log: {text}" if text else f"its log {child.log} is empty",
        )


def check_socket_path(path: Path) -> None:
    """Fail if a path is too long for a Unix socket."""
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise NetworkError(
            f"{path} is too long for a Unix socket ({LONGEST_SOCKET_PATH} bytes at most)",
            "choose a shorter --workdir",
        )


def _note(node: Node, settings: Settings) -> None:
    if settings.journal:
        settings.journal.process(node.pid)


def _free_port(address: str) -> int:
    """Find a port of our address that is not in use, and that no other switch of ours has.

    Ports are below the range of ephemeral ports (32768 and up), so that no client takes one before the switch
    does.
    """
    for port in itertools.islice(_PORTS, _LAST_PORT - _FIRST_PORT + 1):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    raise NetworkError(
        f"no port between {_FIRST_PORT} and {_LAST_PORT} is free for a switch", "see what listens: ss -ltnp"
    )


_FIRST_PORT, _LAST_PORT = 20000, 31999
#: Ports in turn, starting at a different one in each process.
_START = _FIRST_PORT + os.getpid() * 61 % (_LAST_PORT - _FIRST_PORT + 1)
_PORTS: Iterator[int] = itertools.cycle([*range(_START, _LAST_PORT + 1), *range(_FIRST_PORT, _START)])
