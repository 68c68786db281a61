//! Results of a run, from what its members have reported.

use alfirk_ctrl::tables::Counts;
use alfirk_roce::collective::{Digest, TransferSpec};

use super::reports::MemberReports;
use super::Run;
use crate::fabric::Traffic;
use crate::job::error::JobFailure;
use crate::report::{goodput_gbps, Missing, MissingReason, PartRow, Row};

impl Run<'_> {
    pub(super) fn row(
        &self,
        reported: &MemberReports,
        posted_at: &[u64],
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        let first = self.first_receiver(posted_at);
        let last = reported.done[first..]
            .iter()
            .flatten()
            .map(|&(at, _)| at)
            .max();
        let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at[0]));
        let ranks = reported.done.iter().enumerate().skip(first);
        let right = ranks
            .filter(|(rank, done)| done.is_some_and(|(_, sha256)| sha256 == self.expected(*rank)));
        let receivers_verified = right.count();
        let receivers = reported.done.len() - first;
        let lost = (first..reported.done.len())
            .filter(|&rank| reported.lost[rank] && reported.done[rank].is_none());
        let lost: Vec<String> = lost.map(|rank| self.host_name(rank)).collect();
        Row {
            completion_ns,
            goodput_gbps: goodput_gbps(self.layout.job.data.bytes().len() as u64, completion_ns),
            verified: receivers_verified + lost.len() == receivers,
            receivers,
            receivers_verified,
            failures: self.incidents.report(),
            lost,
            parts: self.part_rows(reported, posted_at),
            ..Row::of_cost(self.layout.algorithm, self.layout.job, traffic, counts)
        }
    }

    /// Returns the receivers that do not hold the expected data, except those that the job itself cut off or made
    /// hostile.
    pub(super) fn missing(
        &mut self,
        reported: &MemberReports,
        posted_at: &[u64],
    ) -> Result<Vec<Missing>, JobFailure> {
        let mut missing = Vec::new();
        for rank in self.first_receiver(posted_at)..reported.done.len() {
            let host = self.layout.job.members[rank];
            let source = self.layout.job.members[self.source_rank];
            let is_expected = self.layout.job.hostiles.contains(&host)
                || self
                    .incidents
                    .is_cut_off(self.layout.topology, source, host);
            let why = match reported.done[rank] {
                Some((_, sha256)) if sha256 == self.expected(rank) => continue,
                Some(_) => MissingReason::Wrong,
                None if is_expected => continue,
                None if reported.lost[rank] => MissingReason::Removed,
                None => MissingReason::Late,
            };
            let progress = self.fabric.progress(host)?;
            missing.push(Missing {
                host: self.host_name(rank),
                bytes: progress.bytes.min(progress.total),
                total: progress.total,
                why,
            });
        }
        Ok(missing)
    }

    /// Rank of the first member that receives: 0 if the source changes or every member starts with own data, else 1.
    pub(super) fn first_receiver(&self, posted_at: &[u64]) -> usize {
        let is_only_source =
            posted_at.len() == 1 && !self.layout.job.collective.begins_everywhere();
        usize::from(is_only_source)
    }

    /// Digest of the data that a member should hold at the end.
    pub(super) fn expected(&self, rank: usize) -> Digest {
        let spec = self.spec.as_ref().map(|spec| TransferSpec {
            rank: rank as u32,
            ..spec.clone()
        });
        match spec.map(|spec| spec.final_bytes()) {
            Some((offset, len)) if len < self.layout.job.data.bytes().len() as u64 => {
                Digest::of(&self.layout.job.data.bytes()[offset as usize..][..len as usize])
            }
            _ => self.layout.job.data.sha256(),
        }
    }

    /// Results of the parts of the data, each sent by another source; empty unless the source changes.
    fn part_rows(&self, reported: &MemberReports, posted_at: &[u64]) -> Vec<PartRow> {
        let Some(spec) = self.spec.as_ref().filter(|spec| spec.has_several_sources()) else {
            return Vec::new();
        };
        let rows = posted_at.iter().zip(&reported.parts).enumerate();
        rows.map(|(part, (&posted_at, reported))| {
            let source = spec.source_of(part as u32) as usize;
            let (_, bytes) = spec.part(part as u32);
            let others = reported
                .iter()
                .enumerate()
                .filter(|(rank, _)| *rank != source);
            let last = others.filter_map(|(_, at)| *at).max();
            let completion_ns = last.map_or(0, |at| at.saturating_sub(posted_at));
            PartRow {
                source: self.host_name(source),
                bytes,
                completion_ns,
                goodput_gbps: goodput_gbps(bytes, completion_ns),
            }
        })
        .collect()
    }
}
