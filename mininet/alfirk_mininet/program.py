"""P4 programs for switches: compiled by ``alfirk p4c``, or BMv2 JSON as it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from alfirk_mininet.errors import NetworkError

#: The data plane, relative to this package in the repository and in an installation.
PROGRAM = Path(__file__).resolve().parents[2] / "p4src" / "v1model" / "main.p4"


@dataclass(frozen=True)
class Program:
    """A compiled program."""

    #: BMv2 JSON.
    json: Path
    #: P4Info as text, for P4Runtime clients; ``None`` for a program that was given as JSON.
    p4info: Path | None

    def tables(self) -> dict[str, Any]:
        """Read the BMv2 JSON."""
        try:
            read: dict[str, Any] = json.loads(self.json.read_text())
        except (OSError, ValueError) as error:
            raise NetworkError(
                f"{self.json} is not BMv2 JSON: {error}", "give the output of alfirk p4c -o"
            ) from error
        return read


def load_program(source: Path, alfirk: Path, folder: Path) -> Program:
    """Compile a ``.p4`` file into `folder`, once for all switches that run it; use BMv2 JSON unchanged."""
    if not source.is_file():
        raise NetworkError(f"program {source} does not exist", "give a P4 file, or BMv2 JSON")
    if source.suffix != ".p4":
        return Program(source.absolute(), None)
    return _compiled(source.absolute(), source.stat().st_mtime_ns, alfirk, folder)


@cache
def _compiled(source: Path, changed: int, alfirk: Path, folder: Path) -> Program:
    tag = hashlib.sha256(f"{source} {changed}".encode()).hexdigest()[:8]
    return compile_program(alfirk, source, folder / f"{source.stem}-{tag}.json")


def compile_program(alfirk: Path, source: Path, output: Path) -> Program:
    """Compile a program; P4Info is written beside the JSON."""
    p4info = output.with_suffix(".p4info.txtpb")
    command = [str(alfirk), "p4c", str(source), "-o", str(output), "--p4runtime-files", str(p4info)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NetworkError(
            f"cannot run {alfirk}: {error.strerror}", "run `make build`, or set ALFIRK"
        ) from error
    if done.returncode:
        raise NetworkError(f"{source} does not compile", done.stderr.strip())
    return Program(output, p4info)
