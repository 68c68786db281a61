"""MPI programs on guests, which must have the same results with and without the alfirk library."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.interfaces import switch_interface
from alfirk_mininet.topology import Topology

from alfirk_interop.errors import InteropError
from alfirk_interop.mpi import HOSTS, RANKS, TESTBED, cluster
from alfirk_interop.outcome import Outcome
from alfirk_interop.scenarios import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = ROOT / "mpi" / "examples"
#: Number of blocks of a message that is looked for in captures, and length of a block in bytes.
BLOCKS, BLOCK = 3200, 64
#: Environment variables for the alfirk library; None for a run without it.
Variables: TypeAlias = "dict[str, str] | None"
#: Runs without and with the library.
WITHOUT_AND_WITH: tuple[Variables, Variables] = (None, {})
#: Message of the library for a communicator that uses a group.
GROUPS = f"{RANKS} ranks on {len(HOSTS)} hosts use group"
#: Offset of the payload of a RoCEv2 packet without extension headers in its frame.
PAYLOAD = 54
#: Frames of the interrupted message that one host receives before the loss, and the word that marks them.
BROKEN_AFTER, BROKEN = 5, "broken-on-its-way"


def programs_give_the_same(alfirk: Path, image: Path, folder: Path) -> list[str]:
    """Run broadcasts and barriers of all kinds, and check which path the bytes of one take."""
    marks = ("marked-beneath", "marked-by-group")
    programs = [compiled(folder, "collectives"), compiled(folder, "marked")]
    with cluster(alfirk, image, folder, programs) as guests:
        without, with_it = (guests.run("collectives 70001", way) for way in WITHOUT_AND_WITH)
        for mark, variables in zip(marks, WITHOUT_AND_WITH, strict=True):
            guests.run(f"marked {mark} {BLOCKS}", variables)
    problems = []
    if len(_digests(without)) != RANKS:
        problems.append(f"unexpected output without the library: {without}")
    if _digests(without) != _digests(with_it):
        problems.append(f"unexpected output with the library: {with_it}")
    problems += _group_failures(with_it)
    beneath, by_group = (crossings(alfirk, folder, mark) for mark in marks)
    if by_group != BLOCKS:
        problems.append(f"{by_group} of {BLOCKS} blocks crossed the source's link with the group")
    if beneath <= BLOCKS:
        problems.append(f"{beneath} of {BLOCKS} blocks crossed the source's link without the library")
    return problems


def long_messages_go_whole(alfirk: Path, image: Path, folder: Path) -> list[str]:
    """Broadcast messages of many buffers, with and without copies, and one that is interrupted."""
    buffer = {"ALFIRK_MPI_BUFFER": "16384"}
    ways = {
        "marked-in-memory": buffer | {"ALFIRK_MPI_COPY": "0"},
        "marked-and-copied": buffer | {"ALFIRK_MPI_COPY": "1000000000"},
    }
    # The last host receives the first frames of the message; all others are lost until the group ends.
    marked = [f"{PAYLOAD + at}={byte:02x}" for at, byte in enumerate(BROKEN.encode())]
    lost = ",".join([f"3=out,{BROKEN_AFTER}-1000000", *marked])
    problems = []
    with cluster(alfirk, image, folder, [compiled(folder, "marked")], [("s1", lost)]) as guests:
        for mark, variables in ways.items():
            output = guests.run(f"marked {mark} {BLOCKS}", variables)
            if f"{mark}: received" not in output:
                problems.append(f"{mark}: unexpected output: {output}")
            problems += _group_failures(output)
        not_ready = _rnr_naks(alfirk, folder)
        for copied in ("0", "1000000000"):
            broken = {"ALFIRK_MPI_COPY": copied, "ALFIRK_MPI_TIMEOUT_MS": "4000"}
            output = guests.run(f"marked {BROKEN} {BLOCKS}", buffer | broken)
            if f"{BROKEN}: received" not in output or GROUPS not in output:
                problems.append(f"unexpected end of an interrupted broadcast: {output}")
            if output.count("fall back to the underlying MPI") != 1:
                problems.append(f"expected one message about the interrupted broadcast: {output}")
    if not_ready:
        problems.append(f"{not_ready} RNR NAKs came from receivers that had not posted their receives")
    return problems


def hpl_solves_the_same(alfirk: Path, image: Path, folder: Path) -> list[str]:
    """Run the HPC Challenge of Debian's ``hpcc``, which ends with HPL, and compare residuals."""
    program = shutil.which("hpcc")
    if program is None:
        message = "hpcc not found: run tools/setup --interop"
        raise InteropError(message)
    found: list[list[str]] = []
    problems = []
    with cluster(alfirk, image, folder, [Path(program)]) as guests:
        results = guests.shared_folder.folder / "hpccoutf.txt"
        (guests.shared_folder.folder / "hpccinf.txt").write_text(_hpl_input())
        for variables in WITHOUT_AND_WITH:
            results.unlink(missing_ok=True)
            output = guests.run("hpcc", variables)
            found.append(re.findall(r"^\|\|Ax-b.*$", results.read_text(), re.MULTILINE))
            if variables is not None:
                problems += _group_failures(output)
    without, with_it = found
    if len(without) != 1 or "PASSED" not in without[0]:
        problems.append(f"HPL failed without the library: {without}")
    if without != with_it:
        problems.append(f"HPL results differ: {without} without the library, {with_it} with it")
    return problems


