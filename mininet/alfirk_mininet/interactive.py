"""Mininet's prompt on a network whose switches are programmed: ``h1 ping h2``, ``iperf``, ``links``."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from mininet.cli import CLI

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import wait_ready
from alfirk_mininet.process import Child, stop_all
from alfirk_mininet.program import PROGRAM, compile_program
from alfirk_mininet.topology import Topology, TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from alfirk_mininet.nodes import AlfirkSwitch, Settings


def interact(topology_file: Path, settings: Settings) -> int:
    """Build the network, start the controller, run the prompt; return the exit code."""
    signal.signal(signal.SIGTERM, stop_by_signal)
    try:
        topology = Topology.load(topology_file, settings.alfirk)
        with Network(topology, settings) as network:
            controller, service = start_controller(topology_file, settings, network.switches)
            try:
                sys.stderr.write(
                    f"{topology.name}: {len(network.switches)} switches, {len(network.hosts)} hosts; "
                    f"control service on {service}; logs in {settings.workdir}\n"
                )
                CLI(network.mininet)
            finally:
                stop_all([controller])
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    except TopologyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except NetworkError as error:
        sys.stderr.write(f"{error.what}: {error.hint}\n")
        return 1
    return 0


def stop_by_signal(number: int, _: object) -> NoReturn:
    """End the program through the code that removes a network; further signals do not interrupt that."""
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)


def start_controller(
    topology_file: Path, settings: Settings, switches: Iterable[AlfirkSwitch]
) -> tuple[Child, str]:
    """Start ``alfirk ctrl``, wait until every switch is programmed; return it and its service's address."""
    program = compile_program(settings.alfirk, PROGRAM, settings.workdir / "main.json")
    command = [str(settings.alfirk), "ctrl", "--json", "--topology", str(topology_file)]
    command += ["--p4info", str(program.p4info), "--device-config", str(program.json)]
    command += ["--listen", "127.0.0.1:0"]
    for switch in switches:
        command += ["--switch", f"{switch.name}={switch.address}"]
    child = Child.spawn("the controller", command, settings.workdir / "ctrl.log")
    try:
        wait_ready([(child, lambda: bool(_ready_line(child)))])
    except BaseException:
        stop_all([child])
        raise
    return child, str(_ready_line(child).get("listen"))


def _ready_line(controller: Child) -> dict[str, Any]:
    """Return the controller's readiness line from its log; empty if not there yet."""
    for line in controller.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        if line.startswith("{") and line.endswith("\n"):
            line_read: dict[str, Any] = json.loads(line)
            return line_read
    return {}
