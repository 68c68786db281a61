//! Legs: parts of a transfer that different algorithms carry. A transfer is continued by another algorithm from its
//! present state.
//!
//! The old leg ends before the new one begins. [`Transfer::leave`] destroys the queue pairs, so that packets in flight
//! cannot write to memory any more. When all earlier events are handled, the number of slices held is final:
//! [`Transfer::held`]. Slices arrive in order with either algorithm, so this number is enough. The orchestrator gathers
//! it from all members. The new leg carries to each member exactly the slices that it lacks: [`Transfer::resume`],
//! [`Transfer::connect`], [`Transfer::proceed`].
//!
//! After a failure of members an overlay is closed, and the survivors form a new one. It carries the slices that some
//! survivor lacks: [`Survivors`]. Slices may then be held in any order.
//!
//! A group carries the same slices to all members, so a leg over a group must begin where all members hold the same
//! slices. To reach that state, the orchestrator pauses the overlay leg: [`Transfer::pause`]. The group's queue pairs
//! can be created while the overlay still runs ([`Transfer::stand_by`]), so that a rejected registration costs nothing.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *overlay* uses connections between members only.
//! The *root* has rank 0 and the data at the start.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::leg_state::LegState;
use super::Transfer;
use crate::collective::algorithm::Algorithm;
use crate::collective::edge::EdgeId;
use crate::collective::error::TransferError;
use crate::collective::members::Members;
use crate::collective::plan::{Flow, Plan};
use crate::collective::racks::Racks;
use crate::collective::spec::{Endpoint, GroupSpec, SpecError, TransferSpec};
use crate::verbs::Verbs;

/// The next leg of a transfer: the algorithm that carries the remaining slices, and what each member still lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// The algorithm that carries the remaining slices.
    pub algorithm: Algorithm,
    /// The multicast group in the fabric, for algorithms that need one; otherwise `None`.
    #[serde(default)]
    pub group: Option<GroupSpec>,
    /// Number of slices that each member holds, by rank; the root holds all.
    pub held: Vec<u32>,
    /// The first slice that the root must not post until [`Transfer::pace`] permits it; `None` for no limit. A leg that
    /// may be paused needs a limit, because posted slices cannot be withdrawn.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The members that remain after a failure; `held` is then empty. `None` if no member has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivors: Option<Survivors>,
}

/// The members that remain after other members have failed, and the slices that they lack. All survivors must get the same
/// value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivors {
    /// Addresses of the survivors, by their new ranks. The root keeps rank 0.
    pub members: Members,
    /// Racks of the survivors by new rank, for algorithms that need them.
    #[serde(default, skip_serializing_if = "Racks::is_empty")]
    pub racks: Racks,
    /// Length of the data in bytes; some survivors may not have received it yet.
    pub size: u64,
    /// Numbers of the slices that at least one survivor lacks, ascending.
    pub lacking: Vec<u32>,
}

impl Transfer {
    /// Ends the present leg: destroys its queue pairs. Data already delivered is still reported by pending events.
    /// Clears a failure too, so that the transfer can be resumed.
    pub fn leave(&mut self, host: &mut dyn Verbs) {
        self.leg.end();
        self.reports.clear_failure();
        self.connections.destroy(host);
    }

    /// Number of slices (messages) that this member holds without a gap, from slice 0 on.
    pub fn held(&self) -> u32 {
        self.execution.held_in_order()
    }

    /// Numbers of the slices (messages) that this member holds after the first one that it lacks. Empty if slices
    /// arrive in order.
    pub fn held_beyond(&self) -> Vec<u32> {
        let gap = self.held();
        self.execution.held().filter(|slice| *slice > gap).collect()
    }

