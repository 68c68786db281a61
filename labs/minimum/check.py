"""Checks a program of the lab "minimum": on a live switch, and in its compiled JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from alfirk_labs.bench import compiled
from alfirk_labs.outcome import Lab, Outcome, Setting, part
from alfirk_labs.stories import Story, ack, check_stories

if TYPE_CHECKING:
    from collections.abc import Iterator

STORIES = (
    Story(
        "the sender gets ACKs for what all four receivers have",
        (
            *(ack(2, 5), ack(3, 7), ack(4, 6), ack(5, 9, gets=5), ack(2, 9, gets=6)),
            *(ack(4, 9, gets=7), ack(3, 9, gets=9)),
        ),
        "TODO 2 and 3: the smaller one of each pair goes up, also if the pair's other receiver sent the ACK",
    ),
    Story(
        "a reordered, older ACK does not reduce a receiver's PSN",
        (ack(5, 20), ack(3, 20), ack(5, 4), ack(3, 4), ack(2, 20), ack(4, 20, gets=20)),
        "TODO 2: a receiver's own cell never decreases",
    ),
    Story(
        "the above holds when PSNs wrap around",
        (
            *(ack(port, 0x700000) for port in (2, 3, 4)),
            ack(5, 0x700000, gets=0x700000),
            *(ack(port, 0xE00000) for port in (2, 3, 4)),
            ack(5, 0xE00000, gets=0xE00000),
            *(ack(2, 0xFFFFFE), ack(3, 3), ack(4, 1), ack(5, 2, gets=0xFFFFFE)),
            *(ack(2, 2, gets=1), ack(4, 4, gets=2)),
        ),
        "at each level a is older than b when (b - a) mod 2^24 is below 2^23",
    ),
)
ROUNDS = {"recirculate", "resubmit", "clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress"}


def accesses(program: Any) -> dict[str, Counter[str]]:
    """Count, for each register array, the places of a program that read it and that write it."""
    counted = {array["name"].split(".")[-1]: Counter[str]() for array in program["register_arrays"]}
    for action in program["actions"]:
        for primitive in action["primitives"]:
            if primitive["op"] not in ("register_read", "register_write"):
                continue
            for parameter in primitive["parameters"]:
                if parameter["type"] == "register_array":
                    counted[parameter["value"].split(".")[-1]][primitive["op"]] += 1
    return counted


def check(setting: Setting) -> Iterator[Outcome]:
    """Run the stories with four receivers, then check the register accesses."""
    yield from check_stories(setting, STORIES, receivers=4)
    program = json.loads(compiled(setting, setting.program).read_text(encoding="utf-8"))
    claim = "each register array is read at one place and written at one"
    problem = None
    for array, count in accesses(program).items():
        if problem is None and max(count.values(), default=0) > 1:
            reads, writes = (_places(count[f"register_{what}"]) for what in ("read", "write"))
            problem = f"`{array}` is read at {reads} and written at {writes}"
    hint = "TODO 1: a hardware pipeline permits one access per packet to an array: use more arrays"
    yield part(claim, problem, hint)
    rounds = {p["op"] for action in program["actions"] for p in action["primitives"]} & ROUNDS
    problem = f"the program calls {', '.join(sorted(rounds))}" if rounds else None
    hint = "a tree needs one pass: its levels follow one another"
    yield part("an ACK goes through the pipeline once", problem, hint)


def _places(number: int) -> str:
    return "1 place" if number == 1 else f"{number} places"


LAB = Lab("starter.p4", "solution.p4", check)
