//! What the members of a transfer have reported.

use std::collections::BTreeMap;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::Digest;

/// What the members of a transfer have reported so far, by rank.
pub(super) struct MemberReports {
    pub(super) ranks: BTreeMap<HostIndex, usize>,
    pub(super) ready: Vec<bool>,
    /// Time in nanoseconds at which each member was done, and the digest of its data; `None` before.
    pub(super) done: Vec<Option<(u64, Digest)>>,
    /// Time in nanoseconds at which each member had a part of the data, by part and rank; `None` before, and if the
    /// source does not change.
    pub(super) parts: Vec<Vec<Option<u64>>>,
    /// Whether each member is done, and all data that it relayed is acknowledged, too.
    pub(super) finished: Vec<bool>,
    /// For each member that has left a leg: its number of contiguous slices from the first on, and the slices beyond.
    pub(super) left: Vec<Option<(u32, Vec<u32>)>>,
    /// Whether a member has detected that another member has failed.
    pub(super) has_detected_failure: bool,
    /// Whether each member was removed or has failed, so that the job does not wait for it.
    pub(super) lost: Vec<bool>,
}

impl MemberReports {
    pub(super) fn new(hosts: &[HostIndex], parts: u32) -> MemberReports {
        let members = hosts.len();
        MemberReports {
            ranks: hosts.iter().copied().zip(0..).collect(),
            ready: vec![false; members],
            done: vec![None; members],
            parts: vec![vec![None; members]; parts as usize],
            finished: vec![false; members],
            left: vec![None; members],
            has_detected_failure: false,
            lost: vec![false; members],
        }
    }

    /// Ranks of the members for which `has` is false and that are not lost.
    pub(super) fn missing<'a>(
        &'a self,
        has: &'a impl Fn(&MemberReports, usize) -> bool,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.lost.len()).filter(move |&rank| self.is_missing(rank, has))
    }

    pub(super) fn is_missing(
        &self,
        rank: usize,
        has: &impl Fn(&MemberReports, usize) -> bool,
    ) -> bool {
        !self.lost[rank] && !has(self, rank)
    }
}
