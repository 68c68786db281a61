//! Execution of one member's plan over a transport: which slices the member holds, and which it sends next on which flow.
//!
//! [`Execution`] sends nothing itself. A [`Transport`] does: the queue pairs of a [`Transfer`](super::Transfer), or the
//! messages of an MPI library.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge.

use std::ops::Range;

use super::edge::EdgeId;
use super::plan::Plan;
use super::schedules::SendSchedule;

/// The plan of one member, and its progress: slices held, received, sent and acknowledged.
///
/// Flows are identified by their index among the plan's incoming or outgoing flows.
#[derive(Debug)]
pub struct Execution {
    plan: Plan,
    /// For each incoming flow: the number of slices that have arrived.
    arrived: Vec<usize>,
    /// For each outgoing flow: its progress.
    sending: Vec<SendProgress>,
    /// Send schedules, one per priority.
    schedules: Vec<SendSchedule>,
    /// For each slice (message): whether this member holds it.
    held: Vec<bool>,
    /// The slices that this member must hold at the end.
    wanted: Range<u32>,
    /// Number of slices that this member still lacks; in a barrier, the number of signals.
    missing: u32,
}

/// Progress of an outgoing flow.
#[derive(Debug)]
struct SendProgress {
    /// Number of slices sent.
    sent: usize,
    /// Number of sent slices that are acknowledged.
    acknowledged: usize,
    /// Index of the send schedule that orders the slices; `None` if they wait for no other flow.
    schedule: Option<usize>,
}

/// A slice that the plan permits to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Index of the outgoing flow.
    pub flow: usize,
    /// The edge that the slice crosses.
    pub edge: EdgeId,
    /// Number of the slice.
    pub slice: u32,
    /// Number of slices of the flow that were sent before.
    pub sent: usize,
    /// Number of those that are not acknowledged.
    pub unacknowledged: usize,
}

/// Result of [`Transport::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// The transport does not accept the slice now. The next [`Execution::advance`] repeats the call.
    Blocked,
    /// The slice is on its way. [`Execution::acknowledge`] follows.
    Posted,
    /// The slice is sent, and no acknowledgement follows.
    Complete,
}

/// Carries the slices of a plan to other members.
pub trait Transport {
    /// Reason why a slice cannot be sent.
    type Error;

    /// Sends a slice.
    fn send(&mut self, due: Due) -> Result<Sending, Self::Error>;

    /// Length of a slice in bytes. A send schedule limits the number of bytes in flight.
    fn slice_len(&self, slice: u32) -> u64;
}

impl Execution {
    /// Begins to execute a plan for data of `slices` slices, none of which the member holds. `wanted`: the slices that
    /// the member must hold at the end.
    pub fn new(plan: Plan, slices: u32, wanted: Range<u32>) -> Execution {
        let mut execution = Execution {
            plan: Plan::default(),
            arrived: Vec::new(),
            sending: Vec::new(),
            schedules: Vec::new(),
            held: Vec::new(),
            wanted: 0..0,
            missing: 0,
        };
        execution.replace_plan(plan);
        execution.reset_held(slices, wanted);
        execution
    }

    /// Replaces the plan. The member keeps the slices that it holds; the new flows have sent and received nothing.
    pub fn replace_plan(&mut self, plan: Plan) {
        self.arrived = vec![0; plan.incoming.len()];
        let (schedules, of_flow) = SendSchedule::of(&plan.outgoing);
        self.schedules = schedules;
        let sending = of_flow.into_iter().map(|schedule| SendProgress {
            sent: 0,
            acknowledged: 0,
            schedule,
        });
        self.sending = sending.collect();
        self.plan = plan;
    }

    /// Marks every slice as missing, in data of `slices` slices of which the member must hold `wanted` at the end.
    pub fn reset_held(&mut self, slices: u32, wanted: Range<u32>) {
        self.held = vec![false; slices as usize];
        let signals = self.plan.incoming.iter().map(|flow| flow.slices.len());
        self.missing = match self.plan.empty_payloads {
            true => signals.sum::<usize>() as u32,
            false => wanted.len() as u32,
        };
        self.wanted = wanted;
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    // ---- Slices that this member holds ----

    /// Records that this member holds a slice.
    pub fn hold(&mut self, slice: u32) {
        let is_new = !std::mem::replace(&mut self.held[slice as usize], true);
        if is_new && (self.plan.empty_payloads || self.wanted.contains(&slice)) {
            self.missing -= 1;
        }
    }

    /// Records that a slice of an incoming flow has arrived.
    pub fn receive(&mut self, flow: usize, slice: u32) {
        self.arrived[flow] += 1;
        self.hold(slice);
    }

    /// Number of slices that have arrived on all incoming flows.
    pub fn arrived(&self) -> usize {
        self.arrived.iter().sum()
    }

    /// Whether this member holds all slices that it must hold at the end.
    pub fn holds_all(&self) -> bool {
        self.missing == 0
    }

    /// Whether this member holds every slice of a range.
    pub fn holds_range(&self, slices: Range<u32>) -> bool {
        !self.held[slices.start as usize..slices.end as usize].contains(&false)
    }

    /// Number of slices that this member holds without a gap, from slice 0 on.
    pub fn held_in_order(&self) -> u32 {
        let gap = self.held.iter().position(|held| !held);
        gap.unwrap_or(self.held.len()) as u32
    }

    /// Numbers of the slices that this member holds, ascending.
    pub fn held(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.held.len() as u32).filter(|slice| self.held[*slice as usize])
    }

