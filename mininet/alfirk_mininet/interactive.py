"""Mininet's prompt on a network whose switches are programmed: ``h1 ping h2``, ``iperf``, ``links``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mininet.cli import CLI

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings, wait_ready
from alfirk_mininet.process import Child, stop_all
from alfirk_mininet.topology import Topology, TopologyError

if TYPE_CHECKING:
    from pathlib import Path


def interact(topology_file: Path, settings: Settings) -> int:
    """Build the network, start the controller, hand over to the prompt; return the exit code."""
    try:
        topology = Topology.load(topology_file)
        with Network(topology, settings) as network:
            controller = start_controller(topology_file, network)
            try:
                sys.stderr.write(f"{topology.name} is up; logs are in {settings.workdir}\n")
                CLI(network.mininet)
            finally:
                stop_all([controller])
    except TopologyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except NetworkError as error:
        sys.stderr.write(f"{error.what}: {error.hint}\n")
        return 1
    return 0


def start_controller(topology_file: Path, network: Network) -> Child:
    """Start ``alfirk ctrl`` and wait until it has programmed every switch."""
    settings = network.settings
    ready = settings.workdir / "ctrl.ready"
    ready.unlink(missing_ok=True)
    command = [str(settings.alfirk), "ctrl", "--topology", str(topology_file)]
    for switch in network.switches:
        command += ["--switch", f"{switch.name}={switch.address}"]
    command += ["--ready-file", str(ready)]
    child = Child.spawn("the controller", command, settings.workdir / "ctrl.log")
    try:
        wait_ready([(child, ready.exists)])
    except NetworkError:
        stop_all([child])
        raise
    return child
