"""The network of a topology file as data.

``alfirk topology check`` parses and validates the file; this module only loads its JSON output.
Needs neither root nor Mininet.
"""

from __future__ import annotations

import json
import logging
import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk_mininet.binary import find_alfirk

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG = logging.getLogger(__name__)


class TopologyError(ValueError):
    """The topology file is invalid, or the ``alfirk`` command that reads it failed."""


@dataclass(frozen=True)
class Switch:
    """A P4 switch."""

    name: str
    #: P4Runtime device id, 1 or more.
    device_id: int


@dataclass(frozen=True)
class Host:
    """A host with one network port."""

    name: str
    #: The address with the prefix length of the host's subnet.
    ip: IPv4Interface
    mac: str


@dataclass(frozen=True)
class End:
    """One end of a link."""

    node: str
    #: The port of a switch; ``None`` for a host, which has one port only.
    port: int | None

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True)
class Attributes:
    """Rate, delay, MTU and queue of a link, the same in both directions."""

    #: Serialisation rate in bits per second.
    rate_bps: int
    #: Propagation delay in nanoseconds.
    delay_ns: int
    #: The largest IP packet in bytes.
    mtu: int
    #: Capacity of the queue at each end, in bytes of frames.
    queue_bytes: int


@dataclass(frozen=True)
class Link:
    """A full-duplex link."""

    a: End
    b: End
    attributes: Attributes


@dataclass(frozen=True)
class Topology:
    """A valid network: unique names, ids and addresses; each host on one switch; all nodes connected."""

    name: str
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]

    @staticmethod
    def load(path: str | Path, alfirk: Path | None = None) -> Topology:
        """Load a file, or a generated topology such as ``fat-tree:8``, with the ``alfirk`` command."""
        command = [str(alfirk or find_alfirk()), "topology", "check", "--json", "--", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            msg = f"cannot run {command[0]}: {error.strerror}; run `make build`, or set ALFIRK"
            raise TopologyError(msg) from error
        if done.returncode:
            raise TopologyError(done.stderr.strip().removeprefix("alfirk: "))
        return Topology.of(json.loads(done.stdout))

    @staticmethod
    def of(data: Mapping[str, Any]) -> Topology:
        """Create a topology from the output of ``alfirk topology check --json``."""
        network = data["network"]
        if network["switching"]:
            _LOG.warning(
                "%s: `switch` is for the simulator: switches here have their own queues", data["name"]
            )
        return Topology(
            data["name"],
            tuple(Switch(**switch) for switch in network["switches"]),
            tuple(Host(host["name"], IPv4Interface(host["ip"]), host["mac"]) for host in network["hosts"]),
            tuple(_link(**link) for link in network["links"]),
        )

    def switch_ports(self, switch: str) -> list[int]:
        """List the ports of a switch that have a link, in order."""
        ends = (end for link in self.links for end in (link.a, link.b))
        return sorted(end.port for end in ends if end.node == switch and end.port is not None)


def _link(ends: list[dict[str, Any]], **attributes: int) -> Link:
    a, b = (End(**end) for end in ends)
    return Link(a, b, Attributes(**attributes))
