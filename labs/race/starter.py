"""Lab "race": the start. It assumes that all algorithms are as fast as the source's link."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alfirk_labs.race import Race


def alfirk(race: Race) -> float:
    """Nanoseconds until the source has all acknowledgements: switches replicate."""
    # TODO 1: when does the acknowledgement of the last packet arrive?
    return race.packets * race.packet_ns


def binomial(race: Race) -> float:
    """Nanoseconds: in each round every member with the message sends it to one without."""
    # TODO 2: how many rounds?
    return race.packets * race.packet_ns


def chain(race: Race) -> float:
    """Nanoseconds: each member relays a slice to the next one as soon as it has it."""
    # TODO 3: when does the last slice start, and how long does it take?
    return race.packets * race.packet_ns


def rdmc(race: Race) -> float:
    """Nanoseconds: RDMC's binomial pipeline, in which all members send and receive a block in each step."""
    # TODO 4: how many steps (RDMC, section 4.3)? Leave out the delay: steps overlap.
    return race.packets * race.packet_ns


def alfirk_with_loss(race: Race, links: int, loss: float) -> float:
    """Mean nanoseconds when each link of the tree loses this share of packets."""
    # TODO 5: how many packets are lost in the tree, and what does each cost with go-back-N?
    return alfirk(race) + 0 * links * loss
