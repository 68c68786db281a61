"""The measurements of other software switches use the entries and frames of the benchmark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import bench_peers
import bench_veth
import pytest
from alfirk_ptf.live import RunError
from bench_peers import Peer, Times
from peers import NotInstalledError, frames, swx, xdp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def statistics_follow_messages_of_dpdk() -> None:
    result = swx.parse("EAL: ready\nns 12.50\nreceived 9\nsent 0 0\nsent 1 8\nsent 2 1\n")
    assert result == swx.Result(12.5, 9, (0, 8, 1))


def output_without_statistics_is_an_error() -> None:
    with pytest.raises(ValueError, match="no statistics"):
        swx.parse("EAL: ready\n")


def an_entry_has_the_mask_of_its_prefix_and_longer_ones_come_first() -> None:
    entry = swx.lpm("routes", 0x0A100000, 12, "discard")
    assert entry == "routes match 0x0a100000/0xfff00000 priority 20 action discard"


def captures_are_read_as_written() -> None:
    written = [frames.frame(1), frames.frame(2)[:60]]
    assert swx.read_pcap(swx.pcap(written)) == written


def each_replica_of_a_group_has_an_entry_and_one_is_the_last() -> None:
    replicas = [entry for entry in swx.replication(3).entries if entry.startswith("replicas")]
    assert [entry.endswith("last 1") for entry in replicas] == [False, False, True]


def a_routed_frame_has_a_correct_checksum() -> None:
    header = frames.routed(frames.frame(0x0A000001))[14:34]
    assert header[8] == 63
    assert frames.checksum(header) == 0


def flat_arrays_select_the_longest_prefix() -> None:
    cells, blocks = xdp.flat_arrays([(0x0A000080, 25), (0x0A000000, 8)])
    assert cells[0x0A0001] == 2
    block = (cells[0x0A0000] & 0x7FFFFFFF) << 8
    assert (blocks[block + 0x7F], blocks[block + 0x80]) == (2, 1)
    assert cells[0x0B0000] == 0


def results_of_a_benchmark_are_times_and_remarks() -> None:
    lines = (
        '{"case":"route","copies":1,"interpreter_ns":235.5,"compiled_ns":120.0}\n'
        '{"case":"SAI P4","remark":"NOT RUN: set SONIC_PINS"}\n'
    )
    assert bench_peers.parse(lines) == (
        {"route": Times(235.5, 120.0)},
        {"SAI P4": "NOT RUN: set SONIC_PINS"},
    )


def least_times_of_all_turns_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    theirs = iter((150.0, 100.0, 130.0))
    ours = iter((Times(300, 90, 2), Times(250, 50, 2), Times(260, 80, 2)))
    bench_peers.compare(
        "multicast", Times(400, 200, 2), [Peer("SWX", lambda: next(theirs))], lambda: next(ours)
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "multicast 250 ns interpreted, 50 ns compiled (25 for each copy), 20 M packets/s",
        "SWX 100 ns, 10 M packets/s (alfirk 50 ns, 0.50 of it)",
    ]


def a_switch_that_is_not_installed_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []

    def missing() -> float:
        calls.append("XDP")
        msg = "needs clang"
        raise NotInstalledError(msg)

    bench_peers.compare("route", Times(2, 1), [Peer("XDP", missing)], lambda: Times(2, 1))
    assert capsys.readouterr().out.count("NOT RUN: needs clang") == 1
    assert calls == ["XDP"]


def veth_loads_send_only_to_ports_that_are_measured() -> None:
    routes = bench_veth.routing(1_000).entries
    assert {entry.params["port"] for entry in routes} == {2}
    assert len(routes) == len({entry.match["hdr.ipv4.dst"] for entry in routes})
    load = bench_veth.multicast(3)
    assert load.groups[0].replicas == ((2, 1), (3, 2), (4, 3))
    assert len(load.entries) == 1 + load.receivers


def only_another_command_than_ours_is_bmv2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / name for name in ("ours", "theirs")]
    for folder in folders:
        folder.mkdir()
    for path in (folders[0] / "alfirk", folders[1] / bench_veth.BMV2_COMMAND):
        path.touch(0o755)
    (folders[0] / bench_veth.BMV2_COMMAND).symlink_to("alfirk")
    monkeypatch.setenv("PATH", str(folders[0]))
    with pytest.raises(RunError, match="no simple_switch_grpc of BMv2"):
        bench_veth.installed_bmv2()
    monkeypatch.setenv("PATH", f"{folders[0]}:{folders[1]}")
    assert bench_veth.installed_bmv2() == str(folders[1] / bench_veth.BMV2_COMMAND)


def bmv2_that_fails_is_left_out_and_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    starts = iter(range(2 * bench_veth.TURNS))

    @contextmanager
    def ours() -> Iterator[int]:
        yield 1

    @contextmanager
    def theirs() -> Iterator[int]:
        yield 2
        if next(starts) > 1:
            msg = "the switch was killed\nby SIGSEGV"
            raise RunError(msg)

    ways: dict[str, bench_veth.Way] = {bench_veth.SWITCH: ours, bench_veth.BMV2: theirs}
    turns = bench_veth.alternate(ways, lambda process: process, "64 B")
    assert turns == [{bench_veth.SWITCH: 1}] * bench_veth.TURNS
    line = " ".join(capsys.readouterr().out.split())
    assert line == "BMv2 over veth, 64 B NOT RUN: the switch was killed; by SIGSEGV"


def our_switch_must_not_fail() -> None:
    @contextmanager
    def fails() -> Iterator[int]:
        yield 1
        raise RunError

    with pytest.raises(RunError):
        bench_veth.alternate({bench_veth.SWITCH: fails}, lambda process: process)
