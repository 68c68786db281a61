"""Each lab's text shows what its programs print: the start fails as shown, the solution passes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from alfirk_labs.__main__ import load, names

_LABS = Path(__file__).parents[1]
_NAMES = names()
#: Line of a README that stands for the rest of a part's lines.
_LEFT_OUT = re.escape("        ...\n")
#: Labs of which only some parts send packets, and claims whose failure does not make these parts fail.
_WITH_PACKETS_OF_A_PART = ("controller", "icrc")
_WITHOUT_PACKETS = (
    "register() gives the effect of a change on a CRC",
    "solve() finds columns for every sum, or returns None",
)
#: Labs whose check sends packets to the program of the student.
_WITH_PACKETS = ("bridge", "merge-acks", "minimum", "naks", "replicate")


@dataclass(frozen=True)
class Wrong:
    """An entry of wrong.yaml."""

    lab: str
    name: str
    old: str
    new: str
    claim: str
    says: str


_WRONG = [
    Wrong(**entry)
    for entry in yaml.safe_load(Path(__file__).with_name("wrong.yaml").read_text(encoding="utf-8"))
]


def _sessions(lab: str) -> dict[str, str]:
    """Console blocks of a lab's text: command and output."""
    text = (_LABS / lab / "README.md").read_text(encoding="utf-8")
    return dict(
        re.findall(r"^```console\n\$ (?:sudo )?labs/run (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    )


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_LABS / "run"), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=120,
        check=False,
    )


@pytest.mark.root
@pytest.mark.parametrize("lab", _NAMES)
def unsolved_lab_fails_as_its_readme_says(lab: str) -> None:
    done = _run(lab)
    shown = re.escape(_sessions(lab)[lab]).replace(_LEFT_OUT, r"(        .*\n)+?")
    assert re.fullmatch(shown, done.stdout), done.stdout + done.stderr
    assert done.returncode == 1


@pytest.mark.root
@pytest.mark.parametrize("lab", _NAMES)
def solution_passes_with_the_output_in_the_readme(lab: str) -> None:
    solution = load(lab).solution
    done = _run(lab, solution)
    assert done.stdout == _sessions(lab)[f"{lab} {solution}"], done.stderr
    assert done.returncode == 0


@pytest.mark.root
@pytest.mark.parametrize("wrong", _WRONG, ids=lambda wrong: f"{wrong.lab}: {wrong.name}")
def wrong_solution_gets_the_right_hint(wrong: Wrong, tmp_path: Path) -> None:
    solution = _LABS / wrong.lab / load(wrong.lab).solution
    text = solution.read_text(encoding="utf-8")
    assert text.count(wrong.old) == 1, "the change no longer fits the solution"
    program = tmp_path / solution.name
    program.write_text(text.replace(wrong.old, wrong.new), encoding="utf-8")
    done = _run("--json", wrong.lab, program)
    assert done.returncode == 1, done.stdout + done.stderr
    parts = json.loads(done.stdout)["parts"]
    (failed,) = (part for part in parts if part["claim"] == wrong.claim)
    assert not failed["holds"], parts
    assert wrong.says in f"{failed['problem']}\n{failed['hint']}"
    if wrong.lab in _WITH_PACKETS and "read at" not in failed["problem"]:
        first = next(number for number, line in enumerate(failed["trace"]) if line.startswith("trace of"))
        trace = failed["trace"][first + 1 :]
        assert trace[0].startswith("  in port ")
        assert any(solution.name in line for line in trace), "positions in the program"
        assert str(tmp_path) not in "".join(trace)
        assert any(re.search(r"^  (copy \d+ )?\s*(out port|dropped)", line) for line in trace)
    if wrong.lab in _WITH_PACKETS_OF_A_PART and wrong.claim not in _WITHOUT_PACKETS:
        traces = [part["trace"] for part in parts if part["trace"]]
        assert traces, parts
        assert all(trace[0].startswith("trace of") for trace in traces)


