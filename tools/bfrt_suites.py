"""Runs the BfRuntime test suites of a checkout of p4lang/open-p4studio against `alfirk switch`.

Needs root, for a network namespace, and the packages ptf, grpcio-tools, scapy and thrift. If the command
`thrift` is installed, suites can import the types of the driver's Thrift services. Nothing of the checkout is
changed. A suite is a folder with `test.py`. It runs on the program of the folder, or on the first one that it
names. The table that is printed has a row for each suite: numbers of test classes that pass and fail, and the
reason of each failure below it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from checks import stop_by_signal

PROGRAMS = "pkgsrc/p4-examples/p4_16_programs"
CLIENT = "pkgsrc/bf-drivers/src/bf_rt/bfruntime_grpc_client/python"
PROTO = "pkgsrc/bf-drivers/src/bf_rt/proto/bfruntime.proto"
UTILITIES = "pkgsrc/ptf-modules/ptf-utils"
THRIFT = "pkgsrc/bf-drivers/pdfixed_thrift/thrift"
PORT = 50052
# How suites name programs that they load.
PROGRAM_NAME = re.compile(r'"(\w+)"')
# Suites take samples of sets, which Python accepts up to version 3.10.
SAMPLE_OF_SETS = """import random

_sample = random.Random.sample


def sample(self, population, *args, **kwargs):
    return _sample(self, list(population), *args, **kwargs)


random.Random.sample = sample
random.sample = random._inst.sample
"""
# Folder with the compiled programs, where suites that load them look for them.
SHARE = "share"
# Ports of the switch besides those that a suite names.
PORTS = range(16)
# Suites that choose more port numbers than a pipe has. They need no interface for the others.
PIPES = {"tna_port_metadata": 2}
# How PTF reports a test class, and the last line of an exception.
RESULT = re.compile(r"^test\.(\w+)(?: \.\.\.)? ?.*?(ok|FAIL|ERROR|skipped.*)$", re.S | re.M)
FAILURE = re.compile(r"^(?:FAIL|ERROR): test\.(\w+)\n.*?^-+\n(.*?)(?=^=+$|^-+$)", re.S | re.M)


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(*command: str, check: bool = True) -> None:
    """Run a command without output."""
    subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def prepare(checkout: Path, folder: Path) -> None:
    """Fill a folder with the Python packages that the suites import."""
    package = folder / "bfrt_grpc"
    package.mkdir()
    for file in ("client.py", "info_parse.py"):
        shutil.copy(checkout / CLIENT / file, package / file)
    (package / "__init__.py").touch()
    # Packages that only this tool needs.
    rpc = importlib.import_module("google.rpc")
    protoc = importlib.import_module("grpc_tools.protoc")
    includes = [str(Path(path).parent.parent) for path in rpc.__path__]
    includes.append(str(Path(protoc.__file__ or "").parent / "_proto"))
    proto = folder / "proto" / "bfrt_grpc"
    proto.mkdir(parents=True)
    shutil.copy(checkout / PROTO, proto / "bfruntime.proto")
    flags = [f"-I{folder / 'proto'}", *(f"-I{path}" for path in includes)]
    flags += [f"--python_out={folder}", f"--grpc_python_out={folder}", "bfrt_grpc/bfruntime.proto"]
    if protoc.main(["protoc", *flags]):
        sys.exit("protoc fails")
    stub = package / "bfruntime_pb2_grpc.py"
    # The client takes the messages from the module of the service, by the name of older versions of protoc.
    stub.write_text(stub.read_text().replace("bfrt__grpc_dot_bfruntime__pb2", "bfruntime__pb2"))
    (folder / "p4testutils").symlink_to(checkout / UTILITIES)
    (folder / "sitecustomize.py").write_text(SAMPLE_OF_SETS)
    if shutil.which("thrift"):
        for service in sorted((checkout / THRIFT).glob("*.thrift")):
            run("thrift", "--gen", "py", "--out", str(folder), str(service), check=False)


@contextlib.contextmanager
def network(ports: list[int]) -> Iterator[str]:
    """Create a namespace with a pair of interfaces for each port."""
    name = f"bfrt{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for port in ports:
            pair = f"link add sw{port} type veth peer name ptf{port}"
            run("ip", "-n", name, *pair.split())
            for end in ("sw", "ptf"):
                run("ip", "-n", name, "link", "set", f"{end}{port}", "mtu", "9100", "up")
        yield name
    finally:
        run("ip", "netns", "del", name, check=False)


def ports_of(suite: Path) -> list[int]:
    """Return the ports of a suite: those of the first pipe that it names, and PORTS."""
    file = suite / "ports.json"
    pairs = json.loads(file.read_text()).get("PortToVeth", []) if file.exists() else []
    return sorted({pair["device_port"] for pair in pairs if pair["device_port"] < 64} | set(PORTS))


def programs_of(suite: Path) -> list[Path]:
    """Return the programs of a suite, the one that the switch starts with first."""
    own = suite / f"{suite.name}.p4"
    if own.exists():
        return [own]
    programs = next(parent for parent in suite.parents if str(parent).endswith(PROGRAMS))
    names = set(PROGRAM_NAME.findall((suite / "test.py").read_text()))
    return [program for program in sorted(programs.rglob("*.p4")) if program.stem in names]


def suites_of(programs: Path) -> list[Path]:
    """Return the folders with a test, without those whose programs are not found."""
    folders = sorted(file.parent for file in [*programs.glob("*/test.py"), *programs.glob("*/*/test.py")])
    return [folder for folder in folders if programs_of(folder)]


def compile_program(alfirk: str, program: Path, base: Path) -> str | None:
    """Compile a program to where suites that load it look for it; return the error, if there is one."""
    name = program.stem
    profile = base / name / "pipe"
    profile.mkdir(parents=True)
    arch = "t2na" if name.startswith("t2na") else "tna"
    output = [f"-o={base / name / name}.json", f"--bf-rt-schema={base / name / 'bf-rt.json'}"]
    command = [*alfirk.split(), "p4c", "--arch", arch, *output, str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return next((line for line in result.stderr.splitlines() if line.startswith("error")), "p4c fails")
    (profile / "context.json").write_text("{}")
    for chip in ("tofino", "tofino2"):
        shutil.copy(base / name / f"{name}.json", profile / f"{chip}.bin")
    return None


def wait_for(log: Path, text: str, seconds: float) -> bool:
    """Wait until a file contains a text."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if text in log.read_text():
            return True
        time.sleep(0.1)
    return False


