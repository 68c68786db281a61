"""A whole network from a topology file: up, watched, and down without a trace."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mininet.log import setLogLevel
from mininet.net import Mininet

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.nodes import AlfirkHost, AlfirkSwitch, Settings, check_socket_path, wait_ready
from alfirk_mininet.process import Child, kill_guests, stop_all
from alfirk_mininet.topo import AlfirkTopo

if TYPE_CHECKING:
    from alfirk_mininet.topology import Topology


class Network:
    """Use as a context manager: inside, every process answers; behind, nothing is left."""

    def __init__(self, topology: Topology, settings: Settings) -> None:
        self.topology = topology
        self.settings = settings
        self._journal: Journal | None = None
        self._mininet: Mininet | None = None

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
        """Build everything and wait until it is ready; on an error, call :meth:`stop`."""
        _check_tools(self.settings.alfirk)
        self._make_directories()
        setLogLevel("error")
        clean()
        self._journal = Journal()
        settings = replace(self.settings, journal=self._journal)
        for name in (host.name for host in self.topology.hosts):
            check_socket_path(settings.workdir / f"{name}.sock")
        self._mininet = Mininet(topo=AlfirkTopo(self.topology, settings), controller=None, build=False)
        self._mininet.build()
        hosts = self.hosts if settings.rdma else []
        for host in hosts:
            host.start_rdma()
        self._mininet.start()
        wait_ready([(host.child, host.answers) for host in hosts if host.child])

    def stop(self) -> None:
        """Take everything down; what Mininet cannot, the journal does."""
        mininet, self._mininet = self._mininet, None
        journal, self._journal = self._journal, None
        if mininet:
            # All at once: one after the other would take each one's time to end.
            stop_all([node.child for node in _nodes(mininet) if node.child])
            kill_guests(host.pid for host in mininet.hosts)
            with contextlib.suppress(Exception):
                mininet.stop()
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
            node for s in self.topology.switches if isinstance(node := self.mininet[s.name], AlfirkSwitch)
        ]

    @property
    def hosts(self) -> list[AlfirkHost]:
        """The hosts in the order of the topology file."""
        return [node for h in self.topology.hosts if isinstance(node := self.mininet[h.name], AlfirkHost)]

    @property
    def children(self) -> list[Child]:
        """Every process that must run as long as the network does."""
        return [node.child for node in _nodes(self.mininet) if node.child]

    def _make_directories(self) -> None:
        for directory in filter(None, (self.settings.workdir, self.settings.pcap)):
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NetworkError(
                    f"cannot make the directory {directory}: {error.strerror}", "choose another one"
                ) from error


def _nodes(mininet: Mininet) -> list[AlfirkSwitch | AlfirkHost]:
    nodes = [*mininet.switches, *mininet.hosts]
    return [node for node in nodes if isinstance(node, (AlfirkSwitch, AlfirkHost))]


def _check_tools(alfirk: Path) -> None:
    tools = {"mnexec": "mininet", "ip": "iproute2", "ethtool": "ethtool", "ifconfig": "net-tools"}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            raise NetworkError(f"there is no {tool} here", f"sudo apt-get install {package}")
    if shutil.which(str(alfirk)) is None:
        raise NetworkError(f"{alfirk} is not an executable", "build it: make build")
    # Mininet itself would wait for ever for the prompt of a shell that could not start.
    probe = subprocess.run(["mnexec", "-n", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        raise NetworkError(
            f"the system refuses a new network namespace: {probe.stderr.strip()}",
            "in a container, give it the rights to make namespaces and mounts (docker run --privileged)",
        )
