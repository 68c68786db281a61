"""The trace of a packet is found in the output of the switch, and the tests in their folder."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
from alfirk_ptf.__main__ import find_tests, parameter, ports
from alfirk_ptf.live import RunError
from alfirk_ptf.trace import Arrival, Sends, Steps, TraceFile, Traces, suspects

if TYPE_CHECKING:
    from pathlib import Path

_FIRST = ["#1 in port 1, 60 bytes", "#1   table t [] miss", "#1 dropped: ingress"]
_SECOND = ["#2 in port 1, 60 bytes", "#2 out port 3, 60 bytes"]


def _fed(*texts: str) -> Traces:
    traces = Traces()
    for text in texts:
        traces.feed(text)
    return traces


def _lines(traces: Traces, port: int, length: int, number: int) -> list[str] | None:
    steps = traces.of(Arrival(port, length, number))
    return steps.lines if steps else None


def packets_of_a_length_and_port_are_counted() -> None:
    mixed = [_FIRST[0], _SECOND[0], _FIRST[1], "[bmv2] a line of the log", _SECOND[1], _FIRST[2], ""]
    traces = _fed("\n".join(mixed))
    assert _lines(traces, 1, 60, 1) == _FIRST
    assert _lines(traces, 1, 60, 2) == _SECOND
    assert _lines(traces, 1, 60, 3) is None
    assert _lines(traces, 1, 61, 1) is None


def output_may_be_read_in_any_parts() -> None:
    text = "\n".join([*_FIRST, *_SECOND, ""])
    for cut in range(len(text)):
        assert _lines(_fed(text[:cut], text[cut:]), 1, 60, 2) == _SECOND


def packet_numbers_begin_again_with_a_new_program() -> None:
    again = ["#1 in port 1, 60 bytes", "#1 out port 5, 60 bytes"]
    traces = _fed("\n".join([*_FIRST, *again, ""]))
    assert _lines(traces, 1, 60, 1) == _FIRST
    assert _lines(traces, 1, 60, 2) == again


def discarded_packets_still_count() -> None:
    traces = _fed("\n".join([*_FIRST, ""]))
    assert [arrival.number for arrival, _ in traces.newest()] == [1]
    traces.discard()
    assert traces.newest() == []
    traces.feed("\n".join([*_SECOND, ""]))
    assert _lines(traces, 1, 60, 1) is None
    assert _lines(traces, 1, 60, 2) == _SECOND


def long_traces_are_cut_in_the_middle() -> None:
    steps = Steps([f"#1 {number}" for number in range(100)])
    shown = steps.shown()
    assert shown[0] == "#1 0"
    assert shown[-1] == "#1 99"
    assert [line for line in shown if "more lines" in line] == ["... 60 more lines"]
    assert len(shown) == 41


def burst_ends_when_the_test_waits_for_a_packet() -> None:
    sends = Sends()
    sends.send(1, 60)
    sends.receive()
    sends.send(1, 60)
    sends.send(2, 60)
    sends.receive()
    sends.receive()
    assert sends.burst == [Arrival(1, 60, 2), Arrival(2, 60, 1)]
    sends.start()
    assert sends.burst == []
    sends.send(1, 60)
    assert sends.burst == [Arrival(1, 60, 3)]


def packet_that_did_not_leave_is_shown_first() -> None:
    arrival = Arrival(1, 60, 1)
    found: list[tuple[Arrival, Steps | None]] = [(arrival, Steps(_SECOND)), (arrival, Steps(_FIRST))]
    assert suspects(found, 3, is_missing=True) == [1, 0]
    assert suspects(found, 3, is_missing=False) == [0, 1]
    assert suspects(found, None, is_missing=True) == [0, 1]


def ports_are_numbers_and_ranges() -> None:
    assert ports("0-2,64") == (0, 1, 2, 64)
    for wrong in ("", "a", "3-1", "1,1", "-1", "1-"):
        with pytest.raises(argparse.ArgumentTypeError):
            ports(wrong)


def parameters_are_literals_or_text() -> None:
    assert parameter("wait=0.5") == ("wait", 0.5)
    assert parameter("who=me") == ("who", "me")
    assert parameter("list=[1, 2]") == ("list", [1, 2])
    for wrong in ("wait", "=1", "a b=1"):
        with pytest.raises(argparse.ArgumentTypeError):
            parameter(wrong)


def tests_are_those_of_one_folder(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "forward.py").write_text("class Routed: pass\nclass Dropped: pass\n")
    assert find_tests(own, []).folder == own
    assert find_tests(own, [str(other)]).folder == other
    assert find_tests(None, [str(other), "forward.Routed"]).specs == ["forward.Routed"]
    found = find_tests(own, [str(other / "forward.py")])
    assert (found.folder, found.specs) == (other, ["forward"])
    for names, message in [
        ([str(own), str(other)], "several folders"),
        (["backward"], "has no backward.py; modules: forward"),
        (["forward.Lost"], "has no class Lost; classes: Routed, Dropped"),
        ([str(own / "lost.py")], "no such file"),
    ]:
        with pytest.raises(RunError, match=message):
            find_tests(own, names)
    with pytest.raises(RunError, match="name the folder"):
        find_tests(None, ["forward"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="has no tests"):
        find_tests(tmp_path / "empty", [])


def copies_that_left_by_other_ports_can_be_omitted() -> None:
    lines = [
        "#3 in port 1, 60 bytes",
        "#3.1 out port 2, 60 bytes",
        "#3.2   egress for port 3",
        "#3.2 out port 3, 60 bytes",
        "#3.3 dropped: egress",
    ]
    steps = Steps(lines)
    assert steps.without_copies({3}).lines == [*lines[:2], lines[4]]
    assert steps.without_copies(set()).lines == lines


def file_is_read_as_it_grows(tmp_path: Path) -> None:
    output = tmp_path / "switch.log"
    output.write_text("#1 in port 1, 60 bytes\n#1 dropped: ing")
    traces = TraceFile(output)
    first = Arrival(1, 60, 1)
    ((_, steps),) = traces.of([first])
    assert steps == Steps(["#1 in port 1, 60 bytes"])
    with output.open("a") as more:
        more.write("ress\n")
    ((_, steps),) = traces.of([first])
    assert steps is not None
    assert steps.lines == ["#1 in port 1, 60 bytes", "#1 dropped: ingress"]
    traces.discard()
    assert traces.newest() == []
