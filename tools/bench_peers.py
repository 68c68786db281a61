"""Compares the switch with other software switches: processor time per received frame, for the same work.

The switch's figures are those of the benchmarks ``peers`` and ``sai`` of ``bmv2/benches``, in turns with
the other switches, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_report import ROOT, built, print_result, rate
from peers import NotInstalledError, swx, xdp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Benchmarks of bmv2/benches that this module runs.
BENCHES = ("peers", "sai")
#: Turns of each switch; the least time is reported.
TURNS = 3
#: Errors of a measurement on another switch, which do not end the others.
FAILURES = (NotInstalledError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Peer:
    """Work on another switch, and a function that returns nanoseconds per frame."""

    name: str
    measure: Callable[[], float]


@dataclass(frozen=True)
class Times:
    """Nanoseconds of processor time that the switch takes for a received frame, by each engine."""

    interpreter: float
    compiled: float
    #: Copies that the switch sends of a received frame.
    copies: int = 1

    def least(self, other: Times) -> Times:
        """Return the lesser times of two turns."""
        least = min(self.interpreter, other.interpreter), min(self.compiled, other.compiled)
        return Times(*least, self.copies)

    def __str__(self) -> str:
        each = f" ({self.compiled / self.copies:.0f} for each copy)" if self.copies > 1 else ""
        compiled = f"{self.compiled:.0f} ns compiled{each}"
        return f"{self.interpreter:.0f} ns interpreted, {compiled}, {rate(self.compiled)}"


def parse(output: str) -> tuple[dict[str, Times], dict[str, str]]:
    """Read the output of a benchmark with ``--json``: times of cases, and remarks on them."""
    times, remarks = dict[str, Times](), dict[str, str]()
    for line in output.splitlines():
        result: dict[str, Any] = json.loads(line)
        if "remark" in result:
            remarks[result["case"]] = result["remark"]
        else:
            times[result["case"]] = Times(result["interpreter_ns"], result["compiled_ns"], result["copies"])
    return times, remarks


def measure() -> None:
    """Run all measurements."""
    sources = [argument for name in BENCHES for argument in ("--bench", name)]
    peers, sai = (built("bench", name, "--workspace", *sources, "--no-run") for name in BENCHES)
    with tempfile.TemporaryDirectory() as directory:
        others = dict(_others(Path(directory)))
        times, _ = parse(_run(peers))
        if unknown := others.keys() - times.keys():
            msg = f"bmv2/benches/peers.rs has no case {', '.join(sorted(unknown))}"
            raise RuntimeError(msg)
        for case, first in times.items():
            compare(case, first, others.get(case, []), partial(_again, peers, case))
    times, remarks = parse(_run(sai))
    for case, result in times.items():
        print_result(case, str(result))
    for case, remark in remarks.items():
        print_result(case, remark)


def _run(bench: Path, *words: str) -> str:
    command = [str(bench), "--json", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def _again(bench: Path, case: str) -> Times:
    times, _ = parse(_run(bench, case))
    return times[case]


def _others(work: Path) -> Iterator[tuple[str, list[Peer]]]:
    """Yield the installed switches for each case of the benchmark `peers`; print which are not installed."""
    pipelines: swx.Pipelines | None = None
    try:
        pipelines = swx.Pipelines(work)
        alone = pipelines.measure(swx.forwarding())
        print_result("DPDK SWX", f"{alone:.0f} ns per frame for source and sink alone")
    except FAILURES as error:
        pipelines = None
        print_result("DPDK SWX", f"NOT RUN: {error}")

    def pipeline(program: Callable[[], swx.Program]) -> list[Peer]:
        if pipelines is None:
            return []
        return [Peer("DPDK SWX with source and sinks", partial(_pipeline, pipelines, program))]

    for prefixes in (1_000, 100_000):
        found = pipeline(partial(swx.routing, prefixes))
        found.append(Peer("XDP, LPM trie", partial(xdp.xdp, prefixes, flat=False)))
        found.append(Peer("XDP, flat arrays", partial(xdp.xdp, prefixes, flat=True)))
        yield f"route, {prefixes:,} prefixes", found
    for receivers in (3, 15):
        yield f"multicast to {receivers}", pipeline(partial(swx.replication, receivers))


def _pipeline(pipelines: swx.Pipelines, program: Callable[[], swx.Program]) -> float:
    return pipelines.measure(program())


def compare(case: str, first: Times, peers: list[Peer], again: Callable[[], Times]) -> None:
    """Measure a case on other switches, in turns with ours, and print all with their ratios to ours."""
    ours, least, failures = first, dict[str, float](), dict[str, str]()
    for _ in range(TURNS):
        for peer in peers:
            if peer.name in failures:
                continue
            try:
                found = peer.measure()
            except FAILURES as error:
                failures[peer.name] = f"NOT RUN: {error}"
            else:
                least[peer.name] = min(found, least.get(peer.name, found))
        if peers:
            ours = ours.least(again())
    print_result(case, str(ours))
    for peer in peers:
        print_result(f"  {peer.name}", failures.get(peer.name) or against(least[peer.name], ours))


def against(nanoseconds: float, ours: Times) -> str:
    """Return a time of another switch with its ratio to ours."""
    return (
        f"{nanoseconds:.0f} ns, {rate(nanoseconds)}"
        f" (alfirk {ours.compiled:.0f} ns, {ours.compiled / nanoseconds:.2f} of it)"
    )
