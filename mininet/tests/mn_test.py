"""Networks built by Mininet's own command line `mn`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.root, pytest.mark.skipif(shutil.which("mn") is None, reason="there is no mn here")]

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
CUSTOM = ROOT / "mininet" / "alfirk.py"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only
    yield
    assert set(os.listdir("/sys/class/net")) == before  # noqa: PTH208


def _start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["mn", "--custom", str(CUSTOM), *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Paths of Unix sockets are limited to 107 bytes.
        env={**os.environ, "ALFIRK": str(ALFIRK), "TMPDIR": str(folder)},
    )


def _mn(folder: Path, *flags: str, lines: list[str]) -> str:
    output, _ = _start(folder, *flags).communicate("\n".join([*lines, "exit"]) + "\n", timeout=120)
    return output


def fat_tree_supports_pingall_iperf_and_broadcast(tmp_path: Path) -> None:
    output = _mn(
        tmp_path,
        *("--topo", "fattree,k=4", "--switch", "alfirk"),
        lines=[
            "pingall",
            "iperf h1 h16",
            "h1 alfirk-bcast 1MiB",
            "h3 alfirk-bcast 4KiB h1 h16",
            "link p1e1 p1a1 down",
            "h1 ping -c 2 -i 0.2 -W 5 h16",
            "link p1e1 p1a2 down",
            "h1 ping -c 1 -W 1 h16",
        ],
    )
    assert "Results: 0% dropped (240/240 received)" in output
    assert re.search(r"Results: \['[\d.]+ [GM]bits/sec', '[\d.]+ [GM]bits/sec'\]", output), output
    assert re.search(r"alfirk .* 15/15 ", output), output
    # Mininet derives addresses from the hosts' names.
    assert re.search(r"h3 sends to 2 receivers", output), output
    assert re.search(r"alfirk .* 2/2 ", output), output
    around, nowhere = output.split(" ping statistics ---")[-2:]
    assert "2 received, 0% packet loss" in around
    assert "0 received, 100% packet loss" in nowhere
    assert "cannot report the link" not in output


def other_simple_switch_grpc_can_be_used_and_captures_packets(tmp_path: Path) -> None:
    other = tmp_path / "simple_switch_grpc"
    other.symlink_to(ALFIRK.absolute())
    output = _mn(
        tmp_path,
        *("--topo", "testbed", "--switch", f"simple_switch_grpc,path={other},pcap=1"),
        lines=["h1 alfirk-bcast 4KiB"],
    )
    assert re.search(r"alfirk .* 3/3 ", output), output
    (folder,) = tmp_path.glob("alfirk-mn-*")
    assert (folder / "s1.log").exists()
    assert (folder / "ctrl.log").exists()
    assert (folder / "pcaps" / "s1-eth1_in.pcap").stat().st_size > 4096


def next_start_removes_the_remains_of_a_killed_network(tmp_path: Path) -> None:
    process = _start(tmp_path, "--topo", "testbed", "--switch", "alfirk")
    assert process.stdout
    for line in process.stdout:
        if "Starting CLI" in line:
            break
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False).stdout:
        assert time.monotonic() < deadline, "processes of the killed network live on"
        time.sleep(0.05)
    subprocess.run([str(ROOT / "mininet" / "run"), "clean"], check=True, capture_output=True)


L2 = ROOT / "bmv2" / "test_data" / "l2.p4"


def _entries(file: Path) -> Path:
    forward = [
        {
            "table": "ingress.hosts",
            "match": {"hdr.ethernet.dst": f"00:00:00:00:00:0{port}"},
            "action_name": "ingress.forward",
            "action_params": {"port": port},
        }
        for port in (1, 2)
    ]
    file.write_text(json.dumps({"table_entries": forward}))
    return file


def custom_program_runs_on_any_topology(tmp_path: Path) -> None:
    entries = _entries(tmp_path / "s1.json")
    output = _mn(
        tmp_path,
        *("--topo", "single,2", "--mac", "--arp"),
        *("--switch", f"alfirk,program={L2},entries={tmp_path}/{{}}.json"),
        lines=["h1 ping -c 2 -i 0.2 -W 5 h2", "iperf h1 h2"],
    )
    assert entries.exists()
    assert re.search(r"s1: device id 1, P4Runtime 127\.0\.0\.1:\d+, Thrift 127\.0\.0\.1:\d+", output), output
    assert "2 received, 0% packet loss" in output, output
    # iperf only works if TCP checksums are valid.
    assert re.search(r"Results: \['[\d.]+ [GM]bits/sec'", output), output


def controller_serves_mininets_topologies(tmp_path: Path) -> None:
    output = _mn(tmp_path, "--topo", "linear,3", "--switch", "alfirk", lines=["pingall", "h1 true"])
    assert "Results: 0% dropped (6/6 received)" in output, output


def mn_lists_the_topology_names_of_alfirk(tmp_path: Path) -> None:
    output = _mn(tmp_path, "--topo", "leaf-spine:2,1,1", "--switch", "alfirk", lines=["pingall"])
    assert "Results: 0% dropped (2/2 received)" in output, output


def alfirk_bcast_command_has_help() -> None:
    helped = subprocess.run(
        [ROOT / "mininet" / "bin" / "alfirk-bcast", "--help"], capture_output=True, text=True, check=True
    )
    assert helped.stdout.startswith("usage: ")
    assert "RECEIVER" in helped.stdout


def bad_program_is_reported_with_compiler_errors(tmp_path: Path) -> None:
    program = tmp_path / "wrong.p4"
    program.write_text("header h_t { bit<8> a }\n")
    output = _mn(tmp_path, "--topo", "single,2", "--switch", f"alfirk,program={program}", lines=[])
    assert "wrong.p4 does not compile" in output
    assert "error" in output


def two_mininet_prompts_run_at_once(tmp_path: Path) -> None:
    first, second = (_start(tmp_path, "--topo", "testbed", "--switch", "alfirk") for _ in range(2))
    for process in (first, second):
        output, _ = process.communicate("pingall\nexit\n", timeout=120)
        assert "Results: 0% dropped (12/12 received)" in output, output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def signal_ends_only_the_network_of_its_process(tmp_path: Path, number: signal.Signals) -> None:
    ended, other = (_start(tmp_path, "--topo", "testbed", "--switch", "alfirk") for _ in range(2))
    for process in (ended, other):
        assert process.stdout
        while "Starting CLI" not in process.stdout.readline():
            assert process.poll() is None
    if number == signal.SIGINT:
        # At the prompt, Ctrl-C only interrupts a command. The signal must not affect the second network.
        ended.send_signal(number)
        ended.communicate("exit\n", timeout=60)
    else:
        ended.send_signal(number)
        ended.communicate(timeout=60)
    output, _ = other.communicate("pingall\nexit\n", timeout=120)
    assert "Results: 0% dropped (12/12 received)" in output, output


SCRIPT = """
from alfirk_mininet import AlfirkMininet, Link, Switch
from mininet.topo import Topo