    /// Creates the queue pairs of the next leg, and returns their endpoints. [`Transfer::connect`] and
    /// [`Transfer::proceed`] follow.
    pub fn resume(
        &mut self,
        host: &mut dyn Verbs,
        leg: Leg,
    ) -> Result<Vec<Endpoint>, TransferError> {
        self.check_leg(host.ip(), &leg)?;
        if !self.leg.has_ended() {
            self.leave(host);
        }
        self.connections.clear(host);
        // Latencies of requests are not measured across legs.
        self.sources.drop_requests();
        self.spec.algorithm = leg.algorithm;
        self.spec.group = leg.group;
        let limit = leg.limit.filter(|_| self.spec.is_root());
        let held_in_order = (0..self.held()).map(|slice| self.spec.slice(slice).1);
        self.leg = LegState::later(limit, held_in_order.sum());

        let lacks = |mut flow: Flow| {
            let first = match flow.edge {
                EdgeId::Pair { to, .. } => leg.held[to as usize],
                EdgeId::Group { .. } | EdgeId::Datagrams { .. } => leg.held[1],
            };
            flow.skip_to(first);
            (!flow.slices.is_empty()).then_some(flow)
        };
        let plan = match leg.survivors {
            Some(survivors) => self.regroup(host, survivors)?,
            None => {
                let plan = self.spec.plan();
                Plan {
                    incoming: plan.incoming.into_iter().filter_map(lacks).collect(),
                    outgoing: plan.outgoing.into_iter().filter_map(lacks).collect(),
                    ..plan
                }
            }
        };
        self.execution.replace_plan(plan);
        let mut endpoints = Vec::new();
        for index in 0..self.execution.plan().incoming.len() {
            let flow = &self.execution.plan().incoming[index];
            let (edge, priority) = (flow.edge, flow.priority);
            let connections = &mut self.connections;
            let connection = connections.open_for_leg(host, &self.spec, edge, priority)?;
            endpoints.push(self.endpoint(host, &connection, true)?);
            self.add_incoming(host, connection)?;
        }
        for index in 0..self.execution.plan().outgoing.len() {
            let flow = &self.execution.plan().outgoing[index];
            let (edge, priority) = (flow.edge, flow.priority);
            let connections = &mut self.connections;
            let connection = connections.open_for_leg(host, &self.spec, edge, priority)?;
            endpoints.push(self.endpoint(host, &connection, false)?);
            self.add_outgoing(host, connection)?;
        }
        let (connections, rules) = self.receiving();
        connections.follow_schedule(host, &rules)?;
        self.stand_down(host);
        Ok(endpoints)
    }

    /// Starts the leg: this member sends, and announces to senders that it is ready to receive. To be called when every
    /// member is connected.
    pub fn proceed(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        if !self.is_ready() {
            let pending = self.leg.pending_connections().unwrap_or(0);
            return Err(TransferError::NotReady(pending));
        }
        self.leg.start();
        let (connections, rules) = self.receiving();
        connections.announce_receives(host, &rules)?;
        self.advance(host, now)
    }

    /// Permits the root to post the slices before `limit`. Receivers forward slices at once, so only the root's limit
    /// keeps fast members from advancing far beyond slow ones.
    pub fn pace(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        limit: u32,
    ) -> Result<(), TransferError> {
        self.leg.set_limit(limit);
        self.advance(host, now)
    }

    /// Stops the root from posting new slices in this leg. Returns the number of slices that each member will hold at
    /// the end of the leg, which may be all.
    pub fn pause(&mut self, host: &mut dyn Verbs, now: u64) -> Result<u32, TransferError> {
        let flows = self.execution.plan().outgoing.iter().enumerate();
        let posted = flows.flat_map(|(index, flow)| {
            let last = self.execution.sent(index).last();
            // The slices before those of the flow are already held by the receiver.
            last.map(|slice| slice + 1)
                .or_else(|| flow.slices.first().copied())
        });
        let limit = posted.max().unwrap_or(self.spec.slices);
        self.leg.set_limit(limit);
        self.advance(host, now)?;
        Ok(limit)
    }

    /// Creates this member's queue pair for a group that the next leg may use, and destroys the one created by an
    /// earlier call. Returns the endpoint with which the group is registered.
    pub fn stand_by(
        &mut self,
        host: &mut dyn Verbs,
        group: GroupSpec,
    ) -> Result<Endpoint, TransferError> {
        self.stand_down(host);
        let present = (self.spec.algorithm, self.spec.group);
        (self.spec.algorithm, self.spec.group) = (Algorithm::Alfirk, Some(group));
        let opened = self.open_standby(host, group);
        (self.spec.algorithm, self.spec.group) = present;
        opened
    }

