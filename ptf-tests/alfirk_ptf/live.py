"""A live switch on veth pairs: interfaces, compiled program and process, as context managers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import make_tap
from alfirk_mininet.interfaces import make_pair
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.process import Child, stop_all

from alfirk_ptf.target import TARGET, Target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
DEVICE_ID = 1
CPU_PORT = 510
#: Environment variable for PATH_BITS of the program: the width of path indexes in bits.
PATH_BITS_VARIABLE = "ALFIRK_PATH_BITS"


def switch_ports(target: Target, path_bits: int) -> tuple[int, ...]:
    """Return the ports of the switch: one for each path of a group, and at least five."""
    free = (port for port in count(1) if port not in target.recirculation_ports)
    return tuple(islice(free, max(5, 1 << path_bits)))


PATH_BITS = int(os.environ.get(PATH_BITS_VARIABLE, TARGET.path_bits))
MAX_PATHS = 1 << PATH_BITS
#: Binary logarithm of the average number of a group's members at one switch (p4src/shared/sizes.p4).
LOCAL_BITS = min(4, PATH_BITS)
SWITCH_PORTS = switch_ports(TARGET, PATH_BITS)
#: MTU of the veth pairs, in bytes.
MTU = 4200
#: Name of the file with the output of the switch.
SWITCH_LOG = "switch.log"
#: Seconds to wait until the switch serves P4Runtime.
START_LIMIT = 30.0


def main_program(target: Target) -> Path:
    """Return the source file of the data plane for a target."""
    return ROOT / "p4src" / target.folder / "main.p4"


MAIN_PROGRAM = main_program(Target.V1MODEL)


class RunError(Exception):
    """A live switch cannot be started or used."""


def compile_program(alfirk: Path, source: Path, work: Path, *flags: str, warn: bool = False) -> Path:
    """Compile a P4 program with `alfirk p4c`; return the JSON file, with its P4Info in the same folder.

    With `warn`, the compiler's warnings go to standard error.
    """
    program = work / f"{source.stem}.json"
    command = [
        *(str(alfirk), "p4c", str(source), *flags, "-o", str(program)),
        *("--p4runtime-files", str(program.with_suffix(".p4info.txtpb"))),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        msg = f"cannot run {alfirk}: {error.strerror}; build it: make build"
        raise RunError(msg) from error
    if done.returncode:
        msg = f"{source} does not compile:\n{done.stderr.rstrip()}"
        raise RunError(msg)
    if warn:
        sys.stderr.write(done.stderr)
    return program


@contextmanager
def veth_pairs(ports: Sequence[int], taps: Collection[int] = ()) -> Iterator[dict[int, tuple[str, str]]]:
    """Create a veth pair for each port: the interface of the switch, and that of the tester.

    A port in `taps` gets a tap device for a QEMU guest instead, which is returned as both.
    """
    clean()
    journal = Journal()
    tag = f"ptf{os.getpid()}"
    pairs = {port: (f"{tag}s{port}", f"{tag}{'s' if port in taps else 't'}{port}") for port in ports}
    try:
        for port, ends in pairs.items():
            journal.interfaces(list(ends))
            if port in taps:
                make_tap(ends[0], MTU)
            else:
                make_pair([(end, os.getpid(), None) for end in ends], MTU, list(ends))
            for end in ends:
                subprocess.run(["ip", "link", "set", "dev", end, "up"], check=True)
        yield pairs
    except NetworkError as error:
        raise RunError(str(error)) from error
    finally:
        journal.close()


@dataclass(frozen=True)
class LiveSwitch:
    """A running switch, which serves P4Runtime at an address."""

    address: str
    child: Child

    def check(self) -> None:
        """Raise an error if the switch has ended."""
        if ended := self.child.ended():
            msg = f"the switch {ended} during the tests; see {self.child.log}"
            raise RunError(msg)


@contextmanager
def switch(
    executable: Sequence[str],
    work: Path,
    pairs: dict[int, tuple[str, str]],
    *,
    log: bool = True,
    target: Sequence[str] = (),
) -> Iterator[str]:
    """Start `alfirk switch` or BMv2's simple_switch_grpc; yield its P4Runtime address when it serves."""
    with live_switch(executable, work, pairs, log=log, target=target) as live:
        yield live.address


@contextmanager
def live_switch(
    executable: Sequence[str],
    work: Path,
    pairs: dict[int, tuple[str, str]],
    *,
    log: bool = True,
    target: Sequence[str] = (),
    address: str = "",
    bfrt: Sequence[str] = (),
    device_id: int = DEVICE_ID,
    cpu_port: int = CPU_PORT,
) -> Iterator[LiveSwitch]:
    """Start a switch as `switch` does; yield it when it serves.

    Without `address`, it serves at a port that is not used. `bfrt`: arguments with which it also serves
    BfRuntime, the program among them; without, it starts without a program.
    """
    address = address or f"127.0.0.1:{free_port()}"
    # By default each step of each packet is logged, which takes longer than processing it.
    logging = ["--log-console", "-L", "info"] if log else []
    command = [*executable, "--device-id", str(device_id), *(bfrt or ["--no-p4"]), *logging]
    for port, ends in pairs.items():
        command += ["-i", f"{port}@{ends[0]}"]
    command += ["--", "--grpc-server-addr", address, "--cpu-port", str(cpu_port), *target]
    child = Child.spawn("the switch", command, work / SWITCH_LOG)
    try:
        wait_for(address, child)
        live = LiveSwitch(address, child)
        yield live
        live.check()
    finally:
        stop_all([child])


def wait_for(address: str, child: Child) -> None:
    """Wait until the switch serves P4Runtime.

    A gRPC channel retries only after a second, so it is created when the server listens.
    """
    deadline = time.monotonic() + START_LIMIT
    host, _, port = address.rpartition(":")
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                break
        _still_starting(child, deadline)
        time.sleep(0.01)
    with grpc.insecure_channel(address) as channel:
        ready = grpc.channel_ready_future(channel)
        while True:
            try:
                ready.result(timeout=0.05)
            except grpc.FutureTimeoutError:
                _still_starting(child, deadline)
            else:
                return


def _still_starting(child: Child, deadline: float) -> None:
    if ended := child.ended():
        msg = f"the switch {ended}: {child.last_lines()}"
        raise RunError(msg)
    if time.monotonic() > deadline:
        msg = f"the switch did not serve P4Runtime within {START_LIMIT:.0f} s; see {child.log}"
        raise RunError(msg)


def free_port() -> int:
    """Find an unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
