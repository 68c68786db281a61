"""`alfirk run` on Mininet: real veth links, separate processes, P4Runtime over gRPC."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only
    yield
    assert set(os.listdir("/sys/class/net")) == before  # noqa: PTH208
    assert not list(Path("/run/alfirk").iterdir())


def _job(topology: str, *flags: str, scale: str = "off") -> dict[str, Any]:
    """Run the main job on Mininet and return its report; by default without a slowed clock."""
    return _run(topology, "--driver", "mininet", "--scale", scale, *flags)


def _run(topology: str, *flags: str) -> dict[str, Any]:
    """Run the main job, by default in virtual time, and return its report."""
    file = ROOT / "topologies" / f"{topology}.yaml"
    command = [str(ALFIRK), "run", "--json", "--topology", str(file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def file_reaches_every_host_of_the_fat_tree(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(hashlib.shake_256(b"alfirk").digest(1 << 20))
    report = _job("fat-tree-k4", "--group", "16", "--input", str(file), "--algorithms", "alfirk,chain")
    assert [result["algorithm"] for result in report["results"]] == ["alfirk", "chain"]
    for result in report["results"]:
        assert result["verified"] is True
        assert result["receivers"] == 15


def all_algorithms_run_on_two_racks() -> None:
    report = _job("leaf-spine", "--group", "5", "--size", "256KiB", "--algorithms", "all")
    names = [result["algorithm"] for result in report["results"]]
    assert {
        "alfirk",
        "kary:4",
        "spread-roll",
        "rdmc-binomial-pipeline",
        "rdmc-hybrid",
        "binomial-ack",
    } <= set(names)
    assert all(result["verified"] for result in report["results"])


@pytest.mark.parametrize("collective", ["scatter", "allgather", "barrier"])
def all_collectives_run_on_the_testbed(collective: str) -> None:
    report = _job("testbed", "--collective", collective)
    assert len(report["results"]) > 1
    assert all(result["verified"] for result in report["results"])


def slow_group_falls_back_to_chain_and_later_returns() -> None:
    report = _job(
        "testbed",
        *("--size", "256MiB", "--algorithms", "alfirk", "--fallback", "chain", "--fallback-below", "20%"),
        *("--fallback-window", "200ms", "--fallback-retry", "100ms", "--loss", "s1-h3:1@400ms-1500ms"),
    )
    (result,) = report["results"]
    assert result["verified"] is True
    ways = [change["to"] for change in result["safeguard"]]
    assert ways[0] == "chain"
    assert "alfirk" in ways
    held = [change["held"] for change in result["safeguard"]]
    assert held == sorted(held)


def hostile_member_does_not_disturb_the_others() -> None:
    usual = ("--group", "16", "--size", "4MiB", "--algorithms", "alfirk")
    # In virtual time, as a busy machine causes retransmissions.
    (alone,) = _run("fat-tree-k4", *usual)["results"]
    assert alone["retransmissions"] == 0
    (beside,) = _job("fat-tree-k4", *usual, "--hostile", "h5,h6")["results"]
    assert beside["receivers_verified"] == beside["receivers"] == 15
    # Forged counts are implausible to hosts; the job compares what is acknowledged with what was received.
    # The hostile hosts did send.
    assert beside["wire_packets"] > alone["wire_packets"] + 500


def lost_frames_are_retransmitted() -> None:
    report = _job("testbed", "--size", "512KiB", "--algorithms", "alfirk", "--loss", "0.01", "--seed", "3")
    (result,) = report["results"]
    assert result["verified"] is True
    assert result["retransmissions"] > 0


def times_on_a_slow_clock_agree_with_the_simulator() -> None:
    file = ROOT / "topologies" / "testbed.yaml"
    flags = ("--size", "256KiB", "--scale", "15000", "--tolerance", "25%", "--json", "--topology", str(file))
    command = [str(ALFIRK), "compare-drivers", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    compared = json.loads(done.stdout)
    assert [pair["algorithm"] for pair in compared["results"]] == ["alfirk", "chain", "binomial", "unicast"]
    assert done.returncode == (0 if compared["agrees"] else 1), done.stderr
    clock = compared["clock"]
    assert clock["scale"] == 15000
    assert clock["is_chosen_here"] is False
    assert all(load["network_busy"] > 0 for load in clock["load"])
    # If the machine is too busy, the report names that as the cause.
    short = any(load["is_limited"] for load in clock["load"])
    assert compared["agrees"] is True or short, compared
    assert compared["alfirk_stays_first"] is True or short, compared


def timers_use_the_slow_clock() -> None:
    # The loss of the last packet is only detected by the ACK timeout: one to four times 262 us.
    flags = ("--size", "4KiB", "--algorithms", "unicast", "--group", "2", "--lose", "h2:to:data:1")
    for scale in (2000, 6000):
        (result,) = _job("testbed", *flags, scale=str(scale))["results"]
        assert result["retransmissions"] == 1
        assert 262_000 <= result["completion_ns"] <= 4 * 262_144 + 50_000


def clock_scale_fits_the_speed_of_the_machine() -> None:
    report = _job("testbed", "--size", "64KiB", "--algorithms", "alfirk", scale="auto")
    assert report["results"][0]["verified"] is True
    assert report["clock"]["is_chosen_here"] is True
    assert report["clock"]["scale"] >= 1
