"""Checks a program of the lab "race": its predictions, compared with runs in virtual time."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from alfirk_labs.outcome import Lab, LabError, Outcome, Setting, part
from alfirk_labs.python import Program, problem_of
from alfirk_labs.race import Race

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
PACKET = 4096
#: Nanoseconds of a packet with 4,096 bytes at 100 Gbit/s, with headers, preamble and gap.
PACKET_NS = (4096 + 58 + 24) * 8 / 100
#: Packets of a slice, and of a block of RDMC, in one-switch.yaml.
SLICE_PACKETS, BLOCK_PACKETS = (size // PACKET for size in (64 << 10, 1 << 20))
#: Links of the tree to all hosts of a fat-tree of k = 4: 16 of hosts, 8 and 4 between switches.
TREE_LINKS = 28


@dataclass(frozen=True)
class Measured:
    """Mean time of an algorithm's runs with the same flags."""

    algorithm: str
    members: int
    packets: int
    loss: float
    completion_ns: float


def measure(setting: Setting, sweep: str, *flags: str) -> list[Measured]:
    """Run an experiment of this lab."""
    out = setting.work / sweep
    command = [str(setting.alfirk), "experiment", "run", str(HERE / sweep), "--out", str(out), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"cannot run {sweep}: {done.stderr}"
        raise LabError(message)
    times: dict[tuple[str, int, int, float], list[int]] = {}
    with (out / "results.csv").open(encoding="utf-8", newline="") as results:
        for row in csv.DictReader(results):
            packets = int(row["input.size"]) // PACKET
            point = (row["algorithm"], int(row["group.size"]), packets, float(row["settings.loss"]))
            times.setdefault(point, []).append(int(row["completion_ns"]))
    return [Measured(*point, mean(values)) for point, values in times.items()]


def delay(setting: Setting, topology: str) -> float:
    """Measure the round trip of one packet to a group, without its transmission time."""
    command = [
        *(str(setting.alfirk), "experiment", "run", str(setting.work / f"{topology}.yaml")),
        *("--out", str(setting.work / f"{topology}-delay")),
    ]
    text = f"name: delay\nrun: {{topology: '{topology}', size: 4KiB}}\nsweep: {{algorithms: [alfirk]}}\n"
    Path(command[3]).write_text(text, encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"cannot send one packet: {done.stderr}"
        raise LabError(message)
    with (setting.work / f"{topology}-delay" / "results.csv").open(encoding="utf-8", newline="") as results:
        (row,) = csv.DictReader(results)
    return int(row["completion_ns"]) - PACKET_NS


def compare(
    program: Program,
    function: str,
    runs: Sequence[Measured],
    delay_ns: float,
    tolerance: float,
    *more: object,
) -> str | None:
    """Return a run whose time differs too much from a function's prediction."""
    for run in runs:
        slice_packets = BLOCK_PACKETS if run.algorithm.startswith("rdmc") else SLICE_PACKETS
        race = Race(run.members, run.packets, slice_packets, PACKET_NS, delay_ns)
        predicted = float(program.call(function, race, *more))
        if abs(predicted - run.completion_ns) > tolerance * run.completion_ns:
            lossy = f", loss {run.loss:g}" if run.loss else ""
            return (
                f"{run.members} members, {run.packets} packets{lossy}: "
                f"measured {run.completion_ns / 1000:.0f} us, {function}() returns {predicted / 1000:.0f} us"
            )
    return None


def check(setting: Setting) -> Iterator[Outcome]:
    """Run the races, and compare the times with the predictions."""
    program = Program(setting.program)
    runs = measure(setting, "one-switch.yaml")
    delay_ns = delay(setting, "leaf-spine:1,1,16")
    for function, algorithm, tolerance, hint in (
        (
            "alfirk",
            "alfirk",
            0.002,
            "TODO 1: the last packet is sent after all others; its ACK takes one delay",
        ),
        (
            "binomial",
            "binomial",
            0.02,
            "TODO 2: 1, 2, 4, 8 members have it; the rounds are sequential",
        ),
        (
            "chain",
            "chain",
            0.02,
            "TODO 3: slices are pipelined; each is sent by all members but the last, in turn",
        ),
        (
            "rdmc",
            "rdmc-binomial-pipeline",
            0.1,
            "TODO 4: the last block starts after all others, and takes one step for each dimension",
        ),
    ):
        chosen = [run for run in runs if run.algorithm == algorithm]

        def predicts(
            function: str = function, chosen: list[Measured] = chosen, tolerance: float = tolerance
        ) -> str | None:
            return compare(program, function, chosen, delay_ns, tolerance)

        claim = f"{function}() predicts the time on one switch, to {tolerance * 100:g}%"
        yield part(claim, problem_of(predicts), hint)
    lossy = [run for run in measure(setting, "fat-tree.yaml", "--quick") if run.loss]
    delay_ns = delay(setting, "fat-tree:4")
    yield part(
        "alfirk_with_loss() predicts the mean of ten runs on a fat-tree, to 20%",
        problem_of(
            lambda: compare(program, "alfirk_with_loss", lossy, delay_ns, 0.2, TREE_LINKS, lossy[0].loss)
        ),
        "TODO 5: each link of the tree may lose each packet; a loss costs about one delay",
    )


LAB = Lab("starter.py", "solution.py", check, needs_root=False)
