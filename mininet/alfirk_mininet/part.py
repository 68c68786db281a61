"""The part of a network that one of several machines has, and its ends of links to the others.

``alfirk run --machines`` decides who has what; see ``cli/src/machine``.  No root, no Mininet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from alfirk_mininet.topology import Attributes, End, Topology


@dataclass(frozen=True)
class Crossing:
    """One end of a link to another machine."""

    #: The node and port at this end.
    end: End
    attributes: Attributes
    #: The number of the link's VXLAN segment.
    vni: int
    #: The address of the machine at the other end.
    remote: str

    @property
    def outside(self) -> str:
        """Name the veth end that frames come out of on their way to the other machine."""
        return f"vx{self.vni}"


@dataclass(frozen=True)
class Part:
    """What one machine has of a network."""

    #: Its address towards the other machines and the controller.
    address: str
    nodes: frozenset[str]
    #: By the link's place in the topology: its VNI, and the address of the other machine.
    links: dict[int, tuple[int, str]]
    #: UDP port of VXLAN.
    port: int
    #: Whether the kernel has VXLAN; `alfirk vxlan` does it otherwise.
    kernel: bool
    #: Whether datagrams may be fragmented on the way.
    fragments: bool

    @staticmethod
    def load(file: Path) -> Part:
        """Read what ``alfirk run`` has written."""
        said = json.loads(file.read_text())
        return Part(
            address=said["address"],
            nodes=frozenset(said["nodes"]),
            links={link["link"]: (link["vni"], link["remote"]) for link in said["links"]},
            port=said["port"],
            kernel=said["kernel"],
            fragments=said["fragments"],
        )

    def crossings(self, topology: Topology) -> list[Crossing]:
        """List the ends here of links to other machines."""
        return [
            Crossing(end, link.attributes, *self.links[number])
            for number, link in enumerate(topology.links)
            if number in self.links
            for end in (link.a, link.b)
            if end.node in self.nodes
        ]

    def forwarder(self, alfirk: Path, crossings: list[Crossing]) -> list[str]:
        """Build the command line of what carries frames where the kernel does not."""
        line = [str(alfirk), "vxlan", "--local", self.address, "--port", str(self.port)]
        line += ["--fragments"] if self.fragments else []
        for crossing in crossings:
            line += ["--link", f"{crossing.vni}@{crossing.outside}={crossing.remote}"]
        return line

    def kernel_link(self, name: str, crossing: Crossing) -> list[str]:
        """Build the commands of ``ip`` that make an end in the kernel, down and in this namespace."""
        options = f"id {crossing.vni} local {self.address} remote {crossing.remote} dstport {self.port}"
        do_not_fragment = "unset" if self.fragments else "set"
        mtu = crossing.attributes.mtu
        return [f"link add name {name} mtu {mtu} type vxlan {options} nolearning df {do_not_fragment}"]
