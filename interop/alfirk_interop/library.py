"""Tests the end-host library in guests: its C example, while a run provides network and controller."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.guests import DEVICE, Shell

if TYPE_CHECKING:
    from collections.abc import Callable

VERBS = Path(__file__).resolve().parents[2] / "verbs"
#: A group address in the range for groups, different from the run's own.
GROUP = "10.255.77.1"


def example(*members: str) -> Callable[[Path, Path], str | None]:
    """Let these guests, the first one as leader, send to each other in turn."""

    def meanwhile(workdir: Path, alfirk: Path) -> str | None:
        program = workdir / "broadcast"
        problem = _compile(program, alfirk)
        if problem:
            return problem
        leader = f"10.0.0.{members[0].removeprefix('h')}"
        # Two rounds, by SEND and by WRITE; way 0 is multicast without a fallback.
        command = f"ulimit -l unlimited; {program} {DEVICE} {GROUP} {leader} {len(members)} 2 0"
        return _everywhere(workdir, members, command, ", way 0")

    return meanwhile


def _compile(program: Path, alfirk: Path) -> str | None:
    library = alfirk.parent / "deps" / "libalfirk_verbs.a"
    command = ["cc", "-O1", "-Wall", "-Werror", f"-I{VERBS / 'include'}", "-o", str(program)]
    command += [
        str(VERBS / "examples" / "broadcast.c"),
        str(library),
        "-libverbs",
        "-lpthread",
        "-ldl",
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"cannot compile the example: {done.stderr.strip()[-400:]}" if done.returncode else None


def _everywhere(workdir: Path, members: tuple[str, ...], command: str, word: str) -> str | None:
    """Run a command in all guests at once. Each must succeed and print this word."""

    def run(name: str) -> str | None:
        try:
            output = Shell(name, workdir / f"{name}.shell").run(command, 60)
        except NetworkError as error:
            return f"{error.what}: {error.hint}"
        return None if word in output else f"{name}: unexpected output: {output.strip()}"

    with ThreadPoolExecutor(len(members)) as pool:
        problems = [problem for problem in pool.map(run, members) if problem]
    return "; ".join(problems) or None
