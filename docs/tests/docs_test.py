"""Runs the commands of the book as written, and checks that its pages, figures and verbs are complete.

A fenced block whose info string is ``sh,run`` is run from its first line to its last by ``sh -eu``, in a
folder of its own, where the repository is ``$ALFIRK_SOURCE`` and the built command comes first in PATH.
``sh,run root`` needs root, and has a network namespace of its own.  A block ``console,run`` has one command
after ``$`` and the beginnings of lines that it prints, in order; ``...`` stands for lines left out.
Links and paths are checked by tools/links.py.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_BOOK = _ROOT / "docs" / "book" / "src"
_PAGES = sorted(_BOOK.rglob("*.md"))
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()
_FENCE = re.compile(r"^```(\w[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block with commands on a page."""

    page: Path
    number: int
    kind: str
    text: str

    def __str__(self) -> str:
        """Return the block's name in reports: page and number."""
        return f"{self.page.stem}-{self.number}"


def _blocks(*, root: bool) -> list[Block]:
    found = []
    for page in _PAGES:
        for number, (info, text) in enumerate(_FENCE.findall(page.read_text(encoding="utf-8")), start=1):
            kind, _, flags = info.partition(",")
            if flags.split()[:1] == ["run"] and ("root" in flags.split()) == root:
                found.append(Block(page, number, kind, text))
    return found


#: Runs a block of root in separate namespaces, so that interfaces and ports cannot conflict.
_APART = [
    *("unshare", "--net", "--mount", "sh", "-eu", "-c"),
    'mount -t sysfs sysfs /sys; ip link set lo up; exec sh -eu -c "$0"',
]


def _run(script: str, folder: Path, *, apart: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "ALFIRK_SOURCE": str(_ROOT),
        "PATH": f"{_ALFIRK.parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [*(_APART if apart else ["sh", "-eu", "-c"]), script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _tried(block: Block, folder: Path, *, apart: bool = False) -> None:
    if block.kind == "sh":
        done = _run(block.text, folder, apart=apart)
        assert done.returncode == 0, f"{block.text}\n{done.stdout}{done.stderr}"
        return
    command, _, shown = block.text.partition("\n")
    assert command.startswith("$ ")
    done = _run(command[2:], folder)
    printed = done.stdout + done.stderr
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line != "...":
            assert any(found.rstrip().startswith(line.rstrip()) for found in lines), f"{line}\n---\n{printed}"


@pytest.mark.parametrize("block", _blocks(root=False), ids=str)
def command_of_the_book_works(block: Block, tmp_path: Path) -> None:
    _tried(block, tmp_path)


@pytest.mark.root
@pytest.mark.parametrize("block", _blocks(root=True), ids=str)
def command_of_the_book_works_as_root(block: Block, tmp_path: Path) -> None:
    _tried(block, tmp_path, apart=True)


def every_page_is_in_the_summary() -> None:
    summary = (_BOOK / "SUMMARY.md").read_text(encoding="utf-8")
    listed = {(_BOOK / target).resolve() for target, _ in _LINK.findall(summary)}
    assert listed == {page.resolve() for page in _PAGES} - {_BOOK / "SUMMARY.md"}


def every_figure_is_up_to_date_and_used() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in _PAGES)
    drawn = runpy.run_path(str(_BOOK.parent / "draw.py"))["DRAWINGS"]
    assert {figure.stem for figure in (_BOOK / "figures").iterdir()} == set(drawn)
    for name, draw in drawn.items():
        assert (_BOOK / "figures" / f"{name}.svg").read_text(encoding="utf-8") == draw().svg(), "run draw.py"
        assert f"figures/{name}.svg" in text


def every_command_is_in_the_book() -> None:
    text = (_BOOK / "commands.md").read_text(encoding="utf-8")
    done = _run("alfirk --help", _ROOT)
    commands = re.findall(r"^  ([a-z][a-z0-9-]+)  ", done.stdout, re.MULTILINE)
    assert commands
    assert [name for name in commands if name != "help" and f"\n## alfirk {name}\n" not in text] == []


def ci_workflow_runs_the_ci_script_and_issue_forms_are_valid() -> None:
    workflow = yaml.safe_load((_ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["test"]["steps"]
    assert ".ci/run" in [step.get("run") for step in steps]
    for form in (_ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert json.dumps(yaml.safe_load(form.read_text(encoding="utf-8")))