class Two(Topo):
    def build(self):
        switch = self.addSwitch("s1", program=PROGRAM, entries=ENTRIES)
        for number in (1, 2):
            self.addLink(self.addHost(f"h{number}"), switch)


net = AlfirkMininet(Two(), switch=Switch, link=Link, controller=None, autoSetMacs=True, autoStaticArp=True)
net.start()
print(net["s1"].describe())
print(net["h1"].cmd("ping -c 1 -W 5 10.0.0.2"))
net.stop()
"""


@pytest.mark.parametrize("installed", [False, True])
def script_imports_the_switch_class_from_a_clone_or_an_installation(tmp_path: Path, installed: bool) -> None:
    script = tmp_path / "mine.py"
    entries = _entries(tmp_path / "s1.json")
    script.write_text(f"PROGRAM, ENTRIES = {str(L2)!r}, {str(entries)!r}\n{SCRIPT}")
    runner = ROOT / "mininet" / "run"
    if installed:
        # The part of `make install` for this package.
        room = tmp_path / "prefix" / "share" / "alfirk" / "mininet"
        room.mkdir(parents=True)
        shutil.copytree(ROOT / "mininet" / "alfirk_mininet", room / "alfirk_mininet")
        shutil.copy(runner, room / "run")
        runner = tmp_path / "prefix" / "bin" / "alfirk-mininet"
        runner.parent.mkdir()
        runner.symlink_to("../share/alfirk/mininet/run")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(runner), str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "ALFIRK": str(ALFIRK), "TMPDIR": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "s1: device id 1, P4Runtime 127.0.0.1:" in done.stdout
    assert "1 received" in done.stdout


def hosts_can_be_containers_of_podman_or_docker(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("mn", "--custom", str(CUSTOM), "--topo", "linear,2", "--switch", "alfirk"),
            *("--host", "container,image=none"),
        ],
        input="h1 ping -c 1 -W 5 h2\nh1 echo $INSIDE\nexit\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "ALFIRK": str(ALFIRK),
            "TMPDIR": str(tmp_path),
            "CONTAINER_ENGINE": str(Path(__file__).with_name("fake_engine.py")),
            "FAKE_ENGINE": str(tmp_path),
        },
        timeout=120,
        check=False,
    )
    assert "1 received, 0% packet loss" in done.stdout, done.stdout
    assert "a container" in done.stdout, done.stdout
    assert not list(tmp_path.glob("mn.*")), "containers are removed"