    // ---- Sending ----

    /// Sends every slice that the plan permits now and the transport accepts.
    pub fn advance<T: Transport>(&mut self, transport: &mut T) -> Result<(), T::Error> {
        if self.plan.store_and_forward && !self.holds_all() {
            return Ok(());
        }
        for flow in 0..self.sending.len() {
            if self.sending[flow].schedule.is_none() {
                while self.send_next(flow, transport)? {}
            }
        }
        for schedule in 0..self.schedules.len() {
            while let Some(flow) = self.schedules[schedule].next_flow() {
                if !self.send_next(flow, transport)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends the next slice of an outgoing flow, if the plan permits it and the transport accepts it. Returns whether
    /// it was sent.
    fn send_next<T: Transport>(
        &mut self,
        flow: usize,
        transport: &mut T,
    ) -> Result<bool, T::Error> {
        let Some(due) = self.due(flow) else {
            return Ok(false);
        };
        let sending = transport.send(due);
        if matches!(sending, Ok(Sending::Blocked)) {
            return Ok(false);
        }
        self.sending[flow].sent += 1;
        let sending = sending?;
        if let Some(schedule) = self.sending[flow].schedule {
            self.schedules[schedule].record_post(transport.slice_len(due.slice));
        }
        if sending == Sending::Complete {
            self.acknowledge(flow, |slice| transport.slice_len(slice));
        }
        Ok(true)
    }

    /// The next slice of an outgoing flow; `None` if the plan does not permit to send it yet, or all are sent.
    fn due(&self, flow: usize) -> Option<Due> {
        let SendProgress {
            sent, acknowledged, ..
        } = self.sending[flow];
        let outgoing = &self.plan.outgoing[flow];
        let slice = *outgoing.slices.get(sent)?;
        let unacknowledged = sent.saturating_sub(acknowledged);
        let is_due = match self.plan.empty_payloads {
            // A group's second signal waits for the acknowledgement of the first.
            true => unacknowledged == 0 && self.has_signals_before(outgoing.steps.get(sent)),
            false => self.held[slice as usize],
        };
        is_due.then_some(Due {
            flow,
            edge: outgoing.edge,
            slice,
            sent,
            unacknowledged,
        })
    }

    /// Whether all incoming signals of earlier steps have arrived. `None` is a signal that waits for no other.
    fn has_signals_before(&self, step: Option<&u32>) -> bool {
        let mut incoming = self.plan.incoming.iter().zip(&self.arrived);
        incoming.all(|(flow, arrived)| {
            let next = flow.steps.get(*arrived);
            next.zip(step).is_none_or(|(next, own)| next >= own)
        })
    }

    /// Records that the oldest unacknowledged slice of an outgoing flow is acknowledged. `slice_len`: length of a slice
    /// in bytes.
    pub fn acknowledge(&mut self, flow: usize, slice_len: impl Fn(u32) -> u64) {
        let progress = &mut self.sending[flow];
        let slices = &self.plan.outgoing[flow].slices;
        let slice = slices.get(progress.acknowledged).copied();
        progress.acknowledged += 1;
        if let Some(schedule) = progress.schedule {
            self.schedules[schedule].record_acknowledgement(slice.map_or(0, slice_len));
        }
    }

    /// Numbers of the slices that were sent on an outgoing flow, in order.
    pub fn sent(&self, flow: usize) -> &[u32] {
        &self.plan.outgoing[flow].slices[..self.sending[flow].sent]
    }

    /// Numbers of the slices of an outgoing flow that are acknowledged, in order.
    pub fn acknowledged(&self, flow: usize) -> &[u32] {
        &self.plan.outgoing[flow].slices[..self.sending[flow].acknowledged]
    }

    /// For each outgoing flow: the number of slices that are acknowledged.
    pub fn acknowledged_counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.sending.iter().map(|progress| progress.acknowledged)
    }

    /// Whether all slices of all outgoing flows are acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        let mut flows = self.plan.outgoing.iter().zip(&self.sending);
        flows.all(|(flow, progress)| progress.acknowledged == flow.slices.len())
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A transport whose slices are in flight until they are delivered, and which needs no acknowledgements.
    #[derive(Default)]
    struct InFlight(VecDeque<(EdgeId, u32)>);

    impl Transport for InFlight {
        type Error = Infallible;

        fn send(&mut self, due: Due) -> Result<Sending, Infallible> {
            self.0.push_back((due.edge, due.slice));
            Ok(Sending::Complete)
        }

        fn slice_len(&self, _slice: u32) -> u64 {
            1
        }
    }

    /// Executes the plans of all members until no member can send. Rank 0 has all data at the start. Returns the
    /// executions, and the number of slices sent.
    pub(in crate::collective) fn execute_all(
        plans: Vec<Plan>,
        slices: u32,
    ) -> (Vec<Execution>, usize) {
        let executions = plans
            .into_iter()
            .map(|plan| Execution::new(plan, slices, 0..slices));
        let mut all: Vec<Execution> = executions.collect();
        if !all[0].plan().empty_payloads {
            (0..slices).for_each(|slice| all[0].hold(slice));
        }
        let mut sent = 0;
        loop {
            let mut in_flight = InFlight::default();
            for execution in &mut all {
                let Ok(()) = execution.advance(&mut in_flight);
            }
            if in_flight.0.is_empty() {
                return (all, sent);
            }
            sent += in_flight.0.len();
            for (edge, slice) in in_flight.0 {
                let receivers = match edge {
                    EdgeId::Pair { to, .. } => to as usize..to as usize + 1,
                    EdgeId::Group { .. } | EdgeId::Datagrams { .. } => 1..all.len(),
                };
                for execution in &mut all[receivers] {
                    let mut flows = execution.plan.incoming.iter();
                    let flow = flows.position(|flow| flow.edge == edge);
                    let flow = flow.expect("both ends plan the edge");
                    let expected = execution.plan.incoming[flow].slices[execution.arrived[flow]];
                    assert_eq!(slice, expected, "slices of {edge:?} arrive in order");
                    execution.receive(flow, slice);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::testing::execute_all;
    use super::*;
    use crate::collective::plan::testing::racks;
    use crate::collective::plan::Flow;
    use crate::collective::{Algorithm, Collective, Shape};

    #[test]
    fn barriers_complete() {
        for algorithm in [Algorithm::Binomial, Algorithm::Dissemination] {
            for members in 2..=33 {
                let signals = algorithm.slices_for(Collective::Barrier, 0, members);
                let racks = racks(members);
                let shape = Shape {
                    members,
                    slices: signals,
                    racks: &racks,
                };
                let plan = |rank| algorithm.plan_for(Collective::Barrier, shape, rank);
                let (all, sent) = execute_all((0..members).map(plan).collect(), signals);
                assert!(all.iter().all(Execution::holds_all), "{algorithm}");
                assert!(sent >= 2 * (members as usize - 1), "{algorithm}");
            }
        }
    }

    /// A transport that accepts a number of slices, and acknowledges none.
    struct Accepting(usize);

    impl Transport for Accepting {
        type Error = Infallible;

        fn send(&mut self, _due: Due) -> Result<Sending, Infallible> {
            let accepts = self.0 > 0;
            self.0 = self.0.saturating_sub(1);
            Ok(if accepts {
                Sending::Posted
            } else {
                Sending::Blocked
            })
        }

        fn slice_len(&self, _slice: u32) -> u64 {
            1
        }
    }

    /// An execution at the root, with one outgoing flow of `slices` slices.
    fn at_root(slices: u32, steps: Vec<u32>) -> Execution {
        let edge = EdgeId::Pair { from: 0, to: 1 };
        let flow = Flow {
            steps,
            ..Flow::all(edge, slices, 0)
        };
        let plan = Plan {
            outgoing: vec![flow],
            ..Plan::default()
        };
        let mut execution = Execution::new(plan, slices, 0..slices);
        (0..slices).for_each(|slice| execution.hold(slice));
        execution
    }

    #[test]
    fn a_blocked_slice_is_sent_later() {
        let mut execution = at_root(3, Vec::new());
        let Ok(()) = execution.advance(&mut Accepting(2));
        assert_eq!(execution.sent(0), [0, 1]);
        let Ok(()) = execution.advance(&mut Accepting(2));
        assert_eq!(execution.sent(0), [0, 1, 2]);
        assert!(!execution.is_acknowledged());
        (0..3).for_each(|_| execution.acknowledge(0, |_| 1));
        assert!(execution.is_acknowledged());
    }

    #[test]
    fn acknowledgements_continue_a_schedule() {
        let mut execution = at_root(9, (0..9).collect());
        let Ok(()) = execution.advance(&mut Accepting(usize::MAX));
        let in_flight = execution.sent(0).len();
        assert!(in_flight < 9);
        execution.acknowledge(0, |_| 1);
        let Ok(()) = execution.advance(&mut Accepting(usize::MAX));
        assert_eq!(execution.sent(0).len(), in_flight + 1);
    }
}
