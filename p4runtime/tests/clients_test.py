"""Third-party P4Runtime clients work with the switch, pipelines and P4Info of Alfirk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alfirk_ptf.live import DEVICE_ID, compile_program, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).resolve().parent / "clients"
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))


@pytest.fixture(name="program", scope="module")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(ALFIRK, CLIENTS / "every_entity.p4", tmp_path_factory.mktemp("program"))


@pytest.fixture(name="address")
def _address(tmp_path: Path) -> Iterator[str]:
    with switch([str(ALFIRK), "switch"], tmp_path, {}) as address:
        yield address


def _drive(name: str, script: str, address: str, program: Path) -> None:
    """Run a script in the environment of a client."""
    python = ROOT / ".venv" / "clients" / name / "bin" / "python"
    assert python.exists(), f"no {python}: run tools/setup"
    done = subprocess.run(
        [python, CLIENTS / script, address, str(DEVICE_ID), program.with_suffix(".p4info.txtpb"), program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(program.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def p4runtime_shell_writes_and_reads_every_entity(address: str, program: Path) -> None:
    _drive("p4runtime-shell", "shell.py", address, program)


def finsy_writes_and_reads_every_entity(address: str, program: Path) -> None:
    _drive("finsy", "finsy_client.py", address, program)
