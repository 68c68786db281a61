"""Both compilers' reports are read and compared."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import tofino_compare as compare

SWITCH = "#include <core.p4>\n#include <{arch}.p4>\nSwitch(pipe) main;\n"


def _program(folder: Path, name: str, arch: str = "tna") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SWITCH.format(arch=arch))
    return path


def _command(path: Path, lines: str) -> Path:
    path.write_text(f"#!/bin/sh\n{lines}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def only_files_with_a_switch_package_are_programs(tmp_path: Path) -> None:
    _program(tmp_path, "b.p4", "t2na")
    _program(tmp_path, "a/main.p4")
    (tmp_path / "headers.p4").write_text("header h_t { bit<8> a; }\n")
    found = [(program.name, program.arch, program.target) for program in compare.programs(tmp_path)]
    assert found == [("a.main", "tna", "tofino"), ("b", "t2na", "tofino2")]


def list_file_gives_programs_and_their_flags(tmp_path: Path) -> None:
    _program(tmp_path, "fabric/main.p4")
    lines = "# all of them\nfabric/main.p4 --name upf -Ishared -DWITH_UPF --arch t2na\n\n"
    (tmp_path / compare.LIST).write_text(lines)
    (program,) = compare.programs(tmp_path)
    assert (program.name, program.arch) == ("upf", "t2na")
    assert program.flags == (f"-I{tmp_path / 'shared'}", "-DWITH_UPF")


def _resources(folder: Path, srams: int) -> None:
    used: dict[str, object] = {"usages": [{"used_by": "Ingress.t$action", "used_for": "match_entry_ram"}]}
    free: dict[str, object] = {"usages": []}
    empty: dict[str, object] = {group: {items: []} for _, _, group, items in compare.COMPARED}
    stage = {**empty, "rams": {"srams": [used] * srams + [free] * 3}}
    (folder / "pipe" / "logs").mkdir(parents=True)
    (folder / "pipe" / "main.bfa").write_text("stage 0 ingress:\nstage 1 ingress:\nstage 0 egress:\n")
    logs = {"resources": {"mau": {"mau_stages": [stage]}}}
    (folder / "pipe" / "logs" / "resources.json").write_text(json.dumps(logs))


def stored_output_of_bf_p4c_is_reused(tmp_path: Path) -> None:
    program = compare.program(tmp_path, _program(tmp_path, "a.p4").name, [])
    _resources(tmp_path / "out", 4)
    figures = compare.of_bf_p4c(None, program, tmp_path / "out", 1)
    assert (figures.stages, figures.totals) == (2, (4, 0, 0, 0, 0))
    assert figures.sram == (("Ingress.t", 4),)


def error_of_bf_p4c_is_stored(tmp_path: Path) -> None:
    program = compare.program(tmp_path, _program(tmp_path, "a.p4").name, [])
    compiler = _command(tmp_path / "bf-p4c", "echo 'a.p4(1): error: no room' >&2\nexit 1\n")
    for asked in (str(compiler), None):
        figures = compare.of_bf_p4c(asked, program, tmp_path / "out", 10)
        assert figures.failure == "a.p4(1): error: no room"


def stages_are_counted_per_pipe() -> None:
    pipes = [compare.Figures(3, (6, 1), (("t", 6),)), compare.Figures(2, (1, 0), (("u", 1),))]
    assert compare.added(pipes) == compare.Figures(3, (7, 1), (("t", 6), ("u", 1)))


def first_error_skips_warnings_and_identifiers() -> None:
    said = ["a.p4(1): warning: 'debug' is unused", " typedef error E;", "error[E0404]: no", "error: 1 error"]
    assert compare.first_error("\n".join(said), 1) == "error[E0404]: no"
    assert compare.first_error("", 3) == "exit code 3"


def resources_of_our_report_are_summed(tmp_path: Path) -> None:
    program = compare.program(tmp_path, _program(tmp_path, "a.p4").name, [])
    report = {
        "needed": 3,
        "used": [{"sram": 4, "tcam": 1, "hash_bits": 40}, {"sram": 2, "stateful": 1}],
        "memories": [{"name": "t", "sram": 6, "tcam": 1}, {"name": "none", "sram": 0, "tcam": 0}],
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    # The last argument but the program is --report=FILE.
    copy = f'cp {tmp_path}/report.json "${{word#--report=}}"'
    lines = f"for word; do case $word in --report=*) {copy};; esac; done\n"
    figures = compare.of_alfirk(_command(tmp_path / "alfirk", lines), program)
    assert (figures.stages, figures.totals) == (3, (6, 1, 40, 1, 0))
    assert (figures.sram, figures.tcam) == ((("t", 6),), (("t", 1),))


def summary_counts_programs_within_one_stage_and_a_fifth(tmp_path: Path) -> None:
    program = compare.program(tmp_path, _program(tmp_path, "a.p4").name, [])
    rows = [
        compare.Compared(program, compare.Figures(3, (12, 0, 0, 1, 0)), compare.Figures(2, (10, 0, 0, 1, 0))),
        compare.Compared(program, compare.Figures(3, (13, 1, 0, 1, 0)), compare.Figures(5, (10, 0, 0, 1, 0))),
        compare.Compared(program, compare.Figures(failure="no"), compare.Figures(2, (1, 0, 0, 0, 0))),
    ]
    lines = list(compare.summary(rows))
    assert lines[:3] == [
        "programs: 3, of which alfirk compiles 2",
        "bf-p4c compiles 3",
        "both compile 2; stages within 1: 1, the same: 0",
    ]
    assert "SRAM within 20%: 1 of 2; all programs together 25/20" in lines
    assert "TCAM within 20%: 1 of 2; all programs together 1/0" in lines


def tables_that_differ_are_listed(tmp_path: Path) -> None:
    program = compare.program(tmp_path, _program(tmp_path, "a.p4").name, [])
    ours = compare.Figures(1, (4, 0, 0, 0, 0), (("t", 4), ("u", 1)))
    theirs = compare.Figures(1, (5, 0, 0, 0, 0), (("t", 5), ("u", 1)))
    row = compare.Compared(program, ours, theirs)
    assert list(compare.differences([row])) == ["a: SRAM of t: 4/5"]