#: The MPI scenarios, by name.
MPI: dict[str, Callable[[Path, Path, Path], list[str]]] = {
    "MPI programs unchanged": programs_give_the_same,
    "MPI, long messages and a broken one": long_messages_go_whole,
    "MPI, HPL of hpcc": hpl_solves_the_same,
}


def run(name: str, alfirk: Path, image: Path, keep: Path | None) -> list[str]:
    """Run one scenario. Return its failures."""
    with tempfile.TemporaryDirectory(prefix="alfirk-mpi-") as folder:
        try:
            problems = MPI[name](alfirk, image, Path(folder))
        except NetworkError as error:
            problems = [f"{error.what}: {error.hint}"]
        except InteropError as error:
            problems = [str(error)]
        if problems and keep:
            shutil.copytree(
                folder, keep / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "*.shell")
            )
    return problems


def compiled(folder: Path, name: str) -> Path:
    """Compile an example of the library."""
    source, program = EXAMPLES / f"{name}.c", folder / name
    command = ["mpicc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"cannot compile {source.name}: {done.stderr.strip()[-400:]}"
        raise InteropError(message)
    return program


def crossings(alfirk: Path, folder: Path, mark: str) -> int:
    """Count the blocks with this word that crossed the source's link."""
    (switch,) = Topology.load(TESTBED, alfirk).switches
    port = switch_interface(switch.name, switch.device_id, 1)
    captured = (folder / "pcaps" / f"{port}_in.pcap").read_bytes()
    return captured.count(mark.encode() + bytes(16))


def _digests(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("rank ")]


def _group_failures(output: str) -> list[str]:
    """Require that groups carried everything, without memory that could not be registered."""
    bad = GROUPS not in output or "underlying MPI" in output or "cannot be registered" in output
    return [f"not everything used groups: {output}"] if bad else []


def _rnr_naks(alfirk: Path, folder: Path) -> int:
    """Count the RNR NAKs of receivers so far."""
    outcome = Outcome(0, "", {}, Topology.load(TESTBED, alfirk), alfirk, folder / "pcaps", HOSTS)
    return sum(outcome.rnr_naks_from(host) for host in HOSTS[1:])


def _hpl_input() -> str:
    """Return the input of hpcc: a matrix of 64 times 64, the smallest that its other parts accept."""
    values = {
        "output file": "HPL.out",
        "device": 8,
        "matrices": 1,
        "order": 64,
        "block sizes": 1,
        "block size": 16,
        "process mapping": 0,
        "grids": 1,
        "rows": 2,
        "columns": 2,
        "threshold": 16.0,
        "panel factorizations": 1,
        "factorization": 2,
        "stopping criteria": 1,
        "columns at which recursion stops": 4,
        "panels in recursion": 1,
        "panel count": 2,
        "recursive factorizations": 1,
        "recursive factorization": 1,
        "broadcasts": 1,
        "broadcast, increasing ring": 0,
        "lookahead depths": 1,
        "lookahead depth": 1,
        "swap": 2,
        "swapping threshold": 64,
        "L1": 0,
        "U": 0,
        "equilibration": 1,
        "alignment in doubles": 8,
    }
    lines = ["HPLinpack benchmark input file", "", *(f"{value} {name}" for name, value in values.items())]
    nothing_more = [
        "0 sizes of PTRANS beside",
        "64 sizes",
        "0 block sizes of PTRANS beside",
        "16 block sizes",
    ]
    return "\n".join([*lines, "-" * 32, *nothing_more, ""])
