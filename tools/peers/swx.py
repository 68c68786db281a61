"""The work of ``bmv2/benches/peers.rs`` on DPDK's SWX pipeline, compiled, between a source and sinks.

DPDK compiles a pipeline with a header of its source, which no package installs: `RTE_INSTALL_DIR` names it,
as for DPDK's own application `pipeline`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peers import NotInstalledError
from peers.frames import (
    GROUP_PREFIX,
    HOP_MAC,
    frame,
    multicast_frames,
    port_of,
    prefix,
    replicas,
    replicated,
    routed,
    routed_frames,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
#: Measured turns, and nanoseconds of processor time of each.
TURNS, TURN_NS = 30, 20_000_000
#: Frames that the threads of a pipeline may have received and not sent when it stops.
IN_FLIGHT = 16
#: Entries of the largest program whose sent frames are compared: building larger tables twice takes long.
MAX_CHECKED = 1_000
#: Seconds that a run may take: the wildcard table is built from all entries at once.
LIMIT = 300
#: Ports of the routing program without the one of dropped frames: port numbers are at most 200.
ROUTE_PORTS = 201

_HEADERS = """struct ethernet_h {
	bit<48> dst
	bit<48> src
	bit<16> ether_type
}

struct ipv4_h {
	bit<8> version_ihl
	bit<8> diffserv
	bit<16> total_len
	bit<16> identification
	bit<16> flags_offset
	bit<8> ttl
	bit<8> protocol
	bit<16> checksum
	bit<32> src
	bit<32> dst
}

header ethernet instanceof ethernet_h
header ipv4 instanceof ipv4_h

struct metadata_t {
	bit<32> port
	bit<16> checksum
	bit<32> pass
	bit<32> group
	bit<32> slot
	bit<32> session
	bit<32> last
}

metadata instanceof metadata_t

action discard args none {
	drop
}
"""

_PARSE = """	extract h.ethernet
	jmpneq DISCARD h.ethernet.ether_type 0x0800
	extract h.ipv4
"""

#: `ckadd` adds the header with its checksum, so a correct one stays as it is.
_VERIFY = """	mov m.checksum h.ipv4.checksum
	ckadd h.ipv4.checksum h.ipv4
	jmpneq DISCARD h.ipv4.checksum m.checksum
	jmpgt FORWARD h.ipv4.ttl 1
	jmp DISCARD
"""

_SEND = """	mov h.ipv4.checksum 0
	ckadd h.ipv4.checksum h.ipv4
	emit h.ethernet
	emit h.ipv4
	tx m.port
	DISCARD : drop
"""


@dataclass(frozen=True)
class Program:
    """A pipeline, its table entries, the frames that it receives, and how many it sends for each."""

    name: str
    spec: str
    entries: list[str]
    frames: list[bytes]
    #: Ports without the one of dropped frames, which the pipeline adds.
    ports: int
    copies: int
    #: The frames that it sends for a received one, in any order.
    sends: Callable[[bytes], list[bytes]]


def forwarding() -> Program:
    """Return a program that sends all frames to a port: the time of source and sink."""
    spec = f"{_HEADERS}\napply {{\n\trx m.port\n\tmov m.port 1\n\ttx m.port\n}}\n"
    return Program("forwarding", spec, [], [frame(0x0A000001)], 2, 1, lambda received: [received])


def routing(prefixes: int) -> Program:
    """Return the program of bmv2/test_data/routing.p4 with a number of prefixes."""
    spec = f"""{_HEADERS}
struct forward_args {{
	bit<48> mac
	bit<32> port
}}

action forward args instanceof forward_args {{
	mov m.port t.port
	mov h.ethernet.src h.ethernet.dst
	mov h.ethernet.dst t.mac
	sub h.ipv4.ttl 1
	return
}}

table routes {{
	key {{
		h.ipv4.dst lpm
	}}
	actions {{
		forward
		discard
	}}
	default_action discard args none
	size 1048576
}}