@pytest.mark.root
def registers_of_one_part_do_not_reach_the_next(tmp_path: Path) -> None:
    text = (_LABS / "merge-acks" / "solution.p4").read_text(encoding="utf-8")
    assert text.count("merged.write(0, smallest)") == 1
    program = tmp_path / "solution.p4"
    # Only the first part sends PSN 5.
    wrong = text.replace("merged.write(0, smallest)", "merged.write(0, smallest == 5 ? 24w100 : smallest)")
    program.write_text(wrong, encoding="utf-8")
    parts = json.loads(_run("--json", "merge-acks", program).stdout)["parts"]
    assert [part["holds"] for part in parts] == [True, False, True, True, True], parts


@pytest.mark.root
def wrong_field_is_shown_beside_the_expected_one(tmp_path: Path) -> None:
    text = (_LABS / "bridge" / "solution.p4").read_text(encoding="utf-8")
    program = tmp_path / "solution.p4"
    program.write_text(text.replace("hdr.bth.dest_qp = qpn;", ""), encoding="utf-8")
    done = _run("bridge", program)
    assert re.search(r"BTH\.dqpn: expected 0x\w+, received 0xa1f\n", done.stdout), done.stdout


def every_lab_has_at_least_two_wrong_solutions() -> None:
    assert all(sum(wrong.lab == lab for wrong in _WRONG) >= 2 for lab in _NAMES)


@pytest.mark.root
def program_that_does_not_compile_is_shown_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.p4"
    broken.write_text("control {\n")
    done = _run("merge-acks", broken)
    assert done.returncode == 2
    assert "broken.p4" in done.stderr


@pytest.mark.root
def many_programs_are_graded_in_one_run(tmp_path: Path) -> None:
    broken = tmp_path / "broken.p4"
    broken.write_text("control {\n")
    done = _run("--json", "merge-acks", "solution.p4", "starter.p4", broken, tmp_path / "none.p4")
    graded = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["passed"], len(one["parts"])) for one in graded] == [(5, 5), (1, 5), (0, 0), (0, 0)]
    assert "broken.p4" in graded[2]["error"]
    assert "there is no file" in graded[3]["error"]
    assert done.returncode == 2


@pytest.mark.parametrize("lab", _NAMES)
def every_lab_has_all_its_files(lab: str) -> None:
    text = (_LABS / lab / "README.md").read_text(encoding="utf-8")
    headings = (
        "Goal",
        "Background",
        "Run the broken start",
        "What to do",
        "Run again",
        "Explain",
        "Troubleshooting",
    )
    for heading in headings:
        assert f"\n## {heading}\n" in text
    described = load(lab)
    assert "TODO 1" in (_LABS / lab / described.starter).read_text(encoding="utf-8")
    assert "TODO" not in (_LABS / lab / described.solution).read_text(encoding="utf-8")


def labs_are_listed_in_the_index() -> None:
    text = (_LABS / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\]\((\w[\w-]*)/README\.md\)", text))) == _NAMES


@pytest.mark.parametrize("lab", _NAMES)
def every_question_has_an_answer_for_teachers(lab: str) -> None:
    text = (_LABS / lab / "README.md").read_text(encoding="utf-8")
    asked = re.search(r"^## Explain$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    page = (_LABS / "TEACHING.md").read_text(encoding="utf-8")
    answered = re.search(rf"^### {lab}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert asked is not None
    assert answered is not None
    questions = re.findall(r"^(\d+)\. ", asked[1], re.MULTILINE)
    assert questions
    assert questions == re.findall(r"^(\d+)\. ", answered[1], re.MULTILINE)


@pytest.mark.parametrize("sweep", sorted(_LABS.glob("race/*.yaml")), ids=lambda sweep: sweep.stem)
def sweep_in_the_race_lab_is_a_valid_experiment(sweep: Path) -> None:
    alfirk = os.environ.get("ALFIRK", str(_LABS.parent / "target" / "release" / "alfirk"))
    done = subprocess.run(
        [alfirk, "experiment", "list", str(sweep)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
