//! A transfer that continues without its multicast group while the group is unavailable or slow, and returns to it
//! later.
//!
//! An *overlay* is an algorithm that uses only unicast connections between members. The [`Safeguard`] decides when to
//! change between group and overlay.
//!
//! The message is divided into slices and sent in legs: through the group, or by the fallback overlay. A leg's received slices are settled
//! before the next leg begins (`alfirk_roce::collective::Leg`), so each receiver gets each slice once. Each leg through the group has its
//! own registration, McstID and queue pairs, so packets of a former leg cannot be mistaken for those of the next.

use alfirk_roce::collective::{Algorithm, Leg, LegCommand, Progress};

use super::{MemberReports, Run};
use crate::job::error::JobFailure;
use crate::report::Change;
use crate::safeguard::{Decision, Safeguard, SafeguardConfig};

/// Minimum number of slices by which the source of an overlay may be ahead of the slowest receiver. One slice for each
/// member, and twice the slices received since the last check, are added. The lead keeps links busy. It is small,
/// because its slices must arrive before the group is used again.
const MIN_LEAD: u32 = 8;

/// Reason why a transfer changes to another leg.
pub(super) enum LegReason {
    /// The registration of the group was refused, for the given reason.
    Refused(String),
    /// The group was slower than the safeguard permits, as described by the text.
    Slow(String),
    /// The group was granted again, after the given number of further refusals.
    Granted(u32),
}

/// The safeguard of a run, the state of its overlay, and the changes between group and overlay so far.
pub(super) struct SafeguardState {
    guard: Safeguard,
    overlay: Algorithm,
    posted_at: Option<u64>,
    /// While on an overlay: time of the last check in nanoseconds, and the number of slices that all receivers held at
    /// that time.
    last_check: (u64, u32),
    /// While on an overlay: number of slices that the source may have posted.
    limit: u32,
    /// Number of refused requests for the group since the last change.
    refusals: u32,
    changes: Vec<Change>,
}

