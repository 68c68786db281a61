"""Runs the exercises of p4lang/tutorials, unchanged, with the wheel, as `make tutorials TUTORIALS=FOLDER`.

For each exercise: its solution takes the place of the starter code, as a student's work does; `make run` of
the exercise starts Mininet; commands of its README follow at Mininet's prompt, and their output is checked.
The wheel is installed in a new virtual environment. Needs root, Debian's Mininet with some more packages, and
a checkout of https://github.com/p4lang/tutorials, which is not changed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "mininet> "
KEY_SECONDS = 0.05
#: Set in the process that runs in namespaces of its own.
APART_VARIABLE = "ALFIRK_TUTORIALS_APART"
#: Python packages that exercises import, beside those that the wheel brings.
PACKAGES = ("pexpect", "psutil", "p4runtime-shell")
#: Debian packages that exercises need, each with a file of it.
DEBIAN = {
    "/usr/bin/mn": "mininet",
    "/usr/bin/make": "make",
    "/usr/bin/sudo": "sudo",
    "/usr/bin/iperf": "iperf",
    "/usr/sbin/route": "net-tools",
    "/usr/sbin/ethtool": "ethtool",
    "/usr/lib/python3.11/ensurepip/__init__.py": "python3-venv",
}


@dataclass(frozen=True)
class Step:
    """A command, and what is expected of it."""

    command: str
    #: Regular expression that the command's output has to match, or that of a file within `seconds`.
    expected: str = ""
    #: A file in the exercise's folder to look into instead of the output.
    file: str = ""
    #: Lines to type into the running command, each after this prompt of it.
    typed: tuple[str, ...] = ()
    asks: str = "> "
    #: The command runs outside Mininet and goes on beside the next steps.
    outside: bool = False
    seconds: float = 60


def receiver(host: str) -> Step:
    """Start the exercise's receiver, which sniffs on a host, and wait until it does."""
    return Step(f"{host} python3 -u receive.py > {host}.log 2>&1 &", "sniffing", file=f"{host}.log")


def iperf_server(host: str) -> Step:
    """Start an iperf server on a host, and wait until it listens."""
    return Step(f"{host} iperf -s > {host}.log 2>&1 &", "listening", file=f"{host}.log")


#: A flow that fills the queue of the link between the switches, for 15 s.
CONGESTION = (Step("h22 iperf -s -u &"), Step("h11 iperf -c 10.0.2.22 -t 15 -u > /dev/null &"))


