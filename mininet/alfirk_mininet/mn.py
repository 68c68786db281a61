"""Networks that Mininet's own command line builds; ``mininet/alfirk.py`` gives them to it.

``mn`` makes the topology, then the nodes, then starts them.  Ours starts a controller behind the switches,
has it program them, and stops it with the network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mininet.log import info, warn
from mininet.node import Controller, NullController
from mininet.topo import Topo

from alfirk_mininet.binary import find_alfirk
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.interactive import start_controller
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.network import AlfirkMininet, check_tools
from alfirk_mininet.nodes import CPU_PORT, AlfirkHost, AlfirkSwitch, Settings, check_socket_path, wait_ready
from alfirk_mininet.process import Child, stop_all
from alfirk_mininet.topo import add_nodes
from alfirk_mininet.topology import Topology, TopologyError

#: Where `h1 alfirk-bcast` is found.
BIN = Path(__file__).resolve().parents[1] / "bin"


class MnSwitch(AlfirkSwitch):
    """A switch as ``mn --switch`` makes it.

    ``alfirk,pcap=1`` captures at every port, ``simple_switch_grpc,path=FILE`` runs another switch in place
    of ours.
    """

    def __init__(self, name: str, path: str | None = None, pcap: object = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.path = path
        self.captures = self.settings.workdir / "pcaps" if pcap else None

    def command(self) -> list[str]:
        """Build the command line of the switch process."""
        ports = [f"{port}@{intf.name}" for port, intf in sorted(self.intfs.items()) if port > 0]
        program = [self.path] if self.path else [str(self.settings.alfirk), "switch"]
        line = [*program, "--no-p4", "--device-id", str(self.device_id)]
        line += [word for port in ports for word in ("-i", port)]
        line += ["--pcap", str(self.captures)] if self.captures else []
        return [*line, "--", "--grpc-server-addr", self.address, "--cpu-port", str(CPU_PORT)]

    def start(self, controllers: Any) -> None:
        """Start the process."""
        if self.path and shutil.which(self.path) is None:
            raise NetworkError(f"--switch ...,path={self.path} is no executable", "give its whole path")
        if self.captures:
            self.captures.mkdir(exist_ok=True)
        super().start(controllers)


class SimpleSwitchGrpc(MnSwitch):
    """A switch of BMv2's own program, or of whatever ``path`` is that takes its command line."""

    def __init__(self, name: str, path: str = "simple_switch_grpc", **params: Any) -> None:
        super().__init__(name, path=path, **params)


class _Made(Topo):
    """What ``alfirk topology`` makes of a word, or reads from a file."""

    network: Topology
    settings: Settings

    def make(self, word: str) -> None:
        """Have alfirk make the network, and add its nodes and links."""
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
        self.settings = Settings(alfirk, folder, journal=Journal(), kernel_ip=True)
        for host in network.hosts:
            check_socket_path(folder / f"{host.name}.sock")
        add_nodes(self, network, self.settings, own_switches=False)


class Testbed(_Made):
    """``--topo testbed``: one switch with four hosts."""

    def build(self, **_: Any) -> None:
        """Add its nodes and links."""
        self.make("testbed")


class FatTree(_Made):
    """``--topo fattree,k=4``: k pods of k switches, k^3/4 hosts; ``pods=2`` for fewer pods."""

    def build(self, k: int = 4, pods: int | None = None, **_: Any) -> None:
        """Add its nodes and links."""
        self.make(f"fat-tree:{k}" + (f",pods={pods}" if pods else ""))


class LeafSpine(_Made):
    """``--topo leafspine,leaves=4,spines=2,hosts=4``: so many hosts at each leaf."""

    def build(self, leaves: int = 4, spines: int = 2, hosts: int = 4, **_: Any) -> None:
        """Add its nodes and links."""
        self.make(f"leaf-spine:{leaves},{spines},{hosts}")


class TopologyFile(_Made):
    """``--topo file,path=topologies/testbed.yaml``."""

    def build(self, path: str = "topologies/testbed.yaml", **_: Any) -> None:
        """Add its nodes and links."""
        self.make(str(Path(path).absolute()))


TOPOS = {"fattree": FatTree, "leafspine": LeafSpine, "testbed": Testbed, "file": TopologyFile}
SWITCHES = {"alfirk": MnSwitch, "simple_switch_grpc": SimpleSwitchGrpc}


def no_openflow() -> type[Controller]:
    """Give mn a controller that does nothing: ours speaks P4Runtime, and starts behind the switches."""
    nothing: type[Controller] = NullController
    return nothing


class AlfirkNet(AlfirkMininet):
    """Mininet with the controller of our switches, started and stopped with it."""

    controller_process: Child | None = None
    service = ""

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
        if not isinstance(topo, _Made):
            super().start()
            return
        settings = topo.settings
        hosts = [host for host in self.hosts if isinstance(host, AlfirkHost)]
        for host in hosts:
            host.start_rdma()
        super().start()
        wait_ready([(host.child, host.answers) for host in hosts if host.child])
        switches = [switch for switch in self.switches if isinstance(switch, MnSwitch)]
        if len(switches) < len(self.switches):
            warn("*** These switches are not ours: they have no controller. Give --switch alfirk\n")
            return
        topology = settings.workdir / "topology.yaml"
        self.controller_process, self.service = start_controller(topology, settings, switches)
        self._tell_hosts(hosts, switches, settings)
        info(f"*** Controller on {self.service}; logs, captures and sockets in {settings.workdir}\n")

    def _tell_hosts(self, hosts: list[AlfirkHost], switches: list[MnSwitch], settings: Settings) -> None:
        """Write down what there is for `alfirk run --attach`, and let hosts find commands."""
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
        """Take the links between two nodes up or down, and tell the controller."""
        super().configLinkStatus(src, dst, status)
        if self.service and isinstance(self.topo, _Made) and status in ("up", "down"):
            settings = self.topo.settings
            command = [str(settings.alfirk), "link", "tell", "--controller", self.service, src, dst, status]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                warn(f"*** The controller was not told: {done.stderr.strip()}\n")

    def stop(self) -> None:
        """Stop the controller, all processes at once, and then everything else."""
        controller, self.controller_process = self.controller_process, None
        nodes = [
            node for node in (*self.switches, *self.hosts) if isinstance(node, (AlfirkSwitch, AlfirkHost))
        ]
        children = [child for child in (controller, *(node.child for node in nodes)) if child]
        stop_all(children)
        super().stop()
        if isinstance(self.topo, _Made) and self.topo.settings.journal:
            self.topo.settings.journal.close()