impl Run<'_> {
    /// Runs the transfer to its end, and changes between group and overlay as the safeguard decides.
    pub(super) fn run_with_safeguard(
        &mut self,
        reported: &mut MemberReports,
        state: &mut SafeguardState,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let is_over = |t: &MemberReports, rank: usize| t.done[rank].is_some() && t.finished[rank];
        while reported.missing(&is_over).next().is_some() {
            let now = self.fabric.now();
            if now >= deadline {
                return Err(self.time_limit_error("is not done", reported.missing(&is_over)));
            }
            let mut until = deadline.min(state.guard.next().max(now + 1));
            if !self.uses_group {
                until = until.min(self.pace(state)?);
            }
            self.step(reported, until, watch)?;
            let now = self.fabric.now();
            if now < state.guard.next() || reported.missing(&is_over).next().is_none() {
                continue;
            }
            let acknowledged = match self.uses_group {
                true => self.acknowledged_bytes()?,
                false => 0,
            };
            match state.guard.observe(now, acknowledged) {
                Decision::Stay => {}
                Decision::FallBack(why) => {
                    self.fall_back(reported, state, LegReason::Slow(why.to_string()), watch)?;
                }
                Decision::Return => self.try_group(reported, state, watch)?,
            }
        }
        Ok(())
    }

    /// Leaves the group, if there is one, and continues on the overlay. Returns the time in nanoseconds at which the
    /// source sent on the overlay.
    ///
    pub(super) fn fall_back(
        &mut self,
        reported: &mut MemberReports,
        state: &mut SafeguardState,
        reason: LegReason,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<u64, JobFailure> {
        let asked_at = self.fabric.now();
        let held = self.leave(reported, state, watch)?;
        if self.uses_group {
            // The group is unused now. If it cannot be removed, it only occupies an entry until the controller ends.
            match self.deregister() {
                Err(error) if error.leaves_members_alone() => {}
                removed => removed?,
            }
            self.uses_group = false;
        }
        self.layout.algorithm = state.overlay;
        state.last_check = (self.fabric.now(), min_held(&held));
        state.limit = min_held(&held) + self.min_lead();
        let leg = Leg {
            algorithm: state.overlay,
            group: None,
            held,
            limit: Some(state.limit),
            survivors: None,
        };
        let everywhere = min_held(&leg.held);
        let began = self.begin(reported, state, leg, watch)?;
        state.record_change(reason, (asked_at, began), (everywhere, self.slices()));
        state.guard.overlay_begins(began);
        Ok(began)
    }

    /// Raises the number of slices that the source of an overlay may have posted, if the receivers have progressed.
    /// Returns the time of the next check.
    fn pace(&mut self, state: &mut SafeguardState) -> Result<u64, JobFailure> {
        let now = self.fabric.now();
        let (checked_at, had) = state.last_check;
        let pause = (self.fabric.tick() / 4).max(1);
        if state.limit >= self.slices() {
            return Ok(u64::MAX);
        }
        if now < checked_at + pause {
            return Ok(checked_at + pause);
        }
        let mut held = self.slices();
        for &host in &self.layout.job.members[1..] {
            held = held.min(self.fabric.held_slices(host)?);
        }
        state.last_check = (now, held);
        let limit = held + self.min_lead() + 2 * held.saturating_sub(had);
        if limit > state.limit {
            state.limit = limit;
            self.fabric
                .execute_leg_command(self.layout.job.members[0], LegCommand::Pace { limit })?;
        }
        Ok(now + pause)
    }

    /// Minimum number of slices by which the source of the overlay may be ahead of the slowest receiver.
    fn min_lead(&self) -> u32 {
        MIN_LEAD + self.layout.job.members.len() as u32
    }

    /// Requests the group again while the transfer runs on the overlay, and changes to the group if it is granted.
    fn try_group(
        &mut self,
        reported: &mut MemberReports,
        state: &mut SafeguardState,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        self.layout.generation += 1;
        let group = self.layout.group();
        let mut endpoints = Vec::new();
        for &host in &self.layout.job.members {
            endpoints.extend(
                self.fabric
                    .execute_for_endpoints(host, LegCommand::StandBy { group })?,
            );
        }
        match self.register(&endpoints) {
            Ok(()) => {}
            Err(error) if error.leaves_members_alone() => {
                state.refusals += 1;
                self.discard_standby_queue_pairs()?;
                state.guard.overlay_begins(self.fabric.now());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let asked_at = self.fabric.now();
        let limit = self
            .fabric
            .execute_for_limit(self.layout.job.members[0], LegCommand::Pause)?;
        if limit >= self.slices() {
            // Everything is posted already, so the group is not needed.
            self.deregister()?;
            self.discard_standby_queue_pairs()?;
            state.guard.overlay_begins(self.fabric.now());
            return Ok(());
        }
        self.drain(reported, limit, watch)?;
        let held = self.leave(reported, state, watch)?;
        self.layout.algorithm = Algorithm::Alfirk;
        self.uses_group = true;
        let leg = Leg {
            algorithm: Algorithm::Alfirk,
            group: Some(group),
            held,
            limit: None,
            survivors: None,
        };
        let began = self.begin(reported, state, leg, watch)?;
        let refusals = std::mem::take(&mut state.refusals);
        let held = (limit, self.slices());
        state.record_change(LegReason::Granted(refusals), (asked_at, began), held);
        state.guard.group_begins(began, true);
        Ok(())
    }

    /// Waits until every receiver holds the first `limit` slices.
    fn drain(
        &mut self,
        reported: &mut MemberReports,
        limit: u32,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobFailure> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let members = self.layout.job.members.len();
        let mut rank = 1;
        while rank < members {
            if self.fabric.held_slices(self.layout.job.members[rank])? >= limit {
                rank += 1;
                continue;
            }
            let now = self.fabric.now();
            if now >= deadline {
                return Err(
                    self.time_limit_error("has not received all sent slices", rank..members)
                );
            }
            let soon = now.saturating_add(self.fabric.tick() / 8).max(now + 1);
            self.step(reported, soon.min(deadline), watch)?;
        }
        Ok(())
    }

    /// Makes all members leave the current leg, the root first. Returns the number of slices, contiguous from the first
    /// on, that each member holds.
    fn leave(
        &mut self,
        reported: &mut MemberReports,
        state: &mut SafeguardState,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u32>, JobFailure> {
        if state.posted_at.is_some() {
            self.add_leg_traffic()?;
        }
        reported.left.fill(None);
        for &host in &self.layout.job.members {
            self.fabric.execute_leg_command(host, LegCommand::Leave)?;
        }
        self.wait(
            reported,
            "has not left the group",
            |t, rank| t.left[rank].is_some(),
            watch,
        )?;
        let slices = self.slices();
        let held = reported.left.iter().enumerate();
        let held = held.map(|(rank, left)| match (rank, left) {
            (0, _) => slices,
            (_, Some((held, _))) => *held,
            (_, None) => 0,
        });
        Ok(held.collect())
    }

    /// Creates, connects and starts the queue pairs of a new leg. Returns the leg's start time in nanoseconds.
    fn begin(
        &mut self,
        reported: &mut MemberReports,
        state: &mut SafeguardState,
        leg: Leg,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<u64, JobFailure> {
        reported.ready.fill(false);
        reported.finished.fill(false);
        let mut endpoints = Vec::new();
        for &host in &self.layout.job.members {
            endpoints.extend(
                self.fabric
                    .execute_for_endpoints(host, LegCommand::Resume { leg: leg.clone() })?,
            );
        }
        self.connect(&self.layout.job.members, &endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.leg_traffic.before = self.traffic()?;
        for &host in &self.layout.job.members[1..] {
            self.fabric.execute_leg_command(host, LegCommand::Proceed)?;
        }
        if state.posted_at.is_some() {
            self.fabric
                .execute_leg_command(self.layout.job.members[0], LegCommand::Proceed)?;
            return Ok(self.fabric.now());
        }
        let posted = self.start()?;
        state.posted_at = Some(posted);
        Ok(posted)
    }

    /// Makes the source post the data. Returns the time of the post.
    fn start(&mut self) -> Result<u64, JobFailure> {
        let posted = self
            .fabric
            .start(self.layout.job.members[0], &self.layout.job.data)?;
        self.incidents.begin(posted);
        self.changes.begin(posted);
        Ok(posted)
    }

    /// Makes all members discard the queue pairs that [`LegCommand::StandBy`] has created for a group.
    fn discard_standby_queue_pairs(&mut self) -> Result<(), JobFailure> {
        for &host in &self.layout.job.members {
            self.fabric
                .execute_leg_command(host, LegCommand::StandDown)?;
        }
        Ok(())
    }

    /// Bytes of the source's messages that the group has acknowledged, assuming that all packets are full.
    fn acknowledged_bytes(&mut self) -> Result<u64, JobFailure> {
        Ok(self
            .fabric
            .acknowledged_packets(self.layout.job.members[0])?
            * self.layout.job.mtu.bytes() as u64)
    }

    /// Number of slices of the data.
    fn slices(&self) -> u32 {
        self.spec.as_ref().map_or(1, |spec| spec.slices)
    }
}

impl SafeguardState {
    /// Creates the state before the group is requested. `overlay`: the algorithm that runs without the group.
    pub(super) fn new(config: SafeguardConfig, overlay: Algorithm) -> SafeguardState {
        SafeguardState {
            guard: Safeguard::new(config),
            overlay,
            posted_at: None,
            last_check: (0, 0),
            limit: 0,
            refusals: 0,
            changes: Vec::new(),
        }
    }

    /// Records that the source has posted its first message, through the group.
    pub(super) fn group_begins(&mut self, posted: u64) {
        self.posted_at = Some(posted);
        self.guard.group_begins(posted, false);
    }

    /// Changes between group and overlay so far.
    pub(super) fn changes(self) -> Vec<Change> {
        self.changes
    }

    /// Records a change to another leg: its reason, the times of the decision and of the start, and the slices held
    /// then and in total.
    fn record_change(
        &mut self,
        reason: LegReason,
        (asked_at, began): (u64, u64),
        (held, slices): (u32, u32),
    ) {
        let (to, why) = match reason {
            LegReason::Refused(why) => (self.overlay, why),
            LegReason::Slow(why) => (self.overlay, why),
            LegReason::Granted(0) => (Algorithm::Alfirk, "the group is tried again".to_string()),
            LegReason::Granted(refusals) => (
                Algorithm::Alfirk,
                format!("the group is granted, after {refusals} further refusals"),
            ),
        };
        self.changes.push(Change {
            to: to.to_string(),
            why,
            at_ns: asked_at.saturating_sub(self.posted_at.unwrap_or(asked_at)),
            took_ns: began.saturating_sub(asked_at),
            held,
            slices,
        });
    }
}

/// Number of slices that every member holds, contiguous from the first on.
fn min_held(held: &[u32]) -> u32 {
    held.iter().copied().min().unwrap_or(0)
}
