"""What a controller has to write for a group: a model of its own, apart from the Rust one.

Pure: gives table entries and PRE groups as data; `p4runtime` carries them to a switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from alfirk_ptf import icrc

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Contract with p4src/shared/constants.p4.
VIRTUAL_QPN = 1
VIRTUAL_MAC = "02:a1:f1:4c:00:01"
PATH_BITS = 6

#: A value of a match field or an action parameter.
Value = int
#: An LPM match: value and prefix length.
Lpm = tuple[int, int]


@dataclass(frozen=True)
class Entry:
    """A table entry by P4Info names."""

    table: str
    match: Mapping[str, Value | Lpm]
    action: str
    params: Mapping[str, Value]


@dataclass(frozen=True)
class MulticastGroup:
    """A PRE group: its id, and port and instance of each replica."""

    group_id: int
    replicas: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Member:
    """A host of the group, as its leaf switch knows it."""

    mac: str
    ip: str
    qpn: int
    #: Base address and key of the region that a WRITE goes to.
    va: int = 0
    r_key: int = 0


@dataclass(frozen=True)
class Path:
    """A port of the group's tree: with a member behind it, or another switch."""

    port: int
    member: Member | None = None


@dataclass(frozen=True)
class Group:
    """A group on one switch; a path's number is its place in the list."""

    mcst_id: str
    index: int
    paths: tuple[Path, ...]
    #: The base address and key that senders use in a WRITE to the group.
    va: int = 0
    r_key: int = 0

    def entries(self) -> list[Entry]:
        """List the table entries, in an order that never shows half a group."""
        entries = []
        for number, path in enumerate(self.paths):
            if path.member:
                entries.append(self.exit_half(path.port, path.member))
                entries.append(self.entry_half(path.port, path.member))
            entries.append(
                Entry(
                    "ingress.group_lookup.mft",
                    {"group_index": self.index, "ingress_port": path.port},
                    "ingress.group_lookup.set_path",
                    {
                        "path_index": number,
                        "lone": lone_levels(number, len(self.paths)),
                        "is_host": int(path.member is not None),
                    },
                )
            )
        entries.append(
            Entry(
                "ingress.group_lookup.groups",
                {"mcst_id": int(IPv4Address(self.mcst_id))},
                "ingress.group_lookup.set_group",
                {"group_index": self.index},
            )
        )
        return entries

    def multicast(self) -> MulticastGroup:
        """Give the PRE group: id 0 means none, so ids are the index plus one."""
        replicas = tuple((path.port, number) for number, path in enumerate(self.paths))
        return MulticastGroup(self.index + 1, replicas)

    def entry_half(self, port: int, member: Member) -> Entry:
        """Admit a member's packets: source address := McstID."""
        ip, mcst_id = int(IPv4Address(member.ip)), int(IPv4Address(self.mcst_id))
        neutral = icrc.solve({icrc.SOURCE_ADDRESS: ip ^ mcst_id})
        return Entry(
            "ingress.bridge_entry.members",
            {"group_index": self.index, "ingress_port": port, "src_ip": ip},
            "ingress.bridge_entry.enter",
            {"id_xor": neutral.id_xor, "sport_xor": neutral.sport_xor},
        )

    def exit_half(self, port: int, member: Member) -> Entry:
        """Deliver to a member: destination := its address, queue pair and memory region."""
        ip, mcst_id = int(IPv4Address(member.ip)), int(IPv4Address(self.mcst_id))
        plain = {icrc.DESTINATION_ADDRESS: ip ^ mcst_id, icrc.DESTINATION_QP: VIRTUAL_QPN ^ member.qpn}
        va_xor, rkey_xor = self.va ^ member.va, self.r_key ^ member.r_key
        without = icrc.solve(plain)
        with_reth = icrc.solve({**plain, icrc.VIRTUAL_ADDRESS: va_xor, icrc.R_KEY: rkey_xor})
        return Entry(
            "egress.bridge_exit.receivers",
            {"group_index": self.index, "egress_port": port},
            "egress.bridge_exit.deliver",
            {
                "mac": int(member.mac.replace(":", ""), 16),
                "ip": ip,
                "qpn": member.qpn,
                "id_xor": without.id_xor,
                "sport_xor": without.sport_xor,
                "reth_id_xor": with_reth.id_xor,
                "reth_sport_xor": with_reth.sport_xor,
                "va_xor": va_xor,
                "rkey_xor": rkey_xor,
            },
        )


def lone_levels(path: int, paths: int) -> int:
    """Flag the levels of the tournament tree at which the other child of the path's node holds no path."""
    flags = 0
    for level in range(PATH_BITS):
        sibling = (path >> level) ^ 1
        if sibling << level >= paths:
            flags |= 1 << level
    return flags
