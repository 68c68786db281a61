"""Compares traces of packets with BMv2's: `tools/packet_traces.py --alfirk target/debug/alfirk FOLDER`.

FOLDER is a checkout of https://github.com/p4lang/behavioral-model with the tests of its packet trace, which
is not changed: `targets/simple_switch/tests/testdata/*.trace`. Each of these files has test cases: entries,
packets that are sent, packets that leave, and for each packet a PacketTrace in text format. The same program
runs here with the same entries and packets. Compared are the packets that leave, and the events of traces.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEST_DATA = Path("targets/simple_switch/tests/testdata")
_CASE = re.compile(r"^=+\nPacket trace test: (?P<program>\S+): (?P<name>.+)\n", re.MULTILINE)
_DEFAULT = re.compile(r"^  (?P<table>\S+): set default action (?P<action>\w+)\((?P<args>.*)\)$", re.MULTILINE)
_ENTRY = re.compile(
    r"^  (?P<table>\S+): add entry \[(?P<key>.*)\] => (?P<action>\w+)\((?P<args>.*)\)$", re.MULTILINE
)
_PACKET = re.compile(
    r"^  port=(?P<port>\d+) len=(?P<length>\d+)(?: bytes=(?P<data>[0-9a-f]*))?", re.MULTILINE
)
_EVENT = re.compile(
    r'pipeline_stage \{\s*stage_name: "(?P<name>[^"]*)"'
    r"\s*stage_kind: (?P<kind>\w+)\s*direction: (?P<direction>\w+)"
)
_INPUT = re.compile(r"\bingress_port: (?P<port>\d+)")
_OUTCOME = re.compile(r"^  (?P<kind>transmit|drop) \{", re.MULTILINE)

#: Name, kind and direction of each event of a trace.
Events = list[tuple[str, ...]]


@dataclass(frozen=True)
class Packet:
    """A packet at a port; without bytes if they depend on time."""

    port: int
    length: int
    data: str | None

    def matches(self, other: Packet) -> bool:
        """Whether two packets are equal, as far as the bytes are known."""
        if None in {self.data, other.data}:
            return (self.port, self.length) == (other.port, other.length)
        return self == other


@dataclass(frozen=True)
class Trace:
    """A PacketTrace."""

    ingress_port: int
    events: Events
    outcome: str | None


@dataclass
class Case:
    """A test case of a golden file."""

    program: str
    name: str
    defaults: list[re.Match[str]] = field(default_factory=list)
    entries: list[re.Match[str]] = field(default_factory=list)
    inputs: list[Packet] = field(default_factory=list)
    outputs: list[Packet] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


def packets(text: str) -> list[Packet]:
    """Return the packets that a part of a test case lists."""
    return [Packet(int(m["port"]), int(m["length"]), m["data"]) for m in _PACKET.finditer(text)]


def trace(text: str) -> Trace:
    """Read a PacketTrace in text format."""
    port = _INPUT.search(text)
    outcome = _OUTCOME.search(text)
    events: Events = [(m["name"], m["kind"], m["direction"]) for m in _EVENT.finditer(text)]
    return Trace(int(port["port"]) if port else 0, events, outcome["kind"] if outcome else None)


def cases(text: str) -> list[Case]:
    """Read the test cases of a golden file."""
    heads = list(_CASE.finditer(text))
    found = []
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True):
        body = text[head.end() : end]
        given, _, result = body.partition("-- OUTPUT --")
        left, *traces = re.split(r"^--- trace \d+\n", result, flags=re.MULTILINE)
        found.append(
            Case(
                head["program"],
                head["name"],
                list(_DEFAULT.finditer(given)),
                list(_ENTRY.finditer(given)),
                packets(given),
                packets(left),
                [trace(part) for part in traces],
            )
        )
    return found


def stf(case: Case, program: dict[str, Any]) -> str:
    """Return a test that writes the entries of a case, and sends its packets."""
    tables = {table["name"]: table for pipeline in program["pipelines"] for table in pipeline["tables"]}
    lines = [f"setdefault {m['table']} {m['action']}({m['args']})" for m in case.defaults]
    for m in case.entries:
        names = [".".join(key["target"]) for key in tables[m["table"]]["key"]]
        key = " ".join(f"{name}:{value}" for name, value in zip(names, m["key"].split(", "), strict=True))
        lines.append(f"add {m['table']} {key} {m['action']}({m['args']})")
    lines += [f"packet {packet.port} {packet.data}" for packet in case.inputs]
    return "\n".join(lines) + "\n"


def run(alfirk: Path, path: Path, case: Case) -> tuple[list[Packet], list[Trace], list[Trace]]:
    """Return the packets that left, the traces of the received packets, and those of copies."""
    test = stf(case, json.loads(path.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        command = [str(alfirk), "stf", "--interactive", str(path)]
        done = subprocess.run(command, input=test, capture_output=True, text=True, check=True)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        for result in results:
            if "error" in result:
                raise RuntimeError(f"{path.name}, {case.name}: {result['error']}")
        left = [packet for result in results for packet in result.get("packets", [])]
        file = Path(folder, "case.stf")
        file.write_text(test)
        # The test expects nothing, and so fails if a packet leaves.
        command = [str(alfirk), "stf", "--trace-dir", folder, str(path), str(file)]
        subprocess.run(command, capture_output=True, check=False)
        files = sorted(Path(folder).glob("trace_*.txtpb"))
        received = [file for file in files if file.name.count(".") == 1]
        copies = [trace(file.read_text()) for file in files if file not in received]
        traces = [trace(file.read_text()) for file in received]
    outputs = [Packet(packet["port"], len(packet["data"]) // 2, packet["data"]) for packet in left]
    return outputs, traces, copies


def differences(case: Case, outputs: list[Packet], traces: list[Trace]) -> list[str]:
    """Return what differs in meaning."""
    found = []
    pairs = zip(case.outputs, outputs, strict=False)
    if len(outputs) != len(case.outputs) or not all(a.matches(b) for a, b in pairs):
        found.append(f"packets: expected {case.outputs}, received {outputs}")
    if len(traces) != len(case.traces):
        return [*found, f"expected {len(case.traces)} traces, received {len(traces)}"]
    for number, (expected, received) in enumerate(zip(case.traces, traces, strict=True)):
        if expected.ingress_port != received.ingress_port:
            found.append(f"trace {number}: port {expected.ingress_port} here {received.ingress_port}")
        if expected.events != received.events:
            found.append(f"trace {number}: events {expected.events} here {received.events}")
        if expected.outcome not in {None, received.outcome}:
            found.append(f"trace {number}: outcome {expected.outcome} here {received.outcome}")
    return found


def main() -> int:
    """Compare all golden files of a checkout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="checkout of behavioral-model")
    parser.add_argument("--alfirk", type=Path, required=True, help="the alfirk command")
    arguments = parser.parse_args()
    files = sorted((arguments.folder / TEST_DATA).glob("*.trace"))
    if not files:
        sys.stderr.write(f"{arguments.folder / TEST_DATA}: no golden traces (*.trace)\n")
        return 2
    is_equal = True
    for file in files:
        for case in cases(file.read_text()):
            outputs, traces, copies = run(arguments.alfirk.absolute(), file.with_suffix(".json"), case)
            found = differences(case, outputs, traces)
            sys.stdout.write(f"{case.program}: {case.name}: {'; '.join(found) or 'equal'}\n")
            for mine, expected in zip(traces, case.traces, strict=False):
                if mine.outcome != expected.outcome:
                    sys.stdout.write(f"  here also: outcome {mine.outcome}\n")
            for copy in copies:
                sys.stdout.write(f"  here also: a copy with {len(copy.events)} events\n")
            is_equal &= not found
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
