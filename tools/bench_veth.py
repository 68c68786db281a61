"""Measures the switch over veth, beside a Linux bridge and BMv2: frames/s, and round trips and TCP of hosts.

All are measured alternately, several times, so that other load on the machine affects all of them. The frames
that our switch and BMv2 forward are compared with the expected ones before they are measured.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_ptf.group import Entry, MulticastGroup
from alfirk_ptf.live import DEVICE_ID, RunError, compile_program, live_switch, veth_pairs
from alfirk_ptf.p4runtime import Client, P4RuntimeError
from bench_report import ROOT, built, print_result
from bench_send import Blaster
from peers import frames
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeVar

    T = TypeVar("T")
    Pairs = dict[int, tuple[str, str]]
    #: A context that joins the ports; it yields the process that forwards, or None for the kernel.
    Way = Callable[[], AbstractContextManager[int | None]]

#: Seconds of each throughput measurement.
SECONDS = 1.5
#: Ways to join ports.
BRIDGE, WIRE, SWITCH, BMV2 = "Linux bridge", "wire", "switch", "BMv2"
#: The executable of BMv2 that serves P4Runtime.
BMV2_COMMAND = "simple_switch_grpc"
#: Measurements of each way; the median is reported.
TURNS = 5
#: Frames of a load that are compared with the expected ones. They fit into any queue of a switch.
COMPARED = 16
#: Seconds to wait for a frame that is compared.
ARRIVAL = 2.0


@dataclass(frozen=True)
class Load:
    """Frames that port 1 receives, and a program with entries that forwards them to all other ports."""

    name: str
    frames: list[bytes]
    #: A program of bmv2/test_data.
    program: str
    entries: list[Entry]
    groups: list[MulticastGroup] = field(default_factory=list)
    #: Ports that send each frame.
    receivers: int = 1
    #: For each receiving port, what it sends for a received frame.
    copies: Sequence[Callable[[bytes], bytes]] = (bytes,)
    #: The ratio to the bridge that we aim at.
    target: str = ""


@dataclass(frozen=True)
class Rate:
    """Frames that each receiving port gets per second, and per second of processor time of the switch."""

    per_second: float
    #: None for the kernel.
    per_processor_second: float | None


def l2(size: int, target: str = "") -> Load:
    """Return frames of one flow, and a table from MAC address to port."""
    frame = bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(sport=4000, dport=4000)
        / Raw(bytes(size - 42))
    )
    entries = [
        Entry("ingress.hosts", {"hdr.ethernet.dst": 0x020000000000 + port}, "ingress.forward", {"port": port})
        for port in (1, 2)
    ]
    return Load(f"{size} B", [frame], "l2.p4", entries, target=target)


def routing(prefixes: int) -> Load:
    """Return the routing of bmv2/benches/peers.rs, with all next hops at one port."""
    mac = int.from_bytes(frames.HOP_MAC, "big")
    keys = {frames.prefix(index, prefixes) for index in range(prefixes)}
    entries = [
        Entry("ingress.routes", {"hdr.ipv4.dst": key}, "ingress.forward", {"mac": mac, "port": 2})
        for key in sorted(keys)
    ]
    received = frames.routed_frames(prefixes)
    return Load(f"{prefixes:,} prefixes", received, "routing.p4", entries, copies=[frames.routed])


def multicast(receivers: int) -> Load:
    """Return the multicast of bmv2/benches/peers.rs."""
    group = {"hdr.ipv4.dst": frames.GROUP_PREFIX}
    entries = [Entry("ingress.groups", group, "ingress.replicate", {"group": 1})]
    addresses_of_copies = frames.replicas(receivers)
    for instance, addresses in enumerate(addresses_of_copies, 1):
        src, dst, ip = (int.from_bytes(address, "big") for address in addresses)
        entries.append(
            Entry(
                "egress.replicas",
                {"standard_metadata.egress_rid": instance},
                "egress.rewrite",
                {"src": src, "dst": dst, "ip": ip},
            )
        )
    # Port 1 receives the frames.
    replicas = tuple((instance + 1, instance) for instance in range(1, receivers + 1))
    return Load(
        f"multicast to {receivers}",
        frames.multicast_frames(),
        "replication.p4",
        entries,
        [MulticastGroup(1, replicas)],
        receivers,
        [partial(frames.replicated, addresses=addresses) for addresses in addresses_of_copies],
    )


def installed_bmv2() -> str:
    """Find BMv2 on PATH. `make install` gives our command the same name, so links to it are passed over."""
    for folder in os.get_exec_path():
        found = shutil.which(BMV2_COMMAND, path=folder)
        if found and Path(found).resolve().name != "alfirk":
            return found
    msg = f"no {BMV2_COMMAND} of BMv2 on PATH"
    raise RunError(msg)


def version(command: str) -> str:
    """Return what a command prints as its version."""
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        msg = f"{command} --version: {error}"
        raise RunError(msg) from error
    return done.stdout.strip()


def throughput(alfirk: Path) -> None:
    """Measure frames/s of the switch beside a Linux bridge, and beside BMv2 where that is on PATH."""
    bmv2 = None
    try:
        found = installed_bmv2()
        print_result("BMv2 over veth", f"version {version(found)}, {found}")
        bmv2 = found
    except RunError as error:
        not_run("BMv2 over veth", error)
    for load in (l2(64), l2(1024, " (target 1.00)"), routing(1_000), multicast(3)):
        over_veth(alfirk, bmv2, load)


def not_run(what: str, error: Exception) -> None:
    """Report in one line that something cannot be measured."""
    print_result(what, f"NOT RUN: {'; '.join(str(error).splitlines())}")


def over_veth(alfirk: Path, bmv2: str | None, load: Load) -> None:
    """Measure one load, between the same veth pairs for all ways."""
    ports = range(1, load.receivers + 2)
    with veth_pairs(ports) as pairs, tempfile.TemporaryDirectory() as directory:
        program = compile_program(alfirk, ROOT / "bmv2" / "test_data" / load.program, Path(directory))
        switches = {SWITCH: [str(alfirk), "switch"]} | ({BMV2: [bmv2]} if bmv2 else {})
        ways = {BRIDGE: bridge(pairs)}
        near, far = pairs[1][1], [pairs[port][1] for port in ports[1:]]
        for way, command in switches.items():
            ways[way] = p4_switch(command, program, load, pairs)
            with without_failing_bmv2(ways, way, load.name), ways[way]():
                compare_frames(near, far, load)
        turns = alternate(ways, lambda process: measure(near, far, load.frames, process), load.name)
    rates = [{way: rate.per_second for way, rate in turn.items()} for turn in turns]
    port = " per port" if load.receivers > 1 else ""
    print_result(
        f"over veth, {load.name}",
        f"{median(rates, SWITCH):,.0f} packets/s{port}; Linux bridge {median(rates, BRIDGE):,.0f}; "
        f"ratio {ratio(rates):.2f}{load.target}",
    )
    for way in [way for way in ways if way != BRIDGE]:
        used = statistics.median(turn[way].per_processor_second or 0.0 for turn in turns)
        result = f"{used:,.0f} packets/s of its processor time, with I/O"
        if way == BMV2:
            ours = f"(switch: {ratio(rates, BMV2):.2f} times as many)"
            result = f"{median(rates, BMV2):,.0f} packets/s{port} {ours}; {result}"
        print_result(f"  {way}", result)


@contextmanager
def without_failing_bmv2(ways: dict[str, Way], name: str, load: str) -> Iterator[None]:
    """Leave BMv2 out of the ways, with a message, if it fails: it is not ours, so the measurements go on."""
    try:
        yield
    except (RunError, P4RuntimeError) as error:
        if name != BMV2:
            raise
        not_run(f"BMv2 over veth, {load}", error)
        del ways[name]


def alternate(
    ways: dict[str, Way], measurement: Callable[[int | None], T], load: str = ""
) -> list[dict[str, T]]:
    """Measure each way of joining the ports, alternately.

    If BMv2 fails, it is removed from the ways and from the result.
    """
    turns: list[dict[str, T]] = []
    for _ in range(TURNS):
        turn = {}
        for name, way in list(ways.items()):
            with without_failing_bmv2(ways, name, load), way() as process:
                turn[name] = measurement(process)
        turns.append(turn)
    return [{name: turn[name] for name in ways} for turn in turns]


def median(turns: list[dict[str, float]], way: str) -> float:
    """Return the median of one way's measurements."""
    return statistics.median(turn[way] for turn in turns)


