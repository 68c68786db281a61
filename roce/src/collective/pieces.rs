//! Pieces: the data divided among all members, scattered along a binomial tree. Used by scatters and by broadcasts of
//! long messages.
//!
//! A *slice* is the part of the data in one message, and the piece of a rank is a range of slices. Some pieces are empty if
//! there are fewer slices than members.

use std::ops::Range;

use super::binomial;
use super::plan::{Draft, Shape};

/// The slices (messages) of the pieces that belong to the ranks `ranks`.
pub(super) fn slices(shape: Shape<'_>, ranks: Range<u32>) -> Range<u32> {
    let at = |rank: u32| {
        let whole = u64::from(rank) * u64::from(shape.slices) / u64::from(shape.members);
        whole as u32
    };
    at(ranks.start)..at(ranks.end)
}

/// The ranks whose pieces member `rank` receives from its parent: those in its subtree of the binomial tree.
pub(super) fn subtree(shape: Shape<'_>, rank: u32) -> Range<u32> {
    let end = rank.saturating_add(binomial::span(shape.members, rank));
    rank..end.min(shape.members)
}

/// Adds a binomial scatter to a plan. The member receives the pieces of all ranks in its subtree. It sends each child
/// the pieces of the child's subtree, to the child with the largest subtree first.
pub(super) fn scatter_pieces(draft: &mut Draft, shape: Shape<'_>, rank: u32) {
    if rank > 0 {
        draft.receive(binomial::parent(rank), slices(shape, subtree(shape, rank)));
    }
    for (turn, child) in binomial::children(shape.members, rank).enumerate() {
        draft.send(child, turn as u8, slices(shape, subtree(shape, child)));
    }
}
