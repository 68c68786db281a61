"""Runs PTF tests against a live switch: the part that all packet tests share, whatever their program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alfirk_ptf.live import CPU_PORT, DEVICE_ID, SWITCH_LOG, LiveSwitch, RunError, live_switch, veth_pairs
from alfirk_ptf.p4runtime import Client, P4RuntimeError
from alfirk_ptf.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Folder of PTF's platform that reports failures, and its name.
PLATFORM = Path(__file__).with_name("platform")
PLATFORM_NAME = "alfirk_veth"
#: Name of PTF's log.
PTF_LOG = "ptf.log"
#: Seconds between checks that the switch runs, during the tests.
_CHECK_INTERVAL = 0.2


@dataclass(frozen=True)
class Run:
    """PTF tests of one program."""

    #: BMv2 JSON of the program, and its P4Info.
    program: Path
    p4info: Path
    #: Folder with the test modules.
    folder: Path
    #: Modules, or module.Class; empty for all.
    tests: Sequence[str]
    ports: Sequence[int]
    #: Command line of the switch: `alfirk switch` with flags, or another simple_switch_grpc.
    switch: Sequence[str]
    #: Flags of the switch after its `--`.
    target: Sequence[str] = ()
    #: P4Runtime address; empty for one with an unused port.
    address: str = ""
    #: Schema of the program (bf-rt.json) if the switch shall serve BfRuntime, and the address.
    bf_rt_schema: Path | None = None
    bfrt_address: str = ""
    device_id: int = DEVICE_ID
    cpu_port: int = CPU_PORT
    #: The alfirk command, for tests and for comparisons of packets.
    alfirk: Path | None = None
    #: Whether the switch prints traces, by a flag in its command line.
    has_trace: bool = False
    #: Test parameters beside the usual ones.
    parameters: Mapping[str, object] = field(default_factory=dict)
    #: Environment variables of PTF beside those of this process.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Working directory of PTF; that of the logs if it is `None`.
    directory: Path | None = None
    #: Seconds after which a test fails.
    time_limit: int = 60


def ptf_command() -> str:
    """Find the command of the package ptf: beside this Python, or on the PATH."""
    beside = Path(sys.executable).with_name("ptf")
    found = str(beside) if beside.is_file() else shutil.which("ptf")
    if found is None:
        msg = f"{sys.executable} has no command ptf: pip install ptf"
        raise RunError(msg)
    return found


def run_ptf(run: Run, work: Path) -> Counter[str]:
    """Start a switch, and run the tests; return the numbers of `passed`, `failed` and `skipped` ones.

    PTF's report goes to standard output, logs go to the folder `work`.
    """
    with (
        veth_pairs(run.ports) as pairs,
        live_switch(
            run.switch,
            work,
            pairs,
            log=not run.has_trace,
            target=run.target,
            address=run.address,
            bfrt=bfrt_arguments(run),
            device_id=run.device_id,
            cpu_port=run.cpu_port,
        ) as live,
    ):
        load(run, live.address)
        settings = Settings(
            alfirk=str(run.alfirk or ""),
            program=str(run.program),
            trace=str(work / SWITCH_LOG) if run.has_trace else "",
            results=str(work / "results.json"),
        )
        parameters = {
            "grpcaddr": live.address,
            "device_id": run.device_id,
            "config": str(run.program),
            "p4info": str(run.p4info),
            "cpu_port": run.cpu_port,
            **({"bfrtaddr": run.bfrt_address} if run.bf_rt_schema else {}),
            **run.parameters,
        }
        command = [
            *(sys.executable, "-B", ptf_command(), "--test-dir", str(run.folder)),
            *("--platform-dir", str(PLATFORM), "--platform", PLATFORM_NAME),
            *("--platform-args", settings.text()),
            *("--log-file", str(work / PTF_LOG), "--socket-recv-size", "10240"),
            *("--qlen", "1000", "--test-case-timeout", str(run.time_limit)),
            *(f"--interface={port}@{tester}" for port, (_, tester) in pairs.items()),
            *("--test-params", ";".join(f"{name}={value!r}" for name, value in parameters.items())),
            *run.tests,
        ]
        code = _run_to_end(command, run.directory or work, {**os.environ, **run.environment}, live)
        return _results(Path(settings.results), code)


def coverage_flags(file: Path | None) -> list[str]:
    """Return the flags with which `alfirk switch` adds the coverage of its program to an LCOV file."""
    return ["--coverage", str(file.absolute())] if file else []


def bfrt_arguments(run: Run) -> list[str]:
    """Return the arguments with which `alfirk switch` serves BfRuntime; none without a schema."""
    if run.bf_rt_schema is None:
        return []
    schema = ["--bf-rt-schema", str(run.bf_rt_schema)]
    return ["--bfrt-server-addr", run.bfrt_address, *schema, str(run.program)]


def load(run: Run, address: str) -> None:
    """Load the program, for tests that expect a switch with a pipeline."""
    try:
        client = Client(address, run.device_id, run.p4info)
        try:
            client.push(run.program)
        finally:
            client.close()
    except P4RuntimeError as error:
        msg = f"the switch does not accept {run.program.name}: {error}"
        raise RunError(msg) from error


def _run_to_end(command: list[str], directory: Path, environment: Mapping[str, str], live: LiveSwitch) -> int:
    """Run PTF; it is killed if the switch ends, and by the kernel if this process ends."""
    sys.stdout.flush()
    ptf = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env=environment,
    )
    try:
        code = None
        while code is None:
            try:
                code = ptf.wait(_CHECK_INTERVAL)
            except subprocess.TimeoutExpired:
                live.check()
        if code == -signal.SIGINT:
            # Ctrl-C goes to all processes of the terminal, and has reached PTF first.
            raise KeyboardInterrupt
        return code
    finally:
        if ptf.poll() is None:
            ptf.kill()
            ptf.wait()


def _results(path: Path, code: int) -> Counter[str]:
    if not path.is_file():
        msg = f"PTF ended before it had run the tests (exit code {code})"
        raise RunError(msg)
    return Counter(json.loads(path.read_text(encoding="utf-8")))


def summarise(outcomes: Counter[str], why_skipped: str = "") -> int:
    """Print the numbers of passed, failed and skipped tests; return the exit code, 1 if none passed."""
    if outcomes["skipped"]:
        sys.stdout.write(f"{outcomes['skipped']} skipped{why_skipped}\n")
    sys.stdout.write(f"{outcomes['passed']} passed, {outcomes['failed']} failed\n")
    return 1 if outcomes["failed"] or not outcomes["passed"] else 0


def in_work_folder(command: str, body: Callable[[Path], int], *, keep: bool) -> int:
    """Run a command with a folder for logs and captures; return its exit code.

    The folder is removed if all tests passed. SIGTERM and SIGHUP end the command as Ctrl-C does, with exit
    code 130.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    work = Path(tempfile.mkdtemp(prefix="alfirk-ptf-"))
    code = 130
    try:
        code = body(work)
    except (RunError, OSError) as problem:
        sys.stderr.write(f"{command}: {problem}\n")
        code = 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{command}: interrupted\n")
    finally:
        # An error before the tests is explained by its message.
        if keep or code == 1 or (code == 2 and any(work.rglob(PTF_LOG))):
            sys.stderr.write(f"logs and captures are in {work}\n")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return code


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt
