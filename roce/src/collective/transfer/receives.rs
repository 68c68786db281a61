//! The receives that a member keeps posted.
//!
//! Without a limit, one receive is posted for each expected slice. With
//! [`TransferSpec::receives`], each queue pair keeps that number of receives posted. A
//! message that finds none gets an RNR NAK.
//!
//! With `ready`, a sender posts nothing before its receiver has announced a receive. With a block schedule, a member
//! announces receives only for the next few blocks of its schedule: RDMC's "node is waiting for exactly one node to
//! send a block" (section 4.3 of its paper). Members do not run in lockstep. If each connection had receives of its
//! own, two blocks of different steps would share the link of one member. Both would take twice as long, and delay all
//! sends that depend on them.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use super::connections::Connections;
use crate::collective::error::TransferError;
use crate::collective::execution::Execution;
use crate::collective::spec::{TransferOp, TransferSpec};
use crate::rc::{MemoryKey, MemorySlice};
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// The facts that decide how many receives a member posts, and into which memory.
pub(super) struct ReceiveRules<'a> {
    pub spec: &'a TransferSpec,
    pub execution: &'a Execution,
    /// The memory region of the data; `None` while a receiver does not know the size.
    pub memory: Option<MemoryKey>,
    /// Whether this member has started.
    pub has_started: bool,
}

impl ReceiveRules<'_> {
    /// Whether this member must not post receives before it has started, which is so in a barrier over a group. There,
    /// switches acknowledge the root's signal when all members have received it. So a receive must mean that the member
    /// has entered the barrier.
    pub(super) fn wait_for_start(&self) -> bool {
        self.execution.plan().empty_payloads && self.spec.algorithm.needs_group()
    }

    /// Whether the receives of an incoming flow are posted in the order of a schedule.
    fn are_scheduled(&self, flow: usize) -> bool {
        self.spec.ready.is_some() && !self.execution.plan().incoming[flow].steps.is_empty()
    }
}

impl Connections {
    /// Posts as many receives on a queue pair as the specification permits. Receives of a schedule are posted once the
    /// whole schedule is known.
    pub(super) fn post_allowed_receives(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        if (rules.wait_for_start() && !rules.has_started) || self.is_scheduled(rules, qpn) {
            return Ok(());
        }
        let on_qp = self.incoming().iter().filter(|c| c.qpn() == qpn);
        let posted: usize = on_qp.map(|c| c.receives()).sum();
        let limit = rules.spec.receives_kept();
        let limit = limit.map_or(usize::MAX, |n| n as usize);
        self.post_receives(host, rules, qpn, limit.saturating_sub(posted))
    }

    /// Posts receives on all queue pairs, as [`Connections::post_allowed_receives`] does on one.
    pub(super) fn post_all_allowed_receives(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
    ) -> Result<(), TransferError> {
        let qpns: Vec<QpNum> = self.incoming().iter().map(|c| c.qpn()).collect();
        for qpn in qpns {
            self.post_allowed_receives(host, rules, qpn)?;
        }
        Ok(())
    }

    /// Posts the next receive after a slice (message) has arrived and has consumed one.
    pub(super) fn post_after_arrival(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
        qpn: QpNum,
    ) -> Result<(), TransferError> {
        if rules.spec.receives_kept().is_none() {
            return Ok(());
        }
        match self.is_scheduled(rules, qpn) {
            true => self.post_scheduled_receives(host, rules),
            false => self.post_receives(host, rules, qpn, 1),
        }
    }

    /// Creates the order of receives from the plan, and posts the first ones.
    pub(super) fn follow_schedule(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
    ) -> Result<(), TransferError> {
        self.set_receive_schedule(ReceiveSchedule::of(rules.execution));
        self.post_scheduled_receives(host, rules)
    }

    /// Posts the next receives in the order of the schedule, up to the number that this member announces to senders.
    fn post_scheduled_receives(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
    ) -> Result<(), TransferError> {
        let Some(most) = rules.spec.ready else {
            return Ok(());
        };
        let arrived = rules.execution.arrived();
        while let Some(flow) = self.next_scheduled_receive(arrived, most as usize) {
            self.post_receives(host, rules, self.incoming()[flow].qpn(), 1)?;
        }
        Ok(())
    }

    /// Whether the receives of a queue pair are posted in the order of a schedule.
    fn is_scheduled(&self, rules: &ReceiveRules<'_>, qpn: QpNum) -> bool {
        let mut flows = self.incoming().iter().enumerate();
        flows.any(|(flow, connection)| connection.qpn() == qpn && rules.are_scheduled(flow))
    }

    /// Posts the next `count` receives of a queue pair, one per slice (message). The buffer of a SEND is the slice's
    /// place in the data; the notification of a WRITE consumes an empty receive.
    fn post_receives(
        &mut self,
        host: &mut dyn Verbs,
        rules: &ReceiveRules<'_>,
        qpn: QpNum,
        count: usize,
    ) -> Result<(), TransferError> {
        let key = rules.memory.expect("a member that receives has memory");
        let mut left = count;
        for (flow, connection) in self.incoming_mut().iter_mut().enumerate() {
            if connection.qpn() != qpn {
                continue;
            }
            let slices = &rules.execution.plan().incoming[flow].slices;
            let next = slices.get(connection.receives()..).unwrap_or_default();
            for slice in next.iter().take(left) {
                let (offset, len) = match rules.spec.op {
                    TransferOp::Send => rules.spec.slice(*slice),
                    TransferOp::Write | TransferOp::WriteImm => (0, 0),
                };
                connection.post_receive(host, *slice, MemorySlice { key, offset, len })?;
                left -= 1;
            }
        }
        self.announce_receives(host, rules)
    }
}

/// The order in which a member receives blocks from several connections.
#[derive(Default)]
pub(super) struct ReceiveSchedule {
    /// For each step: index of the incoming connection, and index of the slice in its flow.
    order: Vec<(usize, usize)>,
    /// Number of steps whose receive has been posted.
    posted: usize,
}

impl ReceiveSchedule {
    /// Creates the order of arrival for a member's incoming flows; empty if they have no steps.
    fn of(execution: &Execution) -> ReceiveSchedule {
        let mut order: Vec<(u32, usize, usize)> = Vec::new();
        for (index, flow) in execution.plan().incoming.iter().enumerate() {
            let steps = flow.steps.iter().enumerate();
            order.extend(steps.map(|(nth, step)| (*step, index, nth)));
        }
        order.sort_unstable();
        ReceiveSchedule {
            order: order.into_iter().map(|entry| (entry.1, entry.2)).collect(),
            posted: 0,
        }
    }

    /// Index of the connection that needs the next receive; `None` if `limit` blocks of the schedule have a posted
    /// receive that has not completed. `arrived`: number of blocks that have arrived. `receives`: number of receives
    /// posted on a connection.
    pub(super) fn next(
        &mut self,
        arrived: usize,
        limit: usize,
        receives: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        while self.posted < arrived.saturating_add(limit) {
            let (connection, nth) = *self.order.get(self.posted)?;
            self.posted += 1;
            // The receive of a first block may have been posted before the plan was known.
            if receives(connection) <= nth {
                return Some(connection);
            }
        }
        None
    }
}
