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
use crate::job::error::JobError;
use crate::report::Change;
use crate::safeguard::{Decision, Safeguard, SafeguardConfig};

/// Number of slices by which the source of an overlay may be ahead of the slowest receiver, at least. One for each
/// member and twice the slices received since the last check are added. This keeps links busy. It is small, because
/// these slices must arrive before the group is used again.
const AHEAD: u32 = 8;

/// Reason for a new leg.
pub(super) enum Reason {
    /// The registration of the group was refused, for this reason.
    Refused(String),
    /// The group was slower than the safeguard permits, as this text describes.
    Slow(String),
    /// The group was granted again, after this number of refusals.
    Well(u32),
}

/// Safeguard of a run, with the state of the overlay and the changes so far.
pub(super) struct Watch {
    guard: Safeguard,
    to: Algorithm,
    posted_at: Option<u64>,
    /// On an overlay: time of the last check in nanoseconds, and number of slices that all receivers held then.
    looked: (u64, u32),
    /// On an overlay: number of slices that the source may have posted.
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
        state: &mut Watch,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let is_over = |t: &MemberReports, rank: usize| t.done[rank].is_some() && t.finished[rank];
        while reported.missing(&is_over).next().is_some() {
            let now = self.fabric.now();
            if now >= deadline {
                return Err(self.too_late("is not done", reported.missing(&is_over)));
            }
            let mut until = deadline.min(state.guard.next().max(now + 1));
            if !self.grouped {
                until = until.min(self.pace(state)?);
            }
            self.step(reported, until, watch)?;
            let now = self.fabric.now();
            if now < state.guard.next() || reported.missing(&is_over).next().is_none() {
                continue;
            }
            let acknowledged = match self.grouped {
                true => self.acknowledged_bytes()?,
                false => 0,
            };
            match state.guard.observe(now, acknowledged) {
                Decision::Stay => {}
                Decision::FallBack(why) => {
                    self.fall_back(reported, state, Reason::Slow(why.to_string()), watch)?;
                }
                Decision::Return => self.try_group(reported, state, watch)?,
            }
        }
        Ok(())
    }

    /// Leaves the group, if there is one, and continues on the overlay.
    ///
    /// Returns the time at which the source sent on the overlay, in nanoseconds.
    pub(super) fn fall_back(
        &mut self,
        reported: &mut MemberReports,
        state: &mut Watch,
        reason: Reason,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<u64, JobError> {
        let asked_at = self.fabric.now();
        let held = self.leave(reported, state, watch)?;
        if self.grouped {
            // The group is unused now. If it cannot be removed, it only occupies an entry until the controller ends.
            match self.deregister() {
                Err(error) if error.leaves_members_alone() => {}
                removed => self.on_fabric(removed)?,
            }
            self.grouped = false;
        }
        self.layout.algorithm = state.to;
        state.looked = (self.fabric.now(), fewest(&held));
        state.limit = fewest(&held) + self.ahead();
        let leg = Leg {
            algorithm: state.to,
            group: None,
            held,
            limit: Some(state.limit),
            survivors: None,
        };
        let everywhere = fewest(&leg.held);
        let began = self.begin(reported, state, leg, watch)?;
        state.note(reason, (asked_at, began), (everywhere, self.slices()));
        state.guard.overlay_begins(began);
        Ok(began)
    }

    /// Raises the number of slices that an overlay's source may have posted. Returns the time of the next check.
    fn pace(&mut self, state: &mut Watch) -> Result<u64, JobError> {
        let now = self.fabric.now();
        let (looked_at, had) = state.looked;
        let pause = (self.fabric.tick() / 4).max(1);
        if state.limit >= self.slices() {
            return Ok(u64::MAX);
        }
        if now < looked_at + pause {
            return Ok(looked_at + pause);
        }
        let mut held = self.slices();
        for &host in &self.layout.job.members[1..] {
            let has = self.fabric.held(host);
            held = held.min(self.on_fabric(has)?);
        }
        state.looked = (now, held);
        let limit = held + self.ahead() + 2 * held.saturating_sub(had);
        if limit > state.limit {
            state.limit = limit;
            let paced = self
                .fabric
                .act(self.layout.job.members[0], LegCommand::Pace { limit });
            self.on_fabric(paced)?;
        }
        Ok(now + pause)
    }

    fn ahead(&self) -> u32 {
        AHEAD + self.layout.job.members.len() as u32
    }

    /// Requests a group while on the overlay, and changes to it if granted.
    fn try_group(
        &mut self,
        reported: &mut MemberReports,
        state: &mut Watch,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        self.layout.generation += 1;
        let group = self.layout.group();
        let mut endpoints = Vec::new();
        for &host in &self.layout.job.members {
            let made = self.fabric.endpoints(host, LegCommand::StandBy { group });
            endpoints.extend(self.on_fabric(made)?);
        }
        match self.register(&endpoints) {
            Ok(()) => {}
            Err(error) if error.leaves_members_alone() => {
                state.refusals += 1;
                self.stop_notices()?;
                state.guard.overlay_begins(self.fabric.now());
                return Ok(());
            }
            Err(error) => return self.on_fabric(Err(error)),
        }
        let asked_at = self.fabric.now();
        let paused = self
            .fabric
            .limit(self.layout.job.members[0], LegCommand::Pause);
        let limit = self.on_fabric(paused)?;
        if limit >= self.slices() {
            // Everything is posted already, so the group is not needed.
            let removed = self.deregister();
            self.on_fabric(removed)?;
            self.stop_notices()?;
            state.guard.overlay_begins(self.fabric.now());
            return Ok(());
        }
        self.drain(reported, limit, watch)?;
        let held = self.leave(reported, state, watch)?;
        self.layout.algorithm = Algorithm::Alfirk;
        self.grouped = true;
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
        state.note(Reason::Well(refusals), (asked_at, began), held);
        state.guard.group_begins(began, true);
        Ok(())
    }

    /// Waits until every receiver holds the first `limit` slices.
    fn drain(
        &mut self,
        reported: &mut MemberReports,
        limit: u32,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), JobError> {
        let deadline = self.fabric.now().saturating_add(self.layout.time_limit());
        let members = self.layout.job.members.len();
        let mut rank = 1;
        while rank < members {
            let held = self.fabric.held(self.layout.job.members[rank]);
            if self.on_fabric(held)? >= limit {
                rank += 1;
                continue;
            }
            let now = self.fabric.now();
            if now >= deadline {
                return Err(self.too_late("has not got what was sent", rank..members));
            }
            let soon = now.saturating_add(self.fabric.tick() / 8).max(now + 1);
            self.step(reported, soon.min(deadline), watch)?;
        }
        Ok(())
    }

    /// Makes all members leave the current leg, the root first. Returns the number of contiguous slices that each
    /// holds.
    fn leave(
        &mut self,
        reported: &mut MemberReports,
        state: &mut Watch,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Vec<u32>, JobError> {
        if state.posted_at.is_some() {
            self.settle_cost()?;
        }
        reported.left.fill(None);
        for &host in &self.layout.job.members {
            let left = self.fabric.act(host, LegCommand::Leave);
            self.on_fabric(left)?;
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

    /// Creates, connects and starts the queue pairs of a leg; returns its start time.
    fn begin(
        &mut self,
        reported: &mut MemberReports,
        state: &mut Watch,
        leg: Leg,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<u64, JobError> {
        reported.ready.fill(false);
        reported.finished.fill(false);
        let mut endpoints = Vec::new();
        for &host in &self.layout.job.members {
            let resumed = self
                .fabric
                .endpoints(host, LegCommand::Resume { leg: leg.clone() });
            endpoints.extend(self.on_fabric(resumed)?);
        }
        self.connect(&self.layout.job.members, &endpoints)?;
        self.wait(reported, "is not connected", |t, rank| t.ready[rank], watch)?;
        self.cost.before = self.traffic()?;
        for &host in &self.layout.job.members[1..] {
            let proceeded = self.fabric.act(host, LegCommand::Proceed);
            self.on_fabric(proceeded)?;
        }
        if state.posted_at.is_some() {
            let proceeded = self
                .fabric
                .act(self.layout.job.members[0], LegCommand::Proceed);
            self.on_fabric(proceeded)?;
            return Ok(self.fabric.now());
        }
        let posted = self.start()?;
        state.posted_at = Some(posted);
        Ok(posted)
    }

    /// Makes the source post the data. Returns the time of the post.
    fn start(&mut self) -> Result<u64, JobError> {
        let posted = self
            .fabric
            .start(self.layout.job.members[0], &self.layout.job.data);
        let posted = self.on_fabric(posted)?;
        self.incidents.begin(posted);
        self.changes.begin(posted);
        Ok(posted)
    }

    fn stop_notices(&mut self) -> Result<(), JobError> {
        for &host in &self.layout.job.members {
            let done = self.fabric.act(host, LegCommand::StandDown);
            self.on_fabric(done)?;
        }
        Ok(())
    }

    /// Bytes of the source's packets that the group has acknowledged, assuming full packets.
    fn acknowledged_bytes(&mut self) -> Result<u64, JobError> {
        let packets = self.fabric.acknowledged(self.layout.job.members[0]);
        Ok(self.on_fabric(packets)? * self.layout.job.mtu.bytes() as u64)
    }

    fn slices(&self) -> u32 {
        self.spec.as_ref().map_or(1, |spec| spec.slices)
    }
}

impl Watch {
    /// Creates the state before the group is requested; `to` is the overlay's algorithm.
    pub(super) fn new(config: SafeguardConfig, to: Algorithm) -> Watch {
        Watch {
            guard: Safeguard::new(config),
            to,
            posted_at: None,
            looked: (0, 0),
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

    fn note(&mut self, reason: Reason, (asked_at, began): (u64, u64), (held, slices): (u32, u32)) {
        let (to, why) = match reason {
            Reason::Refused(why) => (self.to, why),
            Reason::Slow(why) => (self.to, why),
            Reason::Well(0) => (Algorithm::Alfirk, "the group is tried again".to_string()),
            Reason::Well(refusals) => (
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

/// Number of contiguous slices, from the first on, that every member holds.
fn fewest(held: &[u32]) -> u32 {
    held.iter().copied().min().unwrap_or(0)
}
