//! The racks of a group's members, shared by the plans of all members.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The rack of each member; without a list, the racks are unknown. Clones share one list, so that planning for all n
/// members takes O(n) time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<u32>", into = "Vec<u32>")]
pub struct Racks(Option<Arc<List>>);

#[derive(Debug, PartialEq, Eq)]
struct List {
    /// The rack number of each rank (member), as the caller has passed it.
    rack_numbers: Vec<u32>,
    /// Ranks of the members in each rack, ascending. Racks are ordered by their first member.
    members_by_rack: Vec<Vec<u32>>,
    /// Rank of the first member in each rack.
    leaders: Vec<u32>,
    /// For each rank: the index of its rack, and its position in that rack.
    places: Vec<(u32, u32)>,
}

impl Racks {
    /// No rack is known. For algorithms that do not need the racks.
    pub const NONE: &'static Racks = &Racks(None);

    /// Number of members whose rack is known.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.rack_numbers.len())
    }

    /// Whether the racks are unknown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rank of the first member in each rack, ascending.
    pub(super) fn leaders(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |list| &list.leaders)
    }

    /// For a rank: the index of its rack, its position in the rack, and all members of the rack. `None` if its rack is
    /// unknown.
    pub(super) fn of(&self, rank: u32) -> Option<(u32, u32, &[u32])> {
        let list = self.0.as_ref()?;
        let (rack, place) = *list.places.get(rank as usize)?;
        Some((rack, place, &list.members_by_rack[rack as usize]))
    }
}

impl From<Vec<u32>> for Racks {
    fn from(rack_numbers: Vec<u32>) -> Racks {
        if rack_numbers.is_empty() {
            return Racks(None);
        }
        let mut members_by_rack: Vec<Vec<u32>> = Vec::new();
        let mut known = BTreeMap::new();
        let places = rack_numbers.iter().zip(0..).map(|(name, rank)| {
            let rack = *known.entry(*name).or_insert_with(|| {
                members_by_rack.push(Vec::new());
                members_by_rack.len() - 1
            });
            members_by_rack[rack].push(rank);
            (rack as u32, members_by_rack[rack].len() as u32 - 1)
        });
        let places = places.collect();
        Racks(Some(Arc::new(List {
            leaders: members_by_rack.iter().map(|members| members[0]).collect(),
            members_by_rack,
            places,
            rack_numbers,
        })))
    }
}

impl From<Racks> for Vec<u32> {
    fn from(racks: Racks) -> Vec<u32> {
        racks
            .0
            .map_or_else(Vec::new, |list| list.rack_numbers.clone())
    }
}

impl FromIterator<u32> for Racks {
    fn from_iter<I: IntoIterator<Item = u32>>(racks: I) -> Racks {
        racks.into_iter().collect::<Vec<u32>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_members_lead_their_racks() {
        let racks: Racks = [7, 7, 2, 7, 2].into_iter().collect();
        assert_eq!((racks.len(), racks.leaders()), (5, &[0, 2][..]));
        assert_eq!(racks.of(3), Some((0, 2, &[0, 1, 3][..])));
        assert_eq!(racks.of(2), Some((1, 0, &[2, 4][..])));
        assert_eq!((racks.of(5), Racks::NONE.of(0)), (None, None));
    }
}
