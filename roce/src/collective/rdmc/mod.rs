//! RDMC: reliable multicast out of point-to-point transfers of blocks. (J. Behrens, S. Jha, K. Birman, E. Tremel, "RDMC: A Reliable
//! RDMA Multicast for Large Objects", DSN 2018.)
//!
//! Each [`Schedule`] says in which step a member sends which block to which other (section 4.3). Members are not in step with each other: a
//! member goes through its own steps in order, and a send waits for its block and for its target (`ready` in
//! [`TransferSpec`](super::TransferSpec)). What a block is, and how receivers learn how many come, is in `announce`.

mod binomial_pipeline;
mod hybrid;

use super::plan::{Draft, Plan, Shape};

/// The order in which blocks go from member to member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// The whole message to one member after the other.
    Sequential,
    /// A bucket brigade.
    Chain,
    /// Who has the whole message sends it to one who has not.
    BinomialTree,
    /// Blocks along the edges of a hypercube, all nodes sending and receiving in every step.
    BinomialPipeline,
    /// A binomial pipeline between racks, and one in each.
    Hybrid,
}

/// A schedule of point-to-point sends; the step is the number of the round in which all would be if they were in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Send {
    step: u32,
    from: u32,
    to: u32,
    block: u32,
}

impl Schedule {
    /// With this many blocks every edge is used that is ever used, so that queue pairs can be made before the size is known.
    pub(super) fn blocks_on_all_edges(self, members: u32) -> u32 {
        match self {
            Schedule::Sequential | Schedule::Chain | Schedule::BinomialTree => 1,
            // Each direction of the hypercube has its turn twice when blocks are under way everywhere.
            Schedule::BinomialPipeline | Schedule::Hybrid => 3 * (members.ilog2() + 1),
        }
    }
}

/// The plan of one member.
pub(super) fn plan(schedule: Schedule, shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    let whole = match schedule {
        Schedule::Sequential => {
            // The step of a block that goes to a receiver.
            let step = |to: u32, block| (to - 1) * shape.slices + block;
            let receivers = if rank == 0 {
                1..shape.members
            } else {
                rank..rank + 1
            };
            for to in receivers {
                (0..shape.slices).for_each(|block| {
                    let (from, step) = (0, step(to, block));
                    note(
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
                    note(
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
            // In round t those with a rank below 2^t send.
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
                    note(
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
                note(&mut draft, 0, send);
            });
            false
        }
        Schedule::Hybrid => {
            hybrid::sends(shape, rank, |layer, send| note(&mut draft, layer, send));
            false
        }
    };
    Plan {
        whole,
        ..draft.finish()
    }
}

/// Takes a send into the plan of the member at one of its ends.
fn note(draft: &mut Draft, layer: u8, send: Send) {
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
