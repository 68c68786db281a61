//! `ingress.group_lookup.mft`: the paths of a group, one per port of its tree on this switch.
//!
//! By a tournament tree over the path numbers, the min-PSN tree, the switch finds the minimum of the PSNs that the paths
//! have acknowledged.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::target::{GroupName, Target};
use super::Table;

/// Key: a port of a group's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MftKey {
    /// The group, by index or address, depending on the target.
    pub group: GroupName,
    /// Port of the group's tree on the switch.
    pub port: u32,
}

/// The path of a group at one port of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Index of the group on this switch. `None` in entries read from v1model, where the index is in the key.
    pub group_index: Option<u16>,
    /// Number of the path: 0, 1, ... without gaps.
    pub path_index: u8,
    /// Bit mask of the nodes without paths, among those that the min-PSN tree compares with this path; see [`Mft::absent`].
    pub absent: u16,
    /// Whether a member is attached to the port; false for another switch.
    pub is_host: bool,
}

/// The table that maps ports of groups to paths (multicast forwarding table).
#[derive(Clone, Debug)]
pub struct Mft {
    key: KeyIds<2>,
    set_path: ActionIds<3>,
    target: Target,
    /// Width of a path number in bits.
    path_bits: u32,
}

impl Mft {
    pub(super) const NAME: &'static str = "ingress.group_lookup.mft";

    /// Looks up the table in P4Info. `paths`: maximum number of paths per group.
    pub(super) fn resolve(
        schema: &Schema,
        target: Target,
        paths: u32,
    ) -> Result<Mft, ProgramError> {
        let (group, bits) = target.group_field();
        let path_bits = paths.max(2).next_power_of_two().ilog2();
        let (path, absent) = match target {
            Target::V1model => (("path_index", 8), 16),
            // `cell` is the group index concatenated with the path index; Tofino's tree is binary.
            Target::Tofino => (("cell", 16), path_bits as i32),
        };
        Ok(Mft {
            key: schema.table(Self::NAME)?.key([
                (group, MatchType::Exact, bits),
                ("ingress_port", MatchType::Exact, 9),
            ])?,
            set_path: schema.action(
                "ingress.group_lookup.set_path",
                [path, ("absent", absent), ("is_host", 1)],
            )?,
            target,
            path_bits,
        })
    }

    /// Bit mask of the nodes without paths, among those that the min-PSN tree compares with path number `path`. `count`:
    /// number of paths of the group.
    pub fn absent(&self, path: usize, count: usize) -> u16 {
        match self.target {
            Target::V1model => absent_children(path, count),
            Target::Tofino => absent_siblings(path, count, self.path_bits),
        }
    }
}

impl Table for Mft {
    type Key = MftKey;
    type Action = PathEntry;

    fn entry(&self, key: &MftKey, path: &PathEntry) -> TableEntry {
        let index = match (self.target, path.group_index) {
            (Target::Tofino, Some(group)) => u64::from(group) << self.path_bits,
            _ => 0,
        };
        let action = self.set_path.call([
            index | u64::from(path.path_index),
            u64::from(path.absent),
            u64::from(path.is_host),
        ]);
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &MftKey) -> TableEntry {
        self.key.exact([key.group.value(), u64::from(key.port)])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(MftKey, PathEntry)> {
        let [group, port] = self.key.values(entry)?;
        let [path_index, absent, is_host] = self.set_path.arguments(entry)?;
        let key = MftKey {
            group: GroupName::from_value(self.target, group)?,
            port: u32::try_from(port).ok()?,
        };
        let (group_index, path_index) = match self.target {
            Target::V1model => (None, path_index),
            Target::Tofino => (
                Some(u16::try_from(path_index >> self.path_bits).ok()?),
                path_index & ((1 << self.path_bits) - 1),
            ),
        };
        let path = PathEntry {
            group_index,
            path_index: u8::try_from(path_index).ok()?,
            absent: u16::try_from(absent).ok()?,
            is_host: is_host != 0,
        };
        Some((key, path))
    }
}

/// Maximum number of levels of v1model's min-PSN tree.
const LEVELS: usize = 4;
/// Bits of the path number per level of v1model's min-PSN tree.
const LEVEL_BITS: usize = 2;

/// Bit mask for Tofino's binary tree (`p4src/tna/min_psn_tree.p4`). Bit L is set if the sibling of the path's node at level L
/// contains none of the `count` paths.
fn absent_siblings(path: usize, count: usize, levels: u32) -> u16 {
    let is_absent = |level: &u32| ((path >> level) ^ 1) << level >= count;
    (0..levels).filter(is_absent).map(|level| 1 << level).sum()
}

/// Bit mask for v1model's tree (`p4src/v1model/min_psn_tree.p4`), whose nodes have four children. Bit 4 L + c is set if child c
/// of the path's node at level L contains none of the `count` paths.
///
/// Child c at level L covers the paths whose index, shifted right by 2 L bits, is the node's number followed by c.
pub fn absent_children(path: usize, count: usize) -> u16 {
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
    use super::absent_children as absent;
    use super::absent_siblings;

    #[test]
    fn a_sibling_is_absent_if_and_only_if_it_contains_no_path() {
        for count in 1..=128 {
            for path in 0..count {
                for level in 0..7 {
                    let sibling = (path >> level) ^ 1;
                    let is_there = (0..count).any(|other| other >> level == sibling);
                    assert_eq!(absent_siblings(path, count, 7) >> level & 1 == 0, is_there);
                }
            }
        }
    }

    #[test]
    fn children_without_paths_are_marked_on_every_level() {
        assert_eq!(absent(0, 1), 0b1110_1110_1110_1110);
        assert_eq!(absent(1, 2), 0b1110_1110_1110_1100);
        // Paths 4 and 5 of 6: the second leaf node has two, the node above it has two leaf nodes.
        assert_eq!(absent(4, 6), 0b1110_1110_1100_1100);
        assert_eq!(absent(3, 6), 0b1110_1110_1100_0000);
        assert_eq!(absent(63, 64), 0b1110_0000_0000_0000);
        assert_eq!(absent(127, 128), 0b1100_0000_0000_0000);
    }

    #[test]
    fn a_child_is_absent_if_and_only_if_it_contains_no_path() {
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