class SwitchError(Exception):
    """The switch does not start."""


@contextlib.contextmanager
def running_switch(
    command: list[str], ports: list[int], program: Path, log: Path, seconds: float
) -> Iterator[list[str]]:
    """Run `alfirk switch` in a namespace of its own; yield the words that run a command there.

    `ports` have interfaces, `program` is JSON, and `log` gets the output. Raises SwitchError if the server
    is not ready after `seconds`.
    """
    with network(ports) as name:
        enter = ["ip", "netns", "exec", name]
        interfaces = [word for port in ports for word in ("-i", f"{port}@sw{port}")]
        switch = [*enter, *command, *interfaces, "--bfrt-server-addr", f"127.0.0.1:{PORT}", str(program)]
        with log.open("w") as output:
            process = subprocess.Popen(switch, stdout=output, stderr=output)
        try:
            if not wait_for(log, "Server listening on", seconds):
                raise SwitchError(f"the switch does not start: {log.read_text()[-300:]}")
            yield enter
        finally:
            process.terminate()
            process.wait()


def ptf_command(
    args: argparse.Namespace, suite: Path, ports: list[int], paths: list[str], folder: Path
) -> list[str]:
    """Return the command that runs a suite, whose programs are in `folder`."""
    kinds = {
        "arch": "tofino2" if suite.name.startswith("t2na") else "tofino",
        "target": "asic-model",
        "use_pi": "False",
        "traffic_gen": "None",
        "test_seed": str(args.seed),
        "num_pipes": str(PIPES.get(suite.name, 1)),
        "pkt_size": "100",
        "port_mode": "100g",
        "counter_byte_adjust": "0",
        "p4c": "",
        "thrift_server": "localhost",
        "grpc_server": "127.0.0.1",
        "bfrt_grpc_port": str(PORT),
        "drivers_test_info": "None",
        "reboot": "none",
        "base_pick_path": str(folder / SHARE),
        "base_put_path": str(folder),
    }
    params = "".join(f"{key}='{value}';" for key, value in kinds.items())
    # PTF finds the suite by its module name, and the suites in the programs' folder share it.
    interfaces = [word for port in ports for word in ("-i", f"0-{port}@ptf{port}")]
    ptf = [sys.executable, shutil.which("ptf", path=args.path) or "ptf", "--test-dir", str(suite)]
    ptf += [word for path in paths for word in ("--pypath", path)]
    ptf += [*interfaces, "--test-params", f"{params}setup=False;cleanup=False;"]
    return [*ptf, "--default-negative-timeout", "0.2", "--log-file", str(folder / "ptf.log"), *args.classes]


