"""Golden traces of BMv2 are read, and differences are found."""

from __future__ import annotations

from dataclasses import replace

from packet_traces import Packet, Trace, cases, differences, stf

_GOLDEN = """\
=========================================================================
Packet trace test: two_ports: one entry
A packet is forwarded.
=========================================================================
-- INPUT ----------------------------------------------------------------
P4 pipeline: two_ports.json
Table programming (runtime only; config-baked defaults not shown):
  last: set default action count()
  ports: add entry [0x01, 0x20] => send(2)
Input packets:
  port=1 len=3 bytes=0120ff
-- OUTPUT ---------------------------------------------------------------
Output packets:
  port=2 len=3 bytes=0120ff
  port=3 len=9 (payload not shown: non-deterministic)
Packet traces: 1
--- trace 0
input {
  ingress_port: 1
}
root {
  events {
    pipeline_stage {
      stage_name: "parser"
      stage_kind: PARSER
      direction: ENTER
    }
  }
  transmit {
    egress_port: 2
  }
}
"""
_PROGRAM = {
    "pipelines": [
        {"tables": [{"name": "ports", "key": [{"target": ["a", "b"]}, {"target": ["c", "d"]}]}]},
        {"tables": [{"name": "last", "key": []}]},
    ]
}


def a_case_has_entries_packets_and_traces() -> None:
    (case,) = cases(_GOLDEN)
    assert (case.program, case.name) == ("two_ports", "one entry")
    assert case.outputs == [Packet(2, 3, "0120ff"), Packet(3, 9, None)]
    assert case.traces == [Trace(1, [("parser", "PARSER", "ENTER")], "transmit")]
    assert stf(case, _PROGRAM) == (
        "setdefault last count()\nadd ports a.b:0x01 c.d:0x20 send(2)\npacket 1 0120ff\n"
    )


def differences_of_packets_events_and_outcomes_are_found() -> None:
    (case,) = cases(_GOLDEN)
    outputs = [Packet(2, 3, "0120ff"), Packet(3, 9, "00" * 9)]
    assert differences(case, outputs, case.traces) == []
    (wrong,) = differences(case, outputs[:1], case.traces)
    assert wrong.startswith("packets: ")
    (trace,) = case.traces
    for other, part in (
        (replace(trace, ingress_port=0), "port 1 here 0"),
        (replace(trace, events=[]), "events"),
        (replace(trace, outcome="drop"), "outcome transmit here drop"),
    ):
        (wrong,) = differences(case, outputs, [other])
        assert part in wrong
    assert differences(case, outputs, []) == ["expected 1 traces, received 0"]