def ratio(turns: list[dict[str, float]], other: str = BRIDGE) -> float:
    """Return the switch's rate divided by another way's: the median of all turns."""
    return statistics.median(turn[SWITCH] / max(1e-9, turn[other]) for turn in turns)


def bridge(pairs: Pairs) -> Way:
    """Return a context that joins all ports by a Linux bridge, which floods frames to unknown hosts."""

    @contextmanager
    def joined() -> Iterator[None]:
        name = f"bench{os.getpid() % 100000}br"
        ip(f"link add name {name} type bridge")
        try:
            ip(f"link set dev {name} up")
            for inside, _ in pairs.values():
                ip(f"link set dev {inside} master {name}")
            yield
        finally:
            ip(f"link delete dev {name}")

    return joined


def wire(pairs: Pairs) -> Way:
    """Return a context that joins the two ports by a user-space program that only copies frames."""
    package = ["--package", "alfirk-packet-io", "--features", "driver", "--example", "wire"]
    program = built("build", "wire", "--release", *package)

    @contextmanager
    def joined() -> Iterator[int]:
        with subprocess.Popen([str(program), pairs[1][0], pairs[2][0]]) as running:
            try:
                yield running.pid
            finally:
                running.kill()

    return joined


def p4_switch(command: Sequence[str], program: Path, load: Load, pairs: Pairs) -> Way:
    """Return a context that joins the ports by `alfirk switch` or BMv2, with the entries of a load."""

    @contextmanager
    def joined() -> Iterator[int]:
        with (
            tempfile.TemporaryDirectory() as directory,
            live_switch(command, Path(directory), pairs, log=False) as live,
        ):
            client = Client(live.address, DEVICE_ID, program.with_suffix(".p4info.txtpb"))
            client.push(program)
            client.insert(*load.entries)
            client.insert_multicast(*load.groups)
            yield live.child.pid
            client.close()

    return joined


