"""A network starts completely and reports it; however it ends, no process, interface or file is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
TESTBED = ROOT / "topologies" / "testbed.yaml"
FAKE = Path(__file__).with_name("fake_alfirk.py")


def _names_of_interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only


def _processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _eventually(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class Served:
    """A `serve` process and the events that it prints."""

    def __init__(self, workdir: Path, topology: Path = TESTBED, **environment: str) -> None:
        self.workdir = workdir
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "alfirk_mininet", "serve"),
                *("--topology", str(topology), "--alfirk", str(FAKE), "--workdir", str(workdir)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def event(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "serve printed nothing"
        event: dict[str, Any] = json.loads(line)
        return event

    def close_stdin(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(20)


@pytest.fixture
def before(tmp_path: Path) -> Iterator[set[str]]:
    """Return the existing interfaces; after the test, check that there are no others."""
    interfaces = _names_of_interfaces()
    yield interfaces
    assert _names_of_interfaces() == interfaces
    assert not _processes_with(str(tmp_path))
    assert not _processes_with("mininet:")
    assert not list(Path("/run/alfirk").glob("*"))


@pytest.mark.usefixtures("before")
def network_is_ready_when_reported_and_gone_when_stdin_closes(tmp_path: Path) -> None:
    served = Served(tmp_path)
    event = served.event()
    assert event["event"] == "ready"
    assert list(event["switches"]) == ["s1"]
    assert list(event["hosts"]) == ["h1", "h2", "h3", "h4"]
    assert all(Path(path).is_socket() for path in event["hosts"].values())
    assert event["interfaces"] == {"s1": {str(port): f"s1-eth{port}" for port in range(1, 5)}}
    assert {f"s1-eth{port}" for port in range(1, 5)} <= _names_of_interfaces()
    assert (Path("/sys/class/net/s1-eth1/mtu")).read_text().strip() == "4200"
    assert served.close_stdin() == 0
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.usefixtures("before")
def sigterm_removes_the_network(tmp_path: Path) -> None:
    served = Served(tmp_path)
    assert served.event()["event"] == "ready"
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(20) == 0


@pytest.mark.usefixtures("before")
def sigterm_during_the_start_removes_the_network(tmp_path: Path) -> None:
    served = Served(tmp_path, ROOT / "topologies" / "fat-tree-k4.yaml")
    _eventually(lambda: any("-eth" in name for name in _names_of_interfaces()), "first interface")
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(20) == 0


@pytest.mark.parametrize("victim", ["switch", "host"])
@pytest.mark.usefixtures("before")
def exit_of_a_child_process_is_reported_and_ends_the_network(tmp_path: Path, victim: str) -> None:
    served = Served(tmp_path)
    assert served.event()["event"] == "ready"
    marker = {"switch": "s1-eth1", "host": "h3.sock"}[victim]
    (pid,) = [p for p in _processes_with(marker) if p != served.process.pid]
    os.kill(pid, signal.SIGKILL)
    event = served.event()
    assert event["event"] == "failed"
    assert event["what"] == {"switch": "switch s1", "host": "host h3"}[victim] + " was killed by SIGKILL"
    assert "log" in event["hint"]
    assert served.process.wait(20) == 1


@pytest.mark.parametrize("part", ["switch", "host"])
@pytest.mark.usefixtures("before")
def process_that_cannot_start_is_reported_with_its_log(tmp_path: Path, part: str) -> None:
    served = Served(tmp_path, FAKE_ALFIRK_FAILS=part)
    event = served.event()
    assert event["event"] == "failed"
    # Hosts start at once; any of them may be the first to end.
    assert event["what"].startswith({"switch": "switch s1", "host": "host h"}[part])
    assert event["what"].endswith("ended with exit code 1")
    assert f"fake {part} fails on demand" in event["hint"]
    assert served.process.wait(20) == 1


@pytest.mark.usefixtures("before")
def next_run_removes_remains_of_a_killed_run(tmp_path: Path) -> None:
    topology = ROOT / "topologies" / "fat-tree-k4.yaml"
    first = Served(tmp_path, topology)
    assert first.event()["event"] == "ready"
    first.process.kill()
    first.process.wait()
    # The kernel ends the processes; links between switches stay.
    _eventually(lambda: not _processes_with("grpc-server-addr"), "switches end with their parent")
    assert "c1-eth1" in _names_of_interfaces()
    second = Served(tmp_path, topology)
    assert second.event()["event"] == "ready"
    assert second.close_stdin() == 0


@pytest.mark.usefixtures("before")
def clean_keeps_running_networks(tmp_path: Path) -> None:
    served = Served(tmp_path)
    assert served.event()["event"] == "ready"
    done = subprocess.run(
        [sys.executable, "-m", "alfirk_mininet", "clean"], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert "s1-eth1" in _names_of_interfaces()
    assert served.close_stdin() == 0


@pytest.mark.usefixtures("before")
def existing_interface_is_reported_and_kept(tmp_path: Path) -> None:
    subprocess.run(["ip", "link", "add", "s1-eth2", "type", "veth"], check=True)
    try:
        served = Served(tmp_path)
        event = served.event()
        assert event["event"] == "failed"
        assert "h2-eth0 and s1-eth2: File exists" in event["what"]
        assert "ip link delete" in event["hint"]
        assert served.process.wait(20) == 1
        assert "s1-eth2" in _names_of_interfaces()
    finally:
        subprocess.run(["ip", "link", "delete", "s1-eth2"], check=True)


@pytest.mark.usefixtures("before")
def invalid_topology_is_rejected_with_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nswitches:\n  - {name: s1}\n")
    served = Served(tmp_path / "work", bad)
    event = served.event()
    assert event["event"] == "failed"
    assert event["what"] == f"{bad}:3:6: missing field `id`"
    assert served.process.wait(20) == 1


@pytest.mark.usefixtures("before")
def workdir_too_long_for_socket_paths_is_rejected(tmp_path: Path) -> None:
    served = Served(tmp_path / ("deep" * 30))
    event = served.event()
    assert event["event"] == "failed"
    assert "too long for a Unix socket" in event["what"]
    assert served.process.wait(20) == 1


def missing_root_is_reported(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-B"),
            *("-m", "alfirk_mininet", "serve", "--topology", str(TESTBED), "--workdir", str(tmp_path)),
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "mininet")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs root" in json.loads(done.stdout)["what"]
