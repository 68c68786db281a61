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

use super::algorithm::Algorithm;
use super::connection::Connection;
use super::edge::EdgeId;
use super::error::TransferError;
use super::event::TransferEvent;
use super::legs::Stage;
use super::members::Members;
use super::plan::{Flow, Plan};
use super::post::register;
use super::racks::Racks;
use super::spec::{Endpoint, GroupSpec, RemoteMemory, SpecError, TransferSpec};
use super::transfer::Transfer;
use crate::rc::{MemoryKey, MemorySlice};
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
        self.legs.stage = Stage::Ended;
        self.failed = false;
        self.connecting.clear();
        for connection in self.connections() {
            // An error means that the queue pair no longer exists.
            let _ = host.destroy_qp(connection.qpn);
        }
    }

    /// Number of slices (messages) that this member holds without a gap, from slice 0 on.
    pub fn held(&self) -> u32 {
        let here = self.held.iter().position(|held| !held);
        here.unwrap_or(self.held.len()) as u32
    }

    /// Numbers of the slices (messages) that this member holds after the first one that it lacks. Empty if slices
    /// arrive in order.
    pub fn held_beyond(&self) -> Vec<u32> {
        let beyond = self.held.iter().enumerate().skip(self.held() as usize);
        let beyond = beyond.filter(|(_, held)| **held);
        beyond.map(|(slice, _)| slice as u32).collect()
    }

    /// Creates the queue pairs of the next leg, and returns their endpoints. [`Transfer::connect`] and
    /// [`Transfer::proceed`] follow.
    pub fn resume(
        &mut self,
        host: &mut dyn Verbs,
        leg: Leg,
    ) -> Result<Vec<Endpoint>, TransferError> {
        self.check_leg(host.ip(), &leg)?;
        if !self.legs.has_ended() {
            self.leave(host);
        }
        self.release_scratch(host);
        self.incoming.clear();
        self.outgoing.clear();
        self.connected = false;
        self.has_started = false;
        // Latencies of requests are not measured across legs.
        self.request_latencies = None;
        self.spec.algorithm = leg.algorithm;
        self.spec.group = leg.group;
        self.legs.stage = Stage::Waiting;
        self.legs.limit = leg.limit.filter(|_| self.spec.is_root());
        self.legs.bytes_at_start = (0..self.held()).map(|slice| self.spec.slice(slice).1).sum();

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
        self.store_and_forward = plan.store_and_forward;
        let mut endpoints = Vec::new();
        for flow in plan.incoming {
            let connection = self.open_leg(host, flow)?;
            endpoints.push(self.endpoint(host, &connection, true)?);
            self.add_incoming(host, connection)?;
        }
        for flow in plan.outgoing {
            let connection = self.open_leg(host, flow)?;
            endpoints.push(self.endpoint(host, &connection, false)?);
            self.post_announcement_receives(host, connection.qpn)?;
            self.outgoing.push(connection);
        }
        self.follow_schedules(host)?;
        self.stand_down(host);
        Ok(endpoints)
    }

    /// Starts the leg: this member sends, and announces to senders that it is ready to receive. To be called when every
    /// member is connected.
    pub fn proceed(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        if !self.is_ready() {
            return Err(TransferError::NotReady(self.connecting.len()));
        }
        self.legs.stage = Stage::Running;
        self.has_started = true;
        self.announce_receives(host)?;
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
        self.legs.limit = Some(limit);
        self.advance(host, now)
    }

    /// Stops the root from posting new slices in this leg. Returns the number of slices that each member will hold at
    /// the end of the leg, which may be all.
    pub fn pause(&mut self, host: &mut dyn Verbs, now: u64) -> Result<u32, TransferError> {
        let posted = self.outgoing.iter().flat_map(|c| {
            let last = c.flow.slices[..c.posted].last();
            // The slices before those of the flow are already held by the receiver.
            last.map(|slice| slice + 1)
                .or_else(|| c.flow.slices.first().copied())
        });
        let limit = posted.max().unwrap_or(self.spec.slices);
        self.legs.limit = Some(limit);
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
        let flow = Flow::all(EdgeId::Group { root: 0 }, 0, 0);
        let made = self.open(host, flow).and_then(|connection| {
            let endpoint = self.endpoint(host, &connection, !self.spec.is_root());
            self.legs.standby = Some((group, connection));
            endpoint
        });
        (self.spec.algorithm, self.spec.group) = present;
        made
    }

    /// Destroys the queue pair that [`Transfer::stand_by`] has created, if any.
    pub fn stand_down(&mut self, host: &mut dyn Verbs) {
        if let Some((_, connection)) = self.legs.standby.take() {
            // An error means that the queue pair no longer exists.
            let _ = host.destroy_qp(connection.qpn);
        }
    }

    fn open_leg(&mut self, host: &mut dyn Verbs, flow: Flow) -> Result<Connection, TransferError> {
        match self.legs.standby.take() {
            Some((group, connection)) if self.spec.group == Some(group) => {
                Ok(Connection { flow, ..connection })
            }
            other => {
                self.legs.standby = other;
                self.open(host, flow)
            }
        }
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
        if self.memory.is_none() && !self.spec.is_root() {
            self.spec.set_size(survivors.size);
            self.reset_held();
            self.memory = Some(register(host, &self.spec)?);
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

    /// Binds a memory window for each slice (message), with [`WriteMode::PerRequest`](super::WriteMode::PerRequest).
    /// Addresses and keys of the windows differ between members.
    pub(super) fn slice_windows(
        &mut self,
        host: &mut dyn Verbs,
        key: MemoryKey,
    ) -> Result<Vec<RemoteMemory>, TransferError> {
        if self.legs.windows.is_empty() {
            let windows = (0..self.spec.slices).map(|slice| {
                let (offset, len) = self.spec.slice(slice);
                bind(host, MemorySlice { key, offset, len })
            });
            self.legs.windows = windows.collect::<Result<_, _>>()?;
        }
        Ok(self.legs.windows.clone())
    }

    /// The remote memory that contains all data, for the WRITEs of a neighbour in an overlay. It is a memory window if
    /// WRITEs can reach the data only through windows, else the memory region.
    pub(super) fn whole_region(
        &mut self,
        host: &mut dyn Verbs,
        key: MemoryKey,
    ) -> Result<RemoteMemory, TransferError> {
        let len = self.spec.size;
        if !self.legs.windows_only {
            let (va, rkey) = host.locate(key)?;
            return Ok(RemoteMemory { va, rkey, len });
        }
        match self.legs.whole_window {
            Some(whole) => Ok(whole),
            None => {
                let whole = bind(
                    host,
                    MemorySlice {
                        key,
                        offset: 0,
                        len,
                    },
                )?;
                self.legs.whole_window = Some(whole);
                Ok(whole)
            }
        }
    }

    /// Reports [`TransferEvent::Ready`] if all connections of this member are established.
    pub(super) fn report_if_ready(&mut self) {
        if self.is_ready() {
            self.events.push_back(TransferEvent::Ready);
        }
    }
}

fn bind(host: &mut dyn Verbs, part: MemorySlice) -> Result<RemoteMemory, TransferError> {
    let (va, rkey) = host.bind_window(part)?;
    let len = part.len;
    Ok(RemoteMemory { va, rkey, len })
}
