"""Runs on several machines; each machine is a namespace with an sshd."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from namespaces import ROOT, Site, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk")).absolute()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), 3) as site:
        yield site


@pytest.fixture(autouse=True)
def _nothing_is_left(site: Site) -> Iterator[None]:
    before = [machine.interfaces() for machine in site.machines]
    yield
    eventually(
        lambda: [machine.interfaces() for machine in site.machines] == before, "interfaces are removed"
    )
    eventually(lambda: not any(machine.networks() for machine in site.machines), "journals are removed")
    eventually(lambda: not any(machine.agents() for machine in site.machines), "agents have ended")


def _run(site: Site, *flags: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = site.run(ALFIRK, *flags, **options)
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def _report(site: Site, *flags: str) -> dict[str, Any]:
    done = _run(site, *flags)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def file_reaches_every_host_of_a_fat_tree_over_three_machines(site: Site) -> None:
    file = ROOT / "topologies" / "fat-tree-k4.yaml"
    report = _report(
        site,
        *("--machines", site.names(), "--topology", str(file), "--scale", "off", "--size", "1MiB"),
        *("--algorithms", "alfirk,chain"),
    )
    for result in report["results"]:
        assert result["receivers_verified"] == result["receivers"] == 15
        assert result["verified"] is True
    machines = report["machines"]["machines"]
    assert [machine["name"] for machine in machines] == ["m1", "m2", "m3"]
    assert [machine["address"] for machine in machines] == [machine.address for machine in site.machines]
    assert sum(machine["hosts"] for machine in machines) == 16
    assert sum(machine["switches"] for machine in machines) == 20
    assert 0 < report["machines"]["crossing_links"] <= 16


def host_and_its_switch_can_be_on_different_machines(site: Site, tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    file = ROOT / "topologies" / "leaf-spine.yaml"
    report = _report(
        site,
        *("--machines", "local,m1", "--place", "h1=2,h16=1"),
        *("--topology", str(file), "--scale", "off", "--size", "64KiB", "--registration", "mrp"),
        *("--algorithms", "alfirk", "--pcap", str(captures)),
    )
    (result,) = report["results"]
    assert result["receivers_verified"] == 15
    # From hosts on both machines.
    assert {f"h{number}.pcap" for number in range(1, 17)} <= {path.name for path in captures.iterdir()}


def slow_clock_on_two_machines_agrees_with_the_simulator(site: Site) -> None:
    file = ROOT / "topologies" / "leaf-spine.yaml"
    flags = ("--topology", str(file), "--size", "64KiB", "--algorithms", "alfirk", "--group", "6")
    machines = ("--machines", "m1,m2", "--scale", "10000")
    report = _report(site, *machines, *flags)
    virtual = subprocess.run(
        [str(ALFIRK), "run", "--json", *flags], capture_output=True, text=True, timeout=240, check=True
    )
    (result,), (expected,) = report["results"], json.loads(virtual.stdout)["results"]
    assert result["verified"] is True
    load = report["clock"]["load"]
    short = any(one["is_limited"] for one in load)
    ratio = result["completion_ns"] / expected["completion_ns"]
    assert abs(ratio - 1) < 0.25 or short, (ratio, report["clock"], report["machines"])
    assert report["machines"]["clock_error_ns"] < expected["completion_ns"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def killed_run_leaves_nothing_on_any_machine(site: Site, number: signal.Signals) -> None:
    file = ROOT / "topologies" / "leaf-spine.yaml"
    flags = ("--machines", "m1,m2", "--topology", str(file), "--scale", "off", "--size", "16MiB")
    process = subprocess.Popen(site.run(ALFIRK, *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    machines = site.machines[:2]
    eventually(lambda: all(machine.networks() for machine in machines), "both machines have a network")
    eventually(lambda: all("s" in "".join(m.interfaces()) for m in machines), "there are interfaces")
    # nsenter has executed the command, so this is the command's process.
    process.send_signal(number)
    assert process.wait(60) != 0


def next_run_removes_the_remains_of_a_killed_agent(site: Site) -> None:
    file = ROOT / "topologies" / "leaf-spine.yaml"
    flags = ("--machines", "m1,m2", "--topology", str(file), "--scale", "off", "--algorithms", "alfirk")
    command = site.run(ALFIRK, *flags, "--size", "16MiB")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    machine = site.machines[0]
    eventually(lambda: bool(machine.networks()), "the machine has a network")
    (name,) = (name for name in machine.networks() if name.endswith(".json"))
    # The process that builds the network; the journal is named after it.
    os.kill(int(name.removesuffix(".json")), signal.SIGKILL)
    assert process.wait(60) == 1
    assert process.stderr
    assert "machine m1: the Mininet process ended" in process.stderr.read()
    report = _report(site, *flags, "--size", "64KiB")
    assert report["results"][0]["verified"] is True


def unusable_machine_is_named_with_a_remedy(site: Site) -> None:
    usual = ("--topology", str(ROOT / "topologies" / "leaf-spine.yaml"), "--scale", "off", "--size", "64B")
    there = f"env PYTHONPATH={ROOT / 'mininet'}"
    for machines, remote, message in [
        ("m1,m9", None, "machine m9: cannot be reached"),
        ("m1,m2", "/nowhere/alfirk", "machine m1: cannot find `/nowhere/alfirk`"),
        ("m1,m2", "echo", "machine m1: `echo machine` ended with exit code 0"),
        ("m1,m2", "sh -c 'echo Welcome; sleep 9'", "machine m1: its output is not that of alfirk"),
        (
            "m1,m2",
            f"{there} PYTHON=/bin/false {ALFIRK}",
            "machine m1: /bin/false lacks the module mininet",
        ),
        ("m1,m2", f"setpriv --reuid=65534 --clear-groups {ALFIRK}", "machine m1: not root"),
        ("m1,m2", f"{ALFIRK} nonsense", "machine m1: `"),
    ]:
        done = _run(site, "--machines", machines, *usual, remote=remote)
        assert done.returncode == 1, done.stdout
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def path_with_too_small_mtu_is_rejected_or_fragmented(site: Site) -> None:
    file = str(ROOT / "topologies" / "leaf-spine.yaml")
    usual = (
        "--machines",
        "m1,m2",
        "--topology",
        file,
        "--scale",
        "off",
        "--size",
        "64KiB",
        "--algorithms",
        "alfirk",
    )
    for machine in site.machines:
        machine.sh("ip link set eth0 mtu 1500")
    done = _run(site, *usual)
    assert done.returncode == 1
    # The first component that detects it reports it.
    message = r"machine m(1|2): the path to 10\.77\.(1|2)\.2 has an MTU of 1500 bytes"
    found = re.search(message, done.stderr)
    assert found, done.stderr
    assert found[1] != found[2]
    assert "--fragment-vxlan" in done.stderr
    report = _report(site, *usual, "--fragment-vxlan")
    assert report["results"][0]["verified"] is True
    for machine in site.machines:
        machine.sh("ip link set eth0 mtu 4250")
