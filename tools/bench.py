"""Measures alfirk on this machine: compiler, pipeline core, simulator, main job, switch over veth.

Absolute numbers are this machine's; the switch is also shown beside a Linux bridge under the same load.
The two are measured alternately, several times, so that other load affects both.  Called by ``make bench``.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import bench_packets
from alfirk_ptf.group import Entry
from alfirk_ptf.live import DEVICE_ID, MAIN_PROGRAM, compile_program, switch, veth_pairs
from alfirk_ptf.p4runtime import Client
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from peers import NotInstalledError, swx, xdp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeVar

    T = TypeVar("T")
    Pairs = dict[int, tuple[str, str]]

ROOT = Path(__file__).resolve().parent.parent
#: Seconds of each throughput measurement.
SECONDS = 1.5
#: Seconds between two pings, and whether processors are kept out of the sleep states of longer pauses.
PINGS = ((0.002, False), (0.0002, False), (0.002, True))
#: Ways to join two ports.
BRIDGE, WIRE, SWITCH = "Linux bridge", "wire", "switch"
#: Measurements of each way; the median is reported.
TURNS = 5
#: Frames per system call.
BATCH = 64


def main() -> int:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alfirk", type=Path, required=True, help="an optimised alfirk command")
    parser.add_argument("--skip-cargo", action="store_true", help="leave out the benchmarks that cargo runs")
    options = parser.parse_args()
    alfirk = options.alfirk.absolute()

    print_result("machine", f"{os.cpu_count()} x {cpu_model()}")
    compiler(alfirk)
    pipeline_state(alfirk)
    main_job(alfirk)
    simulator(alfirk)
    switch_start(alfirk)
    bench_packets.measure(alfirk, print_result)
    if not options.skip_cargo:
        cargo_benches()
        other_switches()
    if os.geteuid() == 0:
        over_veth(alfirk, 64)
        over_veth(alfirk, 1024, " (target 1.00)")
        between_hosts(alfirk)
    else:
        print_result("switch over veth", "NOT RUN, needs root: sudo make bench")
    return 0


def print_result(what: str, result: str) -> None:
    """Print one result."""
    sys.stdout.write(f"{what:<28} {result}\n")
    sys.stdout.flush()


def cpu_model() -> str:
    """Name the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def compiler(alfirk: Path) -> None:
    """Measure one compilation of p4src, process start included."""
    with tempfile.TemporaryDirectory() as directory:
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            compile_program(alfirk, MAIN_PROGRAM, Path(directory))
            times.append(time.perf_counter() - begin)
    print_result("compile p4src", f"{min(times) * 1e3:.1f} ms (best of {len(times)})")


def pipeline_state(alfirk: Path) -> None:
    """Count the state of the compiled pipeline: registers, and tables as key and action data by size."""
    with tempfile.TemporaryDirectory() as directory:
        program = compile_program(alfirk, MAIN_PROGRAM, Path(directory))
        text = program.with_suffix(".p4info.txtpb").read_text(encoding="utf-8")
    info = text_format.Parse(text, p4info_pb2.P4Info())
    registers = {r.preamble.name: r.size * r.type_spec.bitstring.bit.bitwidth for r in info.registers}
    data = {a.preamble.id: sum(p.bitwidth for p in a.params) for a in info.actions}
    tables = {}
    for table in info.tables:
        key = sum(field.bitwidth for field in table.match_fields)
        # An entry stores an action id, and space for the parameters of the largest action.
        actions = [data[ref.id] for ref in table.action_refs]
        choice = (len(actions) - 1).bit_length()
        tables[table.preamble.name] = table.size * (key + choice + max(actions))
    cells = sum(c.size for c in info.counters) + sum(m.size for m in info.meters)
    groups = next(t.size for t in info.tables if t.preamble.name == "ingress.group_lookup.groups")
    paths = next(t.size for t in info.tables if t.preamble.name == "ingress.group_lookup.mft") // groups
    for kind, parts in (("registers", registers), ("tables", tables)):
        largest = sorted(parts, key=lambda name: -parts[name])[:3]
        print_result(
            f"{groups} groups of {paths}, {kind}",
            f"{sum(parts.values()) / 8e6:.2f} MB in {len(parts)}: "
            + ", ".join(f"{'.'.join(name.split('.')[-2:])} {parts[name] / 8e6:.2f}" for name in largest)
            + ", ...",
        )
    total = sum(registers.values()) + sum(tables.values())
    print_result("", f"{total / 8e6:.2f} MB in all, counters and meters ({cells} cells) left out")


