"""Networks built by Mininet's own command line, through ``mininet/alfirk.py``.

``mn`` creates the topology, then the nodes, then starts them.  Our network class starts a controller after
the switches, lets it program them, and stops it with the network.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mininet.link import OVSLink, TCLink, TCULink
from mininet.log import info, warn
from mininet.node import Controller, NullController
from mininet.topo import Topo

from alfirk_mininet.binary import check_tools, find_alfirk
from alfirk_mininet.containers import Container
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.interactive import start_controller, stop_by_signal
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.network import AlfirkMininet
from alfirk_mininet.nodes import (
    CPU_PORT,
    AlfirkHost,
    AlfirkSwitch,
    EthernetLink,
    Settings,
    check_socket_path,
    wait_ready,
)
from alfirk_mininet.process import Child, kill_host_processes, stop_all
from alfirk_mininet.topo import add_nodes
from alfirk_mininet.topology import Topology, TopologyError
from mininet import util

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mininet.link import Link
    from mininet.node import Node

#: Folder of the command `h1 alfirk-bcast`.
BIN = Path(__file__).resolve().parents[1] / "bin"


class MnSwitch(AlfirkSwitch):
    """A switch for ``mn --switch``.

    ``alfirk,program=FILE.p4`` runs a program, ``alfirk,pcap=1`` captures at every port, and
    ``simple_switch_grpc,path=FILE`` runs another switch instead of ours.
    """

    def __init__(
        self,
        name: str,
        path: str | None = None,
        pcap: object = None,
        program: str | None = None,
        entries: str | None = None,
        **params: Any,
    ) -> None:
        try:
            # One file for all switches, or one for each: {} is replaced by the switch's name.
            named = entries.replace("{}", name) if entries else None
            super().__init__(name, program=program, entries=named, **params)
        except NetworkError as error:
            raise SystemExit(f"{error.what}: {error.hint}") from error
        self.path = path
        self.captures = self.settings.workdir / "pcaps" if pcap else None

    def command(self) -> list[str]:
        """Build the command line of the switch process."""
        ports = [f"{port}@{intf.name}" for port, intf in sorted(self.intfs.items()) if port > 0]
        program = [self.path] if self.path else [str(self.settings.alfirk), "switch"]
        line = [*program, "--device-id", str(self.device_id), *self._start_with()]
        line += [word for port in ports for word in ("-i", port)]
        line += ["--pcap", str(self.captures)] if self.captures else []
        return [*line, "--", "--grpc-server-addr", self.address, "--cpu-port", str(CPU_PORT)]

    def start(self, controllers: Any) -> None:
        """Start the process."""
        if self.path and shutil.which(self.path) is None:
            raise NetworkError(f"--switch ...,path={self.path} is not an executable", "give its full path")
        if self.captures:
            self.captures.mkdir(exist_ok=True)
        super().start(controllers)


class SimpleSwitchGrpc(MnSwitch):
    """BMv2's simple_switch_grpc, or a program at ``path`` with the same command line."""

    def __init__(self, name: str, path: str = "simple_switch_grpc", **params: Any) -> None:
        super().__init__(name, path=path, **params)


class _AlfirkTopo(Topo):
    """A topology from a generator of ``alfirk topology``, or from a file."""

    network: Topology
    settings: Settings

    def make(self, word: str) -> None:
        """Let alfirk generate the network, and add its nodes and links."""
        alfirk = find_alfirk().absolute()
        folder = Path(tempfile.mkdtemp(prefix="alfirk-mn-"))
        try:
            check_tools(alfirk)
            network = Topology.load(word, alfirk)
        except (TopologyError, NetworkError) as error:
            folder.rmdir()
            raise SystemExit(str(error)) from error
        text = subprocess.run(
            [str(alfirk), "topology", "check", "--", word], capture_output=True, text=True, check=True
        )
        (folder / "topology.yaml").write_text(text.stdout)
        clean()
        self.network = network
        self.settings = Settings(alfirk, folder, journal=Journal(), kernel_ip=True, thrift=True)
        for host in network.hosts:
            check_socket_path(folder / f"{host.name}.sock")
        add_nodes(self, network, self.settings, own_switches=False)


class Testbed(_AlfirkTopo):
    """``--topo testbed``: one switch with four hosts."""

    def build(self, **_: Any) -> None:
        """Add its nodes and links."""
        self.make("testbed")


