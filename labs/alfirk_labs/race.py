"""What a race is run with: the numbers from which its times follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Race:
    """One message from one member to all others, in packets of 4,096 bytes."""

    #: Members of the group, the source included.
    members: int
    #: Packets of the message.
    packets: int
    #: Packets of a slice, or block: what chain and RDMC pass on as one.
    slice_packets: int
    #: Nanoseconds that a packet takes on a link.
    packet_ns: float
    #: Nanoseconds from a packet's end at one host until its acknowledgement is back there.
    delay_ns: float
