"""One machine's part of a network over several machines, and its ends of links to the others.

``alfirk run --machines`` places the nodes; see ``cli/src/machine``.  No root, no Mininet.
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
    #: VXLAN segment number of the link.
    vni: int
    #: Address of the other machine.
    remote: str

    @property
    def outside(self) -> str:
        """Name of the veth end whose frames go to the other machine."""
        return f"vx{self.vni}"


@dataclass(frozen=True)
class Part:
    """One machine's part of a network."""

    #: Its address for the other machines and the controller.
    address: str
    nodes: frozenset[str]
    #: VNI and address of the other machine, by the link's index in the topology.
    links: dict[int, tuple[int, str]]
    #: UDP port of VXLAN.
    port: int
    #: Whether the kernel supports VXLAN; `alfirk vxlan` is used otherwise.
    kernel: bool
    #: Whether IP may fragment datagrams.
    fragments: bool

    @staticmethod
    def load(file: Path) -> Part:
        """Read the file that ``alfirk run`` wrote."""
        part = json.loads(file.read_text())
        return Part(
            address=part["address"],
            nodes=frozenset(part["nodes"]),
            links={link["link"]: (link["vni"], link["remote"]) for link in part["links"]},
            port=part["port"],
            kernel=part["kernel"],
            fragments=part["fragments"],
        )

    def crossings(self, topology: Topology) -> list[Crossing]:
        """List this machine's ends of links to other machines."""
        return [
            Crossing(end, link.attributes, *self.links[number])
            for number, link in enumerate(topology.links)
            if number in self.links
            for end in (link.a, link.b)
            if end.node in self.nodes
        ]

    def forwarder(self, alfirk: Path, crossings: list[Crossing]) -> list[str]:
        """Build the command line of the forwarder for kernels without VXLAN."""
        line = [str(alfirk), "vxlan", "--local", self.address, "--port", str(self.port)]
        line += ["--fragments"] if self.fragments else []
        for crossing in crossings:
            line += ["--link", f"{crossing.vni}@{crossing.outside}={crossing.remote}"]
        return line

    def kernel_link(self, name: str, crossing: Crossing) -> list[str]:
        """Build the commands of ``ip`` that create an end in the kernel, down and in this namespace."""
        options = f"id {crossing.vni} local {self.address} remote {crossing.remote} dstport {self.port}"
        do_not_fragment = "unset" if self.fragments else "set"
        mtu = crossing.attributes.mtu
        return [f"link add name {name} mtu {mtu} type vxlan {options} nolearning df {do_not_fragment}"]
