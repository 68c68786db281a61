"""The commands of the book and of the pages beside it work as they stand, and what pages name is there.

A fenced block whose info string is ``sh,run`` is run from its first line to its last by ``sh -eu``, in a
folder of its own, where the repository is ``$ALFIRK_SOURCE`` and the built command comes first in PATH.
``sh,run root`` needs root, and has a network namespace of its own.  A block ``console,run`` has one command
behind ``$`` and shows the beginnings of lines that it prints, in order; ``...`` stands for what is left out.
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
#: Folders that a path in running text may begin with.
_ROOMS = sorted(path.name for path in _ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))


@dataclass(frozen=True)
class Block:
    """A command of a page."""

    page: Path
    number: int
    kind: str
    text: str

    def __str__(self) -> str:
        """Name it in a report."""
        return f"{self.page.stem}-{self.number}"


def _blocks(*, root: bool) -> list[Block]:
    found = []
    for page in _PAGES:
        for number, (info, text) in enumerate(_FENCE.findall(page.read_text(encoding="utf-8")), start=1):
            kind, _, flags = info.partition(",")
            if flags.split()[:1] == ["run"] and ("root" in flags.split()) == root:
                found.append(Block(page, number, kind, text))
    return found


#: Interfaces and ports of root's blocks are theirs alone.
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


@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def paths_that_a_page_names_are_there(page: Path) -> None:
    text = re.sub(_FENCE, "", page.read_text(encoding="utf-8"))
    words = re.findall(r"`([\w.-]+/[\w./{},*-]*)`", text)
    named = [word for word in words if word.split("/")[0] in _ROOMS and "NAME" not in word]
    missing = [word for word in named if not any(_ROOT.glob(each) for each in _braces(word))]
    assert not missing


def _braces(word: str) -> list[str]:
    """Spell out ``a/{b,c}``."""
    found = re.search(r"\{([^}]*)\}", word)
    if found is None:
        return [word]
    return [word.replace(found[0], choice) for choice in found[1].split(",")]


@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor[1:] in _anchors(there), f"{target}{anchor}"


def _anchors(page: Path) -> set[str]:
    """List what headings of a page can be linked by, as GitHub and mdBook have it."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def every_page_is_in_the_summary() -> None:
    summary = (_BOOK / "SUMMARY.md").read_text(encoding="utf-8")
    listed = {(_BOOK / target).resolve() for target, _ in _LINK.findall(summary)}
    assert listed == {page.resolve() for page in _PAGES} - {_BOOK / "SUMMARY.md"}


def every_figure_is_as_drawn_and_used() -> None:
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


def workflow_runs_what_developers_run() -> None:
    workflow = yaml.safe_load((_ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["test"]["steps"]
    assert ".ci/run" in [step.get("run") for step in steps]
    for form in (_ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert json.dumps(yaml.safe_load(form.read_text(encoding="utf-8")))
