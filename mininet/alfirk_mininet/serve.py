"""A network for another program, which learns of it by JSON lines on stdout.

``{"event":"ready","switches":{"s1":"127.0.0.1:50001",..},"hosts":{"h1":"DIR/h1.sock",..},
"interfaces":{"s1":{"1":"s1-eth1",..},..}}`` comes once everything answers.  The network stands until stdin
closes or SIGTERM comes; then it is taken down and the exit code is 0.
``{"event":"failed","what":"..","hint":".."}`` and exit code 1 come when something cannot start or a process
dies.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.events import failed, say
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings, check_alive
from alfirk_mininet.topology import Topology, TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Stopped(BaseException):
    """SIGTERM or SIGINT came."""


def serve(topology_file: Path, settings: Settings) -> int:
    """Run a network until told to stop; return the exit code."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        topology = Topology.load(topology_file)
        with _uninterrupted_end(Network(topology, settings)) as network:
            say(
                event="ready",
                switches={switch.name: switch.address for switch in network.switches},
                hosts={host.name: str(host.control) for host in network.hosts if host.child},
                interfaces={
                    switch.name: {port: intf.name for port, intf in sorted(switch.intfs.items()) if port}
                    for switch in network.switches
                },
            )
            _watch(network)
    except _Stopped:
        return 0
    except TopologyError as error:
        return failed(str(error), "mend the file, or take one from topologies/")
    except NetworkError as error:
        return failed(error.what, error.hint)
    except OSError as error:
        return failed(f"the system refused: {error}", "a full disk, a limit or a missing right?")
    except Exception as error:
        return failed(f"Mininet failed: {error}", f"logs are in {settings.workdir}")
    return 0


def _stop(*_: object) -> NoReturn:
    raise _Stopped


@contextlib.contextmanager
def _uninterrupted_end(network: Network) -> Iterator[Network]:
    """Start the network, and take it down with signals shut out: it has begun to end."""
    try:
        network.start()
        yield network
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        network.stop()


def _watch(network: Network) -> None:
    """Return when stdin closes; fail when a process ends."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        for child in network.children:
            descriptor = os.pidfd_open(child.pid)
            stack.callback(os.close, descriptor)
            selector.register(descriptor, selectors.EVENT_READ, child)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    check_alive(key.data)
                elif not os.read(sys.stdin.fileno(), 4096):
                    return
