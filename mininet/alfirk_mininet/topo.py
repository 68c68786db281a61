"""A Mininet ``Topo`` with the nodes and links of a topology file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mininet.topo import Topo

from alfirk_mininet.nodes import AlfirkHost, AlfirkLink, AlfirkSwitch, Settings

if TYPE_CHECKING:
    from alfirk_mininet.topology import Attributes, Topology


class AlfirkTopo(Topo):
    """The nodes and links of a :class:`~alfirk_mininet.topology.Topology`."""

    def build(self, topology: Topology, settings: Settings | None = None, **_: Any) -> None:
        """Add every host, switch and link."""
        settings = settings or Settings(Path("alfirk"), Path.cwd(), kernel_ip=True, rdma=False)
        add_nodes(self, topology, settings)


def add_nodes(topo: Topo, topology: Topology, settings: Settings, *, own_switches: bool = True) -> None:
    """Add every host, switch and link; `own_switches` overrides the switch class of `mn --switch`."""
    # Only of hosts, which have one loss each.
    links = {end.node: link.attributes for link in topology.links for end in (link.a, link.b)}
    # Guests are not nodes of Mininet: their taps become ports of switches later.
    guests = set(settings.guests)
    for host in (host for host in topology.hosts if host.name not in guests and settings.has(host.name)):
        topo.addHost(
            host.name,
            cls=AlfirkHost,
            address=str(host.ip),
            mac=host.mac,
            mtu=links[host.name].mtu,
            link=links[host.name],
            settings=settings,
        )
    for switch in (switch for switch in topology.switches if settings.has(switch.name)):
        topo.addSwitch(
            switch.name,
            cls=AlfirkSwitch if own_switches else None,
            device_id=switch.device_id,
            settings=settings,
            port_links=port_links(topology, switch.name),
            port_loss={port: settings.loss for port in lossy_ports(topology, switch.name) if settings.loss},
        )
    for link in topology.links:
        # Links to other machines are created after the nodes.
        if guests & {link.a.node, link.b.node} or not settings.has(link.a.node, link.b.node):
            continue
        topo.addLink(
            link.a.node,
            link.b.node,
            # Mininet numbers a host's ports from 0.
            port1=link.a.port or 0,
            port2=link.b.port or 0,
            cls=AlfirkLink,
            mtu=link.attributes.mtu,
        )


def lossy_ports(topology: Topology, switch: str) -> list[int]:
    """List the ports of a switch that lose frames: one port for each link, not both."""
    ends = (link.a if link.a.port is not None else link.b for link in topology.links)
    return sorted(end.port for end in ends if end.node == switch and end.port is not None)


def port_links(topology: Topology, switch: str) -> dict[int, Attributes]:
    """Return the attributes of the link at each port of a switch."""
    ends = ((end, link.attributes) for link in topology.links for end in (link.a, link.b))
    return {end.port: does for end, does in ends if end.node == switch and end.port is not None}
