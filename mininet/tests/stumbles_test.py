"""Networks are killed, interrupted at any moment, run two at once, or have slow links, as users may do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
#: All links alike, and slow enough for real time.
SLOW = """
name: slow
defaults: {rate: 10Mbps, delay: 1us}
switches: [{name: s1, id: 1}, {name: s2, id: 2}]
hosts:
  - {name: h1, ip: 10.0.0.1/8, mac: "02:00:00:00:00:01"}
  - {name: h2, ip: 10.0.0.2/8, mac: "02:00:00:00:00:02"}
  - {name: h3, ip: 10.0.0.3/8, mac: "02:00:00:00:00:03"}
links:
  - {ends: [h1, "s1:1"]}
  - {ends: [h2, "s1:2"]}
  - {ends: [h3, "s2:1"]}
  - {ends: ["s1:3", "s2:3"]}
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only
    yield
    assert set(os.listdir("/sys/class/net")) == before  # noqa: PTH208
    assert not list(Path("/run/alfirk").glob("*"))


def _start(*flags: str) -> subprocess.Popen[str]:
    command = [str(ALFIRK), "run", "--driver", "mininet", "--algorithms", "alfirk", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _workdir(run: subprocess.Popen[str]) -> Path:
    return Path(tempfile.gettempdir()) / f"alfirk-run-{run.pid}"


def _processes(workdir: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(workdir).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def _until(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


def _report(run: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


#: Detects that a run is in a phase, from the files in its folder.
PHASES: dict[str, Callable[[Path], bool]] = {
    "building": lambda folder: (folder / "topology.yaml").exists(),
    "starting switches": lambda folder: bool(list(folder.glob("s*.log"))),
    "registration": lambda folder: len(list(folder.glob("h*.sock"))) == 4,
    "transfer": lambda folder: (folder / "message").exists(),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", PHASES)
def signal_in_any_phase_leaves_no_process_and_no_file(phase: str, number: signal.Signals) -> None:
    # With this clock the transfer takes a minute.
    run = _start("--topology", "testbed", "--size", "1MiB", "--scale", "500000")
    folder = _workdir(run)
    _until(lambda: PHASES[phase](folder) or run.poll() is not None, phase)
    begun = time.monotonic()
    run.send_signal(number)
    out, err = run.communicate(timeout=60)
    took = time.monotonic() - begun
    assert run.returncode == 1, err
    assert out == ""
    assert f"stopped by {number.name}" in err
    if phase == "transfer":
        assert "the receivers have" in err, err
    assert not folder.exists()
    assert not _processes(folder)
    # Two seconds where the machine does nothing else; tests share it.
    assert took < 10, took


def signal_during_shutdown_leaves_no_process_and_no_file() -> None:
    run = _start("--topology", "testbed", "--size", "64KiB", "--scale", "off")
    folder = _workdir(run)
    _until(lambda: (folder / "message").exists() or run.poll() is not None, "the transfer")
    # The sockets are removed when the hosts end.
    _until(lambda: not list(folder.glob("h*.sock")), "the end of the hosts")
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert not folder.exists()
    assert not _processes(folder)


def two_networks_run_at_once() -> None:
    runs = [
        _start("--topology", "testbed", "--size", "256KiB", "--scale", "20000", "--json") for _ in range(2)
    ]
    for report in map(_report, runs):
        assert report["results"][0]["verified"] is True


def run_after_a_killed_run_needs_no_cleaning() -> None:
    killed = _start("--topology", "testbed", "--size", "1MiB", "--scale", "500000")
    folder = _workdir(killed)
    _until(lambda: (folder / "message").exists() or killed.poll() is not None, "the transfer")
    killed.kill()
    killed.communicate()
    # Immediately, when the killed run's processes may still run.
    report = _report(_start("--topology", "testbed", "--size", "64KiB", "--scale", "20000", "--json"))
    assert report["results"][0]["verified"] is True
    _until(lambda: not _processes(folder), "the killed network ends by itself")
    _until(lambda: not list(Path("/run/alfirk").glob("*")), "its journal is removed")
    # The next start removes its folder, if the last one did not.
    _report(_start("--topology", "testbed", "--size", "4KiB", "--scale", "off", "--json"))
    assert not folder.exists()


def slow_links_run_in_real_time(tmp_path: Path) -> None:
    topology = tmp_path / "slow.yaml"
    topology.write_text(SLOW)
    run = _start("--topology", str(topology), "--size", "64KiB", "--scale", "auto", "--json")
    out, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    report = json.loads(out)
    assert report["results"][0]["verified"] is True
    assert report["clock"]["is_chosen_here"] is True
    # 1 on an idle machine, and never so slow that the run takes too long.
    assert report["clock"]["scale"] <= 30, report["clock"]
    assert "the transfers take about" in err


def too_long_runs_are_rejected_before_the_start(tmp_path: Path) -> None:
    # A link of half a microsecond needs a slow clock, on which the other links take an hour.
    fast = SLOW.replace("links:\n", 'links:\n  - {ends: [h4, "s2:4"], rate: 400Gbps, delay: 1ns}\n')
    host = '  - {name: h4, ip: 10.0.0.4/8, mac: "02:00:00:00:00:04"}\n'
    topology = tmp_path / "fast.yaml"
    topology.write_text(fast.replace("hosts:\n", f"hosts:\n{host}"))
    run = _start("--topology", str(topology), "--size", "1MiB", "--to", "h2,h3", "--scale", "auto")
    out, err = run.communicate(timeout=240)
    assert run.returncode == 2, err
    assert out == ""
    for part in ("--scale auto: the transfers would take about", "the limit is 10 min", "or give --scale"):
        assert part in err, err


def progress_is_reported_without_a_terminal() -> None:
    run = _start("--topology", "testbed", "--size", "1MiB", "--scale", "500000")
    assert run.stderr
    # After ten seconds: about the transfer, or about the start if the network is not ready.
    line = run.stderr.readline()
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert re.match(r"alfirk: (alfirk: after|building|loading).* [\d.]+ s", line), line
