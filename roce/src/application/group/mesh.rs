//! Broadcasts of a group without multicast: every two members are connected, and an algorithm's plan tells which slices
//! each member receives and sends.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{GroupError, Result};
use super::message::{MemberInfo, MeshEnd};
use crate::collective::{Algorithm, Collective, Due, EdgeId, Execution, Sending, Shape, Transport};
use crate::rc::{
    Completion, MemorySlice, Operation, Payload, PostError, QpFailure, RecvRequest, Remote,
    SendOperation, SendRequest,
};
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// Number of bytes that a member forwards at a time, if the algorithm has members that forward.
const FORWARDED_SLICE: u64 = 64 << 10;

/// This member's connections to all other members, and the broadcast that uses them.
#[derive(Debug, Default)]
pub(super) struct Mesh {
    /// The queue pair towards each other member, by rank.
    qps: BTreeMap<u32, QpNum>,
    /// Queue pairs that are not connected yet.
    pending: BTreeSet<QpNum>,
    failures: BTreeMap<QpNum, GroupError>,
    broadcast: Option<Broadcast>,
}

/// One broadcast at one member.
#[derive(Debug)]
struct Broadcast {
    execution: Execution,
    slices: Slices,
    /// The queue pair of each incoming flow of the plan.
    incoming: Vec<QpNum>,
    /// The queue pair of each outgoing flow of the plan.
    outgoing: Vec<QpNum>,
    failure: Option<GroupError>,
}

/// The data of a broadcast, cut into slices of `slice` bytes.
#[derive(Debug, Clone, Copy)]
struct Slices {
    whole: MemorySlice,
    slice: u64,
}

impl Slices {
    fn of(whole: MemorySlice, algorithm: Algorithm) -> Slices {
        let slice = match algorithm.relays() {
            true => FORWARDED_SLICE,
            false => whole.len.max(1),
        };
        Slices { whole, slice }
    }

    /// Number of slices, at least 1.
    fn count(self) -> u32 {
        let count = self.whole.len.div_ceil(self.slice).max(1);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn place(self, number: u32) -> MemorySlice {
        let start = u64::from(number) * self.slice;
        MemorySlice {
            key: self.whole.key,
            offset: self.whole.offset + start,
            len: self.slice.min(self.whole.len.saturating_sub(start)),
        }
    }
}

impl Mesh {
    // ---- Connections ----

    /// Creates the queue pairs of the member with rank `own` towards the `others`, and returns them for the other ends.
    pub(super) fn create(
        &mut self,
        host: &mut dyn Verbs,
        own: u32,
        others: &[u32],
    ) -> Result<Vec<MeshEnd>> {
        let rc = host.default_rc();
        let mut ends = Vec::new();
        for to in others.iter().copied() {
            let qpn = host.create_qp(rc)?;
            let view = host.view(qpn).expect("the queue pair was just created");
            self.qps.insert(to, qpn);
            ends.push(MeshEnd {
                from: own,
                to,
                qpn,
                psn: view.sq_psn,
            });
        }
        Ok(ends)
    }

    /// Connects the queue pairs of the member with rank `own` to their remote ends among `ends`.
    pub(super) fn connect(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        (own, members): (u32, &[MemberInfo]),
        ends: &[MeshEnd],
    ) -> Result<()> {
        for end in ends.iter().filter(|end| end.to == own) {
            let qpn = self.qps.get(&end.from).copied();
            let member = members.get(end.from as usize);
            let (Some(qpn), Some(member)) = (qpn, member) else {
                let why = "the leader's mesh has a connection to an unknown rank";
                return Err(GroupError::over(why));
            };
            let remote = Remote {
                ip: member.ip,
                qpn: end.qpn,
            };
            self.pending.insert(qpn);
            host.connect_qp(now, qpn, remote, end.psn)?;
        }
        Ok(())
    }

    /// Whether all queue pairs are connected. Fails if one has failed.
    pub(super) fn is_connected(&self) -> Result<bool> {
        match self.failures.values().next() {
            Some(error) => Err(error.clone()),
            None => Ok(self.pending.is_empty()),
        }
    }

    // ---- Events ----

    pub(super) fn handle_connected(&mut self, qpn: QpNum) {
        self.pending.remove(&qpn);
    }

    pub(super) fn handle_failure(&mut self, qpn: QpNum, failure: QpFailure) {
        self.failures.entry(qpn).or_insert_with(|| failure.into());
    }

    /// Handles the completion of a receive or send of the present broadcast.
    pub(super) fn handle_completion(&mut self, host: &mut dyn Verbs, done: &Completion) {
        if let Err(error) = done.outcome {
            let text = format!("queue pair {}: {error}", done.qpn);
            let error = GroupError::Verbs(text);
            self.failures.entry(done.qpn).or_insert(error);
            return;
        }
        if let Some(broadcast) = &mut self.broadcast {
            if let Err(error) = broadcast.handle_completion(host, done) {
                broadcast.failure.get_or_insert(error);
            }
        }
    }

