"""Lab "race": one solution."""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alfirk_labs.race import Race


def alfirk(race: Race) -> float:
    """Nanoseconds until the source has all acknowledgements: switches replicate."""
    return race.packets * race.packet_ns + race.delay_ns


def binomial(race: Race) -> float:
    """Nanoseconds: in each round every member with the message sends it to one without."""
    return ceil(log2(race.members)) * (race.packets * race.packet_ns + race.delay_ns)


def chain(race: Race) -> float:
    """Nanoseconds: each member relays a slice to the next one as soon as it has it."""
    hops = race.members - 1
    relayed = (hops - 1) * race.slice_packets
    return (race.packets + relayed) * race.packet_ns + hops * race.delay_ns


def rdmc(race: Race) -> float:
    """Nanoseconds: RDMC's binomial pipeline, in which all members send and receive a block in each step."""
    steps = ceil(log2(race.members)) + race.packets // race.slice_packets - 1
    return steps * race.slice_packets * race.packet_ns


def alfirk_with_loss(race: Race, links: int, loss: float) -> float:
    """Mean nanoseconds when each link of the tree loses this share of packets."""
    return alfirk(race) + race.packets * links * loss * race.delay_ns
