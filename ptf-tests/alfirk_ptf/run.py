"""``ptf-tests/run``: starts a switch on veth pairs, runs PTF against it, and takes all down."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import grpc
from alfirk_mininet.errors import NetworkError
from alfirk_mininet.interfaces import make_pair
from alfirk_mininet.journal import Journal, clean
from alfirk_mininet.process import Child, stop_all

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PTF = Path(sys.executable).with_name("ptf")
PORTS = (1, 2, 3, 4)
DEVICE_ID = 1
CPU_PORT = 510
#: Largest IP packet on the veth pairs.
MTU = 4200
#: Seconds that the switch has to answer.
START_LIMIT = 30.0


class RunError(Exception):
    """Something that keeps the tests from being run."""


def main() -> int:
    """Run the command line; 0 when all tests passed, 1 when not, 2 when they could not be run."""
    parser = argparse.ArgumentParser(prog="ptf-tests/run", description=__doc__)
    parser.add_argument(
        "--alfirk",
        type=Path,
        default=Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk")),
        help="the alfirk command, which compiles the program (default: %(default)s)",
    )
    parser.add_argument(
        "--switch",
        default=os.environ.get("SIMPLE_SWITCH_GRPC"),
        metavar="EXE",
        help="test this simple_switch_grpc instead of `alfirk switch` (or set SIMPLE_SWITCH_GRPC)",
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="JSON",
        help="take this compiled program, with its .p4info.txtpb beside it, instead of compiling",
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and captures of a good run too")
    parser.add_argument("tests", nargs="*", help="modules or module.Class of cases/ (default: all)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    work = Path(tempfile.mkdtemp(prefix="alfirk-ptf-"))
    failed = True
    try:
        code = run(options, work)
        failed = code != 0
    except RunError as problem:
        sys.stderr.write(f"ptf-tests/run: {problem}\n")
        code = 2
    finally:
        if failed or options.keep:
            sys.stderr.write(f"logs and captures are in {work}\n")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return code


def run(options: argparse.Namespace, work: Path) -> int:
    """Run the tests with everything in place."""
    if os.geteuid() != 0:
        msg = "veth pairs need root: run it with sudo"
        raise RunError(msg)
    program = options.program or compile_program(options.alfirk, work)
    with veth_pairs() as pairs, switch(options, work, pairs) as address:
        parameters = {
            "grpc": address,
            "device_id": DEVICE_ID,
            "program": str(program),
            "p4info": str(program.with_suffix(".p4info.txtpb")),
        }
        command = [
            *(sys.executable, str(PTF), "--test-dir", str(ROOT / "ptf-tests" / "cases")),
            *("--platform", "eth", "--log-file", str(work / "ptf.log"), "--socket-recv-size", "10240"),
            *("--qlen", "1000", "--test-case-timeout", "60"),
            *(f"--interface={port}@{tester}" for port, (_, tester) in pairs.items()),
            *("--test-params", ";".join(f"{name}={value!r}" for name, value in parameters.items())),
            *options.tests,
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work, check=False
        )
    sys.stdout.write(done.stdout)
    return summarise(done.stdout, done.returncode)


def summarise(output: str, returncode: int) -> int:
    """Print the last line; return the exit code."""
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests?", output, re.MULTILINE))
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", output))
    if returncode and not bad:
        bad = 1
    sys.stdout.write(f"{max(0, ran - bad)} passed, {bad} failed\n")
    return 1 if bad or not ran else 0


def compile_program(alfirk: Path, work: Path) -> Path:
    """Compile p4src with our compiler."""
    program = work / "main.json"
    command = [
        *(str(alfirk), "p4c", str(ROOT / "p4src" / "v1model" / "main.p4"), "-o", str(program)),
        *("--p4runtime-files", str(program.with_suffix(".p4info.txtpb"))),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        msg = f"cannot run {alfirk}: {error.strerror}; build it: make build"
        raise RunError(msg) from error
    if done.returncode:
        msg = f"p4src does not compile:\n{done.stderr}"
        raise RunError(msg)
    return program


@contextmanager
def veth_pairs() -> Iterator[dict[int, tuple[str, str]]]:
    """Make a pair for each port: the switch's end and the tester's."""
    clean()
    journal = Journal()
    tag = f"ptf{os.getpid()}"
    pairs = {port: (f"{tag}s{port}", f"{tag}t{port}") for port in PORTS}
    try:
        for ends in pairs.values():
            journal.interfaces(list(ends))
            make_pair([(end, os.getpid(), None) for end in ends], MTU, list(ends))
            for end in ends:
                subprocess.run(["ip", "link", "set", "dev", end, "up"], check=True)
        yield pairs
    except NetworkError as error:
        raise RunError(str(error)) from error
    finally:
        journal.close()


@contextmanager
def switch(options: argparse.Namespace, work: Path, pairs: dict[int, tuple[str, str]]) -> Iterator[str]:
    """Start the switch and wait until it serves P4Runtime."""
    address = f"127.0.0.1:{free_port()}"
    command = [options.switch] if options.switch else [str(options.alfirk), "switch"]
    command += ["--device-id", str(DEVICE_ID), "--no-p4", "--log-console"]
    for port, ends in pairs.items():
        command += ["-i", f"{port}@{ends[0]}"]
    command += ["--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]
    child = Child.spawn("the switch", command, work / "switch.log")
    try:
        wait_for(address, child)
        yield address
        if ended := child.ended():
            msg = f"the switch {ended} during the tests; see {child.log}"
            raise RunError(msg)
    finally:
        stop_all([child])


def wait_for(address: str, child: Child) -> None:
    """Wait until the switch serves P4Runtime."""
    deadline = time.monotonic() + START_LIMIT
    with grpc.insecure_channel(address) as channel:
        ready = grpc.channel_ready_future(channel)
        while True:
            try:
                ready.result(timeout=0.05)
            except grpc.FutureTimeoutError:
                pass
            else:
                return
            if ended := child.ended():
                msg = f"the switch {ended}: {child.last_lines()}"
                raise RunError(msg)
            if time.monotonic() > deadline:
                msg = f"the switch did not answer within {START_LIMIT:.0f} s; see {child.log}"
                raise RunError(msg)


def free_port() -> int:
    """Find a port of the loopback interface that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(*_: object) -> NoReturn:
    sys.exit(130)


if __name__ == "__main__":
    sys.exit(main())
