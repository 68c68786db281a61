"""Runs scenarios one after the other, and reports the failures of each."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.topology import Topology

from alfirk_interop import mpi_programs
from alfirk_interop.errors import InteropError
from alfirk_interop.killed import killed_run_leaves_nothing
from alfirk_interop.outcome import Outcome
from alfirk_interop.scenarios import ROOT, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Environment variable of processes that are already in the private namespace.
_INSIDE = "ALFIRK_INTEROP_NAMESPACE"


def own_namespace() -> None:
    """Restart in a private network namespace, which is isolated from the machine and removed at the end."""
    if os.environ.get(_INSIDE) == "1":
        return
    if os.geteuid() != 0:
        message = "guests need taps and network namespaces, which need root: run with sudo"
        raise InteropError(message)
    # Interface counters are read from /sys, which shows the namespace in which it was mounted.
    inside = 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"'
    command = ["unshare", "--net", "--mount", "sh", "-c", inside, "sh"]
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", [*command, sys.executable, "-B", "-m", "alfirk_interop", *sys.argv[1:]])


@dataclass(frozen=True)
class Runner:
    """Runs scenarios with one alfirk binary and one image."""

    alfirk: Path
    image: Path
    #: The switches' data plane, as in `alfirk run --target`.
    target: str
    keep: Path | None = None

    def run_all(self, scenarios: Sequence[Scenario], *, mpi: Sequence[str], others: bool) -> int:
        """Run the scenarios, and print a line for each and a summary. Return the number of failures.

        `mpi` names the MPI scenarios to run; `others` includes those that are not transfers.
        """
        jobs: list[tuple[str, Callable[[], list[str]]]] = [
            (scenario.name, partial(self.run, scenario)) for scenario in scenarios
        ]
        for name in mpi:
            jobs.append((name, partial(mpi_programs.run, name, self.alfirk, self.image, self.keep)))
        for builder in (False, True) if others else ():
            name = f"nothing is left when {'its network' if builder else 'a run'} is killed"
            jobs.append((name, partial(killed_run_leaves_nothing, self.alfirk, self.image, builder=builder)))
        failed = 0
        for name, job in jobs:
            sys.stdout.write(f"{name:<44} ")
            sys.stdout.flush()
            begin = time.monotonic()
            problems = job()
            failed += bool(problems)
            took = time.monotonic() - begin
            sys.stdout.write(f"{'FAILED' if problems else 'ok':<6} {took:5.1f} s\n")
            sys.stdout.writelines(f"    {line}\n" for problem in problems for line in problem.splitlines())
            sys.stdout.flush()
        sys.stdout.write(f"{len(jobs) - failed} passed, {failed} failed\n")
        return failed

    def run(self, scenario: Scenario) -> list[str]:
        """Run one scenario. Return its failures."""
        with tempfile.TemporaryDirectory(prefix="alfirk-interop-") as folder:
            pcaps = Path(folder) / "pcaps"
            topology = self._topology(scenario.topology, Path(folder))
            command = [str(self.alfirk), "run", "--driver", "mininet", "--json", "--topology", str(topology)]
            command += [
                "--target",
                self.target,
                "--guests",
                scenario.guests,
                "--guest-image",
                str(self.image),
                "--pcap",
                str(pcaps),
            ]
            if "--algorithms" not in scenario.flags:
                command += ["--algorithms", "alfirk"]
            command += shlex.split(scenario.flags)
            errors = Path(folder) / "errors"
            with errors.open("wb") as stderr:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
                )
            problems: list[str] = []
            try:
                if scenario.meanwhile:
                    problems += self._meanwhile(scenario, process)
                stdout, _ = process.communicate(timeout=scenario.limit)
            except subprocess.TimeoutExpired:
                return [f"timeout after {scenario.limit:.0f} s"]
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.communicate()
            output = errors.read_text(errors="replace").strip()
            network = Topology.load(topology, self.alfirk)
            names = [host.name for host in network.hosts]
            guests = names if scenario.guests == "all" else scenario.guests.split(",")
            report = json.loads(stdout) if stdout.strip().startswith(b"{") else {}
            outcome = Outcome(
                process.returncode, output, report, network, self.alfirk, pcaps, guests, scenario.hostile
            )
            problems += _judge(scenario, outcome)
            if problems and self.keep:
                kept = self.keep / scenario.name.replace(" ", "-")
                kept.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-r", f"{folder}/.", str(kept)], check=False)
        return problems

    def _meanwhile(self, scenario: Scenario, process: subprocess.Popen[bytes]) -> list[str]:
        """Wait until the guests are up, then start the scenario's concurrent action."""
        workdir = Path(tempfile.gettempdir()) / f"alfirk-run-{process.pid}"
        names = scenario.guests.split(",")
        deadline = time.monotonic() + scenario.limit
        while not all((workdir / f"{name}.ready").exists() for name in names):
            if process.poll() is not None or time.monotonic() > deadline:
                return ["the guests did not get ready"]
            time.sleep(0.1)
        # The switches get their routes now.
        time.sleep(1)
        problem = scenario.meanwhile(workdir, self.alfirk) if scenario.meanwhile else None
        if problem is None and process.poll() is not None:
            problem = "the run ended before the concurrent action started"
        return [problem] if problem else []

    def _topology(self, name: str, folder: Path) -> Path:
        file = ROOT / "topologies" / f"{name}.yaml"
        if file.is_file():
            return file
        made = folder / "topology.yaml"
        command = [str(self.alfirk), "topology", *shlex.split(name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            message = f"{shlex.join(command)} failed: {done.stderr.strip()}"
            raise InteropError(message)
        made.write_text(done.stdout)
        return made


def _judge(scenario: Scenario, outcome: Outcome) -> list[str]:
    problems: list[str | None] = []
    if scenario.good:
        if outcome.code or not outcome.row:
            return [f"exit code {outcome.code}: {outcome.errors or 'no output'}"]
        for row in outcome.report["results"]:
            lost = len(row.get("lost", []))
            if row["receivers_verified"] + lost != row["receivers"]:
                problems.append(
                    f"{row['algorithm']}: {row['receivers_verified']} of {row['receivers']} verified"
                )
            if row.get("fallback"):
                problems.append(f"{row['algorithm']}: fell back: {row['fallback']}")
            if row["implausible_packets"]:
                problems.append(f"{row['implausible_packets']} implausible packets")
        problems.append(outcome.bad_packets())
    elif outcome.code == 0:
        problems.append("the run succeeded, but must fail")
    problems += [check(outcome) for check in scenario.checks]
    return [problem for problem in problems if problem]
