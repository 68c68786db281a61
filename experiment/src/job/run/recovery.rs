//! RDMC's recovery from a member's failure: the group closes, and the survivors agree on stable blocks and continue as a new group.
//!
//! A member that detects a neighbour's failure ends its transfer, and others may wait forever. So all surviving members leave the group and
//! report which blocks they hold. A block that all of them hold is stable. The survivors form a new group, with ranks without gaps. Its
//! source sends all blocks that are not stable to every survivor, including blocks that some of them hold.
//!
//! Connections may wait for ready notices of a failed member without breaking. So a lack of progress at all receivers also counts as a
//! detected failure. The job provides the list of failed members, as a membership service would.

use std::collections::BTreeSet;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::{Leg, LegCommand, Progress, Survivors};

use super::{MemberReports, Run};
use crate::fabric::Victim;
use crate::job::error::JobFailure;

impl Run<'_> {
    /// Causes the failures that are due. After a failure, also treats a lack of progress at all receivers as a detected
    /// failure.
    pub(super) fn fail_due_parts(
        &mut self,
        reported: &mut MemberReports,
    ) -> Result<(), JobFailure> {
        let now = self.fabric.now();
        while let Some(victim) = self.incidents.take_due(now) {
            self.fabric.kill(victim)?;
            if let Victim::Host(dead) = victim {
                let rank = self
                    .layout
                    .job
                    .members
                    .iter()
                    .position(|host| *host == dead);
                if let Some(rank) = rank {
                    reported.lost[rank] = true;
                }
            }
            self.received.1 = now;
        }
        if self.incidents.has_any() && now >= self.received.2 {
            self.received.2 = now + self.fabric.tick();
            let bytes = self.progress()?.bytes;
            if bytes != self.received.0 {
                (self.received.0, self.received.1) = (bytes, now);
            }
            reported.has_detected_failure |= now - self.received.1 >= self.fabric.stall_timeout();
        }
        Ok(())
    }

    /// Makes the survivors leave the group, agree on the blocks that all of them hold, and send the others in a new
    /// group.
    pub(super) fn recover(
        &mut self,
        reported: &mut MemberReports,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        if self.fabric.now() - self.layout.started_at > self.layout.time_limit() {
            let is_done = |t: &MemberReports, rank: usize| t.done[rank].is_some();
            return Err(self.time_limit_error("is not done", reported.missing(&is_done)));
        }
        self.add_leg_traffic()?;
        reported.left.fill(None);
        for &host in &self.survivors(reported) {
            self.fabric.execute_leg_command(host, LegCommand::Leave)?;
        }
        // Another member may fail meanwhile; the failure that is being handled is reset.
        reported.has_detected_failure = false;
        while reported.missing(&has_left).next().is_some() {
            reported.has_detected_failure = false;
            self.wait(reported, "has not left the group", has_left, watch)?;
        }
        reported.has_detected_failure = false;
        self.received.1 = self.fabric.now();
        let agreed_at = self.fabric.now();
        let lacking = self.unstable_slices(reported);

        let survivors = self.survivors(reported);
        if survivors.len() < 2 {
            // The source is the only survivor.
            reported.done[0] = Some((agreed_at, self.layout.job.data.sha256()));
            reported.finished[0] = true;
            return Ok(());
        }
        let leg = Leg {
            algorithm: self.layout.algorithm,
            group: None,
            held: Vec::new(),
            limit: None,
            survivors: Some(Survivors {
                members: survivors
                    .iter()
                    .map(|&host| self.layout.topology.host(host).ip)
                    .collect(),
                racks: self.layout.racks(&survivors),
                size: self.layout.job.data.bytes().len() as u64,
                lacking,
            }),
        };
        reported.ready.fill(false);
        reported.finished.fill(false);
        let mut endpoints = Vec::new();
        for &host in &survivors {
            endpoints.extend(
                self.fabric
                    .execute_for_endpoints(host, LegCommand::Resume { leg: leg.clone() })?,
            );
        }
        self.connect(&survivors, &endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.leg_traffic.before = self.traffic()?;
        if reported.has_detected_failure {
            return Ok(());
        }
        // The source starts last, when the others are ready.
        for &host in survivors[1..].iter().chain(&survivors[..1]) {
            self.fabric.execute_leg_command(host, LegCommand::Proceed)?;
        }
        self.incidents
            .record_agreement(agreed_at, self.fabric.now());
        Ok(())
    }

    fn survivors(&self, reported: &MemberReports) -> Vec<HostIndex> {
        let alive = self.layout.job.members.iter().zip(&reported.lost);
        let alive = alive.filter(|(_, lost)| !**lost);
        alive.map(|(host, _)| *host).collect()
    }

    /// Slices that not every survivor holds, so that they must be sent again.
    fn unstable_slices(&self, reported: &MemberReports) -> Vec<u32> {
        let slices = self.spec.as_ref().map_or(0, |spec| spec.slices);
        let mut lacking = BTreeSet::new();
        // The source, which is the first member, holds everything.
        let receivers = reported.left.iter().zip(&reported.lost).skip(1);
        for (left, _) in receivers.filter(|(_, lost)| !**lost) {
            let (held, beyond) = left.clone().unwrap_or_default();
            let beyond: BTreeSet<u32> = beyond.into_iter().collect();
            lacking.extend((held..slices).filter(|slice| !beyond.contains(slice)));
        }
        lacking.into_iter().collect()
    }
}

fn has_left(reported: &MemberReports, rank: usize) -> bool {
    reported.left[rank].is_some()
}
