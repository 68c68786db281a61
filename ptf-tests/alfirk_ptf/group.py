"""What a controller has to write for a group: a model of its own, apart from the Rust one.

Pure: gives table entries and PRE groups as data; `p4runtime` carries them to a switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from alfirk_ptf import contract, icrc
from alfirk_ptf.contract import IcrcMode, MinPsn
from alfirk_ptf.live import LOCAL_BITS, MAX_PATHS, PATH_BITS
from alfirk_ptf.target import TARGET

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What members address, unless a test says otherwise.
VIRTUAL_QPN = 0xA1F
#: Width in bits of group indexes on one switch (p4src/shared/sizes.p4).
GROUP_BITS = contract.MAX_GROUPS.bit_length() - 1
#: Receivers next to one switch, all groups together.
RECEIVERS = 1 << GROUP_BITS + LOCAL_BITS
#: Paths that share a node of the tournament tree are this many bits of their number apart.
TREE_BITS = 2
#: Levels of the tree for the largest groups that the pipeline can be compiled for.
TREE_LEVELS = 4

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
    #: It may not be a source.
    only_receives: bool = False


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
    #: The queue pair number that members address; another one for each group that has had the McstID.
    virtual_qpn: int = VIRTUAL_QPN
    #: The base address and key that senders use in a WRITE to the group.
    va: int = 0
    r_key: int = 0
    min_psn: MinPsn = MinPsn.TREE
    icrc_mode: IcrcMode = IcrcMode.NEUTRAL
    #: Packets that a source may be ahead, unless it is the data plane's default.
    window: int = contract.DEFAULT_WINDOW
    #: Its queue pairs repeat selectively.
    is_selective: bool = False

    @property
    def leaf_nodes(self) -> int:
        """Count the nodes that a walk has to look at: four paths in each."""
        return (len(self.paths) + 3) // 4

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
        if self.window != contract.DEFAULT_WINDOW or self.is_selective:
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
        """Give the PRE group: id 0 means none, so ids are the index plus one."""
        replicas = tuple((path.port, number) for number, path in enumerate(self.paths))
        return MulticastGroup(self.index + 1, replicas)

    def entry_half(self, port: int, member: Member) -> Entry:
        """Admit a member's packets: source address := McstID."""
        ip, mcst_id = int(IPv4Address(member.ip)), int(IPv4Address(self.mcst_id))
        neutral = self._solve({icrc.SOURCE_ADDRESS: ip ^ mcst_id})
        control = "ingress.group_lookup" if TARGET.is_tofino else "ingress.bridge_entry"
        return Entry(
            f"{control}.members",
            {**self._name(), "ingress_port": port, "src_ip": ip},
            f"{control}.enter_receiver" if member.only_receives else f"{control}.enter",
            {"id_xor": neutral.id_xor, "sport_xor": neutral.sport_xor},
        )

    def exit_half(self, port: int, member: Member) -> Entry:
        """Deliver to a member: destination := its address, queue pair and memory region."""
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
        """Give the match field that names the group."""
        if TARGET.is_tofino:
            return {"mcst_id": int(IPv4Address(self.mcst_id))}
        return {"group_index": self.index}

    def _path(self, number: int) -> dict[str, int]:
        """Give the parameters that say which path a port is."""
        paths = len(self.paths)
        if TARGET.is_tofino:
            return {"cell": self.index << PATH_BITS | number, "absent": absent_siblings(number, paths)}
        return {"path_index": number, "absent": absent_children(number, paths)}

    def slot(self, port: int) -> int:
        """Give the number of a port's receiver; groups far apart share numbers, but not time."""
        number = [path.port for path in self.paths].index(port)
        return (self.index * MAX_PATHS + number) % RECEIVERS

    def _solve(self, changes: dict[icrc.Field, int]) -> icrc.Neutral:
        """Find the constants that keep the ICRC; where it is computed anew none are needed."""
        return icrc.solve(changes) if self.icrc_mode is IcrcMode.NEUTRAL else icrc.Neutral(0, 0)


def absent_children(path: int, paths: int) -> int:
    """Flag where the path's nodes in the tournament tree have children without any path.

    Bit 4 L + c stands for child c at level L.
    """
    flags = 0
    for level in range(TREE_LEVELS):
        node = path >> TREE_BITS * (level + 1)
        for child in range(1 << TREE_BITS):
            if ((node << TREE_BITS) + child) << TREE_BITS * level >= paths:
                flags |= 1 << (4 * level + child)
    return flags


def absent_siblings(path: int, paths: int) -> int:
    """Flag where the sibling of a path's node in Tofino's tournament tree, which is binary, has no path.

    Bit L stands for level L.
    """
    return sum(1 << level for level in range(PATH_BITS) if (path >> level ^ 1) << level >= paths)
