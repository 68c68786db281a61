//! Legs: a transfer goes on by another algorithm from where it is.
//!
//! A leg is left before the next one begins: [`Transfer::leave`] destroys the queue pairs, so that nothing that is still under way can
//! write to memory any more, and when the events from before are handled the number of slices held stands: [`Transfer::held`]. Slices
//! come in order whatever the algorithm, so this number says all. The orchestrator gathers it from all members, and the next leg
//! carries to each member exactly the slices that it lacks: [`Transfer::resume`], [`Transfer::connect`], [`Transfer::proceed`].
//!
//! When members have died, an overlay closes, and those who are left go on as another one with the slices that are not stable, that is,
//! which not all of them hold: [`Survivors`]. Then any order will do.
//!
//! A group sends the same to everybody. So a leg over a group begins where all members hold the same, which the leg before sees to when
//! it is paused: [`Transfer::pause`]. The group's queue pairs can be made while the leg before still runs ([`Transfer::stand_by`]), so
//! that a group that is refused again costs nothing.

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

/// How a transfer goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub algorithm: Algorithm,
    /// For algorithms that need one.
    #[serde(default)]
    pub group: Option<GroupSpec>,
    /// How many slices each member holds, by rank; the root holds all.
    pub held: Vec<u32>,
    /// The first slice that the root does not post until it may ([`Transfer::pace`]); it posts all if `None`. A leg that may be
    /// paused needs a limit, because what is posted is sent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Who goes on when others have died, and with what; then nothing is said in `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivors: Option<Survivors>,
}

/// What those have agreed on who are left when members have died: the group closes, and they are another group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivors {
    /// Their addresses by their new ranks; the root is the first one still.
    pub members: Members,
    /// Their racks, for algorithms that want to know.
    #[serde(default, skip_serializing_if = "Racks::is_empty")]
    pub racks: Racks,
    /// How much there is, which some may not know yet.
    pub size: u64,
    /// The slices that are not stable: those that not all of them hold, ascending.
    pub lacking: Vec<u32>,
}

impl Transfer {
    /// Destroys the queue pairs of this leg. What they have delivered is still reported by events that are under way. If the leg has failed,
    /// the transfer may go on by another one.
    pub fn leave(&mut self, host: &mut dyn Verbs) {
        self.legs.stage = Stage::Left;
        self.failed = false;
        self.connecting.clear();
        for connection in self.connections() {
            // An absent queue pair is as good as a destroyed one.
            let _ = host.destroy_qp(connection.qpn);
        }
    }

    /// How many slices are here, from the first one on without a gap.
    pub fn held(&self) -> u32 {
        let here = self.held.iter().position(|held| !held);
        here.unwrap_or(self.held.len()) as u32
    }

    /// The slices that are here beyond the first that is not: none where they come in order.
    pub fn held_beyond(&self) -> Vec<u32> {
        let beyond = self.held.iter().enumerate().skip(self.held() as usize);
        let beyond = beyond.filter(|(_, held)| **held);
        beyond.map(|(slice, _)| slice as u32).collect()
    }

    /// Makes the queue pairs of the next leg, which this member has no part in yet: see [`Transfer::connect`] and
    /// [`Transfer::proceed`].
    pub fn resume(
        &mut self,
        host: &mut dyn Verbs,
        leg: Leg,
    ) -> Result<Vec<Endpoint>, TransferError> {
        self.check_leg(host.ip(), &leg)?;
        if !self.legs.is_left() {
            self.leave(host);
        }
        self.give_up_scratch(host);
        self.incoming.clear();
        self.outgoing.clear();
        self.connected = false;
        self.begun = false;
        // What is acknowledged on another leg says nothing about requests of this one.
        self.requests = None;
        self.spec.algorithm = leg.algorithm;
        self.spec.group = leg.group;
        self.legs.stage = Stage::Waiting;
        self.legs.limit = leg.limit.filter(|_| self.spec.is_root());
        self.legs.base = (0..self.held()).map(|slice| self.spec.slice(slice).1).sum();

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
        self.whole = plan.whole;
        let mut endpoints = Vec::new();
        for flow in plan.incoming {
            let connection = self.open_leg(host, flow)?;
            endpoints.push(self.endpoint(host, &connection, true)?);
            self.receive_by(host, connection)?;
        }
        for flow in plan.outgoing {
            let connection = self.open_leg(host, flow)?;
            endpoints.push(self.endpoint(host, &connection, false)?);
            self.listen(host, connection.qpn)?;
            self.outgoing.push(connection);
        }
        self.follow_schedules(host)?;
        self.stand_down(host);
        Ok(endpoints)
    }