def output_of(command: list[str], paths: list[str], folder: Path, seconds: float) -> str:
    """Run a suite in a folder for at most `seconds`; return its output."""
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        text, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        text, _ = child.communicate()
        return text + "\n(time limit)"
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    return text


def run_suite(args: argparse.Namespace, suite: Path, python: Path) -> tuple[dict[str, str], str]:
    """Run a suite; return the result of each class, and PTF's output or the reason why it did not run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        base = folder / SHARE
        programs = programs_of(suite)
        errors = [compile_program(args.compiler, program, base) for program in programs]
        if errors[0]:
            return {}, errors[0]
        first = base / programs[0].stem / f"{programs[0].stem}.json"
        ports, log = ports_of(suite), folder / "switch.log"
        paths = [str(python), str(python / "p4testutils")]
        try:
            with running_switch(args.switch.split(), ports, first, log, args.seconds) as enter:
                command = [*enter, *ptf_command(args, suite, ports, paths, folder)]
                text = output_of(command, paths, folder, args.seconds)
                if args.verbose:
                    text += log.read_text()
        except SwitchError as error:
            return {}, str(error)
    results = {match.group(1): match.group(2).split()[0] for match in RESULT.finditer(text)}
    return results, text


def main() -> int:
    """Run the suites and print their results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="checkout of open-p4studio")
    parser.add_argument("--alfirk", default="alfirk", help="the alfirk command")
    parser.add_argument("--only", nargs="*", default=[], help="names of suites")
    parser.add_argument("--classes", nargs="*", default=[], help="test classes, such as test.ExactMatchTest")
    parser.add_argument("--seconds", type=float, default=300, help="time limit of a suite")
    parser.add_argument("--seed", type=int, default=1, help="seed of the suites' random numbers")
    parser.add_argument("--output", type=Path, help="folder for the output of the suites")
    parser.add_argument("--verbose", action="store_true", help="add the log of the switch to the output")
    args = parser.parse_args()
    stop_by_signal()
    args.compiler, args.switch = args.alfirk, f"{args.alfirk} switch"
    args.path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    total = [0, 0]
    with tempfile.TemporaryDirectory() as temporary:
        python = Path(temporary)
        prepare(args.checkout.resolve(), python)
        for suite in suites_of(args.checkout.resolve() / PROGRAMS):
            if args.only and suite.name not in args.only:
                continue
            results, text = run_suite(args, suite, python)
            if args.output:
                args.output.mkdir(parents=True, exist_ok=True)
                (args.output / f"{suite.name}.txt").write_text(text)
            passed = sum(result == "ok" for result in results.values())
            total = [total[0] + passed, total[1] + len(results) - passed]
            show(f"{suite.name}: {passed} pass, {len(results) - passed} fail")
            if not results:
                show(f"  {text.strip().splitlines()[-1] if text.strip() else 'no output'}")
            for match in FAILURE.finditer(text):
                lines = match.group(2).strip().splitlines()
                show(f"  {match.group(1)}: {lines[-1] if lines else ''}")
    show(f"all: {total[0]} pass, {total[1]} fail")
    return int(total[1] > 0)


if __name__ == "__main__":
    sys.exit(main())
