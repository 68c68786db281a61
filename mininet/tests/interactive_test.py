"""Ordinary programs on Mininet hosts: the controller's routes and ARP answers serve the kernel too."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alfirk_mininet.topology import Topology

pytest.importorskip("mininet")

from alfirk_mininet.interactive import start_controller
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings, check_alive
from alfirk_mininet.process import stop_all

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
LEAF_SPINE = ROOT / "topologies" / "leaf-spine.yaml"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """A programmed leaf-spine fabric whose hosts' kernels have their addresses."""
    settings = Settings(ALFIRK, tmp_path, kernel_ip=True, rdma=False)
    with Network(Topology.load(LEAF_SPINE), settings) as up:
        controller, _ = start_controller(LEAF_SPINE, settings, up.switches)
        yield up
        for child in (controller, *up.children):
            check_alive(child)
        stop_all([controller])


def kernels_of_hosts_ping_each_other_over_the_fabric(network: Network) -> None:
    first, *others = network.hosts
    for other in (others[0], others[-1]):
        address = other.address.partition("/")[0]
        answer = first.cmd(f"ping -c 2 -i 0.2 -W 5 {address}")
        assert " 0% packet loss" in answer, answer


def daemons_started_on_a_host_end_with_the_network(tmp_path: Path) -> None:
    settings = Settings(ALFIRK, tmp_path, kernel_ip=True, rdma=False)
    with Network(Topology.load(LEAF_SPINE), settings) as up:
        up.hosts[0].cmd("setsid sleep 1000.25 >/dev/null 2>&1 &")
        eventually = time.monotonic() + 10
        while not _running("sleep", "1000.25"):
            assert time.monotonic() < eventually
    assert not _running("sleep", "1000.25")


def tcp_segments_have_valid_checksums(network: Network) -> None:
    first, last = network.hosts[0], network.hosts[-1]
    address = last.address.partition("/")[0]
    last.cmd("iperf -s -p 5001 >/dev/null 2>&1 &")
    try:
        # The server may not listen yet: a refused connection, which iperf calls a success, is tried again.
        answer = first.cmd(
            f"for try in $(seq 50); do answer=$(iperf -c {address} -p 5001 -n 1M 2>&1); "
            'case "$answer" in *bits/sec*) break;; esac; sleep 0.2; done; echo "$answer"'
        )
    finally:
        last.cmd("kill -KILL %iperf")
    assert "bits/sec" in answer, answer


def _running(*command: str) -> bool:
    """Whether a process with this command line runs."""
    wanted = b"\0".join(word.encode() for word in command) + b"\0"
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if entry.read_bytes() == wanted:
                return True
    return False
