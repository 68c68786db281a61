"""A network from a topology file: it is built, monitored, and removed completely."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mininet.link import Intf
from mininet.log import output, setLogLevel
from mininet.net import Mininet

from alfirk_mininet import guests, interfaces
from alfirk_mininet.binary import check_tools
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import Guest, Image
from alfirk_mininet.journal import Journal, clean, delete_interfaces
from alfirk_mininet.nodes import (
    AlfirkHost,
    AlfirkLink,
    AlfirkSwitch,
    Settings,
    check_socket_path,
    wait_ready,
)
from alfirk_mininet.process import Child, kill_host_processes, stop_all
from alfirk_mininet.topo import AlfirkTopo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mininet.node import Host
    from mininet.topo import Topo

    from alfirk_mininet.part import Crossing, Part
    from alfirk_mininet.topology import Topology


class AlfirkMininet(Mininet):
    """Mininet that stops faster, and whose ``iperf`` supports newer versions of that program."""

    def stop(self) -> None:
        """Delete all our links at once, and stop everything else as Mininet does."""
        ours = [link for link in self.links if isinstance(link, AlfirkLink)]
        delete_interfaces([name for link in ours for name in link.switch_ends()])
        for link in ours:
            link.drop_interfaces()
        self.links = [link for link in self.links if link not in ours]
        super().stop()

    def iperf(
        self,
        hosts: Sequence[Host] | None = None,
        l4Type: str = "TCP",  # noqa: N803 - Mininet's name
        udpBw: str = "10M",  # noqa: N803 - Mininet's name
        fmt: str | None = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]:
        """Measure the TCP throughput between two hosts; return the results of server and client.

        Mininet's own implementation waits for the server's report of a test connection that shows that it
        listens.  Since version 2.1, iperf does not report a connection without data.
        """
        if l4Type != "TCP":
            return list(super().iperf(hosts, l4Type, udpBw, fmt, seconds, port))
        client, server = hosts or (self.hosts[0], self.hosts[-1])
        output(f"*** Iperf: testing TCP bandwidth between {client} and {server}\n")
        form = f"-f {fmt} " if fmt else ""
        with tempfile.NamedTemporaryFile(mode="r", prefix="alfirk-iperf-") as log:
            server.cmd(f"iperf -s {form}-p {port} >{log.name} 2>&1 &")
            try:
                # A server that does not listen yet rejects the connection.
                client_output = client.cmd(
                    f"for try in $(seq 50); do "
                    f"out=$(iperf -c {server.IP()} {form}-p {port} -t {seconds} 2>&1); "
                    'case "$out" in */sec*) break;; esac; sleep 0.2; done; echo "$out"'
                )
            finally:
                server.cmd("kill -KILL %iperf; wait %iperf")
            # The killed server may not have printed its result.
            results = [
                self._parseIperf(log.read()) or self._parseIperf(client_output),
                self._parseIperf(client_output),
            ]
        output(f"*** Results: {results}\n")
        return results


class PartialMininet(AlfirkMininet):
    """The part of a network on one machine, with ends of links to other machines."""

    def __init__(self, part: Part, crossings: Sequence[Crossing], journal: Journal, **params: Any) -> None:
        self.part = part
        self.crossings = crossings
        self.journal = journal
        super().__init__(**params)

    def buildFromTopo(self, topo: Topo) -> None:  # noqa: N802 - Mininet's name
        """Create nodes and links, then the ends of links to other machines, before hosts are configured."""
        super().buildFromTopo(topo)
        for crossing in self.crossings:
            node = self[crossing.end.node]
            # Mininet numbers a host's ports from 0.
            port = crossing.end.port or 0
            name = AlfirkLink.name_interface(node, port)
            self.journal.interfaces([name, crossing.outside])
            interfaces.make_crossing(self.part, crossing, name, node)
            Intf(name, node=node, port=port, moveIntfFn=_stay)


def _stay(*_: object, **__: object) -> None:
    """Do not move an interface: it was created in its node's namespace."""


