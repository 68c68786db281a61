"""Checks a program of the lab "merge the ACKs" on a live switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alfirk_labs.outcome import Lab, Outcome, Setting
from alfirk_labs.stories import Story, ack, check_stories

if TYPE_CHECKING:
    from collections.abc import Iterator

STORIES = (
    Story(
        "the sender gets ACKs for what all receivers have",
        (ack(2, 5), ack(3, 7), ack(4, 6, gets=5), ack(2, 9, gets=6), ack(4, 9, gets=7)),
        "TODO 1 to 4: store each receiver's PSN, and forward the smallest",
    ),
    Story(
        "an ACK that does not advance the minimum is not forwarded",
        (ack(2, 9), ack(4, 9), ack(3, 8, gets=8), ack(3, 8)),
        "TODO 4: compare with what was last acknowledged to the sender",
    ),
    Story(
        "a reordered, older ACK does not reduce a receiver's PSN",
        (ack(3, 20), ack(2, 20), ack(3, 4), ack(4, 20, gets=20)),
        "TODO 2: a receiver's PSN never decreases",
    ),
    Story(
        "the above holds when PSNs wrap around",
        (
            *(ack(port, 0x700000) for port in (2, 3)),
            ack(4, 0x700000, gets=0x700000),
            *(ack(port, 0xE00000) for port in (2, 3)),
            ack(4, 0xE00000, gets=0xE00000),
            ack(2, 0xFFFFFE),
            ack(3, 3),
            ack(4, 1, gets=0xFFFFFE),
            ack(2, 2, gets=1),
            ack(4, 3, gets=2),
        ),
        "TODO 5: a is older than b when (b - a) mod 2^24 is below 2^23",
    ),
)


def check(setting: Setting) -> Iterator[Outcome]:
    """Run the stories with three receivers."""
    return check_stories(setting, STORIES, receivers=3)


LAB = Lab("starter.p4", "solution.p4", check)
