"""Each lab's text says what its programs really print: the starter fails as told, the solution holds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

_LABS = Path(__file__).parents[1]
_NAMES = sorted(check.parent.name for check in _LABS.glob("*/check.py"))


def _sessions(lab: str) -> dict[str, str]:
    """The console blocks of a lab's text: what was typed, and what came."""
    text = (_LABS / lab / "README.md").read_text(encoding="utf-8")
    return dict(
        re.findall(r"^```console\n\$ sudo labs/run (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    )


def _run(lab: str, program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_LABS / "run"), lab, str(program)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=120,
        check=False,
    )


@pytest.mark.root
@pytest.mark.parametrize("lab", _NAMES)
def starter_fails_as_the_text_says(lab: str) -> None:
    done = _run(lab, _LABS / lab / "starter.p4")
    assert done.stdout == _sessions(lab)[lab], done.stderr
    assert done.returncode == 1


@pytest.mark.root
@pytest.mark.parametrize("lab", _NAMES)
def solution_holds_as_the_text_says(lab: str) -> None:
    done = _run(lab, _LABS / lab / "solution.p4")
    assert done.stdout == _sessions(lab)[f"{lab} solution.p4"], done.stderr
    assert done.returncode == 0


@pytest.mark.root
def program_that_does_not_compile_is_shown_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.p4"
    broken.write_text("control {\n")
    done = _run("merge-acks", broken)
    assert done.returncode == 2
    assert "broken.p4" in done.stderr


@pytest.mark.parametrize("lab", _NAMES)
def lab_has_all_its_parts(lab: str) -> None:
    text = (_LABS / lab / "README.md").read_text(encoding="utf-8")
    for heading in ("Goal", "Topology", "Run the broken start", "What to do", "Run again", "Explain"):
        assert f"\n## {heading}\n" in text
    assert "TODO 1" in (_LABS / lab / "starter.p4").read_text(encoding="utf-8")
    assert "TODO" not in (_LABS / lab / "solution.p4").read_text(encoding="utf-8")
