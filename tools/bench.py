"""Measures alfirk on this machine: compiler, pipeline core, simulator, main job, switch over veth.

Absolute numbers are this machine's; the switch is also shown as a ratio to a Linux bridge under the same
load in the same run.  Called by ``make bench``.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_ptf.group import Entry
from alfirk_ptf.live import DEVICE_ID, MAIN_PROGRAM, compile_program, switch, veth_pairs
from alfirk_ptf.p4runtime import Client
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
#: Seconds of each throughput measurement.
SECONDS = 3.0
#: Frames per system call.
BATCH = 64


def main() -> int:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alfirk", type=Path, required=True, help="an optimised alfirk command")
    parser.add_argument("--skip-cargo", action="store_true", help="leave out the benchmarks that cargo runs")
    options = parser.parse_args()
    alfirk = options.alfirk.absolute()

    say("machine", f"{os.cpu_count()} x {cpu_model()}")
    compiler(alfirk)
    main_job(alfirk)
    if not options.skip_cargo:
        cargo_benches()
    if os.geteuid() == 0:
        for size in (64, 1024):
            over_veth(alfirk, size)
    else:
        say("switch over veth", "NOT RUN, needs root: sudo make bench")
    return 0


def say(what: str, result: str) -> None:
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
    say("compile p4src", f"{min(times) * 1e3:.1f} ms (best of {len(times)})")


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
        say("main job, 16 MiB", f"FAILED: {done.stderr.strip()}")
        return
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    say("main job, 16 MiB, alfirk", f"{took:.1f} s wall, {used:.1f} s CPU, {after.ru_maxrss / 1024:.0f} MiB")


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


def over_veth(alfirk: Path, size: int) -> None:
    """Measure frames/s through the switch and through a Linux bridge, between the same two veth pairs."""
    frame = bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(sport=4000, dport=4000)
        / Raw(bytes(size - 42))
    )
    with veth_pairs((1, 2)) as pairs:
        (inside_1, near), (inside_2, far) = pairs[1], pairs[2]
        with bridge(inside_1, inside_2):
            through_bridge = measure(near, far, frame)
        with routing_switch(alfirk, pairs):
            through_switch = measure(near, far, frame)
    say(
        f"switch over veth, {size} B",
        f"{through_switch:,.0f} packets/s; Linux bridge {through_bridge:,.0f}; "
        f"ratio {through_switch / max(1, through_bridge):.2f}",
    )


@contextmanager
def bridge(*ports: str) -> Iterator[None]:
    """Join the ports by a Linux bridge."""
    name = f"bench{os.getpid() % 100000}br"
    _ip(f"link add name {name} type bridge")
    try:
        _ip(f"link set dev {name} up")
        for port in ports:
            _ip(f"link set dev {port} master {name}")
        yield
    finally:
        _ip(f"link delete dev {name}")


@contextmanager
def routing_switch(alfirk: Path, pairs: dict[int, tuple[str, str]]) -> Iterator[None]:
    """Join the ports by `alfirk switch` with the multicast program, which routes from port 1 to port 2."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        program = compile_program(alfirk, MAIN_PROGRAM, work)
        with switch([str(alfirk), "switch"], work, pairs, log=False) as address:
            client = Client(address, DEVICE_ID, program.with_suffix(".p4info.txtpb"))
            client.push(program)
            match = {"dst_ip": (int(IPv4Address("10.0.0.2")), 32)}
            to_host = {"port": 2, "mac": 0x020000000002}
            client.insert(
                Entry("ingress.ipv4_routing.routes", match, "ingress.ipv4_routing.to_host", to_host)
            )
            yield
            client.close()


def measure(near: str, far: str, frame: bytes) -> float:
    """Send as fast as one thread can; count what arrives, per second."""
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
    """Sends one frame over and over, many per system call."""

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
        """Send for so long."""
        descriptor, messages, send = self._socket.fileno(), self._messages, self._sendmmsg
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            # A full queue (ENOBUFS) is what is measured, not an error.
            send(descriptor, messages, BATCH, 0)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


if __name__ == "__main__":
    sys.exit(main())
