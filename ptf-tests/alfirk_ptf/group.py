"""The table entries and PRE group that a controller writes for a group, independent of the Rust code.

It does no input or output; `p4runtime` writes the entries to a switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from alfirk_ptf import contract, icrc
from alfirk_ptf.contract import IcrcMode, MinPsn
from alfirk_ptf.live import LOCAL_BITS, MAX_PATHS, PATH_BITS
from alfirk_ptf.target import PROFILE, TARGET, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Virtual queue pair number of a group, unless a test sets another one.
VIRTUAL_QPN = 0xA1F
#: Width in bits of group indexes on one switch (p4src/shared/sizes.p4).
GROUP_BITS = contract.MAX_GROUPS.bit_length() - 1
#: Maximum number of receivers attached to one switch, for all groups together.
RECEIVERS = 1 << GROUP_BITS + LOCAL_BITS
#: Bits of a path number for each level of the tournament tree: a node has 2^TREE_BITS children.
TREE_BITS = 2
#: Levels of the tournament tree for the largest groups that the pipeline can be compiled for.
TREE_LEVELS = 4

#: A value of a match field or an action parameter.
Value = int
#: An LPM match: value and prefix length.
Lpm = tuple[int, int]


@dataclass(frozen=True)
class Entry:
    """A table entry, by P4Info names."""

    table: str
    match: Mapping[str, Value | Lpm]
    action: str
    params: Mapping[str, Value]


@dataclass(frozen=True)
class MulticastGroup:
    """A PRE multicast group: its id, and port and instance of each replica."""

    group_id: int
    replicas: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Member:
    """A member of the group, as registered at its leaf switch."""

    mac: str
    ip: str
    qpn: int
    #: Base address and R_Key of the memory region that receives WRITEs.
    va: int = 0
    r_key: int = 0
    #: Whether the member may not be a source.
    only_receives: bool = False


@dataclass(frozen=True)
class Path:
    """A port of the group's tree, with the member attached to it, or None for another switch."""

    port: int
    member: Member | None = None


