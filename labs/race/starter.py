"""Lab "race": the start. It believes that all algorithms are as fast as the source's link."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alfirk_labs.race import Race


def alfirk(race: Race) -> float:
    """Nanoseconds until all have the message and the source knows it: switches replicate."""
    # TODO 1: when is the acknowledgement of the last packet back?
    return race.packets * race.packet_ns


def binomial(race: Race) -> float:
    """Nanoseconds: in each round everybody who has the message sends it to one who has not."""
    # TODO 2: how many rounds?
    return race.packets * race.packet_ns


def chain(race: Race) -> float:
    """Nanoseconds: each member passes a slice on to the next one as soon as it has it."""
    # TODO 3: how long is the last slice on its way, and when did it set out?
    return race.packets * race.packet_ns


def rdmc(race: Race) -> float:
    """Nanoseconds: RDMC's binomial pipeline, in which everybody sends and receives a block in each step."""
    # TODO 4: how many steps (RDMC, section 4.3)? Leave out the delay: steps overlap.
    return race.packets * race.packet_ns


def alfirk_with_loss(race: Race, links: int, loss: float) -> float:
    """Nanoseconds, on average, when each link of the tree loses this part of all packets."""
    # TODO 5: how many packets are lost in the tree, and what does each cost a sender that goes back N?
    return alfirk(race) + 0 * links * loss
