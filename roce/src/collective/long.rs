//! Broadcasts of long messages: a scatter into as many pieces as there are members, then an allgather of the pieces.
//!
//! No member sends more than about twice the message, whatever the number of members. So these algorithms suit long
//! messages and slow links. A member does not receive the pieces that it has from the scatter a second time.
//!
//! - [`ring`]: the allgather is a ring, in which each piece travels around once (R. van de Geijn's broadcast, as in MPI
//!   libraries).
//! - [`spread_roll`]: HPL's `long` ("spread-and-roll"): neighbours exchange pieces, alternating between both sides.

use super::pieces::{scatter_pieces, slices, subtree};
use super::plan::{Draft, Plan, Shape};

/// Priority of the sends of the allgather: they come after those of the scatter on the same link.
const ALLGATHER_PRIORITY: u8 = u8::MAX;

/// Plan of member `rank`: a scatter, then a ring allgather.
pub(super) fn ring(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    scatter_pieces(&mut draft, shape, rank);
    let members = shape.members;
    // Each rank receives the piece of its predecessor first, then that of the rank before it, and so on.
    let pieces = |to: u32| (1..members).map(move |back| (to + members - back) % members);
    if rank > 0 {
        let lacks = pieces(rank).filter(|piece| !subtree(shape, rank).contains(piece));
        for piece in lacks {
            draft.receive(rank - 1, slices(shape, piece..piece + 1));
        }
    }
    let next = (rank + 1) % members;
    if next > 0 {
        for piece in pieces(next).filter(|piece| !subtree(shape, next).contains(piece)) {
            draft.send(next, ALLGATHER_PRIORITY, slices(shape, piece..piece + 1));
        }
    }
    draft.finish()
}

/// Plan of member `rank`: a scatter, then spread-and-roll.
pub(super) fn spread_roll(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    scatter_pieces(&mut draft, shape, rank);
    for step in 0..shape.members - 1 {
        let Exchange {
            peer,
            sent_piece,
            received_piece,
        } = exchange(shape.members, rank, step);
        if peer > 0 && !subtree(shape, peer).contains(&sent_piece) {
            draft.send(
                peer,
                ALLGATHER_PRIORITY,
                slices(shape, sent_piece..sent_piece + 1),
            );
        }
        if rank > 0 && !subtree(shape, rank).contains(&received_piece) {
            draft.receive(peer, slices(shape, received_piece..received_piece + 1));
        }
    }
    draft.finish()
}

/// Neighbour and pieces of one step of spread-and-roll, in which each member sends a piece to a neighbour and receives
/// one from it.
struct Exchange {
    peer: u32,
    sent_piece: u32,
    received_piece: u32,
}

fn exchange(members: u32, rank: u32, step: u32) -> Exchange {
    let [ahead, behind] = [
        |at: u32, by: u32, of: u32| (at + by) % of,
        |at: u32, by: u32, of: u32| (at + of - by) % of,
    ];
    let turn = step / 2;
    match (rank + step) % 2 {
        0 => Exchange {
            peer: ahead(rank, 1, members),
            sent_piece: behind(rank, turn, members),
            received_piece: ahead(rank, turn + 1, members),
        },
        _ => Exchange {
            peer: behind(rank, 1, members),
            sent_piece: ahead(rank, turn, members),
            received_piece: behind(rank, turn + 1, members),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::testing::sizes;

    fn sent(plans: &[Plan]) -> impl Iterator<Item = usize> + '_ {
        plans.iter().map(|plan| {
            let flows = plan.outgoing.iter();
            flows.map(|flow| flow.slices.len()).sum()
        })
    }

    #[test]
    fn no_member_sends_more_than_twice_the_message() {
        for members in sizes() {
            let shape = Shape::new(members, 4 * members);
            for of in [ring, spread_roll] {
                let plans: Vec<Plan> = (0..members).map(|rank| of(shape, rank)).collect();
                let most = sent(&plans).max().unwrap();
                assert!(
                    most < 2 * shape.slices as usize,
                    "{most} slices of {members}"
                );
            }
        }
    }

    #[test]
    fn neighbours_alternate_sides() {
        let peers = |step| {
            (0..6)
                .map(|rank| exchange(6, rank, step).peer)
                .collect::<Vec<_>>()
        };
        assert_eq!(peers(0), [1, 0, 3, 2, 5, 4]);
        assert_eq!(peers(1), [5, 2, 1, 4, 3, 0]);
    }
}
