"""Exercises of p4lang/tutorials are prepared as a student prepares them, and checked by their output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tutorials


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out an exercise as in p4lang/tutorials."""
    exercise = tmp_path / "exercises" / "basic"
    (exercise / "solution").mkdir(parents=True)
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "run_exercise.py").touch()
    (exercise / "basic.p4").write_text("// TODO\n")
    (exercise / "s1-runtime.json").write_text("{}")
    (exercise / "solution" / "basic.p4").write_text("control c() {}\n")
    (exercise / "solution" / "s1-runtime.json").write_text("other entries")
    return tmp_path


def solution_replaces_the_starter_code_of_a_copy(checkout: Path, tmp_path: Path) -> None:
    folder = tutorials.prepare(checkout, "basic", tmp_path / "copy")
    assert (folder / "basic.p4").read_text() == "control c() {}\n"
    assert (folder / "s1-runtime.json").read_text() == "{}"
    assert (folder.parent.parent / "utils" / "run_exercise.py").exists()
    assert (checkout / "exercises" / "basic" / "basic.p4").read_text() == "// TODO\n"


def a_file_without_the_expected_text_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "h2.log"
    log.write_text("sniffing on eth0")
    tutorials.wait_for(log, "sniffing", 0.1)
    with pytest.raises(tutorials.ExerciseError, match=r"h2.log has no match for 'tos'.*\n.*sniffing on eth0"):
        tutorials.wait_for(log, "tos", 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/", "basic"], "is not a checkout of p4lang/tutorials: it has no utils/run_exercise.py"),
        (["/", "basics"], "no exercise basics; there are basic, basic_tunnel, "),
    ],
)
def wrong_arguments_are_named(arguments: list[str], message: str) -> None:
    script = Path(tutorials.__file__)
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