NO_LOSS = r"\b0% dropped"
PING_WORKS = r"3 received, 0% packet loss"
#: Mininet's own `iperf` waits for ever with Debian 12's iperf, which reports no connection without data.
EXERCISES: dict[str, list[Step]] = {
    "basic": [Step("pingall", NO_LOSS)],
    "basic_tunnel": [
        receiver("h2"),
        receiver("h3"),
        Step('h1 python3 send.py 10.0.2.2 "routed"', r"b?'routed'", file="h2.log"),
        # The tunnel decides, not the IP address.
        Step('h1 python3 send.py 10.0.3.3 "tunnelled" --dst_id 2', r"b?'tunnelled'", file="h2.log"),
    ],
    "calc": [Step("h1 python3 calc.py", r"\b42\b[\s\S]*\b6\b", typed=("40+2", "7&14", "quit"))],
    "ecn": [
        receiver("h2"),
        *CONGESTION,
        Step('h1 python3 send.py 10.0.2.2 "P4 is cool" 12', r"tos\s+= 0x3", file="h2.log"),
    ],
    "firewall": [
        *map(iperf_server, ("h1", "h2", "h3")),
        Step("h1 iperf -c 10.0.2.2 -t 1", r"bits/sec"),
        Step("h1 iperf -c 10.0.3.3 -t 1", r"bits/sec"),
        # A connection from outside gets no answer.
        Step("h3 timeout -k 1 5 iperf -c 10.0.1.1 -t 1; echo exit code $?", r"exit code 1|failed"),
    ],
    "flowcache": [
        Step(
            "python3 -u mycontroller.py > controller.log 2>&1",
            "SEND_TO_PORT",
            file="controller.log",
            outside=True,
        ),
        # The first packet of a flow goes to the controller, and is lost. An idle flow's entry expires.
        Step("h1 ping -c 4 -W 1 10.0.2.2", r"[2-4] received"),
    ],
    "link_monitor": [
        receiver("h1"),
        Step("h1 python3 send.py > /dev/null 2>&1 &", r"Switch \d+ - Port \d+: \d", file="h1.log"),
        iperf_server("h4"),
        Step("h1 iperf -c 10.0.4.4 -t 2", r"bits/sec"),
        Step("sh cat h1.log", r"Switch \d+ - Port \d+: [1-9]"),
    ],
    "load_balance": [
        receiver("h2"),
        receiver("h3"),
        *[Step('h1 python3 send.py 10.0.0.1 "balanced"', "balanced|load")] * 8,
        Step("sh sleep 1"),
        Step("sh grep -c balanced h2.log", r"[1-8]\r?\n"),
        Step("sh grep -c balanced h3.log", r"[1-8]\r?\n"),
    ],
    "mri": [
        receiver("h2"),
        *CONGESTION,
        Step(
            'h1 python3 send.py 10.0.2.2 "P4 is cool" 12', r"swid\s+= 1[\s\S]*qdepth\s+= [1-9]", file="h2.log"
        ),
    ],
    "multicast": [
        Step("h1 ping -c 3 h2", PING_WORKS),
        Step("h2 ping -c 3 h3", PING_WORKS),
        Step("h1 ping -c 3 -W 1 h4", "100% packet loss"),
    ],
    "p4runtime": [
        Step(
            "python3 mycontroller.py > controller.log 2>&1",
            "Installed P4 Program",
            file="controller.log",
            outside=True,
        ),
        Step("sh sleep 3"),
        Step("h1 ping -c 3 h2", PING_WORKS),
        Step("sh cat controller.log", r"ingressTunnelCounter \d+: [1-9]\d* packets"),
    ],
    "qos": [
        receiver("h2"),
        Step("h1 python3 send.py --p=UDP --des=10.0.2.2 --m=cool --dur=2", r"tos\s+= 0xb9", file="h2.log"),
        Step("h1 python3 send.py --p=TCP --des=10.0.2.2 --m=cool --dur=2", r"tos\s+= 0xb1", file="h2.log"),
    ],
    "source_routing": [
        receiver("h2"),
        Step("h1 python3 send.py 10.0.2.2", asks="quit: ", typed=("2 3 2 2 1", "q")),
        Step("sh sleep 1"),
        # Each of the five hops has decremented the TTL.
        Step("sh cat h2.log", r"ttl\s+= 59"),
    ],
}


class ExerciseError(Exception):
    """An exercise that does not do what its README says."""


def prepare(tutorials: Path, name: str, folder: Path) -> Path:
    """Copy the exercises, and put the solution of one in place; return its folder."""
    shutil.copytree(tutorials / "utils", folder / "utils", dirs_exist_ok=True)
    exercise = folder / "exercises" / name
    shutil.copytree(tutorials / "exercises" / name, exercise)
    solution = exercise / "solution"
    for path in [*solution.glob("*.p4"), *solution.glob("*.py")]:
        same = [old for old in exercise.rglob(path.name) if solution not in old.parents]
        (same[0] if same else exercise / path.name).write_bytes(path.read_bytes())
    return exercise


def wait_for(path: Path, expected: str, seconds: float) -> None:
    """Wait until a file's contents match."""
    end = time.monotonic() + seconds
    text = ""
    while time.monotonic() < end:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if re.search(expected, text):
            return
        time.sleep(0.05)
    message = f"{path.name} has no match for {expected!r} after {seconds:g} s:\n{text[-2000:]}"
    raise ExerciseError(message)


