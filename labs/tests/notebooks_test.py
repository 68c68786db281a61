"""Notebooks show what their code prints. Here the fastest is executed; `make notebooks` executes all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_NOTEBOOKS = sorted((_ROOT / "labs" / "notebooks").glob("*.ipynb"))
_PYTHON = _ROOT / ".venv" / "clients" / "notebooks" / "bin" / "python"


def a_notebook_shows_what_its_code_prints() -> None:
    command = [str(_PYTHON), str(_ROOT / "tools" / "notebooks.py"), str(_NOTEBOOKS[-1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def each_notebook_can_be_read_without_running(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    shown = [cell for cell in cells if cell["cell_type"] == "code" and cell["outputs"]]
    assert len(shown) >= 2
    assert all(output["output_type"] != "error" for cell in shown for output in cell["outputs"])
    assert path.stat().st_size < 150_000