    // ---- Broadcasts ----

    /// Begins a broadcast of the bytes `whole`. `order`: the ranks in the order of the plan, the source first.
    pub(super) fn begin(
        &mut self,
        host: &mut dyn Verbs,
        algorithm: Algorithm,
        whole: MemorySlice,
        (own, order): (u32, &[u32]),
    ) -> Result<()> {
        let place = order.iter().position(|rank| *rank == own);
        let place = place.ok_or_else(|| GroupError::over("this member was removed"))? as u32;
        let slices = Slices::of(whole, algorithm);
        let count = slices.count();
        let shape = Shape::new(order.len() as u32, count);
        let plan = algorithm.plan_for(Collective::Broadcast, shape, place);
        let qp_of = |edge: EdgeId| {
            let EdgeId::Pair { from, to } = edge else {
                return None;
            };
            let peer = if from == place { to } else { from };
            self.qps.get(order.get(peer as usize)?).copied()
        };
        let incoming = plan.incoming.iter().map(|flow| qp_of(flow.edge));
        let outgoing = plan.outgoing.iter().map(|flow| qp_of(flow.edge));
        let (Some(incoming), Some(outgoing)) = (incoming.collect(), outgoing.collect()) else {
            return Err(GroupError::over(
                "this member has no connection to a member",
            ));
        };
        let mut execution = Execution::new(plan, count, 0..count);
        if place == 0 {
            (0..count).for_each(|slice| execution.hold(slice));
        }
        let broadcast = self.broadcast.insert(Broadcast {
            execution,
            slices,
            incoming,
            outgoing,
            failure: None,
        });
        broadcast.post_receives(host)?;
        Ok(broadcast.advance(host)?)
    }

    /// Whether the broadcast that was begun last has completed at this member. Fails if a connection that it uses has
    /// failed.
    pub(super) fn is_complete(&self) -> Result<bool> {
        let Some(broadcast) = &self.broadcast else {
            return Ok(true);
        };
        if broadcast.execution.holds_all() && broadcast.execution.is_acknowledged() {
            return Ok(true);
        }
        let mut used = broadcast.incoming.iter().chain(&broadcast.outgoing);
        let failed = used.find_map(|qpn| self.failures.get(qpn));
        match failed.or(broadcast.failure.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(false),
        }
    }
}

impl Broadcast {
    fn post_receives(&self, host: &mut dyn Verbs) -> Result<()> {
        for (flow, qpn) in self.execution.plan().incoming.iter().zip(&self.incoming) {
            for slice in flow.slices.iter().copied() {
                let buffer = self.slices.place(slice);
                let wr_id = slice.into();
                host.post_recv(*qpn, RecvRequest { wr_id, buffer })?;
            }
        }
        Ok(())
    }

    fn handle_completion(&mut self, host: &mut dyn Verbs, done: &Completion) -> Result<()> {
        let is_of = |qpn: &QpNum| *qpn == done.qpn;
        if done.operation == Operation::Send {
            if let Some(flow) = self.outgoing.iter().position(is_of) {
                let slices = self.slices;
                self.execution
                    .acknowledge(flow, |slice| slices.place(slice).len);
            }
            return Ok(self.advance(host)?);
        }
        let bytes = done.outcome.map_or(0, |completed| completed.bytes);
        let slice = done.wr_id as u32;
        let expected = self.slices.place(slice).len;
        if done.operation != Operation::Receive || bytes != expected {
            let text = format!("received {bytes} bytes, expected {expected}");
            return Err(GroupError::Verbs(text));
        }
        if let Some(flow) = self.incoming.iter().position(is_of) {
            self.execution.receive(flow, slice);
        }
        Ok(self.advance(host)?)
    }

    /// Posts every send that the plan permits now.
    fn advance(&mut self, host: &mut dyn Verbs) -> std::result::Result<(), PostError> {
        let mut posts = Posts {
            host,
            slices: self.slices,
            outgoing: &self.outgoing,
        };
        self.execution.advance(&mut posts)
    }
}

/// The queue pairs of a broadcast as the transport of its plan.
struct Posts<'a> {
    host: &'a mut dyn Verbs,
    slices: Slices,
    outgoing: &'a [QpNum],
}

impl Transport for Posts<'_> {
    type Error = PostError;

    fn send(&mut self, due: Due) -> std::result::Result<Sending, PostError> {
        let request = SendRequest {
            wr_id: due.slice.into(),
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Memory(self.slices.place(due.slice)),
        };
        self.host.post_send(self.outgoing[due.flow], request)?;
        Ok(Sending::Posted)
    }

    fn slice_len(&self, slice: u32) -> u64 {
        self.slices.place(slice).len
    }
}
