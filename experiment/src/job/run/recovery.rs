//! RDMC when a member dies: the group closes, the survivors agree on what is stable, and go on as another group.
//!
//! Whoever notices that a neighbour does not answer ends its transfer, and the others may wait for ever: so all who are alive leave the
//! group, and report which blocks they hold. A block that all of them hold is stable. They are then a group of their own, with ranks without
//! gaps, in which the source sends the others: of these every survivor gets all, and what it held already it gets again.
//!
//! Connections between members wait for words that a dead one will never say, so it may be that none of them breaks; then it is noticed
//! that nobody gets anything any more. Who is dead the job knows, as a membership service would.

use std::collections::BTreeSet;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::{Algorithm, Leg, LegVerb, Progress, Survivors};

use super::{Reported, Run};
use crate::fabric::Victim;
use crate::job::error::JobError;

impl Run<'_> {
    /// Whether the group closes and goes on without them when members die.
    pub(super) fn closes(&self) -> bool {
        matches!(self.layout.algorithm, Algorithm::Rdmc(_)) && !self.layout.job.kills.is_empty()
    }

    /// Breaks what is due to break.
    pub(super) fn strike(&mut self, reported: &mut Reported) -> Result<(), JobError> {
        let now = self.fabric.now();
        while let Some(victim) = self.incidents.take_due(now) {
            let killed = self.fabric.kill(victim);
            self.on_fabric(killed)?;
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
        if self.incidents.any() && now >= self.received.2 {
            self.received.2 = now + self.fabric.tick();
            let bytes = self.progress()?.bytes;
            if bytes != self.received.0 {
                (self.received.0, self.received.1) = (bytes, now);
            }
            reported.broken |= now - self.received.1 >= self.fabric.patience();
        }
        Ok(())
    }

    /// Has the survivors leave, agree, and go on.
    pub(super) fn recover(
        &mut self,
        reported: &mut Reported,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        if self.fabric.now() - self.layout.begun > self.layout.time_limit() {
            let is_done = |t: &Reported, rank: usize| t.done[rank].is_some();
            return Err(self.too_late("is not done", reported.missing(&is_done)));
        }
        self.settle_cost()?;
        reported.left.fill(None);
        for &host in &self.survivors(reported) {
            let left = self.fabric.act(host, LegVerb::Leave);
            self.on_fabric(left)?;
        }
        // Another one may die meanwhile; and what it breaks is broken already.
        reported.broken = false;
        while reported.missing(&has_left).next().is_some() {
            reported.broken = false;
            self.wait(reported, "has not left the group", has_left, watch)?;
        }
        reported.broken = false;
        self.received.1 = self.fabric.now();
        let agreed_at = self.fabric.now();
        let lacking = self.lacking(reported);

        let survivors = self.survivors(reported);
        if survivors.len() < 2 {
            // The source has nobody to send to any more.
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
            let resumed = self
                .fabric
                .endpoints(host, LegVerb::Resume { leg: leg.clone() });
            endpoints.extend(self.on_fabric(resumed)?);
        }
        self.connect(&survivors, &endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.cost.before = self.traffic()?;
        if reported.broken {
            return Ok(());
        }
        // The source last: the others are to be ready.
        for &host in survivors[1..].iter().chain(&survivors[..1]) {
            let proceeded = self.fabric.act(host, LegVerb::Proceed);
            self.on_fabric(proceeded)?;
        }
        self.incidents.agreed(agreed_at, self.fabric.now());
        Ok(())
    }

    fn survivors(&self, reported: &Reported) -> Vec<HostIndex> {
        let alive = self.layout.job.members.iter().zip(&reported.lost);
        let alive = alive.filter(|(_, lost)| !**lost);
        alive.map(|(host, _)| *host).collect()
    }

    /// The slices that not every survivor holds.
    fn lacking(&self, reported: &Reported) -> Vec<u32> {
        let slices = self.spec.as_ref().map_or(0, |spec| spec.slices);
        let mut lacking = BTreeSet::new();
        // The source, which is the first, holds everything.
        let receivers = reported.left.iter().zip(&reported.lost).skip(1);
        for (left, _) in receivers.filter(|(_, lost)| !**lost) {
            let (held, beyond) = left.clone().unwrap_or_default();
            let beyond: BTreeSet<u32> = beyond.into_iter().collect();
            lacking.extend((held..slices).filter(|slice| !beyond.contains(slice)));
        }
        lacking.into_iter().collect()
    }
}

fn has_left(reported: &Reported, rank: usize) -> bool {
    reported.left[rank].is_some()
}
