"""The figures of a compilation for Tofino."""

from __future__ import annotations

from pathlib import Path

import tofino


def stage_count_is_read_from_the_assembly(tmp_path: Path) -> None:
    (tmp_path / "main.bfa").write_text("stage 0 ingress:\n  a\nstage 11 ingress:\nstage 3 egress:\n")
    assert list(tofino.stages(tmp_path, 20)) == ["stages: 12 of 20 (12 of ingress, 4 of egress)"]


def critical_path_is_shown_when_the_compiler_reports_it(tmp_path: Path) -> None:
    (tmp_path / "main.bfa").write_text("stage 1 egress:\n")
    (tmp_path / "logs").mkdir()
    line = "Critical path length through the table dependency graph: 9\n"
    (tmp_path / "logs" / "table_summary.log").write_text(line)
    assert list(tofino.stages(tmp_path, 12)) == ["stages: 2 of 12 (2 of egress)", "critical path: 9 stages"]
