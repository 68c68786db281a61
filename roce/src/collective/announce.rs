//! Announcements between the members of an RDMC broadcast (sections 4.2 and 4.3 of its paper).
//!
//! - *Ready for block*, with [`TransferSpec::ready`]: a receiver keeps that number of receives posted on an edge. It
//!   announces them with an empty SEND in the other direction, whose immediate data is the number of receives posted so
//!   far. The sender posts no more sends than announced, so every message finds a receive.
//! - *The size comes with the data*, with [`TransferSpec::announce`]: receivers know only the block size at first. They
//!   post a receive for one block on each edge on which the first block may arrive. The immediate data of every block
//!   is the size of the whole message. With the first block, a receiver allocates its memory, copies the block to its
//!   place, and plans the rest.
//!
//! Terms: a *block* or *slice* is the part of the data in one message. An *edge* is a connection between two members. A
//! *flow* is the slices that cross one edge.

use std::collections::BTreeSet;

use super::edge::EdgeId;
use super::plan::{Flow, Plan, Shape};
use super::spec::{SpecError, TransferOp, TransferSpec};

impl TransferSpec {
    /// Whether this member knows the size of the data.
    pub(super) fn has_size(&self) -> bool {
        !self.announce || self.is_root()
    }

    /// Sets the size of the data in bytes, and the number of slices that follows from the block size.
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        if let Some(block) = self.block {
            self.slices = blocks(size, block);
        }
    }

    /// A plan with a flow (sequence of slices) for each edge that this member may use. The flows list no slices while
    /// the member does not know the size of the data.
    pub(super) fn edges(&self) -> Plan {
        if !self.announce {
            return self.plan();
        }
        let members = self.members.len() as u32;
        let mut edges = self.plan_of(self.algorithm.slices_on_all_edges(members));
        let known = match self.has_size() {
            true => self.plan(),
            false => Plan::default(),
        };
        fill(&mut edges.incoming, known.incoming);
        fill(&mut edges.outgoing, known.outgoing);
        edges
    }

    /// The plan for the present size, with a flow for each edge of the flows in `edges`, in their order.
    pub(super) fn plan_on(&self, edges: Plan) -> Plan {
        let plan = self.plan();
        let (mut incoming, mut outgoing) = (edges.incoming, edges.outgoing);
        fill(&mut incoming, plan.incoming);
        fill(&mut outgoing, plan.outgoing);
        Plan {
            incoming,
            outgoing,
            ..plan
        }
    }

    /// For each incoming edge (connection) of [`TransferSpec::edges`]: whether the first block may arrive on it. The
    /// size is not known yet, so all numbers of slices are considered.
    pub(super) fn may_carry_first(&self) -> Vec<bool> {
        let most = self
            .algorithm
            .slices_on_all_edges(self.members.len() as u32);
        let first: BTreeSet<EdgeId> = (1..=most).flat_map(|n| self.first_edges(n)).collect();
        let edges = self.plan_of(most).incoming;
        edges
            .iter()
            .map(|flow| first.contains(&flow.edge))
            .collect()
    }

    /// The edges (connections) on which the first block may arrive if the data has `slices` slices.
    fn first_edges(&self, slices: u32) -> Vec<EdgeId> {
        let flows = self.plan_of(slices).incoming;
        let first = flows.iter().map(first_step).min();
        let first = flows
            .into_iter()
            .filter(|flow| Some(first_step(flow)) == first);
        first.map(|flow| flow.edge).collect()
    }

    /// This member's plan for a broadcast of `slices` slices.
    pub(super) fn plan_of(&self, slices: u32) -> Plan {
        let shape = Shape {
            members: self.members.len() as u32,
            slices,
            racks: &self.racks,
        };
        self.algorithm.plan(shape, self.rank)
    }

    pub(super) fn check_announcements(&self) -> Result<(), SpecError> {
        if self.block == Some(0) {
            return Err(SpecError::ZeroBlockSize);
        }
        if self.ready == Some(0) {
            return Err(SpecError::ZeroReceives);
        }
        if self.algorithm.needs_group() && (self.ready.is_some() || self.announce) {
            return Err(SpecError::AnnouncementInGroup(self.algorithm));
        }
        if self.ready.is_some() && self.receives.is_some() {
            return Err(SpecError::ReadyAndReceives);
        }
        match self.block {
            None if self.announce => return Err(SpecError::ZeroBlockSize),
            Some(block) if self.has_size() && self.slices != blocks(self.size, block) => {
                return Err(SpecError::BlockCountMismatch {
                    slices: self.slices,
                    size: self.size,
                    block,
                });
            }
            _ => {}
        }
        if self.announce && self.op != TransferOp::Send {
            return Err(SpecError::AnnouncedWrite);
        }
        if self.announce && u32::try_from(self.size).is_err() {
            return Err(SpecError::TooLargeToAnnounce(self.size));
        }
        Ok(())
    }
}

/// Number of blocks of `block` bytes in `size` bytes; 1 if `size` is 0.
pub fn blocks(size: u64, block: u32) -> u32 {
    let blocks = size.div_ceil(block.max(1).into()).max(1);
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

fn first_step(flow: &Flow) -> u32 {
    flow.steps.first().copied().unwrap_or(0)
}

/// Copies to each flow in `edges` the slices of the flow in `known` on the same edge; none if there is no such flow.
/// Priorities are kept.
fn fill(edges: &mut [Flow], mut known: Vec<Flow>) {
    for flow in edges {
        let found = known.iter().position(|k| k.edge == flow.edge);
        let priority = flow.priority;
        *flow = match found {
            Some(at) => known.swap_remove(at),
            None => Flow::all(flow.edge, 0, 0),
        };
        flow.priority = priority;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::collective::plan::testing::{racks, sizes};
    use crate::collective::{Algorithm, TransferSpec};

    #[test]
    fn a_receive_waits_wherever_the_first_block_may_come_from() {
        for members in sizes() {
            for schedule in Algorithm::RDMC {
                for rank in [1, 2, members / 2, members - 1] {
                    let spec = TransferSpec {
                        block: Some(1),
                        announce: true,
                        racks: racks(members),
                        ..TransferSpec::new(
                            Algorithm::Rdmc(schedule),
                            rank.clamp(1, members - 1),
                            (0..members).map(|i| Ipv4Addr::from(i + 1)).collect(),
                            0,
                        )
                    };
                    let edges = spec.edges().incoming;
                    let edges = edges.iter().zip(spec.may_carry_first());
                    let first: Vec<EdgeId> = edges.filter(|e| e.1).map(|e| e.0.edge).collect();
                    // One edge, or two for a member that shares its vertex of the hypercube.
                    assert!((1..=2).contains(&first.len()), "{first:?}");
                    for slices in [1, 2, 3, 5, 17, 100] {
                        let comes = spec.first_edges(slices);
                        assert!(comes.iter().all(|edge| first.contains(edge)), "{comes:?}");
                    }
                }
            }
        }
    }
}
