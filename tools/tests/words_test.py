"""The check of words finds what the list names, in text and in identifiers."""

from __future__ import annotations

import pytest
import words

_RULES = words.read_rules(words.LIST.read_text(encoding="utf-8"))


def _found(text: str, *, review: bool = False) -> list[str]:
    chosen = [word for word in _RULES.words if word.needs_review == review]
    return [hit.found for hit in words.find_hits("a.rs", text, chosen)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What was told to the source", ["told"]),
        ("let told_psn = 1;", ["told"]),
        ("struct LastTold;", ["Told"]),
        ("enum Told {}", ["Told", "enum Told"]),
        ("const TOLD: u32 = 1;", ["TOLD", "TOLD"]),
        ("/// Waits so\n    /// many microseconds", ["so many"]),
        ("# so\n# much", ["so much"]),
        ("a mask that is no prefix", ["is no prefix"]),
        ("If it is `no such`", []),
        ("Nobody's frame", ["Nobody's"]),
        ("The other room has it", ["other room"]),
    ],
)
def listed_words_are_reported(text: str, found: list[str]) -> None:
    assert _found(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "std::mem::forget(guard);",
        '{"mend": "s1-eth1"}',
        "There is no table, and there\n    /// is no entry",
        "It is no longer there",
        "there is room for a header",
        "as many bytes as there are",
        "untolding toldyou",
        "the largest latest",
        "MAC learning stands for a standard function",
    ],
)
def words_of_the_field_are_not_reported(text: str) -> None:
    assert _found(text) == []


def words_for_review_are_listed_separately() -> None:
    assert _found("The section says so") == []
    assert _found("The section says so", review=True) == ["says"]


def hit_is_reported_at_the_first_line_of_its_phrase() -> None:
    hits = words.find_hits("a.py", "first\n# so\n# many\nlast, told\n", _RULES.words)
    assert [(hit.line, hit.found) for hit in hits] == [(2, "so many"), (4, "told")]
    assert str(hits[1]).startswith("a.py:4: told -> reported")


def changelog_and_vendored_text_are_exempt() -> None:
    exempt = ["CHANGELOG.md", "Cargo.lock", "p4runtime/proto/p4/v1/p4runtime.proto", "a/b/c.snap"]
    assert [path for path in exempt if not _RULES.is_exempt(path)] == []
    assert not _RULES.is_exempt("README.md")
