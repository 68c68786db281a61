"""Measures traces, the debugger and the playground as a client sees them, with pipes or sockets and JSON."""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk_ptf.live import MAIN_PROGRAM, compile_program
from alfirk_ptf.packets import Roce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Lines of the program in which the debugger steps and the playground checks.
LINES = 3000
#: Steps that are taken forward, and back.
STEPS, BACK = 50, 1000
#: Packets and requests of the other measurements.
REQUESTS = 30

_HEAD = """#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
"""
_TAIL = """    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def program(lines: int) -> str:
    """Return a program of a number of lines, most of which a packet executes."""
    fixed = _HEAD.count("\n") + _TAIL.count("\n")
    statement = "        hdr.h.value = hdr.h.value + 1;\n"
    return _HEAD + statement * (lines - fixed) + _TAIL


def measure(alfirk: Path, report: Callable[[str, str], None]) -> None:
    """Run all measurements, and pass each name and result to `report`."""
    report("trace of a packet, p4src", _times(trace_times(alfirk), aim="below 1 ms"))
    # The page on performance of smolkaj/4ward: a packet at a time, one core of a Ryzen 9 7950X3D.
    report("", "stated for SAI P4, on another machine: 4ward 0.40 ms with a trace, BMv2 0.22 ms without")
    forward, back = step_times(alfirk)
    report(f"step in {LINES:,} lines", _times(forward, aim="below 50 ms"))
    report(f"{BACK:,} steps back", _times([back], aim="below 100 ms"))
    checks, runs = play_times(alfirk)
    report(f"playground, {LINES:,} lines: check", _times(checks, aim="below 50 ms"))
    report("playground: a packet", _times(runs, aim="below 20 ms"))


def _times(seconds: list[float], aim: str) -> str:
    middle, largest = statistics.median(seconds) * 1e3, max(seconds) * 1e3
    several = f"median of {len(seconds)}, largest {largest:.2f} ms; " if len(seconds) > 1 else ""
    return f"{middle:.2f} ms ({several}aim: {aim})"


def trace_times(alfirk: Path) -> list[float]:
    """Return the seconds from each packet to its trace, in `alfirk stf --interactive --trace`."""
    packet = Roce(body=bytes(64)).frame().hex()
    with tempfile.TemporaryDirectory() as directory:
        main = compile_program(alfirk, MAIN_PROGRAM, Path(directory))
        command = [str(alfirk), "stf", "--interactive", "--trace", str(main)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            times = []
            for _ in range(REQUESTS + 1):
                begin = time.perf_counter()
                child.stdin.write(f"packet 1 {packet}\n")
                child.stdin.flush()
                reply = child.stdout.readline()
                times.append(time.perf_counter() - begin)
                assert "trace" in json.loads(reply), reply
            child.stdin.close()
    # The first packet also waits for the start of the process.
    return times[1:]


class Adapter:
    """A client of `alfirk debug`."""

    def __init__(self, alfirk: Path) -> None:
        self._child = subprocess.Popen([str(alfirk), "debug"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._count = 0

    def send(self, command: str, **arguments: object) -> int:
        """Send a request, and return its number."""
        self._count += 1
        message = {"seq": self._count, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        assert self._child.stdin is not None
        self._child.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._count

    def flush(self) -> None:
        """Pass on all requests."""
        assert self._child.stdin is not None
        self._child.stdin.flush()

    def wait(self, number: int) -> dict[str, Any]:
        """Return the response to a request."""
        self.flush()
        assert self._child.stdout is not None
        while True:
            length = int(self._child.stdout.readline().split(b":")[1])
            self._child.stdout.readline()
            body = self._child.stdout.read(length)
            # Events and other responses are not parsed, which would take longer than to send them.
            if b'"request_seq":%d' % number not in body:
                continue
            message: dict[str, Any] = json.loads(body)
            if message["type"] == "response" and message["request_seq"] == number:
                if not message["success"]:
                    raise RuntimeError(message["message"])
                return message

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()


def step_times(alfirk: Path) -> tuple[list[float], float]:
    """Return the seconds of steps forward, each with its call stack, and of many steps back."""
    with tempfile.TemporaryDirectory() as directory:
        source, test = Path(directory, "long.p4"), Path(directory, "long.stf")
        text = program(LINES)
        source.write_text(text, encoding="utf-8")
        test.write_text("packet 0 01\n", encoding="utf-8")
        adapter = Adapter(alfirk)
        try:
            adapter.wait(adapter.send("initialize", adapterID="alfirk"))
            adapter.send("launch", program=str(source), test=str(test))
            # Deep in the program.
            line = _HEAD.count("\n") + BACK + 2 * STEPS
            place = {"path": str(source)}
            adapter.wait(adapter.send("setBreakpoints", source=place, breakpoints=[{"line": line}]))
            adapter.wait(adapter.send("configurationDone"))
            forward = []
            for _ in range(STEPS):
                begin = time.perf_counter()
                adapter.send("next", threadId=1)
                adapter.wait(adapter.send("stackTrace", threadId=1))
                forward.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            last = 0
            for _ in range(BACK):
                last = adapter.send("stepBack", threadId=1)
            adapter.wait(last)
            back = time.perf_counter() - begin
            frames = adapter.wait(adapter.send("stackTrace", threadId=1))["body"]["stackFrames"]
            assert frames[0]["line"] == line + STEPS - BACK, frames
        finally:
            adapter.close()
    return forward, back


@contextmanager
def _playground(alfirk: Path) -> Iterator[Callable[[str, object], dict[str, Any]]]:
    """Start the playground's server; yield a function that sends a request to a path."""
    command = [str(alfirk), "play"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        address = child.stdout.readline().partition("http://")[2].strip().split("/")[0]
        connection = http.client.HTTPConnection(address)

        def post(path: str, body: object) -> dict[str, Any]:
            text = json.dumps(body) if body is not None else ""
            connection.request("POST", path, text, {"Content-Type": "application/json"})
            reply: dict[str, Any] = json.loads(connection.getresponse().read())
            return reply

        try:
            yield post
        finally:
            child.kill()


def play_times(alfirk: Path) -> tuple[list[float], list[float]]:
    """Return the seconds of checks of a program that changes with each, and of runs of a packet."""
    checks, runs = [], []
    with _playground(alfirk) as post:
        session = f"/api/sessions/{post('/api/sessions', None)['session']}"
        for number in range(REQUESTS + 1):
            text = program(LINES - 1) + f"// {number}\n"
            document = {"main": "/a.p4", "files": {"/a.p4": text}}
            begin = time.perf_counter()
            reply = post(session, {"do": "check", "document": document})
            checks.append(time.perf_counter() - begin)
            assert reply["is"] == "diagnostics", reply
        # A packet through a program that has been compiled.
        document = {"main": "/a.p4", "files": {"/a.p4": program(_HEAD.count("\n") + _TAIL.count("\n") + 20)}}
        for number in range(REQUESTS + 1):
            begin = time.perf_counter()
            reply = post(session, {"do": "run", "document": document, "test": f"packet 0 {number:02x}\n"})
            runs.append(time.perf_counter() - begin)
            assert reply["is"] == "run", reply
    # The first request starts the session's process.
    return checks[1:], runs[1:]
