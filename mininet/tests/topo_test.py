"""The Mininet ``Topo`` of a topology, without building it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from alfirk_mininet.topology import Topology

if not importlib.util.find_spec("mininet"):
    pytest.skip("there is no mininet here", allow_module_level=True)

from alfirk_mininet import topo
from alfirk_mininet.interfaces import host_interface, switch_interface
from alfirk_mininet.nodes import Settings

FAT_TREE = Topology.load(Path(__file__).parents[2] / "topologies" / "fat-tree-k4.yaml")


def each_link_drops_frames_at_one_end_only() -> None:
    lossy = {(s.name, port) for s in FAT_TREE.switches for port in topo.lossy_ports(FAT_TREE, s.name)}
    for link in FAT_TREE.links:
        assert len({(link.a.node, link.a.port), (link.b.node, link.b.port)} & lossy) == 1


def nodes_and_ports_match_the_file() -> None:
    mininet_topo = topo.AlfirkTopo(FAT_TREE, Settings(Path("alfirk"), Path("/tmp")))
    assert sorted(mininet_topo.switches()) == sorted(switch.name for switch in FAT_TREE.switches)
    assert sorted(mininet_topo.hosts()) == sorted(host.name for host in FAT_TREE.hosts)
    assert mininet_topo.port("h1", "p1e1") == (0, 1)
    assert mininet_topo.port("p4a2", "c4") == (4, 4)


def interface_names_fit_the_kernel_limit_for_any_node_name() -> None:
    assert switch_interface("s1", 1, 12) == "s1-eth12"
    assert host_interface("h1") == "h1-eth0"
    for name in ("aggregation-switch-17", "a" * 64):
        assert switch_interface(name, 123456, 509) == "sw123456-eth509"
        assert len(host_interface(name)) <= 15