apply {{
	rx m.port
{_PARSE}{_VERIFY}	FORWARD : table routes
{_SEND}}}
"""
    # Of equal prefixes the first is kept, as by the benchmark.
    hops: dict[tuple[int, int], int] = {}
    for index in range(prefixes):
        hops.setdefault(prefix(index, prefixes), port_of(index))
    mac = int.from_bytes(HOP_MAC, "big")
    entries = [lpm("routes", *key, f"forward mac 0x{mac:x} port {port}") for key, port in hops.items()]
    return Program(
        "routing", spec, entries, routed_frames(prefixes), ROUTE_PORTS, 1, lambda received: [routed(received)]
    )


def replication(receivers: int) -> Program:
    """Return the program of bmv2/test_data/replication.p4 with one group.

    Copies of the pipeline are mirrored as they are sent, so a frame recirculates, and is mirrored with other
    addresses each time.
    """
    spec = f"""{_HEADERS}
struct replicate_args {{
	bit<32> group
}}

struct rewrite_args {{
	bit<48> src
	bit<48> dst
	bit<32> ip
	bit<32> port
	bit<32> last
}}

action replicate args instanceof replicate_args {{
	mov m.group t.group
	sub h.ipv4.ttl 1
	return
}}

action rewrite args instanceof rewrite_args {{
	mov h.ethernet.src t.src
	mov h.ethernet.dst t.dst
	mov h.ipv4.dst t.ip
	mov m.port t.port
	mov m.session t.port
	mov m.last t.last
	return
}}

table groups {{
	key {{
		h.ipv4.dst lpm
	}}
	actions {{
		replicate
		discard
	}}
	default_action discard args none
	size 1024
}}

table replicas {{
	key {{
		m.pass exact
		m.group exact
	}}
	actions {{
		rewrite
		discard
	}}
	default_action discard args none
	size 64
}}

apply {{
	rx m.port
{_PARSE}	recircid m.pass
	jmpgt COPY m.pass 0
{_VERIFY}	FORWARD : table groups
	COPY : table replicas
	jmpeq SEND m.last 1
	mov m.slot 0
	mirror m.slot m.session
	recirculate
	SEND : {_SEND.lstrip()}}}
"""
    copies = replicas(receivers)
    entries = [lpm("groups", *GROUP_PREFIX, "replicate group 1")]
    for number, addresses in enumerate(copies, 1):
        src, dst, ip = (int.from_bytes(address, "big") for address in addresses)
        last = int(number == receivers)
        entries.append(
            f"replicas match {number - 1} 1 action rewrite src 0x{src:x} dst 0x{dst:x} ip 0x{ip:x}"
            f" port {number} last {last}"
        )

    def sends(received: bytes) -> list[bytes]:
        return [replicated(received, addresses) for addresses in copies]

    return Program("replication", spec, entries, multicast_frames(), receivers + 1, receivers, sends)


def lpm(table: str, value: int, length: int, action: str) -> str:
    """Return an entry of a table with one key of kind lpm: its mask decides the priority."""
    mask = 0xFFFFFFFF >> (32 - length) << (32 - length)
    return f"{table} match 0x{value:08x}/0x{mask:08x} priority {32 - length} action {action}"


def pcap(frames: list[bytes]) -> bytes:
    """Return a capture file."""
    head = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack("=IIII", 0, 0, len(data), len(data)) + data for data in frames)


def read_pcap(capture: bytes) -> list[bytes]:
    """Return the frames of a capture file."""
    frames, at = [], 24
    while at + 16 <= len(capture):
        length = struct.unpack_from("=I", capture, at + 8)[0]
        frames.append(capture[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


@dataclass(frozen=True)
class Result:
    """What a run printed: nanoseconds of each received frame, and frames by port; the last drops."""

    ns: float
    received: int
    sent: tuple[int, ...]


def parse(output: str) -> Result:
    """Read the output of a run, which DPDK's own messages may precede."""
    ns, received, sent = 0.0, 0, dict[int, int]()
    for words in map(str.split, output.splitlines()):
        match words:
            case ["ns", value]:
                ns = float(value)
            case ["received", value]:
                received = int(value)
            case ["sent", port, value]:
                sent[int(port)] = int(value)
    if not sent:
        msg = "the pipeline printed no statistics"
        raise ValueError(msg)
    return Result(ns, received, tuple(sent[port] for port in sorted(sent)))


