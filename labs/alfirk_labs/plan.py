"""State that a controller writes to a switch for one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from alfirk_ptf.group import Entry, MulticastGroup


@dataclass(frozen=True)
class Plan:
    """A group on one switch, as computed by its controller."""

    device_id: int
    #: The client with the highest election id is the primary controller.
    election_id: int
    #: The compiled pipeline: BMv2 JSON, and P4Info in protobuf's text format.
    program: Path
    p4info: Path
    #: A PacketOut that makes the pipeline set the registers of the group, and its metadata by name.
    #: The pipeline replies with a PacketIn that has the same last four bytes.
    init_group: bytes
    init_metadata: dict[str, int]
    #: The group of the packet replication engine: its id, and port and instance of each replica.
    multicast: MulticastGroup
    #: Table entries by the names of P4Info: `match` has a value for each exact field, and value and prefix
    #: length for each longest-prefix field.  The order is irrelevant.
    entries: tuple[Entry, ...]
    #: The table whose entry activates the group; without it packets for the group count as unknown.
    last_table: str
