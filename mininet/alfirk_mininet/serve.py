"""A network for another program, which controls it by JSON lines on stdin and stdout.

``{"event":"ready","switches":{"s1":"127.0.0.1:50001",..},"hosts":{"h1":"DIR/h1.sock",..},
"interfaces":{"s1":{"1":"s1-eth1",..},..},"processes":[4711,..]}`` is printed once every process is ready.
The network exists until stdin closes or SIGTERM arrives; then it is removed and the exit code is 0.
A line ``{"kill":"h3"}`` on stdin kills a node's process, and ``{"cut":"s1-eth1"}`` sets a switch's
interface down, to test how the program handles the failure.  ``{"restore":"s1-eth1"}`` sets it
up again.
``{"event":"failed","what":"..","hint":".."}`` is printed, with exit code 1, when something cannot start or a
process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.events import failed, print_event
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings, check_alive
from alfirk_mininet.topology import Topology, TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alfirk_mininet.guests import Guest
    from alfirk_mininet.nodes import AlfirkHost, AlfirkSwitch
    from alfirk_mininet.process import Child


class _Stopped(BaseException):
    """SIGTERM or SIGINT arrived."""


def serve(topology_file: Path, settings: Settings) -> int:
    """Run a network until it is stopped; return the exit code."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        # Unblock the signals: `alfirk run` blocks them, and its child processes inherit that.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        topology = Topology.load(topology_file, settings.alfirk)
        with _uninterrupted_end(Network(topology, settings)) as network:
            print_event(
                event="ready",
                switches={switch.name: switch.address for switch in network.switches},
                hosts={host.name: str(host.control) for host in network.members if host.child},
                interfaces={
                    switch.name: {port: intf.name for port, intf in sorted(switch.intfs.items()) if port}
                    for switch in network.switches
                },
                processes=[child.pid for child in network.children],
            )
            _watch(network)
    except _Stopped:
        return 0
    except TopologyError as error:
        return failed(str(error), "correct the file, or use one from topologies/")
    except NetworkError as error:
        return failed(error.what, error.hint)
    except OSError as error:
        return failed(f"error of the system: {error}", "check disk space, limits and permissions")
    except Exception as error:
        return failed(f"Mininet failed: {error}", f"logs are in {settings.workdir}")
    return 0


def _stop(*_: object) -> NoReturn:
    raise _Stopped


@contextlib.contextmanager
def _uninterrupted_end(network: Network) -> Iterator[Network]:
    """Start the network, and remove it with signals blocked, as its shutdown has begun."""
    try:
        network.start()
        yield network
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        network.stop()


def _watch(network: Network) -> None:
    """Return when stdin closes; fail when a process ends without a request to kill it."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        watched: dict[str, int] = {}
        for child in network.children:
            descriptor = os.pidfd_open(child.pid)
            stack.callback(os.close, descriptor)
            selector.register(descriptor, selectors.EVENT_READ, child)
            watched[child.what] = descriptor
        unread = b""
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    check_alive(key.data)
                    continue
                chunk = os.read(sys.stdin.fileno(), 4096)
                if not chunk:
                    return
                *lines, unread = (unread + chunk).split(b"\n")
                for line in lines:
                    doomed = _execute(network, line)
                    if doomed is not None:
                        selector.unregister(watched[doomed.what])
                        doomed.process.kill()


def _execute(network: Network, line: bytes) -> Child | None:
    """Execute a request; return the process to kill, if it is a request for that."""
    hint = 'write {"kill":"h3"}, {"cut":"s1-eth1"} or {"restore":"s1-eth1"}'
    try:
        request = json.loads(line)
    except ValueError as error:
        raise NetworkError(f"a line on stdin is not JSON: {error}", hint) from error
    match request:
        case {"kill": str(name)}:
            nodes: list[AlfirkSwitch | AlfirkHost | Guest] = [*network.switches, *network.members]
            for child in (node.child for node in nodes if node.name == name):
                if child is not None and child.ended() is None:
                    return child
            raise NetworkError(f"{name} has no process to kill", "name a host or switch that still runs")
        case {"cut": str(interface)} | {"restore": str(interface)}:
            if interface not in {intf.name for switch in network.switches for intf in switch.intfList()}:
                raise NetworkError(f"no switch has an interface {interface}", hint)
            state = "down" if "cut" in request else "up"
            subprocess.run(["ip", "link", "set", "dev", interface, state], check=True)
            return None
    raise NetworkError(f"{line.decode(errors='replace')} is not a request", hint)
