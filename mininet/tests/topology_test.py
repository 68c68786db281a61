"""The topology reader: what it accepts, and what it says to what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from alfirk_mininet.topology import Attributes, Topology, TopologyError
from alfirk_mininet.units import DELAY, RATE, SIZE, UnitError

TOPOLOGIES = Path(__file__).parents[2] / "topologies"

SMALL = """\
name: small
switches:
  - {name: s1, id: 1}
  - {name: s2, id: 2}
hosts:
  - {name: h1, ip: 10.0.0.1/8, mac: "02:00:00:00:00:01"}
  - {name: h2, ip: 10.0.0.2/8, mac: "02:00:00:00:00:02"}
links:
  - {ends: [h1, "s1:1"]}
  - {ends: ["s1:2", "s2:1"], rate: 40Gbps, delay: 1us, mtu: 1500, queue: 64KiB}
  - {ends: ["s2:2", h2]}
"""


def every_shipped_topology_is_valid() -> None:
    files = sorted(TOPOLOGIES.glob("*.yaml"))
    assert files
    for file in files:
        assert Topology.load(file).switches


def what_is_said_of_simulated_switches_is_left_to_the_simulator(caplog: pytest.LogCaptureFixture) -> None:
    said = SMALL.replace("switches:", "switch: {queueing: input, pfc: {class: 3}}\nswitches:")
    assert Topology.parse("t", said) == Topology.parse("t", SMALL)
    assert caplog.messages == ["t: `switch` is for the simulator: switches here have their own queues"]
    with pytest.raises(TopologyError, match="unknown key `queues` in `switch`"):
        Topology.parse("t", said.replace("queueing", "queues"))


def fat_tree_of_four_ports_has_twenty_switches_and_sixteen_hosts() -> None:
    topology = Topology.load(TOPOLOGIES / "fat-tree-k4.yaml")
    assert (len(topology.switches), len(topology.hosts), len(topology.links)) == (20, 16, 48)
    assert all(len(topology.switch_ports(switch.name)) == 4 for switch in topology.switches)


def links_have_their_own_attributes_or_the_defaults() -> None:
    topology = Topology.parse("t", SMALL)
    assert topology.links[0].attributes == Attributes()
    assert topology.links[1].attributes == Attributes(
        rate_bps=40 * 10**9, delay_ns=1000, mtu=1500, queue_bytes=65536
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("name: small", "name: 4ever", "t:1:7: `4ever` cannot be a name"),
        ("name: small\n", "", "t:1:1: the topology has no `name`"),
        ("name: small", "name: small\nspeed: 9", "t:2:1: unknown key `speed` in the topology"),
        ("name: small", "name: small\nname: big", "t:2:1: the key `name` is given twice"),
        ("name: small", "name: [small", "t:2:"),
        ("{name: s2, id: 2}", "{name: s1, id: 2}", "t:4:12: the name `s1` is taken"),
        ("{name: s2, id: 2}", "{name: s2, id: 1}", "t:4:5: switch s2: id 1 is already the id of switch s1"),
        ("{name: s2, id: 2}", "{name: s2, id: 0}", "t:4:5: switch s2: id 0 is not a P4Runtime device id"),
        ("{name: s2, id: 2}", "{name: s2, id: two}", "t:4:20: switch s2: id: `two` is not a whole number"),
        ("10.0.0.2/8", "10.0.0.2", "t:7:20: host h2: `10.0.0.2` is not an address with its prefix"),
        ("10.0.0.2/8", "10.0.0.300/8", "host h2: `10.0.0.300/8` is not an address with its prefix"),
        ("10.0.0.2/8", "10.0.0.0/24", "host h2: 10.0.0.0/24 is not a host's address"),
        ("10.0.0.2/8", "224.0.0.2/8", "host h2: 224.0.0.2/8 is not a host's address"),
        ("10.0.0.2/8", "10.0.0.1/8", "t:7:5: host h2: 10.0.0.1 is already the address of host h1"),
        ("02:00:00:00:00:02", "03:00:00:00:00:02", "is not a station's Ethernet address"),
        ("02:00:00:00:00:02", "02:00:00:00:02", "`02:00:00:00:02` is not an Ethernet address"),
        ("02:00:00:00:00:02", "02:00:00:00:00:01", "is already the Ethernet address of host h1"),
        ('[h1, "s1:1"]', "[h1]", "t:9:12: a link has two ends, this one has 1"),
        ('[h1, "s1:1"]', '[h3, "s1:1"]', "t:9:13: link end `h3`: there is no node `h3`"),
        ('[h1, "s1:1"]', '["h1:1", "s1:1"]', "link end `h1:1`: h1 is a host and has one port only"),
        ('[h1, "s1:1"]', "[h1, s1]", "link end `s1`: s1 is a switch; say which port"),
        ('[h1, "s1:1"]', '[h1, "s1:510"]', "switch s1: port 510 is out of range; ports are 1 to 509"),
        ('[h1, "s1:1"]', '[h1, "s1:2"]', "t:10:5: port s1:2 is used by another link, to h1"),
        ('["s2:2", h2]', "[h1, h2]", "t:11:5: hosts h1 and h2 are linked to each other"),
        ('["s2:2", h2]', '["s2:2", h1]', "t:11:5: host h1 has a link already, to s1:1"),
        ('["s2:2", h2]', '["s2:2", "s2:3"]', "t:11:5: switch s2 is linked to itself"),
        ('  - {ends: ["s2:2", h2]}\n', "", "t:7:12: host h2 has no link"),
        ('["s1:2", "s2:1"]', '["s1:2", "s1:3"]', "switch s1 is linked to itself"),
        ("rate: 40Gbps", "rate: 40", "t:10:36: `40` has no unit for a rate"),
        ("rate: 40Gbps", "rate: 0Gbps", "t:10:5: a rate of 0 carries nothing"),
        ("mtu: 1500", "mtu: 20", "t:10:5: an MTU of 20 is out of range"),
        ("queue: 64KiB", "queue: 1KiB", "t:10:5: a queue of 1024 bytes holds no frame of an MTU of 1500"),
    ],
)
def error_names_place_and_cure(old: str, new: str, error: str) -> None:
    assert old in SMALL
    with pytest.raises(TopologyError) as caught:
        Topology.parse("t", SMALL.replace(old, new))
    assert error in str(caught.value)


def network_in_two_pieces_is_refused() -> None:
    text = "\n".join(line for line in SMALL.splitlines() if "s1:2" not in line)
    with pytest.raises(TopologyError, match="switch s2 cannot be reached from switch s1"):
        Topology.parse("t", text)


@pytest.mark.parametrize("text", ["", "- a", "just words", "name: x\nswitches: {}", "\t", "&a [*a]"])
def what_is_no_topology_at_all_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match=r"^t"):
        Topology.parse("t", text)


def missing_file_is_named() -> None:
    with pytest.raises(TopologyError, match=r"^/nowhere/t\.yaml: cannot read the topology: No such file"):
        Topology.load("/nowhere/t.yaml")


def quantities_are_exact() -> None:
    assert RATE.parse("2.5Gbps") == 2_500_000_000
    assert DELAY.parse("1.5us") == 1500
    assert SIZE.parse("1 MiB") == 1 << 20
    for text in ("1.5ns", "fast", "", "-1us", "1e3ns", "99999999999999s"):
        with pytest.raises(UnitError):
            DELAY.parse(text)
