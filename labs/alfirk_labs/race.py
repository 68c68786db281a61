"""Parameters of a race, which determine its times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Race:
    """One message from one member to all others, in packets of 4,096 bytes."""

    #: Members of the group, the source included.
    members: int
    #: Packets of the message.
    packets: int
    #: Packets of a slice or block, the unit that chain and RDMC relay.
    slice_packets: int
    #: Time of a packet on a link in nanoseconds.
    packet_ns: float
    #: Nanoseconds from the end of a packet's transmission until its acknowledgement arrives.
    delay_ns: float
