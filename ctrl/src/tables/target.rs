//! Target of the data plane, and differences between the tables of both targets (`p4src/v1model`, `p4src/tna`).

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::P4Info;

/// The target of a data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `simple_switch` and ours.
    V1model,
    /// Tofino, either chip.
    Tofino,
}

impl Target {
    /// By the architecture that P4Info names.
    pub(super) fn of(p4info: &P4Info) -> Target {
        match p4info.pkg_info.as_ref().map(|package| &*package.arch) {
            Some("tna" | "t2na") => Target::Tofino,
            _ => Target::V1model,
        }
    }

    /// How tables of this target name a group.
    pub fn group_name(self, group_index: u16, mcst_id: Ipv4Addr) -> GroupName {
        match self {
            Target::V1model => GroupName::Index(group_index),
            // Its tables are looked up side by side, all by what the packet itself says.
            Target::Tofino => GroupName::McstId(mcst_id),
        }
    }

    /// The match field that names a group, and its width.
    pub(super) fn group_field(self) -> (&'static str, i32) {
        match self {
            Target::V1model => ("group_index", 16),
            Target::Tofino => ("mcst_id", 32),
        }
    }

    /// Next hops that a group of equal costs is written as: there is no modulo on Tofino, so it takes a power of two.
    pub fn next_hops(self, ports: usize) -> usize {
        match self {
            Target::V1model => ports,
            Target::Tofino => ports.next_power_of_two(),
        }
    }
}

/// What a table's key knows a group by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupName {
    /// Its number on this switch.
    Index(u16),
    /// Its address.
    McstId(Ipv4Addr),
}

impl GroupName {
    /// As a key has it.
    pub(super) fn value(self) -> u64 {
        match self {
            GroupName::Index(index) => u64::from(index),
            GroupName::McstId(mcst_id) => u64::from(u32::from(mcst_id)),
        }
    }

    /// From a key of a table of this target.
    pub(super) fn from_value(target: Target, value: u64) -> Option<GroupName> {
        Some(match target {
            Target::V1model => GroupName::Index(u16::try_from(value).ok()?),
            Target::Tofino => GroupName::McstId(u32::try_from(value).ok()?.into()),
        })
    }

    /// Whether a group is the one that is named.
    pub fn is(self, group_index: u16, mcst_id: Ipv4Addr) -> bool {
        match self {
            GroupName::Index(index) => index == group_index,
            GroupName::McstId(address) => address == mcst_id,
        }
    }
}