@dataclass(frozen=True)
class Group:
    """A group on one switch; path numbers are indexes of `paths`."""

    mcst_id: str
    index: int
    paths: tuple[Path, ...]
    #: The queue pair number that members send to; each group that reuses a McstID has another one.
    virtual_qpn: int = VIRTUAL_QPN
    #: Base address and R_Key that senders use in a WRITE to the group.
    va: int = 0
    r_key: int = 0
    min_psn: MinPsn = MinPsn.TREE
    icrc_mode: IcrcMode = IcrcMode.NEUTRAL
    #: Number of packets of the source that may be unacknowledged.
    window: int = contract.DEFAULT_WINDOW
    #: Whether queue pairs retransmit selectively.
    is_selective: bool = False

    @property
    def leaf_nodes(self) -> int:
        """Return the number of leaf nodes of the tree, which a walk reads; each has four paths."""
        return (len(self.paths) + 3) // 4

    def entries(self) -> list[Entry]:
        """List the table entries, in an order in which packets match either none or all of a group."""
        entries = []
        for number, path in enumerate(self.paths):
            if path.member:
                entries.append(self.exit_half(path.port, path.member))
                entries.append(self.entry_half(path.port, path.member))
            entries.append(
                Entry(
                    "ingress.group_lookup.mft",
                    {**self._name(), "ingress_port": path.port},
                    "ingress.group_lookup.set_path",
                    {**self._path(number), "is_host": int(path.member is not None)},
                )
            )
        params: dict[str, Value] = {
            "group_index": self.index,
            "paths": len(self.paths),
            "virtual_qpn": self.virtual_qpn,
            "min_psn": self.min_psn,
            "icrc": self.icrc_mode,
        }
        action = "set_group_with_qpn"
        if PROFILE is Profile.CORE:
            action = "set_group_with_window"
            params = {name: params[name] for name in ("group_index", "paths", "virtual_qpn")}
            params["window"] = self.window
        elif self.window != contract.DEFAULT_WINDOW or self.is_selective:
            action = "set_group_with_limits"
            params |= {"window": self.window, "is_selective": int(self.is_selective)}
        entries.append(
            Entry(
                "ingress.group_lookup.groups",
                {"mcst_id": int(IPv4Address(self.mcst_id))},
                f"ingress.group_lookup.{action}",
                params,
            )
        )
        return entries

    def multicast(self) -> MulticastGroup:
        """Build the PRE group; its id is the index plus one, because id 0 means no group."""
        replicas = tuple((path.port, number) for number, path in enumerate(self.paths))
        return MulticastGroup(self.index + 1, replicas)

    def entry_half(self, port: int, member: Member) -> Entry:
        """Build the bridge's entry half for a member: the source address becomes the McstID."""
        ip, mcst_id = int(IPv4Address(member.ip)), int(IPv4Address(self.mcst_id))
        neutral = self._solve({icrc.SOURCE_ADDRESS: ip ^ mcst_id})
        action = "enter_receiver" if member.only_receives else "enter"
        return Entry(
            "ingress.bridge_entry.members",
            {**self._name(), "ingress_port": port, "src_ip": ip},
            f"ingress.bridge_entry.{action}",
            {"id_xor": neutral.id_xor, "sport_xor": neutral.sport_xor},
        )

    def exit_half(self, port: int, member: Member) -> Entry:
        """Build the bridge's exit half for a member: address, queue pair and region become the member's."""
        ip, mcst_id = int(IPv4Address(member.ip)), int(IPv4Address(self.mcst_id))
        plain = {icrc.DESTINATION_ADDRESS: ip ^ mcst_id, icrc.DESTINATION_QP: self.virtual_qpn ^ member.qpn}
        va_xor, rkey_xor = self.va ^ member.va, self.r_key ^ member.r_key
        without = self._solve(plain)
        with_reth = self._solve({**plain, icrc.VIRTUAL_ADDRESS: va_xor, icrc.R_KEY: rkey_xor})
        return Entry(
            "egress.bridge_exit.receivers",
            {"group_index": self.index, "egress_port": port},
            "egress.bridge_exit.deliver_with_slot",
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
                "slot": self.slot(port),
            },
        )

    def _name(self) -> dict[str, int]:
        """Return the match field that identifies the group."""
        if TARGET.is_tofino:
            return {"mcst_id": int(IPv4Address(self.mcst_id))}
        return {"group_index": self.index}

    def _path(self, number: int) -> dict[str, int]:
        """Return the action parameters that identify a path."""
        paths = len(self.paths)
        if TARGET.is_tofino:
            return {"cell": self.index << PATH_BITS | number, "absent": absent_siblings(number, paths)}
        return {"path_index": number, "absent": absent_children(number, paths)}

    def slot(self, port: int) -> int:
        """Return the register index of a port's receiver; groups with distant indexes share these."""
        number = [path.port for path in self.paths].index(port)
        return (self.index * MAX_PATHS + number) % RECEIVERS

    def _solve(self, changes: dict[icrc.Field, int]) -> icrc.Neutral:
        """Find the constants that keep the ICRC; zero in modes that compute the ICRC again."""
        return icrc.solve(changes) if self.icrc_mode is IcrcMode.NEUTRAL else icrc.Neutral(0, 0)


def absent_children(path: int, paths: int) -> int:
    """Return flags of the children, of a path's nodes in the tournament tree, that have no path.

    Bit 4 L + c is that of child c at level L.
    """
    flags = 0
    for level in range(TREE_LEVELS):
        node = path >> TREE_BITS * (level + 1)
        for child in range(1 << TREE_BITS):
            if ((node << TREE_BITS) + child) << TREE_BITS * level >= paths:
                flags |= 1 << (4 * level + child)
    return flags


def absent_siblings(path: int, paths: int) -> int:
    """Return flags of the siblings, of a path's nodes in Tofino's binary tournament tree, that have no path.

    Bit L is that of level L.
    """
    return sum(1 << level for level in range(PATH_BITS) if (path >> level ^ 1) << level >= paths)