class Network:
    """A network as a context manager: inside, every process is ready; on exit, everything is removed."""

    def __init__(self, topology: Topology, settings: Settings) -> None:
        self.topology = topology
        self.settings = settings
        self._journal: Journal | None = None
        self._mininet: Mininet | None = None
        #: The `alfirk vxlan` process, if the kernel has no VXLAN.
        self._forwarder: Child | None = None
        #: Guests by name, in the order of the topology file.
        self.guests: dict[str, Guest] = {}

    def __enter__(self) -> Network:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Build the network and wait until it is ready; after an error, :meth:`stop` must be called."""
        check_tools(self.settings.alfirk)
        self._make_directories()
        setLogLevel("error")
        clean()
        self._journal = Journal()
        settings = replace(self.settings, journal=self._journal)
        image = self._guest_image()
        for name in (host.name for host in self.topology.hosts):
            check_socket_path(settings.workdir / f"{name}.sock")
        self._mininet = self._build(settings, self._journal)
        # Guests take the longest to get ready.
        if image:
            for name in settings.guests:
                self._start_guest(name, image)
        hosts = self.hosts if settings.rdma else []
        for host in hosts:
            host.start_rdma()
        self._mininet.start()
        if self._forwarder:
            wait_ready([(self._forwarder, lambda: _is_forwarding(self._forwarder))])
        wait_ready([(host.child, host.is_ready) for host in hosts if host.child])
        started = [(guest.child, guest.is_ready) for guest in self.guests.values() if guest.child]
        wait_ready(started, guests.START_LIMIT)

    def stop(self) -> None:
        """Remove everything; the journal removes what Mininet cannot."""
        mininet, self._mininet = self._mininet, None
        journal, self._journal = self._journal, None
        if mininet:
            # In parallel: in sequence, each process would take its time to end.
            for guest in self.guests.values():
                if guest.child:
                    # It has no data to save, so it is killed.
                    guest.child.process.kill()
            nodes = [*_nodes(mininet), *self.guests.values()]
            children = [*(node.child for node in nodes), self._forwarder]
            stop_all([child for child in children if child])
            self._forwarder = None
            kill_host_processes(host.pid for host in mininet.hosts)
            with contextlib.suppress(Exception):
                mininet.stop()
        for guest in self.guests.values():
            guest.remove_files()
        self.guests = {}
        if journal:
            journal.close()

    @property
    def mininet(self) -> Mininet:
        """The Mininet object, between start and stop."""
        if self._mininet is None:
            msg = "the network is not started"
            raise RuntimeError(msg)
        return self._mininet

    @property
    def switches(self) -> list[AlfirkSwitch]:
        """The switches in the order of the topology file."""
        return [
            node
            for s in self.topology.switches
            if self.settings.has(s.name) and isinstance(node := self.mininet[s.name], AlfirkSwitch)
        ]

    @property
    def hosts(self) -> list[AlfirkHost]:
        """The hosts in the order of the topology file, without those that are guests."""
        settings = self.settings
        names = [host.name for host in self.topology.hosts if settings.has(host.name)]
        names = [name for name in names if name not in settings.guests]
        return [node for name in names if isinstance(node := self.mininet[name], AlfirkHost)]

    @property
    def children(self) -> list[Child]:
        """Every process that must run as long as the network does."""
        nodes = [*_nodes(self.mininet), *self.guests.values()]
        children = [*(node.child for node in nodes), self._forwarder]
        return [child for child in children if child]

    @property
    def members(self) -> list[AlfirkHost | Guest]:
        """Hosts and guests in the order of the topology file."""
        hosts: dict[str, AlfirkHost | Guest] = {host.name: host for host in self.hosts}
        hosts |= self.guests
        return [hosts[host.name] for host in self.topology.hosts if host.name in hosts]

    def _build(self, settings: Settings, journal: Journal) -> Mininet:
        """Create nodes and links, all of them or this machine's."""
        topo, part = AlfirkTopo(self.topology, settings), settings.part
        if part is None:
            mininet: Mininet = AlfirkMininet(topo=topo, controller=None, build=False)
            self._mininet = mininet
            mininet.build()
            return mininet
        crossings = part.crossings(self.topology)
        mininet = PartialMininet(part, crossings, journal, topo=topo, controller=None, build=False)
        # If a step fails, everything created so far is removed.
        self._mininet = mininet
        mininet.build()
        if crossings and not part.kernel:
            command = part.forwarder(settings.alfirk, crossings)
            log = settings.workdir / "vxlan.log"
            self._forwarder = Child.spawn(
                "links to other machines", command, log, real_time=settings.is_timed
            )
            journal.process(self._forwarder.pid)
        return mininet

    def _guest_image(self) -> Image | None:
        settings = self.settings
        if not settings.guests:
            return None
        known = {host.name for host in self.topology.hosts}
        for name in settings.guests:
            if name not in known:
                raise NetworkError(f"--guests: the topology has no host {name}", "name hosts of the topology")
        if settings.guest_image is None:
            raise NetworkError("guests need an image", "give its folder with --guest-image")
        image = Image(settings.guest_image)
        image.check(settings.alfirk)
        guests.check_tools()
        return image

    def _start_guest(self, name: str, image: Image) -> None:
        """Create a tap as the switch port instead of a veth end, and boot the guest on it."""
        settings = self.settings
        host = next(host for host in self.topology.hosts if host.name == name)
        link = next(link for link in self.topology.links if name in (link.a.node, link.b.node))
        end = link.b if link.a.node == name else link.a
        switch = self.mininet[end.node]
        if not isinstance(switch, AlfirkSwitch) or end.port is None:
            raise NetworkError(f"host {name} has no link to a switch", "add the link to the topology")
        tap = AlfirkLink.name_interface(switch, end.port)
        mtu = link.attributes.mtu
        if self._journal:
            self._journal.interfaces([tap])
        guests.make_tap(tap, mtu)
        Intf(tap, node=switch, port=end.port)
        guest = Guest(
            name=name,
            address=str(host.ip),
            mac=host.mac,
            mtu=mtu,
            tap=tap,
            workdir=settings.workdir,
            image=image,
            rxe=settings.guest_verbs,
        )
        if settings.rdma:
            guest.program = guests.host_program(guest, seed=settings.seed)
        self.guests[name] = guest
        guest.start(self._journal)

    def _make_directories(self) -> None:
        for directory in filter(None, (self.settings.workdir, self.settings.pcap)):
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NetworkError(
                    f"cannot create the directory {directory}: {error.strerror}", "choose another one"
                ) from error


def _is_forwarding(forwarder: Child | None) -> bool:
    """Whether ``alfirk vxlan`` has reported that it forwards frames."""
    return forwarder is not None and " links at " in forwarder.last_lines()


def _nodes(mininet: Mininet) -> list[AlfirkSwitch | AlfirkHost]:
    nodes = [*mininet.switches, *mininet.hosts]
    return [node for node in nodes if isinstance(node, (AlfirkSwitch, AlfirkHost))]
