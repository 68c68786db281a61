"""Compares speeds of guests: to two receivers by fabric or unicast, to one by a switch or a bridge.

Emulated processors are slow, so only ratios count: the same guests and switch, with one thing changed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alfirk_mininet import guests
from alfirk_mininet.guests import Guest, Image
from alfirk_mininet.interactive import start_controller
from alfirk_mininet.network import Network
from alfirk_mininet.nodes import Settings, wait_ready
from alfirk_mininet.process import stop_all
from alfirk_mininet.topology import Topology

from alfirk_interop import registration
from alfirk_interop.errors import InteropError
from alfirk_interop.perftest import measure
from alfirk_interop.scenarios import ROOT

TESTBED = ROOT / "topologies" / "testbed.yaml"
MTU = 4200


@dataclass(frozen=True)
class Load:
    """Messages of one size."""

    name: str
    op: str
    size: int
    count: int

    @property
    def tool(self) -> str:
        """The corresponding test of perftest."""
        return "ib_send_bw" if self.op == "send" else "ib_write_bw"


LOADS = [
    Load("SEND 8 B", "send", 8, 2000),
    Load("SEND 1 KiB", "send", 1 << 10, 2000),
    Load("SEND 64 KiB", "send", 64 << 10, 64),
    Load("WRITE 256 KiB", "write", 256 << 10, 16),
]


def report(alfirk: Path, image: Path) -> None:
    """Measure everything and print three tables."""
    with tempfile.TemporaryDirectory(prefix="alfirk-speed-") as folder:
        by_switch, registrations = _through_switch(alfirk, Image(image), Path(folder) / "switch")
        by_bridge = _through_bridge(Image(image), Path(folder) / "bridge")
    _print("one guest to two", "by alfirk", "unicast", [_one_to_two(alfirk, image, load) for load in LOADS])
    _print(
        "one guest to one, perftest",
        "Alfirk switch",
        "Linux bridge",
        [*zip(by_switch, by_bridge, strict=True)],
    )
    sys.stdout.write(f"{'memory of one message':<28} {'registered':>26} {'copied':>26}  ratio\n")
    for size, registered, copied in registrations:
        times = [f"{time / 1e3:.1f} us" for time in (registered, copied)]
        sys.stdout.write(f"  {size:<24} B {times[0]:>26} {times[1]:>26} {registered / copied:5.2f}x\n")


def _print(what: str, ours: str, theirs: str, rates: list[tuple[float, float]]) -> None:
    sys.stdout.write(f"{what:<28} {ours:>26} {theirs:>26}  ratio\n")
    for load, (first, second) in zip(LOADS, rates, strict=True):
        cells = [f"{rate:8.0f}/s {rate * load.size / 1e6:8.3f} MB/s" for rate in (first, second)]
        sys.stdout.write(f"  {load.name:<26} {cells[0]:>26} {cells[1]:>26} {first / second:5.2f}x\n")


def _one_to_two(alfirk: Path, image: Path, load: Load) -> tuple[float, float]:
    """Send by a group, and by one queue pair per receiver. Return messages per second that reach both."""
    command = [str(alfirk), "run", "--driver", "mininet", "--json", "--topology", str(TESTBED)]
    command += ["--guests", "h1,h2,h3", "--guest-image", str(image), "--group", "3", "--op", load.op]
    command += ["--size", f"{load.size * load.count}B", "--messages", str(load.count)]
    command += ["--algorithms", "alfirk,unicast"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        message = f"{load.name}: {done.stderr.strip()}"
        raise InteropError(message)
    first, second = (load.count * 1e9 / row["completion_ns"] for row in json.loads(done.stdout)["results"])
    return first, second


def _through_switch(
    alfirk: Path, image: Image, workdir: Path
) -> tuple[list[float], list[tuple[int, int, int]]]:
    """Return the results of perftest, and of the registration of memory."""
    settings = Settings(
        alfirk, workdir, rdma=False, guests=["h1", "h2"], guest_image=image.folder, kernel_ip=True
    )
    with Network(Topology.load(TESTBED, alfirk), settings) as network:
        controller, _ = start_controller(TESTBED, settings, network.switches)
        try:
            rates = _perftest(network.guests["h1"], network.guests["h2"])
            return rates, registration.measure(network.guests["h1"], workdir)
        finally:
            stop_all([controller])


def _through_bridge(image: Image, workdir: Path) -> list[float]:
    with _bridged(image, workdir) as (first, second):
        return _perftest(first, second)


def _perftest(client: Guest, server: Guest) -> list[float]:
    address = server.address.partition("/")[0]
    return [
        measure(client.shell, server.shell, address, load.tool, load.size, load.count)[0] for load in LOADS
    ]


@contextmanager
def _bridged(image: Image, workdir: Path) -> Iterator[tuple[Guest, Guest]]:
    """Two guests on a Linux bridge, in the namespace of this process."""
    workdir.mkdir(parents=True)
    _ip("link add bridge0 type bridge", f"link set bridge0 mtu {MTU} up")
    both: list[Guest] = []
    try:
        for number in (1, 2):
            tap = f"tap{number}"
            guests.make_tap(tap, MTU)
            _ip(f"link set {tap} master bridge0 up")
            mac = f"02:00:00:00:00:{number:02x}"
            guest = Guest(f"h{number}", f"10.0.0.{number}/8", mac, MTU, tap, workdir, image)
            guest.start()
            both.append(guest)
        waiting = [(guest.child, guest.is_ready) for guest in both if guest.child]
        wait_ready(waiting, guests.START_LIMIT)
        yield both[0], both[1]
    finally:
        for guest in both:
            if guest.child:
                guest.child.process.kill()
                guest.child.process.wait()
        for link in ("tap1", "tap2", "bridge0"):
            with contextlib.suppress(InteropError):
                _ip(f"link delete {link}")


def _ip(*commands: str) -> None:
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            message = f"ip {command}: {done.stderr.strip()}"
            raise InteropError(message)