    fn open_standby(
        &mut self,
        host: &mut dyn Verbs,
        group: GroupSpec,
    ) -> Result<Endpoint, TransferError> {
        let edge = EdgeId::Group { root: 0 };
        let connection = self.connections.open(host, &self.spec, edge, 0)?;
        let endpoint = self.endpoint(host, &connection, !self.spec.is_root());
        self.connections.set_standby(group, connection);
        endpoint
    }

    /// Destroys the queue pair that [`Transfer::stand_by`] has created, if any.
    pub fn stand_down(&mut self, host: &mut dyn Verbs) {
        self.connections.destroy_standby(host);
    }

    /// Replaces the list of members by the survivors of a failure. Returns this member's plan for the slices that some
    /// survivor lacks.
    fn regroup(
        &mut self,
        host: &mut dyn Verbs,
        survivors: Survivors,
    ) -> Result<Plan, TransferError> {
        let rank = survivors.members.iter().position(|ip| *ip == host.ip());
        self.spec.rank = rank.expect("the leg was checked") as u32;
        self.spec.members = survivors.members;
        self.spec.racks = survivors.racks;
        if self.memory.key().is_none() && !self.spec.is_root() {
            self.spec.set_size(survivors.size);
            self.execution
                .reset_held(self.spec.slices, self.spec.final_slices());
            self.memory.register(host, &self.spec)?;
        }
        // The survivors have agreed on the size, so blocks need not announce it.
        self.spec.announce = false;
        let lacking = survivors.lacking;
        if lacking.is_empty() {
            return Ok(Plan::default());
        }
        let mut plan = self.spec.plan_of(lacking.len() as u32);
        for flow in plan.incoming.iter_mut().chain(&mut plan.outgoing) {
            for slice in &mut flow.slices {
                *slice = lacking[*slice as usize];
            }
        }
        Ok(plan)
    }

    fn check_survivors(
        &self,
        own: Ipv4Addr,
        leg: &Leg,
        survivors: &Survivors,
    ) -> Result<(), TransferError> {
        let spec = TransferSpec {
            algorithm: leg.algorithm,
            members: survivors.members.clone(),
            racks: survivors.racks.clone(),
            ..self.spec.clone()
        };
        let rank = spec.members.iter().position(|ip| *ip == own);
        let is_root_still = rank.is_some_and(|rank| (rank == 0) == self.spec.is_root());
        let mut known = TransferSpec {
            rank: rank.unwrap_or(usize::MAX) as u32,
            announce: false,
            ..spec
        };
        known.set_size(survivors.size);
        let is_known = |slice: &u32| *slice < known.slices;
        if !is_root_still || !survivors.lacking.iter().all(is_known) {
            return Err(TransferError::BadSurvivors {
                own,
                members: survivors.members.clone(),
            });
        }
        known.check(own)?;
        if !known.algorithm.is_overlay() {
            return Err(SpecError::MissingGroup(known.algorithm).into());
        }
        Ok(())
    }

    fn check_leg(&self, own: Ipv4Addr, leg: &Leg) -> Result<(), TransferError> {
        if self.spec.has_several_sources() {
            return Err(SpecError::UnsupportedSources(leg.algorithm).into());
        }
        if let Some(survivors) = &leg.survivors {
            return self.check_survivors(own, leg, survivors);
        }
        if leg.algorithm.needs_group() && leg.group.is_none() {
            return Err(SpecError::MissingGroup(leg.algorithm).into());
        }
        if !leg.algorithm.keeps_order() || !self.spec.algorithm.keeps_order() {
            return Err(SpecError::OutOfOrderSlices(leg.algorithm).into());
        }
        let (members, own) = (self.spec.members.len(), self.held());
        let known = leg.held.get(self.spec.rank as usize).copied();
        let is_known = self.spec.is_root() || known == Some(own);
        let receivers = leg.held.get(1..).unwrap_or_default();
        let is_equal = receivers.windows(2).all(|pair| pair[0] == pair[1]);
        if leg.held.len() != members || !is_known || (leg.algorithm.needs_group() && !is_equal) {
            return Err(TransferError::BadLeg {
                members,
                own,
                listed: leg.held.clone(),
            });
        }
        Ok(())
    }
}
