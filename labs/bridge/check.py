"""Checks a program of the lab "bridge" against cards on a live switch."""

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
#: What a card looks at, in its order: the claim, the counters of what it drops there, and where to look.
STEPS = (
    (
        "the card takes the packet: it is for its MAC and IPv4 address",
        {
            "not_for_us": "TODO 1: the copy needs the receiver's own MAC and IPv4 address",
            "malformed": "a header or its length is not what it should be",
            "never_came": "no copy came out of that port",
        },
    ),
    (
        "the IPv4 checksum is right",
        {"ip_checksum": "TODO 1: the checksum covers the addresses; compute it behind all changes"},
    ),
    (
        "the card finds the queue pair",
        {"unknown_qp": "TODO 2: the sender knows the group's virtual queue pair, and no card has that one"},
    ),
    (
        "the packet comes from the queue pair's peer",
        {
            "wrong_source": "TODO 3: all that the receiver knows of is the McstID; the copy had it as its "
            "destination before TODO 1"
        },
    ),
    (
        "the ICRC is right",
        {"icrc": "TODO 4: eight bytes of ones, then the packet, ones where routers change it: 8w0xff"},
    ),
)


def params(member: Member, _group: GroupOfCards) -> dict[str, int]:
    """Say what the switch must be given of a receiver."""
    return {
        "mac": int(member.mac.replace(":", ""), 16),
        "ip": int(IPv4Address(member.ip)),
        "qpn": member.qpn,
    }


def check(setting: Setting) -> Iterator[Outcome]:
    """Send a message, see how far it comes at the cards, and send the others."""
    with broadcast(setting, setting.program, MESSAGES, params) as sent:
        fates = sent.send(0)
        waiting = None
        for claim, hints in STEPS:
            if waiting is not None:
                yield Outcome(claim, f"not seen yet: {waiting} the packet before it looked")
                continue
            here = [(port, why) for port, why in sorted(fates.items()) if why in hints]
            if here:
                port, why = here[0]
                yield Outcome(claim, f"host {port} drops the packet; its card counts it as {why}", hints[why])
                waiting = f"host {port} has dropped"
            else:
                yield Outcome(claim)
        claim = "all messages arrive, and all receivers acknowledge them"
        if waiting is not None:
            yield Outcome(claim, "not seen yet: nothing was sent behind a packet that was dropped")
            return
        problem = None
        for number in range(1, MESSAGES):
            for port, why in sent.send(number).items():
                problem = problem or f"host {port} drops message {number + 1}; its card counts it as {why}"
        yield part(claim, problem or sent.complete(), "what held for the first packet must hold for each")
    if setting.guest_image is not None:
        yield part(
            "Linux's own RDMA stack accepts them, too",
            refused_by_linux(setting, setting.guest_image, setting.program, MESSAGES, params),
            "what our cards take it takes, too: all of the table in the text must hold for each packet",
        )


LAB = Lab("starter.p4", "solution.p4", check, has_guest=True)
