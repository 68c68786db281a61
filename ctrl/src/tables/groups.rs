//! `ingress.group_lookup.groups`: which McstIDs are groups of this switch.
//!
//! This entry makes a group visible to packets; it is written last and removed first.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: the address that stands for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The McstID.
    pub mcst_id: Ipv4Addr,
}

/// The table; its one action gives the group's index on this switch.
#[derive(Clone, Debug)]
pub struct Groups {
    key: KeyIds<1>,
    set_group: ActionIds<1>,
}

impl Groups {
    pub(super) const NAME: &'static str = "ingress.group_lookup.groups";

    pub(super) fn resolve(schema: &Schema) -> Result<Groups, ProgramError> {
        Ok(Groups {
            key: schema
                .table(Self::NAME)?
                .key([("mcst_id", MatchType::Exact, 32)])?,
            set_group: schema.action("ingress.group_lookup.set_group", [("group_index", 16)])?,
        })
    }
}

impl Table for Groups {
    type Key = GroupKey;
    type Action = u16;

    fn entry(&self, key: &GroupKey, group_index: &u16) -> TableEntry {
        TableEntry {
            action: Some(self.set_group.call([u64::from(*group_index)])),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &GroupKey) -> TableEntry {
        self.key.exact([u64::from(u32::from(key.mcst_id))])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(GroupKey, u16)> {
        let [mcst_id] = self.key.values(entry)?;
        let [index] = self.set_group.arguments(entry)?;
        let mcst_id = Ipv4Addr::from(u32::try_from(mcst_id).ok()?);
        Some((GroupKey { mcst_id }, u16::try_from(index).ok()?))
    }
}
