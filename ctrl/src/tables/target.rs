//! Target of the data plane, and differences between the tables of both targets (`p4src/v1model`, `p4src/tna`).

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::P4Info;

/// The target of a data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// BMv2's `simple_switch`, or the switch of this repository.
    V1model,
    /// Tofino or Tofino 2.
    Tofino,
}

impl Target {
    /// Target of the architecture in P4Info's package information.
    pub(super) fn of(p4info: &P4Info) -> Target {
        match p4info.pkg_info.as_ref().map(|package| &*package.arch) {
            Some("tna" | "t2na") => Target::Tofino,
            _ => Target::V1model,
        }
    }

    /// The part of a table key that identifies a group on this target.
    pub fn group_name(self, group_index: u16, mcst_id: Ipv4Addr) -> GroupName {
        match self {
            Target::V1model => GroupName::Index(group_index),
            // Tofino looks these tables up in parallel with `groups`, so the key must come from the packet itself.
            Target::Tofino => GroupName::McstId(mcst_id),
        }
    }

    /// Name and width in bits of the match field that identifies a group.
    pub(super) fn group_field(self) -> (&'static str, i32) {
        match self {
            Target::V1model => ("group_index", 16),
            Target::Tofino => ("mcst_id", 32),
        }
    }

    /// Number of next-hop entries for an ECMP group of `ports` ports. A power of two on Tofino, which masks the hash instead of
    /// computing a modulus.
    pub fn next_hops(self, ports: usize) -> usize {
        match self {
            Target::V1model => ports,
            Target::Tofino => ports.next_power_of_two(),
        }
    }
}

/// Identification of a group in a table key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupName {
    /// Index of the group on this switch.
    Index(u16),
    /// Address of the group.
    McstId(Ipv4Addr),
}

impl GroupName {
    /// Value of the match field that identifies the group.
    pub(super) fn value(self) -> u64 {
        match self {
            GroupName::Index(index) => u64::from(index),
            GroupName::McstId(mcst_id) => u64::from(u32::from(mcst_id)),
        }
    }

    /// Parses the value of the match field that identifies a group; `None` if it is out of range.
    pub(super) fn from_value(target: Target, value: u64) -> Option<GroupName> {
        Some(match target {
            Target::V1model => GroupName::Index(u16::try_from(value).ok()?),
            Target::Tofino => GroupName::McstId(u32::try_from(value).ok()?.into()),
        })
    }

    /// Whether this name denotes the group with the given index and address.
    pub fn is(self, group_index: u16, mcst_id: Ipv4Addr) -> bool {
        match self {
            GroupName::Index(index) => index == group_index,
            GroupName::McstId(address) => address == mcst_id,
        }
    }
}
