"""One machine's part of a network, and the commands that create its links to other machines."""

from __future__ import annotations

import json
from ipaddress import IPv4Interface
from pathlib import Path

from alfirk_mininet.nodes import Settings
from alfirk_mininet.part import Part
from alfirk_mininet.topo import AlfirkTopo
from alfirk_mininet.topology import Attributes, End, Host, Link, Switch, Topology

_ATTRIBUTES = Attributes(rate_bps=10**11, delay_ns=500, mtu=4200, queue_bytes=1 << 20)
#: h1 - s1 - s2 - h2; this machine has s1 and h2.
_TOPOLOGY = Topology(
    "pair",
    (Switch("s1", 1), Switch("s2", 2)),
    (
        Host("h1", IPv4Interface("10.0.0.1/8"), "02:00:00:00:00:01"),
        Host("h2", IPv4Interface("10.0.0.2/8"), "02:00:00:00:00:02"),
    ),
    (
        Link(End("h1", None), End("s1", 1), _ATTRIBUTES),
        Link(End("s1", 2), End("s2", 1), _ATTRIBUTES),
        Link(End("s2", 2), End("h2", None), _ATTRIBUTES),
    ),
)


def _part(tmp_path: Path, *, kernel: bool = False, fragments: bool = False) -> Part:
    file = tmp_path / "part.json"
    others = {1: "192.0.2.1", 2: "192.0.2.2", 3: "192.0.2.3"}
    links = [{"link": vni - 1, "vni": vni, "remote": remote, "mtu": 4200} for vni, remote in others.items()]
    part = {"address": "192.0.2.9", "nodes": ["s1", "h2"], "links": links, "port": 4789}
    file.write_text(json.dumps({**part, "kernel": kernel, "fragments": fragments}))
    return Part.load(file)


def local_ends_of_links_to_other_machines_are_found(tmp_path: Path) -> None:
    crossings = _part(tmp_path).crossings(_TOPOLOGY)
    ends = [(str(crossing.end), crossing.vni, crossing.remote, crossing.outside) for crossing in crossings]
    assert ends == [
        ("s1:1", 1, "192.0.2.1", "vx1"),
        ("s1:2", 2, "192.0.2.2", "vx2"),
        ("h2", 3, "192.0.2.3", "vx3"),
    ]


def mininet_builds_only_nodes_and_links_of_this_machine(tmp_path: Path) -> None:
    settings = Settings(Path("alfirk"), tmp_path, part=_part(tmp_path))
    topo = AlfirkTopo(_TOPOLOGY, settings)
    assert topo.nodes() == ["h2", "s1"]
    assert topo.links() == []


def without_kernel_vxlan_one_process_forwards_all_links(tmp_path: Path) -> None:
    part = _part(tmp_path, fragments=True)
    line = part.forwarder(Path("/bin/alfirk"), part.crossings(_TOPOLOGY))
    assert " ".join(line) == (
        "/bin/alfirk vxlan --local 192.0.2.9 --port 4789 --fragments --link 1@vx1=192.0.2.1"
        " --link 2@vx2=192.0.2.2 --link 3@vx3=192.0.2.3"
    )


def kernel_vxlan_links_have_the_same_segments_and_machines(tmp_path: Path) -> None:
    part = _part(tmp_path, kernel=True)
    (command,) = part.kernel_link("s1-eth2", part.crossings(_TOPOLOGY)[1])
    assert command == (
        "link add name s1-eth2 mtu 4200 type vxlan id 2 local 192.0.2.9 remote 192.0.2.2 dstport 4789"
        " nolearning df set"
    )
    cut = _part(tmp_path, kernel=True, fragments=True)
    assert cut.kernel_link("s1-eth2", cut.crossings(_TOPOLOGY)[1])[0].endswith("df unset")
