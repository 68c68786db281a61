"""Tests of ``tools/p4_coverage.py``, and of the places that the book lists."""

from __future__ import annotations

from p4_coverage import PAGE, ROOT, listed, missed, unknown


def test_listed_places_are_lines_of_the_sources() -> None:
    page = PAGE.read_text("utf-8")
    assert listed(page)
    assert unknown(page, ROOT) == []


def test_changed_lines_are_found() -> None:
    gone = "- `p4src/v1model/parser.p4`: ``not reached: gone();``"
    no_file = "- `p4src/none.p4`: ``not reached: gone();``"
    assert unknown(f"{gone}\n{no_file}\n", ROOT) == [gone, no_file]


def test_missed_places_have_the_form_of_the_page() -> None:
    branch = "never: true: if (x) {"
    report = f"file  lines\np4src/a.p4:7: {branch}\np4src/a.p4:9: {branch}\nb.p4:1: not reached: y\n"
    assert missed(report) == ["- `p4src/a.p4`: ``never: true: if (x) {``"]
    assert listed("\n".join(missed(report))) == missed(report)