def main_job(alfirk: Path) -> None:
    """Measure the main job with 16 MiB, in virtual time: wall time and memory."""
    command = [
        *(str(alfirk), "run", "--topology", str(ROOT / "topologies" / "fat-tree-k4.yaml")),
        *("--group", "16", "--size", "16MiB", "--algorithms", "alfirk", "--json"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print_result("main job, 16 MiB", f"FAILED: {done.stderr.strip()}")
        return
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print_result(
        "main job, 16 MiB, alfirk", f"{took:.1f} s wall, {used:.1f} s CPU, {after.ru_maxrss / 1024:.0f} MiB"
    )


def simulator(alfirk: Path) -> None:
    """Measure large fabrics in virtual time: whole runs, including the start of the program."""
    broadcast = ("--topology", "fat-tree:16", "--group", "513", "--algorithms", "alfirk")
    exact = scale(alfirk, "512 receivers, 16 MiB, exact", *broadcast, "--size", "16MiB")
    fast = scale(alfirk, "512 receivers, 16 MiB, fast", *broadcast, "--size", "16MiB", "--model", "fast")
    if exact and fast:
        print_result("", f"the fast model takes 1/{exact / fast:.1f} of the exact one's processor time")
    scale(alfirk, "512 receivers, 128 MiB, fast", *broadcast, "--size", "128MiB", "--model", "fast")
    hpl = ("--topology", "fat-tree:26", "--workload", "hpl:grid=64x64,panel=1MiB", "--algorithms", "alfirk")
    scale(alfirk, "HPL, 64 x 64, fast", *hpl, "--model", "fast")
    hosts = ("--topology", "fat-tree:64,pods=16", "--size", "1MiB", "--algorithms", "alfirk")
    scale(alfirk, "16,384 hosts, 1 MiB, fast", *hosts, "--model", "fast")


def scale(alfirk: Path, what: str, *arguments: str) -> float | None:
    """Run one job; return its processor time in seconds."""
    command = [str(alfirk), "run", *arguments, "--json"]
    with tempfile.TemporaryFile("w+") as report:
        with subprocess.Popen(command, stdout=report, stderr=subprocess.DEVNULL) as child:
            # wait4 reports this child's use; getrusage would report the largest memory of all children.
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            print_result(what, f"FAILED: {' '.join(command)}")
            return None
        report.seek(0)
        crossings = sum(result["wire_packets"] for result in json.load(report)["results"])
    seconds = used.ru_utime + used.ru_stime
    rate = f"{crossings:,} crossings of links, {crossings / seconds / 1e6:.2f} million each second"
    print_result(what, f"{seconds:.1f} s CPU, {used.ru_maxrss / 1024:.0f} MiB; {rate}")
    return seconds


def switch_start(alfirk: Path) -> None:
    """Measure the time until a switch with a program serves P4Runtime, and its memory when idle."""
    with tempfile.TemporaryDirectory() as directory:
        program = compile_program(alfirk, ROOT / "bmv2" / "test_data" / "l2.p4", Path(directory))
        command = [str(alfirk), "switch", str(program), "--", "--grpc-server-addr", "127.0.0.1:0"]
        times, memory = [], 0.0
        for _ in range(10):
            begin = time.perf_counter()
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as child:
                if child.stdout is None or "listening" not in child.stdout.readline():
                    msg = "the switch did not start"
                    raise RuntimeError(msg)
                times.append(time.perf_counter() - begin)
                status = Path(f"/proc/{child.pid}/status").read_text()
                memory = float(status.partition("VmRSS:")[2].split()[0]) / 1024
                child.terminate()
    print_result(
        "switch, start to ready", f"{min(times) * 1e3:.1f} ms (best of {len(times)}), {memory:.0f} MiB"
    )


def cargo_benches() -> None:
    """Run the benchmarks of the crates: pipeline core, simulator, ICRC."""
    done = subprocess.run(
        [str(ROOT / "tools" / "cargo"), "bench", "--quiet", "--workspace", "--benches"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)


def other_switches() -> None:
    """Measure the work of the benchmark ``peers`` on other software switches, where they are installed."""
    for prefixes in (1_000, 100_000):
        for name, flat in (("LPM trie", False), ("flat arrays", True)):
            peer(f"XDP {name}, {prefixes:,}", partial(xdp.xdp, prefixes, flat=flat))
    with tempfile.TemporaryDirectory() as directory:
        try:
            pipelines = swx.Pipelines(Path(directory))
        except NotInstalledError as error:
            print_result("DPDK SWX", f"NOT RUN: {error}")
        else:
            dpdk(pipelines)
    if shutil.which("simple_switch") is None:
        print_result("BMv2", "not installed: no simple_switch on PATH")
    else:
        print_result("BMv2", "NOT RUN: simple_switch has no measurement of processor time without ports")


def dpdk(pipelines: swx.Pipelines) -> None:
    """Measure DPDK's SWX pipeline; each time contains that of the source and the sinks."""
    programs: dict[str, Callable[[], swx.Program]] = {
        "SWX, source and sink alone": swx.forwarding,
        "SWX, 1,000 prefixes": lambda: swx.routing(1_000),
        "SWX, 100,000 prefixes": lambda: swx.routing(100_000),
        "SWX, multicast to 3": lambda: swx.replication(3),
        "SWX, multicast to 15": lambda: swx.replication(15),
    }
    for name, program in programs.items():
        peer(name, partial(_measured, pipelines, program))


def _measured(pipelines: swx.Pipelines, program: Callable[[], swx.Program]) -> float:
    return pipelines.measure(program())


def peer(name: str, measurement: Callable[[], float]) -> None:
    """Print the processor time of a frame on another switch, or why there is none."""
    try:
        nanoseconds = measurement()
    except (NotInstalledError, RuntimeError, ValueError) as error:
        print_result(name, f"NOT RUN: {error}")
    else:
        print_result(
            name, f"{nanoseconds:.0f} ns per frame with the harness, {1e9 / nanoseconds:,.0f} packets/s"
        )


def over_veth(alfirk: Path, size: int, target: str = "") -> None:
    """Measure frames/s through the switch and through a Linux bridge, between the same two veth pairs."""
    frame = bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(sport=4000, dport=4000)
        / Raw(bytes(size - 42))
    )
    with veth_pairs((1, 2)) as pairs:
        near, far = pairs[1][1], pairs[2][1]
        ways = {BRIDGE: bridge(pairs), SWITCH: l2_switch(alfirk, pairs)}
        turns = alternate(ways, lambda: measure(near, far, frame))
    print_result(
        f"switch over veth, {size} B",
        f"{median(turns, SWITCH):,.0f} packets/s; Linux bridge {median(turns, BRIDGE):,.0f}; "
        f"ratio {ratio(turns):.2f}{target}",
    )


def alternate(
    ways: dict[str, Callable[[], AbstractContextManager[None]]], measurement: Callable[[], T]
) -> list[dict[str, T]]:
    """Measure each way between port 1 and port 2, alternately."""
    turns = []
    for _ in range(TURNS):
        turn = {}
        for name, way in ways.items():
            with way():
                turn[name] = measurement()
        turns.append(turn)
    return turns


def median(turns: list[dict[str, float]], way: str) -> float:
    """Return the median of one way's measurements."""
    return statistics.median(turn[way] for turn in turns)


def ratio(turns: list[dict[str, float]]) -> float:
    """Return the switch's rate divided by the bridge's: the median of all turns."""
    return statistics.median(turn[SWITCH] / max(1e-9, turn[BRIDGE]) for turn in turns)


def bridge(pairs: Pairs) -> Callable[[], AbstractContextManager[None]]:
    """Return a context that joins the two ports by a Linux bridge."""

    @contextmanager
    def joined() -> Iterator[None]:
        name = f"bench{os.getpid() % 100000}br"
        _ip(f"link add name {name} type bridge")
        try:
            _ip(f"link set dev {name} up")
            for port in (1, 2):
                _ip(f"link set dev {pairs[port][0]} master {name}")
            yield
        finally:
            _ip(f"link delete dev {name}")

    return joined


def wire(pairs: Pairs) -> Callable[[], AbstractContextManager[None]]:
    """Return a context that joins the two ports by a user-space program that only copies frames."""
    package = ["--package", "alfirk-packet-io", "--features", "driver", "--example", "wire"]
    built = subprocess.run(
        [
            str(ROOT / "tools" / "cargo"),
            "build",
            "--quiet",
            "--release",
            *package,
            "--message-format",
            "json",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    program = next(found["executable"] for found in messages if found.get("target", {}).get("name") == "wire")

    @contextmanager
    def joined() -> Iterator[None]:
        with subprocess.Popen([program, pairs[1][0], pairs[2][0]]) as running:
            try:
                yield
            finally:
                running.kill()

    return joined


def between_hosts(alfirk: Path) -> None:
    """Measure round trips and TCP between two hosts, through the switch and through a Linux bridge.

    Offloads are off: otherwise the kernel's bridge forwards segments of 64 KiB (TSO) that no real
    link carries.
    """
    with veth_pairs((1, 2)) as pairs, namespace() as host_1, namespace() as host_2:
        (inside_1, near), (inside_2, far) = pairs[1], pairs[2]
        for interface in (inside_1, near, inside_2, far):
            offloads_off(interface)
        for host, inside, interface, number in ((host_1, inside_1, near, 1), (host_2, inside_2, far, 2)):
            # The same MTU at both ends.
            _ip(f"link set dev {inside} mtu 1500")
            _ip(f"link set dev {interface} netns {host}")
            enter = ["nsenter", "--target", str(host), "--net"]
            for arguments in (
                f"link set dev {interface} address 02:00:00:00:00:0{number} mtu 1500 up",
                f"address add 10.0.0.{number}/24 dev {interface}",
                f"neighbour add 10.0.0.{3 - number} lladdr 02:00:00:00:00:0{3 - number} dev {interface}",
            ):
                subprocess.run([*enter, "ip", *arguments.split()], check=True)
        ways = {BRIDGE: bridge(pairs), SWITCH: l2_switch(alfirk, pairs)}
        with_wire = {WIRE: wire(pairs), **ways}
        trips = {ping: alternate(with_wire, partial(round_trip, host_1, *ping)) for ping in PINGS}
        rates = alternate(ways, partial(tcp, host_1, host_2))
    for (pause, is_awake), turns in trips.items():
        above = {way: statistics.median(turn[way] - turn[BRIDGE] for turn in turns) for way in (WIRE, SWITCH)}
        print_result(
            f"round trip, {pause * 1e3:g} ms apart" + ", awake" * is_awake,
            f"{median(turns, SWITCH):.0f} us; Linux bridge {median(turns, BRIDGE):.0f} us; "
            f"{above[SWITCH]:.0f} us above it (target 30), bare forwarder {above[WIRE]:.0f}",
        )
    print_result(
        "TCP, no offloads",
        f"{median(rates, SWITCH):.2f} Gbit/s; Linux bridge {median(rates, BRIDGE):.2f}; "
        f"ratio {ratio(rates):.2f} (target 0.80)",
    )


@contextmanager
def namespace() -> Iterator[int]:
    """Create a network namespace that ends with this process; return the id of the process that holds it."""
    # The kernel also ends it if the benchmark is killed.
    child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
    try:
        ours, theirs = Path("/proc/self/ns/net"), Path(f"/proc/{child.pid}/ns/net")
        while ours.readlink() == theirs.readlink():
            time.sleep(0.01)
        yield child.pid
    finally:
        child.kill()
        child.wait()


def offloads_off(interface: str) -> None:
    """Disable segmentation and checksum offload of an interface."""
    set_ethtool, checksum, segment_tcp, segment, receive = 0x8946, 0x17, 0x1F, 0x24, 0x2C
    with socket.socket() as handle:
        for command in (checksum, segment_tcp, segment, receive):
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP8x", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(handle, set_ethtool, request)


def round_trip(host: int, pause: float, is_awake: bool) -> float:
    """Ping the other host, `pause` seconds apart; return the median round trip in microseconds."""
    enter = ["nsenter", "--target", str(host), "--net"]
    command = [*enter, *["ping", "-c", "300", "-i", str(pause), "10.0.0.2"]]
    with awake() if is_awake else nullcontext():
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    times = [
        float(line.partition("time=")[2].split()[0]) for line in done.stdout.splitlines() if "time=" in line
    ]
    return statistics.median(times) * 1e3


@contextmanager
def awake() -> Iterator[None]:
    """Keep all processors out of sleep states, by loops of the lowest priority."""
    spin = ["setpriv", "--pdeathsig", "KILL", "chrt", "--idle", "0", sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for child in spinning:
            child.kill()
            child.wait()


_RECEIVE = """
import socket, time
listener = socket.create_server(("10.0.0.2", 5001))
print("ready", flush=True)
stream, _ = listener.accept()
buffer, total, begin = bytearray(1 << 20), 0, time.perf_counter()
while count := stream.recv_into(buffer):
    total += count
print(total * 8e-9 / (time.perf_counter() - begin))
"""

_SEND = """
import socket, sys, time
stream, block = socket.create_connection(("10.0.0.2", 5001)), bytes(1 << 18)
end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    stream.sendall(block)
"""


def tcp(sender: int, receiver: int) -> float:
    """Send by TCP from one host to the other; return the rate in Gbit/s."""

    def python(host: int, program: str) -> list[str]:
        return ["nsenter", "--target", str(host), "--net", sys.executable, "-c", program]

    with subprocess.Popen(python(receiver, _RECEIVE), stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None or server.stdout.readline() != "ready\n":
            msg = "the TCP receiver did not start"
            raise RuntimeError(msg)
        subprocess.run([*python(sender, _SEND), str(SECONDS)], check=True)
        return float(server.stdout.read())


def l2_switch(alfirk: Path, pairs: Pairs) -> Callable[[], AbstractContextManager[None]]:
    """Return a context that joins the ports by `alfirk switch` with one table from MAC address to port."""

    @contextmanager
    def joined() -> Iterator[None]:
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            program = compile_program(alfirk, ROOT / "bmv2" / "test_data" / "l2.p4", work)
            with switch([str(alfirk), "switch"], work, pairs, log=False) as address:
                client = Client(address, DEVICE_ID, program.with_suffix(".p4info.txtpb"))
                client.push(program)
                for number in (1, 2):
                    match = {"hdr.ethernet.dst": 0x020000000000 + number}
                    client.insert(Entry("ingress.hosts", match, "ingress.forward", {"port": number}))
                yield
                client.close()

    return joined


def measure(near: str, far: str, frame: bytes) -> float:
    """Send as fast as one thread can; return the received frames per second."""
    received = Path(f"/sys/class/net/{far}/statistics/rx_packets")
    with Blaster(near, frame) as blaster:
        blaster.run(0.5)
        first, begin = int(received.read_text()), time.perf_counter()
        blaster.run(SECONDS)
        return (int(received.read_text()) - first) / (time.perf_counter() - begin)


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MessageHeader(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_IoVector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    _fields_ = (("header", _MessageHeader), ("length", ctypes.c_uint32))


class Blaster:
    """Sends one frame repeatedly, many times per system call."""

    def __init__(self, interface: str, frame: bytes) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((interface, 0))
        self._frame = ctypes.create_string_buffer(frame, len(frame))
        self._vector = _IoVector(ctypes.addressof(self._frame), len(frame))
        self._messages = (_Message * BATCH)()
        for message in self._messages:
            message.header.vectors = ctypes.pointer(self._vector)
            message.header.vector_count = 1
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg

    def __enter__(self) -> Blaster:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def run(self, seconds: float) -> None:
        """Send for this many seconds."""
        descriptor, messages, send = self._socket.fileno(), self._messages, self._sendmmsg
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            # A full queue (ENOBUFS) is expected at full load, so it is ignored.
            send(descriptor, messages, BATCH, 0)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


if __name__ == "__main__":
    sys.exit(main())
