"""What the parts of a lab came to, and what a lab is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class LabError(Exception):
    """Something that keeps a program from being checked: the message says what, and what to do."""


@dataclass(frozen=True)
class Outcome:
    """A part: its claim, what is wrong with it if it does not hold, and where to look."""

    claim: str
    problem: str | None = None
    hint: str | None = None

    def lines(self) -> list[str]:
        """Tell it in words."""
        if self.problem is None:
            return [f"ok      {self.claim}"]
        lines = [f"FAILED  {self.claim}", f"        {self.problem}"]
        return lines if self.hint is None else [*lines, f"        {self.hint}"]


def part(claim: str, problem: str | None, hint: str | None) -> Outcome:
    """Give a part's outcome; the hint is shown only if there is a problem."""
    return Outcome(claim, problem, None if problem is None else hint)


@dataclass(frozen=True)
class Setting:
    """What a check is given: the command, the program to check, and a folder for what comes and goes."""

    alfirk: Path
    program: Path
    work: Path
    #: What a QEMU guest boots, where one is to be tried beside the rest.
    guest_image: Path | None = None


@dataclass(frozen=True)
class Lab:
    """A lab: where work begins, what was wanted, and the check."""

    starter: str
    solution: str
    check: Callable[[Setting], Iterable[Outcome]]
    #: Whether it makes veth pairs.
    needs_root: bool = True
    #: Whether a guest with Linux's own RDMA stack can be tried, too.
    has_guest: bool = False


def summary(outcomes: list[Outcome]) -> str:
    """Sum the parts up in a line."""
    failed = sum(outcome.problem is not None for outcome in outcomes)
    if not failed:
        return "All parts hold."
    return f"{failed} of {len(outcomes)} parts {'does' if failed == 1 else 'do'} not hold."