def compare_frames(near: str, far: Sequence[str], load: Load) -> None:
    """Send the first frames of a load; raise an error if other frames than the expected arrive, or none."""
    with ExitStack() as sockets:
        sender, *receivers = (sockets.enter_context(packet_socket(name)) for name in (near, *far))
        for number, sent in enumerate(load.frames[:COMPARED], 1):
            sender.send(sent)
            for interface, receiver, copy in zip(far, receivers, load.copies, strict=True):
                try:
                    received = receiver.recv(65536)
                except TimeoutError:
                    msg = f"frame {number} of the load did not arrive at {interface} within {ARRIVAL:.0f} s"
                    raise RunError(msg) from None
                if received != copy(sent):
                    msg = f"frame {number}: {interface} received {received.hex()}, not {copy(sent).hex()}"
                    raise RunError(msg)


def packet_socket(interface: str) -> socket.socket:
    """Open a packet socket at an interface, which receives IPv4 frames."""
    ipv4 = 0x0800
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ipv4))
    opened.bind((interface, ipv4))
    opened.settimeout(ARRIVAL)
    return opened


def measure(near: str, far: Sequence[str], sent: Sequence[bytes], process: int | None) -> Rate:
    """Send as fast as one thread can; return the rate of received frames.

    `near`, `far`: interfaces that send and receive; `process`: the switch, None for the kernel.
    """
    counts = [Path(f"/sys/class/net/{interface}/statistics/rx_packets") for interface in far]

    def received() -> list[int]:
        return [int(count.read_text()) for count in counts]

    with Blaster(near, sent) as blaster:
        blaster.run(0.5)
        first, used, begin = received(), processor_time(process), time.perf_counter()
        blaster.run(SECONDS)
        took, used = time.perf_counter() - begin, processor_time(process) - used
        each = [now - before for now, before in zip(received(), first, strict=True)]
    if not all(each):
        msg = f"{far[each.index(0)]} received no frame"
        raise RunError(msg)
    mean = statistics.mean(each)
    return Rate(mean / took, mean / used if used else None)


def processor_time(process: int | None) -> float:
    """Return the seconds of processor time that a process has used, 0 without one."""
    if process is None:
        return 0.0
    # The name in parentheses may contain blanks; user and system time are the fields 14 and 15.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def ip(arguments: str) -> None:
    """Run iproute2's command."""
    subprocess.run(["ip", *arguments.split()], check=True)
