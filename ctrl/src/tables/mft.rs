//! `ingress.group_lookup.mft`: the paths of a group, one per port of its tree on this switch.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: a port of a group's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MftKey {
    /// The group on this switch.
    pub group_index: u16,
    /// The port.
    pub port: u32,
}

/// Which path the port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Number of the path, dense from 0.
    pub path_index: u8,
    /// Bit L: at level L of the min-PSN tree the sibling subtree holds no path.
    pub lone: u8,
    /// Whether a member hangs from the port, rather than another switch.
    pub is_host: bool,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Mft {
    key: KeyIds<2>,
    set_path: ActionIds<3>,
}

impl Mft {
    pub(super) fn resolve(schema: &Schema) -> Result<Mft, ProgramError> {
        Ok(Mft {
            key: schema.table("ingress.group_lookup.mft")?.key([
                ("group_index", MatchType::Exact, 16),
                ("ingress_port", MatchType::Exact, 9),
            ])?,
            set_path: schema.action(
                "ingress.group_lookup.set_path",
                [("path_index", 8), ("lone", 8), ("is_host", 1)],
            )?,
        })
    }
}

impl Table for Mft {
    type Key = MftKey;
    type Action = PathEntry;

    fn entry(&self, key: &MftKey, path: &PathEntry) -> TableEntry {
        let action = self.set_path.call([
            u64::from(path.path_index),
            u64::from(path.lone),
            u64::from(path.is_host),
        ]);
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &MftKey) -> TableEntry {
        self.key
            .exact([u64::from(key.group_index), u64::from(key.port)])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(MftKey, PathEntry)> {
        let [group_index, port] = self.key.values(entry)?;
        let [path_index, lone, is_host] = self.set_path.arguments(entry)?;
        let key = MftKey {
            group_index: u16::try_from(group_index).ok()?,
            port: u32::try_from(port).ok()?,
        };
        let path = PathEntry {
            path_index: u8::try_from(path_index).ok()?,
            lone: u8::try_from(lone).ok()?,
            is_host: is_host != 0,
        };
        Some((key, path))
    }
}
