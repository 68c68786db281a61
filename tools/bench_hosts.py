"""Measures round trips and TCP between two hosts, through the switch and through a Linux bridge."""

from __future__ import annotations

import ctypes
import fcntl
import os
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

from alfirk_ptf.live import compile_program, veth_pairs
from bench_report import ROOT, print_result
from bench_veth import (
    BRIDGE,
    SECONDS,
    SWITCH,
    WIRE,
    alternate,
    bridge,
    ip,
    l2,
    median,
    p4_switch,
    ratio,
    wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds between two pings, and whether processors are kept out of the sleep states of longer pauses.
PINGS = ((0.002, False), (0.0002, False), (0.002, True))


def between_hosts(alfirk: Path) -> None:
    """Measure round trips and TCP between two hosts, through the switch and through a Linux bridge.

    Offloads are off: otherwise the kernel's bridge forwards segments of 64 KiB (TSO) that no real
    link carries.
    """
    with (
        veth_pairs((1, 2)) as pairs,
        namespace() as host_1,
        namespace() as host_2,
        tempfile.TemporaryDirectory() as directory,
    ):
        (inside_1, near), (inside_2, far) = pairs[1], pairs[2]
        for interface in (inside_1, near, inside_2, far):
            offloads_off(interface)
        for host, inside, interface, number in ((host_1, inside_1, near, 1), (host_2, inside_2, far, 2)):
            # The same MTU at both ends.
            ip(f"link set dev {inside} mtu 1500")
            ip(f"link set dev {interface} netns {host}")
            enter = ["nsenter", "--target", str(host), "--net"]
            for arguments in (
                f"link set dev {interface} address 02:00:00:00:00:0{number} mtu 1500 up",
                f"address add 10.0.0.{number}/24 dev {interface}",
                f"neighbour add 10.0.0.{3 - number} lladdr 02:00:00:00:00:0{3 - number} dev {interface}",
            ):
                subprocess.run([*enter, "ip", *arguments.split()], check=True)
        load = l2(64)
        program = compile_program(alfirk, ROOT / "bmv2" / "test_data" / load.program, Path(directory))
        ways = {BRIDGE: bridge(pairs), SWITCH: p4_switch([str(alfirk), "switch"], program, load, pairs)}
        with_wire = {WIRE: wire(pairs), **ways}
        trips = {
            ping: alternate(with_wire, _without_process(partial(round_trip, host_1, *ping))) for ping in PINGS
        }
        rates = alternate(ways, _without_process(partial(tcp, host_1, host_2)))
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


def _without_process(measurement: Callable[[], float]) -> Callable[[int | None], float]:
    """Return a measurement that ignores the process of the switch."""
    return lambda _: measurement()


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
