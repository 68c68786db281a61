//! `ingress.group_lookup.groups`: which McstIDs are groups of this switch.
//!
//! This entry makes a group visible to packets; it is written last and removed first.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::wire::QpNum;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;
use crate::strategy::{IcrcMode, MinPsn, Strategies};

/// Key: the address that stands for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The McstID.
    pub mcst_id: Ipv4Addr,
}

/// What a switch is to know of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// The group's number on this switch; in the PRE it is one more.
    pub group_index: u16,
    /// Paths of the group on this switch.
    pub paths: u8,
    /// The queue pair number that members address.
    pub virtual_qpn: QpNum,
    /// How its feedback and ICRCs are handled.
    pub strategies: Strategies,
}

/// The table; its one action gives the group's index on this switch.
#[derive(Clone, Debug)]
pub struct Groups {
    key: KeyIds<1>,
    set_group: ActionIds<5>,
}

impl Groups {
    pub(super) const NAME: &'static str = "ingress.group_lookup.groups";

    pub(super) fn resolve(schema: &Schema) -> Result<Groups, ProgramError> {
        Ok(Groups {
            key: schema
                .table(Self::NAME)?
                .key([("mcst_id", MatchType::Exact, 32)])?,
            set_group: schema.action(
                "ingress.group_lookup.set_group_with_qpn",
                [
                    ("group_index", 16),
                    ("paths", 8),
                    ("min_psn", 2),
                    ("icrc", 2),
                    ("virtual_qpn", 24),
                ],
            )?,
        })
    }
}

impl Table for Groups {
    type Key = GroupKey;
    type Action = GroupEntry;

    fn entry(&self, key: &GroupKey, group: &GroupEntry) -> TableEntry {
        let action = self.set_group.call([
            u64::from(group.group_index),
            u64::from(group.paths),
            u64::from(group.strategies.min_psn.number()),
            u64::from(group.strategies.icrc.number()),
            u64::from(group.virtual_qpn.get()),
        ]);
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &GroupKey) -> TableEntry {
        self.key.exact([u64::from(u32::from(key.mcst_id))])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(GroupKey, GroupEntry)> {
        let [mcst_id] = self.key.values(entry)?;
        let [index, paths, min_psn, icrc, virtual_qpn] = self.set_group.arguments(entry)?;
        let mcst_id = Ipv4Addr::from(u32::try_from(mcst_id).ok()?);
        let group = GroupEntry {
            group_index: u16::try_from(index).ok()?,
            paths: u8::try_from(paths).ok()?,
            virtual_qpn: QpNum::try_from(u32::try_from(virtual_qpn).ok()?).ok()?,
            strategies: Strategies {
                min_psn: MinPsn::from_number(min_psn)?,
                icrc: IcrcMode::from_number(icrc)?,
            },
        };
        Some((GroupKey { mcst_id }, group))
    }
}
