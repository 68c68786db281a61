"""Executes notebooks, and compares their text with what they show: `make notebooks`.

Notebooks are stored with their outputs, so that they can be read without running. The outputs are determined
by the code, since experiments in virtual time are. Pictures are not compared: fonts differ between machines.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
#: Seconds after which a cell is given up.
LIMIT = 300


def execute(path: Path) -> Any:
    """Return a copy of a notebook with new outputs."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    for cell in notebook.cells:
        # Times of execution.
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = {}
    return notebook


def texts(notebook: Any) -> list[list[str]]:
    """Return the text that each cell prints or shows."""
    return [[_text(output) for output in cell.get("outputs", [])] for cell in notebook.cells]


def _text(output: Any) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def check(path: Path, *, update: bool) -> str | None:
    """Execute a notebook; return what is wrong with it, or store the new outputs."""
    try:
        executed = execute(path)
    except CellExecutionError as error:
        return f"{path.name}: {error}"
    if update:
        nbformat.write(executed, path)
        return None
    stored = texts(nbformat.read(path, as_version=4))
    for number, (now, before) in enumerate(zip(texts(executed), stored, strict=True)):
        if now != before:
            shown, printed = "\n".join(before), "\n".join(now)
            return f"{path.name}, cell {number}: the notebook shows\n{shown}\nbut the code prints\n{printed}"
    return None


def main() -> int:
    """Execute the notebooks: 0 if all show what their code prints, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--update", action="store_true", help="store the new outputs")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of labs/notebooks")
    options = parser.parse_args()
    # The kernels' environment.
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    failed = 0
    for path in options.notebooks or sorted((ROOT / "labs" / "notebooks").glob("*.ipynb")):
        problem = check(path, update=options.update)
        failed += problem is not None
        sys.stdout.write(f"{problem or f'{path.name}: ok'}\n")
        sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