class FatTree(_AlfirkTopo):
    """``--topo fattree,k=4``: k pods of k switches, k^3/4 hosts; ``pods=2`` for fewer pods."""

    def build(self, k: int = 4, pods: int | None = None, **_: Any) -> None:
        """Add its nodes and links."""
        self.make(f"fat-tree:{k}" + (f",pods={pods}" if pods else ""))


class LeafSpine(_AlfirkTopo):
    """``--topo leafspine,leaves=4,spines=2,hosts=4``: 4 hosts at each leaf."""

    def build(self, leaves: int = 4, spines: int = 2, hosts: int = 4, **_: Any) -> None:
        """Add its nodes and links."""
        self.make(f"leaf-spine:{leaves},{spines},{hosts}")


class TopologyFile(_AlfirkTopo):
    """``--topo file,path=topologies/testbed.yaml``."""

    def build(self, path: str = "topologies/testbed.yaml", **_: Any) -> None:
        """Add its nodes and links."""
        self.make(str(Path(path).absolute()))


class Mesh(_AlfirkTopo):
    """``--topo mesh,hosts=8``: a switch for each host, and a link between any two of them."""

    def build(self, hosts: int = 8, **_: Any) -> None:
        """Add its nodes and links."""
        self.make(f"mesh:{hosts}")


class SpecTopo(_AlfirkTopo):
    """A topology of ``--topo fat-tree:4`` or any other value of ``alfirk run --topology``."""

    def build(self, spec: str = "testbed", **_: Any) -> None:
        """Add its nodes and links."""
        self.make(spec)


def build_topo(topos: Mapping[str, Callable[..., Topo]], text: str) -> Topo:
    """Create the topology of ``--topo``: a class, a generator such as ``fat-tree:4``, or a file."""
    name = text.partition(",")[0]
    if name not in topos and (name.endswith((".yaml", ".yml")) or ":" in name or name in GENERATORS):
        return SpecTopo(text)
    topo: Topo = util.buildTopo(topos, text)
    return topo


#: Names of the topology generators of `alfirk topology`; Mininet cannot register those with a hyphen.
GENERATORS = ("fat-tree", "leaf-spine", "n-tree", "ntree")

TOPOS = {"fattree": FatTree, "mesh": Mesh, "leafspine": LeafSpine, "testbed": Testbed, "file": TopologyFile}
SWITCHES = {"alfirk": MnSwitch, "simple_switch_grpc": SimpleSwitchGrpc}


class ContainerHost(Container):
    """``--host container,image=NAME``: hosts that are containers."""


HOSTS = {"container": ContainerHost}
#: Link classes whose names are unique among networks, and which are removed after a kill.
LINKS = {"default": EthernetLink, "tc": TCLink, "tcu": TCULink, "ovs": OVSLink}


def no_openflow() -> type[Controller]:
    """Return a controller class that does nothing: ours uses P4Runtime, and starts after the switches."""
    nothing: type[Controller] = NullController
    return nothing


