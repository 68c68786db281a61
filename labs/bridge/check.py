"""Checks a program of the lab "bridge" with cards on a live switch."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from alfirk_labs.group import broadcast, refused_by_linux
from alfirk_labs.outcome import Lab, Outcome, Setting, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alfirk_labs.cards import GroupOfCards
    from alfirk_ptf.group import Member

MESSAGES = 3
#: Checks of a card, in order: the claim, and its drop counters with hints.
STEPS = (
    (
        "the packet has the card's MAC and IPv4 address",
        {
            "not_for_us": "TODO 1: the copy needs the receiver's own MAC and IPv4 address",
            "malformed": "a header or its length is not what it should be",
            "never_came": "no copy left that port",
        },
    ),
    (
        "the IPv4 checksum is right",
        {"ip_checksum": "TODO 1: the checksum covers the addresses; compute it after all changes"},
    ),
    (
        "the card finds the queue pair",
        {"unknown_qp": "TODO 2: the sender uses the group's virtual queue pair number, which no card has"},
    ),
    (
        "the packet comes from the queue pair's peer",
        {
            "wrong_source": "TODO 3: the receiver's peer is the McstID; the packet had it as its "
            "destination before TODO 1"
        },
    ),
    (
        "the ICRC is right",
        {"icrc": "TODO 4: eight bytes of ones, then the packet; ones in fields that routers change: 8w0xff"},
    ),
)


def params(member: Member, _group: GroupOfCards) -> dict[str, int]:
    """Return the action parameters for a receiver."""
    return {
        "mac": int(member.mac.replace(":", ""), 16),
        "ip": int(IPv4Address(member.ip)),
        "qpn": member.qpn,
    }


def check(setting: Setting) -> Iterator[Outcome]:
    """Send a message, report how far it gets in the cards' checks, and send the others."""
    with broadcast(setting, setting.program, MESSAGES, params) as sent:
        fates = sent.send(0)
        waiting = None
        for claim, hints in STEPS:
            if waiting is not None:
                yield Outcome(claim, f"not reached: {waiting} the packet before this check")
                continue
            here = [(port, why) for port, why in sorted(fates.items()) if why in hints]
            if here:
                port, why = here[0]
                dropped = f"host {port} drops the packet; its card counts it as {why}"
                yield part(claim, dropped, hints[why], sent.explain(0, port))
                waiting = f"host {port} dropped"
            else:
                yield Outcome(claim)
        claim = "all messages arrive, and all receivers acknowledge them"
        if waiting is not None:
            yield Outcome(claim, "not reached: further messages are sent only if the first is accepted")
            return
        problem: str | None = None
        explanation: list[str] = []
        for number in range(1, MESSAGES):
            for port, why in sent.send(number).items():
                if problem is None:
                    problem = f"host {port} drops message {number + 1}; its card counts it as {why}"
                    explanation = sent.explain(number, port)
        hint = "the checks must hold for each packet, not only the first"
        yield part(claim, problem or sent.complete(), hint, explanation)
    if setting.guest_image is not None:
        yield part(
            "Linux's own RDMA stack accepts them, too",
            refused_by_linux(setting, setting.guest_image, setting.program, MESSAGES, params),
            "it accepts what the other cards accept: each row of the text's table must hold for each packet",
        )


LAB = Lab("starter.p4", "solution.p4", check, has_guest=True)