class Pipelines:
    """The runner of pipelines, compiled in a folder."""

    def __init__(self, work: Path) -> None:
        for tool in ("gcc", "pkg-config"):
            if shutil.which(tool) is None:
                msg = f"needs {tool}"
                raise NotInstalledError(msg)
        self._work, self._flags = work, _pkg_config("--cflags")
        version, source = _pkg_config("--modversion")[0], os.environ.get("RTE_INSTALL_DIR")
        self._header = Path(source or "") / "lib" / "pipeline"
        if source is None or not (self._header / "rte_swx_pipeline_internal.h").exists():
            msg = f"set RTE_INSTALL_DIR to the source of DPDK {version} (Debian: apt-get source dpdk)"
            raise NotInstalledError(msg)
        if (found := (Path(source) / "VERSION").read_text(encoding="utf-8").strip()) != version:
            msg = f"RTE_INSTALL_DIR has DPDK {found}, the library is {version}"
            raise NotInstalledError(msg)
        self._runner = work / "swx"
        experimental = "-DALLOW_EXPERIMENTAL_API"
        self._gcc(str(HERE / "swx.c"), experimental, "-o", str(self._runner), *_pkg_config("--libs"))

    def _gcc(self, *arguments: str) -> None:
        command = ["gcc", "-O3", "-Wno-deprecated-declarations", *self._flags, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(done.stderr.strip().splitlines()[0])

    def measure(self, program: Program) -> float:
        """Return nanoseconds of processor time of a received frame; check the frames that are sent."""
        if len(program.entries) <= MAX_CHECKED:
            self._check(program)
        result = self._run(program, TURNS, "none")
        missing = result.received - sum(result.sent[:-1]) / program.copies
        if not 0 <= missing <= IN_FLIGHT or result.sent[-1]:
            msg = f"{program.name}: {result.received} frames received, {result.sent} sent"
            raise RuntimeError(msg)
        return result.ns

    def _check(self, program: Program) -> None:
        """Compare the bytes of the frames that are sent when all frames are received once."""
        self._run(program, 0, "capture")
        captures = (self._work / f"{port}.pcap" for port in range(program.ports))
        found = Counter(data for capture in captures for data in read_pcap(capture.read_bytes()))
        expected = Counter(data for received in program.frames for data in program.sends(received))
        if found != expected:
            msg = f"{program.name}: {(found - expected).total()} sent frames are wrong"
            msg += f", {(expected - found).total()} are missing"
            raise RuntimeError(msg)

    def _run(self, program: Program, turns: int, capture: str) -> Result:
        work = self._work
        spec, code, library = work / "program.spec", work / "program.c", work / "program.so"
        spec.write_text(program.spec, encoding="utf-8")
        self._command("codegen", str(spec), str(code))
        self._gcc("-fpic", "-shared", "-I", str(self._header), str(code), "-o", str(library))
        (work / "entries").write_text("".join(f"{entry}\n" for entry in program.entries), encoding="utf-8")
        (work / "frames.pcap").write_bytes(pcap(program.frames))
        (work / "ports.io").write_text(
            self._ports(program, 0 if turns else 1, is_captured=capture != "none"), encoding="utf-8"
        )
        options = ["--no-huge", "--no-pci", "--no-shconf", "-m", "1024", "-l", "0", "--log-level=error"]
        paths = [str(work / name) for name in ("program.so", "ports.io", "entries")]
        sessions = program.ports if program.copies > 1 else 0
        run = [program.name, *paths, str(sessions), str(turns), str(TURN_NS)]
        return parse(self._command(*options, "--", *run))

    def _ports(self, program: Program, loops: int, *, is_captured: bool) -> str:
        lines = ["mirroring slots 4 sessions 64"]
        source = f"file {self._work / 'frames.pcap'} loop {loops} packets {len(program.frames)}"
        lines.append(f"port in 0 source mempool MEMPOOL0 {source}")
        for port in range(program.ports):
            file = self._work / f"{port}.pcap" if is_captured else "none"
            lines.append(f"port out {port} sink file {file}")
        return "\n".join(lines) + "\n"

    def _command(self, *arguments: str) -> str:
        command = [str(self._runner), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            msg = f"not done within {LIMIT} s"
            raise RuntimeError(msg) from None
        if done.returncode:
            msg = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
            raise RuntimeError(msg)
        return done.stdout


def _pkg_config(what: str) -> list[str]:
    done = subprocess.run(["pkg-config", what, "libdpdk"], capture_output=True, text=True, check=False)
    if done.returncode:
        msg = "needs libdpdk-dev (Debian: apt-get install libdpdk-dev libpcap-dev)"
        raise NotInstalledError(msg)
    return shlex.split(done.stdout)