    /// Begins to send, when every member is ready for the leg, and to say that this member is ready for data, where that is said.
    pub fn proceed(&mut self, host: &mut dyn Verbs, now: u64) -> Result<(), TransferError> {
        if !self.is_ready() {
            return Err(TransferError::NotReady(self.connecting.len()));
        }
        self.legs.stage = Stage::Running;
        self.begun = true;
        self.tell_ready(host)?;
        self.advance(host, now)
    }

    /// Lets the root post the slices before `limit`. Members that relay pass on what they get at once, so it is the root that keeps those
    /// who are fast from holding much more than those who are slow.
    pub fn pace(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        limit: u32,
    ) -> Result<(), TransferError> {
        self.legs.limit = Some(limit);
        self.advance(host, now)
    }

    /// Has the root post nothing new in this leg; gives the number of slices that each member will hold when it is over. That may be
    /// all of them.
    pub fn pause(&mut self, host: &mut dyn Verbs, now: u64) -> Result<u32, TransferError> {
        let posted = self.outgoing.iter().flat_map(|c| {
            let last = c.flow.slices[..c.posted].last();
            // What the flow does not carry, its receiver holds.
            last.map(|slice| slice + 1)
                .or_else(|| c.flow.slices.first().copied())
        });
        let limit = posted.max().unwrap_or(self.spec.slices);
        self.legs.limit = Some(limit);
        self.advance(host, now)?;
        Ok(limit)
    }

    /// Makes this member's queue pair for a group that may become the next leg's; one made before is given up. Gives what the group is
    /// to be registered with.
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

    /// Gives the queue pair up that [`Transfer::stand_by`] has made, if there is one.
    pub fn stand_down(&mut self, host: &mut dyn Verbs) {
        if let Some((_, connection)) = self.legs.standby.take() {
            // An absent queue pair is as good as a destroyed one.
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

    /// Becomes a member of the group that is left; gives its plan, in which those slices pass that are not stable.
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
            self.hold_nothing();
            self.memory = Some(register(host, &self.spec)?);
        }
        // Everybody knows now.
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
            return Err(TransferError::NoSurvivor {
                own,
                members: survivors.members.clone(),
            });
        }
        known.check(own)?;
        if !known.algorithm.is_overlay() {
            return Err(SpecError::NoGroup(known.algorithm).into());
        }
        Ok(())
    }

    fn check_leg(&self, own: Ipv4Addr, leg: &Leg) -> Result<(), TransferError> {
        if self.spec.takes_turns() {
            return Err(SpecError::NoTurns(leg.algorithm).into());
        }
        if let Some(survivors) = &leg.survivors {
            return self.check_survivors(own, leg, survivors);
        }
        if leg.algorithm.needs_group() && leg.group.is_none() {
            return Err(SpecError::NoGroup(leg.algorithm).into());
        }
        if !leg.algorithm.keeps_order() || !self.spec.algorithm.keeps_order() {
            return Err(SpecError::NoOrder(leg.algorithm).into());
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
                told: leg.held.clone(),
            });
        }
        Ok(())
    }

    /// Windows for each slice, with [`WriteMode::PerRequest`](super::WriteMode::PerRequest); none of them is where another member has
    /// its own.
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

    /// Everything, for a neighbour in an overlay to write to.
    pub(super) fn whole_region(
        &mut self,
        host: &mut dyn Verbs,
        key: MemoryKey,
    ) -> Result<RemoteMemory, TransferError> {
        let len = self.spec.size;
        if !self.legs.sealed {
            let (va, rkey) = host.locate(key)?;
            return Ok(RemoteMemory { va, rkey, len });
        }
        match self.legs.whole {
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
                self.legs.whole = Some(whole);
                Ok(whole)
            }
        }
    }

    /// Says that there is nothing to connect, where that is so.
    pub(super) fn tell_if_ready(&mut self) {
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
