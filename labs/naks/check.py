"""Checks a program of the lab "NAKs" on a live switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alfirk_labs.outcome import Lab, Outcome, Setting
from alfirk_labs.stories import SENDER, Kind, Packet, Step, Story, ack, check_stories

if TYPE_CHECKING:
    from collections.abc import Iterator


def nak(port: int, psn: int, *, gets: Packet | None = None) -> Step:
    """A receiver reports `psn` as missing; it has everything before."""
    return Step(port, Packet(Kind.NAK, psn), gets)


def sent_nak(psn: int) -> Packet:
    """The NAK that the sender should get."""
    return Packet(Kind.NAK, psn)


def resend(psn: int) -> Step:
    """The sender retransmits a packet."""
    return Step(SENDER, Packet(Kind.DATA, psn))


def all_have(psn: int) -> tuple[Step, ...]:
    """All three receivers send an ACK; the sender gets one with the last."""
    return (ack(2, psn), ack(3, psn), ack(4, psn, gets=psn))


STORIES = (
    Story(
        "a NAK acknowledges all packets before its PSN, and no more",
        (nak(3, 4), ack(2, 9), Step(4, Packet(Kind.ACK, 9), sent_nak(4)), resend(4), ack(3, 9, gets=9)),
        "TODO 1: a receiver that misses 4 has everything up to 3 (and by TODO 2 the sender gets no NAK yet)",
    ),
    Story(
        "a NAK waits until all receivers have the packets before its PSN",
        (
            *(nak(3, 12), ack(2, 10), ack(4, 11, gets=10), Step(2, Packet(Kind.ACK, 11), sent_nak(12))),
            *(resend(12), *all_have(12)),
        ),
        "TODO 2: the sender takes a NAK of 12 for an ACK of 11; send it when the smallest PSN is 11",
    ),
    Story(
        "a NAK does not cover an older loss of another receiver",
        (
            *(nak(2, 16), nak(3, 14), Step(4, Packet(Kind.ACK, 17), sent_nak(14))),
            *(resend(14), ack(3, 15, gets=15), nak(3, 17), nak(2, 19, gets=sent_nak(17))),
            *(resend(17), ack(2, 19), ack(4, 19), ack(3, 19, gets=19)),
        ),
        "TODO 3: of two NAKs keep the older one; the sender goes back there and sends the rest again, too",
    ),
    Story(
        "a waiting NAK is removed once all receivers have its packet",
        (
            *(nak(2, 22), *all_have(23)),
            *(nak(3, 26), ack(2, 25), Step(4, Packet(Kind.ACK, 25), sent_nak(26)), nak(4, 24)),
        ),
        "TODO 4: a waiting NAK that is not newer than the smallest PSN would block the next one",
    ),
    Story(
        "two NAKs of the same PSN are sent once, until the packet is retransmitted",
        (
            *(nak(3, 26), ack(2, 25), Step(4, Packet(Kind.ACK, 25), sent_nak(26)), nak(2, 26)),
            *(resend(26), nak(2, 26, gets=sent_nak(26)), resend(26), *all_have(27)),
        ),
        "TODO 5: store the PSN of the NAK that was sent; data with that PSN clears it",
    ),
    Story(
        "the above holds when PSNs wrap around",
        (
            *(step for psn in (0x700000, 0xE00000, 0xFFFFFD) for step in all_have(psn)),
            *(nak(2, 0), nak(3, 0xFFFFFF), Step(4, Packet(Kind.ACK, 3), sent_nak(0xFFFFFF))),
            *(resend(0xFFFFFF), ack(3, 0xFFFFFF, gets=0xFFFFFF)),
            *(nak(2, 1), Step(3, Packet(Kind.ACK, 2), sent_nak(1))),
        ),
        "compare NAKs like PSNs, with OLDER(a, b); psn - 1 in bit<24>",
    ),
)


def check(setting: Setting) -> Iterator[Outcome]:
    """Run the stories with three receivers."""
    return check_stories(setting, STORIES, receivers=3)


LAB = Lab("starter.p4", "solution.p4", check)
