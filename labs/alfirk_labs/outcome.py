"""Results of a lab's parts, and the description of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class LabError(Exception):
    """An error that prevents the check of a program; the message has a remedy."""


@dataclass(frozen=True)
class Outcome:
    """Result of a part: its claim, the problem if it does not hold, and a hint."""

    claim: str
    problem: str | None = None
    hint: str | None = None

    def lines(self) -> list[str]:
        """Format the result as text lines."""
        if self.problem is None:
            return [f"ok      {self.claim}"]
        lines = [f"FAILED  {self.claim}", f"        {self.problem}"]
        return lines if self.hint is None else [*lines, f"        {self.hint}"]


def part(claim: str, problem: str | None, hint: str | None) -> Outcome:
    """Return a part's result; the hint is shown only with a problem."""
    return Outcome(claim, problem, None if problem is None else hint)


@dataclass(frozen=True)
class Setting:
    """Input of a check: the command, the program to check, and a temporary folder."""

    alfirk: Path
    program: Path
    work: Path
    #: Image of a QEMU guest, if one is tested, too.
    guest_image: Path | None = None


@dataclass(frozen=True)
class Lab:
    """A lab: its start, its solution and its check."""

    starter: str
    solution: str
    check: Callable[[Setting], Iterable[Outcome]]
    #: Whether it creates veth pairs, which needs root.
    needs_root: bool = True
    #: Whether a guest with Linux's RDMA stack can be tested, too.
    has_guest: bool = False


def summary(outcomes: list[Outcome]) -> str:
    """Summarize the parts in one line."""
    failed = sum(outcome.problem is not None for outcome in outcomes)
    if not failed:
        return "All parts hold."
    return f"{failed} of {len(outcomes)} parts {'does' if failed == 1 else 'do'} not hold."
