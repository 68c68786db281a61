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
    /// Bit 4 L + c: at level L of the min-PSN tree, child c of this path's node holds no path; see [`absent`].
    pub absent: u16,
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
    pub(super) const NAME: &'static str = "ingress.group_lookup.mft";

    pub(super) fn resolve(schema: &Schema) -> Result<Mft, ProgramError> {
        Ok(Mft {
            key: schema.table(Self::NAME)?.key([
                ("group_index", MatchType::Exact, 16),
                ("ingress_port", MatchType::Exact, 9),
            ])?,
            set_path: schema.action(
                "ingress.group_lookup.set_path",
                [("path_index", 8), ("absent", 16), ("is_host", 1)],
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
            u64::from(path.absent),
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
        let [path_index, absent, is_host] = self.set_path.arguments(entry)?;
        let key = MftKey {
            group_index: u16::try_from(group_index).ok()?,
            port: u32::try_from(port).ok()?,
        };
        let path = PathEntry {
            path_index: u8::try_from(path_index).ok()?,
            absent: u16::try_from(absent).ok()?,
            is_host: is_host != 0,
        };
        Some((key, path))
    }
}

/// Levels of the min-PSN tree at the most, and bits of a path index that each of them takes.
const LEVELS: usize = 4;
const LEVEL_BITS: usize = 2;

/// Which children of a path's nodes in the min-PSN tree hold none of `count` paths (`p4src/v1model/min_psn_tree.p4`).
///
/// Nodes have four children. Child c of the path's node at level L covers the paths whose bits from 2 L up are the
/// node's number and c.
pub fn absent(path: usize, count: usize) -> u16 {
    let mut bits = 0;
    for level in 0..LEVELS {
        let shift = LEVEL_BITS * level;
        let node = path >> (shift + LEVEL_BITS);
        for child in 0..4 {
            let first = (node << LEVEL_BITS | child) << shift;
            if first >= count {
                bits |= 1 << (4 * level + child);
            }
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::absent;

    #[test]
    fn children_without_paths_are_marked_level_by_level() {
        assert_eq!(absent(0, 1), 0b1110_1110_1110_1110);
        assert_eq!(absent(1, 2), 0b1110_1110_1110_1100);
        // Paths 4 and 5 of 6: the second leaf node has two, the node above it has two leaf nodes.
        assert_eq!(absent(4, 6), 0b1110_1110_1100_1100);
        assert_eq!(absent(3, 6), 0b1110_1110_1100_0000);
        assert_eq!(absent(63, 64), 0b1110_0000_0000_0000);
        assert_eq!(absent(127, 128), 0b1100_0000_0000_0000);
    }

    #[test]
    fn a_child_is_absent_exactly_when_no_path_is_in_it() {
        for count in 1..=128 {
            for path in 0..count {
                for bit in 0..16 {
                    let (level, child) = (bit / 4, bit % 4);
                    let of = |p: usize| p >> (2 * level);
                    let is_there = (0..count).any(|p| of(p) == of(path) & !3 | child);
                    assert_eq!(absent(path, count) >> bit & 1 == 0, is_there);
                }
            }
        }
    }
}
