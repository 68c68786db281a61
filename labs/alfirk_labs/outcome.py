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
    """Result of a part: its claim; if it does not hold, the problem, a hint and what the switch did."""

    claim: str
    problem: str | None = None
    hint: str | None = None
    #: How the switch processed the packet that shows the problem, as lines.
    trace: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Format the result as text lines, without the trace."""
        if self.problem is None:
            return [f"ok      {self.claim}"]
        lines = [f"FAILED  {self.claim}", f"        {self.problem}"]
        return lines if self.hint is None else [*lines, f"        {self.hint}"]


def part(claim: str, problem: str | None, hint: str | None, trace: Iterable[str] = ()) -> Outcome:
    """Return a part's result; the hint and the trace are shown only with a problem."""
    return Outcome(claim) if problem is None else Outcome(claim, problem, hint, tuple(trace))


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


def report(outcomes: list[Outcome]) -> list[str]:
    """Format the results as text lines; the first part that fails is shown with its trace."""
    lines = []
    is_traced = False
    for outcome in outcomes:
        lines += outcome.lines()
        if outcome.trace and not is_traced:
            lines += [f"        {line}" for line in outcome.trace]
            is_traced = True
    return [*lines, summary(outcomes)]


def summary(outcomes: list[Outcome]) -> str:
    """Summarize the parts in one line."""
    failed = sum(outcome.problem is not None for outcome in outcomes)
    if not failed:
        return "All parts hold."
    return f"{failed} of {len(outcomes)} parts {'does' if failed == 1 else 'do'} not hold."
