"""The package ``alfirk``: experiments, compilation, switches and traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import alfirk
import pytest
from scapy.layers.l2 import Ether

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "cli" / "tests" / "live.p4"
ISVALID = "hdr.ethernet.isValid()"


def _frame(dst: int, kind: int = 1, src: int = 0) -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")


@pytest.fixture(scope="module")
def program() -> alfirk.Program:
    return alfirk.compile(PROGRAM)


@pytest.fixture
def switch(program: alfirk.Program) -> Iterator[alfirk.Switch]:
    with alfirk.Switch(program, trace=True) as started:
        yield started


def a_run_has_a_row_for_each_algorithm() -> None:
    result = alfirk.run(
        algorithms=["alfirk", "chain"], topology="fat-tree:4", size="64KiB", group=4, loss=0.01
    )
    assert [row.algorithm for row in result] == ["alfirk", "chain"]
    assert len(result) == 2
    row = result["alfirk"]
    assert (row.verified, row.receivers, row.receivers_verified) == (True, 3, 3)
    assert row.dropped_packets > 0
    assert row.values["completion_ns"] == row.completion_ns > 0
    with pytest.raises(KeyError, match="the run has alfirk, chain"):
        result["unicast"]


def equal_flags_and_seed_give_equal_results() -> None:
    first, second = (alfirk.run(["alfirk"], size="64KiB", group=4, seed=7) for _ in range(2))
    assert first.report == second.report


def a_run_whose_receivers_lack_data_is_a_result() -> None:
    result = alfirk.run(["alfirk"], size="1MiB", group=4, time_limit="20us")
    assert not result["alfirk"].verified
    assert result["alfirk"].receivers_verified < 3


def a_wrong_flag_is_an_error_with_the_commands_message() -> None:
    with pytest.raises(alfirk.AlfirkError, match="--group"):
        alfirk.run(["alfirk"], group=99)
    with pytest.raises(alfirk.AlfirkError, match="--no-such-flag"):
        alfirk.run(no_such_flag=True)


def a_compiled_program_has_json_and_p4info(program: alfirk.Program, tmp_path: Path) -> None:
    assert {table["name"] for table in program.json["pipelines"][0]["tables"]} >= {"I.routes", "I.prefixes"}
    assert 'name: "I.routes"' in program.p4info
    saved = program.save(tmp_path)
    assert json.loads(saved.read_text()) == program.json


def warnings_of_a_program_are_kept(tmp_path: Path) -> None:
    unused = tmp_path / "unused.p4"
    text = PROGRAM.read_text(encoding="utf-8")
    unused.write_text(text.replace("    action drop() {", "    action unused() { }\n    action drop() {", 1))
    assert "unused" in alfirk.compile(unused).warnings


def errors_of_a_program_have_file_and_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text("header h_t {\n    bit<8> a\n}\n")
    with pytest.raises(alfirk.AlfirkError, match=r"bad\.p4:2:13"):
        alfirk.compile(bad)
    with pytest.raises(alfirk.AlfirkError, match=r"bad\.p4:2:13"):
        alfirk.Switch(bad)
    with pytest.raises(alfirk.AlfirkError, match=r"none\.p4"):
        alfirk.Switch(tmp_path / "none.p4")


def packets_follow_the_entries(switch: alfirk.Switch) -> None:
    assert switch.send(0, _frame(2)) == []
    switch.add(
        "routes", "forward", {"port": 3}, keys={"hdr.ethernet.dst": 2, ISVALID: 1}, priority=1, handle="r"
    )
    assert switch.send(0, _frame(2)) == [alfirk.Packet(3, _frame(2))]
    assert switch.send(0, Ether(dst="00:00:00:00:00:02", src="00:00:00:00:00:00", type=1)) == [
        alfirk.Packet(3, _frame(2))
    ]
    assert switch.read_counter("kinds", 1).packets == 3
    assert switch.read_counter("hits", 0) == alfirk.Counter(packets=2, bytes=28)
    switch.remove("r")
    assert switch.send(0, _frame(2)) == []
    switch.set_default("routes", "forward", {"port": 4})
    assert [packet.port for packet in switch.send(0, _frame(9))] == [4]


def registers_are_read_and_written(switch: alfirk.Switch) -> None:
    assert switch.read_register("sources", 2) == 0
    switch.write_register("I.sources", 1, 0xAABBCCDDEEFF)
    assert switch.read_register("sources", 1) == 0xAABBCCDDEEFF


def other_commands_are_those_of_stf(switch: alfirk.Switch) -> None:
    for line in ("mc_mgrp_create 3", "mc_node_create 7 1 2", "mc_node_associate 3 0"):
        switch.command(line)
    switch.add("routes", "flood", {"group": 3}, keys={"hdr.ethernet.dst": 9, ISVALID: 1}, priority=1)
    assert [packet.port for packet in switch.send(0, _frame(9))] == [1, 2]


def errors_of_a_switch_leave_it_usable(switch: alfirk.Switch) -> None:
    with pytest.raises(alfirk.AlfirkError, match=r"did you mean `I\.routes`"):
        switch.add("route", "forward", {"port": 1})
    with pytest.raises(alfirk.AlfirkError, match="one line"):
        switch.command("wait\nwait")
    with pytest.raises(alfirk.AlfirkError, match="`expect`, `or` and `no_packet` belong to a test"):
        switch.command("expect 1")
    assert switch.send(0, _frame(2)) == []


def a_trace_says_why_a_packet_was_dropped(switch: alfirk.Switch) -> None:
    trace = switch.trace(0, _frame(2))
    assert trace.packets == ()
    assert trace.drop_reason is not None
    tables = [step.values for step in trace.steps if step.event == "table"]
    assert tables[0]["table"].endswith("routes")
    assert not tables[0]["hit"]
    assert str(trace).splitlines()[0].endswith("in port 0, 14 bytes")
    with alfirk.Switch(PROGRAM) as silent, pytest.raises(alfirk.AlfirkError, match="trace=True"):
        silent.trace(0, _frame(2))


def one_frame_is_traced_in_a_new_switch(program: alfirk.Program) -> None:
    route = f"add routes 1 hdr.ethernet.dst:2 {ISVALID}:1 forward(port:5)"
    trace = alfirk.trace(program, 0, _frame(2), commands=[route])
    assert [packet.port for packet in trace.packets] == [5]
    assert trace.drop_reason is None


def a_closed_switch_says_so(program: alfirk.Program) -> None:
    switch = alfirk.Switch(program)
    switch.close()
    with pytest.raises(alfirk.AlfirkError, match="the switch is closed"):
        switch.send(0, _frame(2))
