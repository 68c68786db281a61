//! RDMC: reliable multicast by point-to-point transfers of blocks. (J. Behrens, S. Jha, K. Birman, E. Tremel, "RDMC: A
//! Reliable RDMA Multicast for Large Objects", DSN 2018.)
//!
//! A block is the part of the data in one message; other algorithms call it a slice.
//!
//! Each [`Schedule`] defines which member sends which block to which other member in each step (section 4.3). Members
//! do not run in lockstep: each executes its own steps in order. A send waits until its block has arrived and its
//! target is ready (`ready` in [`TransferSpec`](super::TransferSpec)). The module `announce` defines how receivers
//! learn the number of blocks.

mod binomial_pipeline;
mod hybrid;

use super::plan::{Draft, Plan, Shape};

/// A block schedule of RDMC: the order in which blocks pass between members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// The root sends the whole message to each member, one member after the other.
    Sequential,
    /// Each member forwards every block to the next member.
    Chain,
    /// Each member that has the whole message sends it to one that lacks it.
    BinomialTree,
    /// Blocks cross the edges of a hypercube, and every member sends and receives in each step (binomial pipeline).
    BinomialPipeline,
    /// A binomial pipeline between racks, and one inside each rack.
    Hybrid,
}

/// One point-to-point send of a block in a schedule. `step` is the round in which it happens if all members run in
/// lockstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Send {
    step: u32,
    from: u32,
    to: u32,
    block: u32,
}

impl Schedule {
    /// A number of blocks that is large enough for every edge (connection) of the schedule to carry one. With it, queue
    /// pairs can be created before the size is known.
    pub(super) fn blocks_on_all_edges(self, members: u32) -> u32 {
        match self {
            Schedule::Sequential | Schedule::Chain | Schedule::BinomialTree => 1,
            // Every dimension of the hypercube occurs at least twice while all members hold blocks.
            Schedule::BinomialPipeline | Schedule::Hybrid => 3 * (members.ilog2() + 1),
        }
    }
}

/// Plan of member `rank` for a schedule.
pub(super) fn plan(schedule: Schedule, shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    let whole = match schedule {
        Schedule::Sequential => {
            // Step in which a block is sent to a receiver.
            let step = |to: u32, block| (to - 1) * shape.slices + block;
            let receivers = if rank == 0 {
                1..shape.members
            } else {
                rank..rank + 1
            };
            for to in receivers {
                (0..shape.slices).for_each(|block| {
                    let (from, step) = (0, step(to, block));
                    add_send(
                        &mut draft,
                        0,
                        Send {
                            step,
                            from,
                            to,
                            block,
                        },
                    );
                });
            }
            false
        }
        Schedule::Chain => {
            let links = [
                rank.checked_sub(1),
                (rank + 1 < shape.members).then_some(rank),
            ];
            for from in links.into_iter().flatten() {
                (0..shape.slices).for_each(|block| {
                    let (step, to) = (from + block, from + 1);
                    add_send(
                        &mut draft,
                        0,
                        Send {
                            step,
                            from,
                            to,
                            block,
                        },
                    );
                });
            }
            false
        }
        Schedule::BinomialTree => {
            // In round t, the ranks below 2^t send.
            let rounds = shape.members.next_power_of_two().ilog2();
            let own = if rank == 0 { 0 } else { rank.ilog2() };
            let pairs = (own..rounds).map(|round| {
                let bit = 1 << round;
                if rank < bit {
                    (round, rank, rank + bit)
                } else {
                    (round, rank - bit, rank)
                }
            });
            for (round, from, to) in pairs.filter(|(_, _, to)| *to < shape.members) {
                (0..shape.slices).for_each(|block| {
                    let step = round * shape.slices + block;
                    add_send(
                        &mut draft,
                        0,
                        Send {
                            step,
                            from,
                            to,
                            block,
                        },
                    );
                });
            }
            true
        }
        Schedule::BinomialPipeline => {
            binomial_pipeline::sends(shape.members, shape.slices, rank, |send| {
                add_send(&mut draft, 0, send);
            });
            false
        }
        Schedule::Hybrid => {
            hybrid::sends(shape, rank, |layer, send| add_send(&mut draft, layer, send));
            false
        }
    };
    Plan {
        store_and_forward: whole,
        ..draft.finish()
    }
}

/// Adds a send to the plan of the member that sends or receives it. `layer`: priority of the send.
fn add_send(draft: &mut Draft, layer: u8, send: Send) {
    let Send {
        step,
        from,
        to,
        block,
    } = send;
    if draft.rank() == from {
        draft.send_at(step, to, layer, block);
    } else {
        draft.receive_at(step, from, block);
    }
}

#[cfg(test)]
mod tests;