def run(exercise: Path, steps: list[Step]) -> float:
    """Run one exercise; return the seconds from `make run` to Mininet's prompt."""
    import pexpect  # noqa: PLC0415  (installed by this script)

    begin = time.monotonic()
    with (exercise / "mininet.log").open("w", encoding="utf-8") as log:
        shell = pexpect.spawn(
            "make", ["run"], cwd=str(exercise), encoding="utf-8", timeout=60, logfile=log, echo=False
        )
        beside: list[subprocess.Popen[bytes]] = []
        try:
            shell.expect_exact(PROMPT)
            started = time.monotonic() - begin
            for step in steps:
                output = ""
                if step.outside:
                    beside.append(subprocess.Popen(["sh", "-c", f"exec {step.command}"], cwd=exercise))
                else:
                    shell.sendline(step.command)
                    for line in step.typed:
                        shell.expect_exact(step.asks)
                        output += shell.before
                        # Mininet passes one key at a time to the command.
                        for key in f"{line}\n":
                            shell.send(key)
                            time.sleep(KEY_SECONDS)
                    shell.expect_exact(PROMPT, timeout=step.seconds)
                    output += shell.before
                if step.file:
                    wait_for(exercise / step.file, step.expected, step.seconds)
                elif not step.outside and not re.search(step.expected, output):
                    message = f"{step.command}: no match for {step.expected!r} in\n{output}"
                    raise ExerciseError(message)
            shell.sendline("exit")
            shell.expect(pexpect.EOF)
        except pexpect.ExceptionPexpect as error:
            message = f"Mininet gave no prompt: {type(error).__name__}\n{(shell.before or '')[-3000:]}"
            raise ExerciseError(message) from error
        finally:
            for process in beside:
                process.kill()
                process.wait()
            shell.close(force=True)
            subprocess.run(["mn", "-c"], capture_output=True, check=False)
    return started


def missing() -> list[str]:
    """List the Debian packages that are missing."""
    return [package for path, package in DEBIAN.items() if not Path(path).exists()]


def install(folder: Path) -> Path:
    """Install the wheel, and what exercises import, in a new environment; return its commands' folder."""
    wheels = sorted(ROOT.glob("target/dist/alfirk-*.whl"))
    if not wheels:
        raise SystemExit("no wheel in target/dist: make wheel")
    # Debian's Python, which has Debian's Mininet.
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    begin = time.monotonic()
    subprocess.run([*pip, str(wheels[-1]), *PACKAGES], check=True)
    sys.stdout.write(f"wheel: installed in {time.monotonic() - begin:.1f} s\n")
    return folder / "bin"


def run_all(tutorials: Path, names: list[str]) -> int:
    """Run exercises one after another in the namespaces of this process; return the exit code."""
    failed = 0
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="alfirk-tutorials-") as work:
            try:
                started = run(prepare(tutorials, name, Path(work)), EXERCISES[name])
            except ExerciseError as error:
                failed += 1
                sys.stdout.write(f"{name}: failed: {error}\n")
            else:
                whole = time.monotonic() - begin
                sys.stdout.write(f"{name}: ok; prompt after {started:.1f} s, all after {whole:.1f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(names) - failed} passed, {failed} failed\n")
    return min(failed, 1)


def main() -> int:
    """Install the wheel, and run the exercises."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tutorials", type=Path, help="folder with a checkout of p4lang/tutorials")
    parser.add_argument("exercises", nargs="*", help="names of exercises; default: all")
    parser.add_argument(
        "--bin", type=Path, help="folder with the commands of an environment that has the wheel"
    )
    args = parser.parse_args()
    names = args.exercises or list(EXERCISES)
    unknown = [name for name in names if name not in EXERCISES]
    if unknown:
        parser.error(f"no exercise {unknown[0]}; there are {', '.join(EXERCISES)}")
    if not (args.tutorials / "utils" / "run_exercise.py").is_file():
        parser.error(
            f"{args.tutorials} is not a checkout of p4lang/tutorials: it has no utils/run_exercise.py"
        )
    if os.environ.get(APART_VARIABLE):
        return run_all(args.tutorials.resolve(), names)
    lacking = missing()
    if os.geteuid() != 0 or lacking:
        hint = f": sudo apt-get install {' '.join(lacking)}" if lacking else ""
        sys.stderr.write(f"tutorials need root and Mininet{hint}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="alfirk-tutorials-") as work:
        commands = args.bin or install(Path(work) / "venv")
        namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = 'mount -t sysfs sysfs /sys; mount -t tmpfs run /run; ip link set lo up; exec "$@"'
        again = [str(commands / "python3"), __file__, str(args.tutorials.resolve()), *names]
        path = f"{commands}:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {**os.environ, "PATH": path, APART_VARIABLE: "1"}
        apart = [*namespaces, "sh", "-c", script, "sh", *again]
        return subprocess.run(apart, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
