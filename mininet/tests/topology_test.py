"""The Python view of a topology: alfirk's output for a file, and its errors."""

from __future__ import annotations

from ipaddress import IPv4Interface
from pathlib import Path

import pytest
from alfirk_mininet.binary import find_alfirk
from alfirk_mininet.topology import Attributes, End, Host, Switch, Topology, TopologyError

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


def _load(folder: Path, text: str) -> Topology:
    file = folder / "t.yaml"
    file.write_text(text)
    return Topology.load(file)


def every_shipped_topology_is_valid() -> None:
    files = sorted(TOPOLOGIES.glob("*.yaml"))
    assert files
    for file in files:
        assert Topology.load(file).switches


def all_parts_of_a_file_are_loaded(tmp_path: Path) -> None:
    topology = _load(tmp_path, SMALL)
    assert topology.name == "small"
    assert topology.switches == (Switch("s1", 1), Switch("s2", 2))
    assert topology.hosts[1] == Host("h2", IPv4Interface("10.0.0.2/8"), "02:00:00:00:00:02")
    assert [(link.a, link.b) for link in topology.links] == [
        (End("h1", None), End("s1", 1)),
        (End("s1", 2), End("s2", 1)),
        (End("s2", 2), End("h2", None)),
    ]
    assert topology.switch_ports("s2") == [1, 2]


def links_have_their_own_attributes_or_the_defaults(tmp_path: Path) -> None:
    topology = _load(tmp_path, SMALL)
    assert topology.links[0].attributes == Attributes(100 * 10**9, 500, 4200, 1 << 20)
    assert topology.links[1].attributes == Attributes(40 * 10**9, 1000, 1500, 65536)


def settings_of_simulated_switches_are_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = SMALL.replace("switches:", "switch: {queueing: input, pfc: {class: 3}}\nswitches:")
    assert _load(tmp_path, text) == _load(tmp_path, SMALL)
    assert caplog.messages == ["small: `switch` is for the simulator: switches here have their own queues"]


def generator_names_are_accepted() -> None:
    topology = Topology.load("fat-tree:4")
    assert (len(topology.switches), len(topology.hosts), len(topology.links)) == (20, 16, 48)
    assert all(len(topology.switch_ports(switch.name)) == 4 for switch in topology.switches)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("name: small", "name: [small", "t.yaml:1:7: "),
        ("{name: s2, id: 2}", "{name: s1, id: 2}", "the name `s1` is taken"),
        ("10.0.0.2/8", "10.0.0.2", "host h2: `10.0.0.2` is not an address with its prefix"),
        ("rate: 40Gbps", "rate: 40", "`40` has no unit for a rate"),
    ],
)
def errors_of_the_alfirk_command_are_reported(tmp_path: Path, old: str, new: str, error: str) -> None:
    assert old in SMALL
    with pytest.raises(TopologyError) as caught:
        _load(tmp_path, SMALL.replace(old, new))
    assert error in str(caught.value)
    assert not str(caught.value).startswith("alfirk: ")


def missing_topology_file_is_reported() -> None:
    with pytest.raises(TopologyError, match=r"cannot read the topology /nowhere/t\.yaml"):
        Topology.load("/nowhere/t.yaml")


def missing_alfirk_command_is_reported() -> None:
    with pytest.raises(TopologyError, match=r"cannot run /nowhere/alfirk: .*set ALFIRK"):
        Topology.load("testbed", Path("/nowhere/alfirk"))


def alfirk_command_is_taken_from_environment_or_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALFIRK", "/opt/alfirk")
    assert find_alfirk() == Path("/opt/alfirk")
    monkeypatch.delenv("ALFIRK")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    built = tmp_path / "debug" / "alfirk"
    built.parent.mkdir()
    built.touch()
    assert find_alfirk() == built