class AlfirkNet(AlfirkMininet):
    """Mininet with the controller of our switches, started and stopped with it."""

    controller_process: Child | None = None
    service = ""

    def __init__(self, *arguments: Any, **params: Any) -> None:
        _Living.network = self
        signal.signal(signal.SIGTERM, stop_by_signal)
        super().__init__(*arguments, **params)

    def start(self) -> None:
        """Start nodes and controller, and wait until every switch has its program and routes."""
        try:
            self._start()
        except NetworkError as error:
            self.stop()
            raise SystemExit(f"{error.what}: {error.hint}") from error
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        topo = self.topo
        hosts = [host for host in self.hosts if isinstance(host, AlfirkHost)]
        switches = [switch for switch in self.switches if isinstance(switch, MnSwitch)]
        with_program = [switch.name for switch in switches if switch.program]
        for host in hosts if not with_program else []:
            host.start_rdma()
        super().start()
        wait_ready([(host.child, host.is_ready) for host in hosts if host.child])
        if not switches or len(switches) < len(self.switches):
            if isinstance(topo, _AlfirkTopo):
                warn("*** These switches have no controller; use --switch alfirk\n")
            return
        settings = switches[0].settings
        if with_program:
            info(f"*** No controller: switches have a program of their own. Logs are in {settings.workdir}\n")
            return
        topology = settings.workdir / "topology.yaml"
        if not isinstance(topo, _AlfirkTopo):
            topology.write_text(json.dumps(describe(self.switches, self.hosts, self.links)))
        self.controller_process, self.service = start_controller(topology, settings, switches)
        if isinstance(topo, _AlfirkTopo):
            self._describe_network(hosts, switches, settings)
        else:
            info("*** These hosts have no RDMA; use --topo fattree or another topology of alfirk\n")
        info(f"*** Controller on {self.service}; logs, captures and sockets in {settings.workdir}\n")

    def _describe_network(
        self, hosts: list[AlfirkHost], switches: list[MnSwitch], settings: Settings
    ) -> None:
        """Describe the network for `alfirk run --attach`, and extend the PATH of hosts."""
        interfaces = {
            switch.name: {port: intf.name for port, intf in sorted(switch.intfs.items()) if port}
            for switch in switches
        }
        network = {
            "switches": {switch.name: switch.address for switch in switches},
            "hosts": {host.name: str(host.control) for host in hosts},
            "interfaces": interfaces,
        }
        (settings.workdir / "network.json").write_text(json.dumps(network))
        for host in hosts:
            host.cmd(
                f"export ALFIRK='{settings.alfirk}' ALFIRK_NETWORK='{settings.workdir}' "
                f"ALFIRK_HOST='{host.name}' ALFIRK_OWNER={os.getpid()} PATH='{BIN}':\"$PATH\""
            )

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802 - Mininet's name
        """Take the links between two nodes up or down, and report that to the controller."""
        super().configLinkStatus(src, dst, status)
        switch = next((switch for switch in self.switches if isinstance(switch, MnSwitch)), None)
        if self.service and switch and status in ("up", "down"):
            alfirk = str(switch.settings.alfirk)
            command = [alfirk, "link", "tell", "--controller", self.service, src, dst, status]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                warn(f"*** cannot report the link to the controller: {done.stderr.strip()}\n")

    def stop(self) -> None:
        """Stop the controller, all processes at once, and then everything else."""
        controller, self.controller_process = self.controller_process, None
        nodes = [
            node for node in (*self.switches, *self.hosts) if isinstance(node, (AlfirkSwitch, AlfirkHost))
        ]
        children = [child for child in (controller, *(node.child for node in nodes)) if child]
        stop_all(children)
        kill_host_processes(host.pid for host in self.hosts)
        super().stop()
        if isinstance(self.topo, _AlfirkTopo) and self.topo.settings.journal:
            self.topo.settings.journal.close()
        _Living.network = None


class _Living:
    """The network of this process, until it has been stopped."""

    network: AlfirkNet | None = None


def stop_network() -> None:
    """Stop the network of this process, and nothing else.

    ``mn`` calls it after an error or Ctrl-C; its own ``cleanup`` would end all networks of the machine.
    """
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.SIG_IGN)
    if _Living.network:
        _Living.network.stop()


atexit.register(stop_network)


def describe(switches: Sequence[Node], hosts: Sequence[Node], links: Sequence[Link]) -> dict[str, Any]:
    """Return the description of a Mininet network as a topology file, with addresses chosen by Mininet.

    Topology files need exactly one link for each host.
    """
    at: dict[str, int] = {host.name: 0 for host in hosts}
    ends = []
    for link in links:
        pair = []
        for intf in (end for end in (link.intf1, link.intf2) if end):
            node = intf.node
            at[node.name] = at.get(node.name, 0) + 1
            pair.append(node.name if node in hosts else f"{node.name}:{node.ports[intf]}")
        ends.append({"ends": pair})
    for host in hosts:
        if at[host.name] != 1:
            raise NetworkError(
                f"host {host.name} has {at[host.name]} links; the controller needs exactly one",
                "give switches a program of their own: --switch alfirk,program=FILE.p4",
            )
    return {
        "name": "mininet",
        "defaults": {"mtu": EthernetLink.usual_mtu},
        "switches": [{"name": s.name, "id": s.device_id} for s in switches if isinstance(s, MnSwitch)],
        "hosts": [
            {"name": h.name, "ip": f"{h.IP()}/{h.defaultIntf().prefixLen}", "mac": h.MAC()} for h in hosts
        ],
        "links": ends,
    }
