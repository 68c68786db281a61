"""What a controller has to bring to a switch for one group: data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from alfirk_ptf.group import Entry, MulticastGroup


@dataclass(frozen=True)
class Plan:
    """A group on one switch, as its controller has worked it out."""

    device_id: int
    #: Who asks with the highest one is the primary controller.
    election_id: int
    #: The compiled pipeline: BMv2 JSON, and P4Info in protobuf's text format.
    program: Path
    p4info: Path
    #: A PacketOut that has the pipeline set the registers of the group, and its metadata by name.
    #: The pipeline answers by a PacketIn with the same last four bytes.
    init_group: bytes
    init_metadata: dict[str, int]
    #: The group of the packet replication engine: its id, and port and instance of each replica.
    multicast: MulticastGroup
    #: Table entries by the names of P4Info: `match` has a value for each exact field, and value and prefix
    #: length for each longest-prefix field.  In no special order.
    entries: tuple[Entry, ...]
    #: The table whose entry makes the group known; without it packets for the group are a stranger's.
    last_table: str
