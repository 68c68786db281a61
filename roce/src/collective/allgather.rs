//! Allgathers: each member's piece of the data, a range of slices (messages), reaches all other members.

use super::pieces::slices;
use super::plan::{Draft, Plan, Shape};

/// Ring allgather: each member sends its own piece to the next rank first, then forwards the pieces of other members. Each
/// piece travels once around the ring.
pub(super) fn ring(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    let n = shape.members;
    let (before, after) = ((rank + n - 1) % n, (rank + 1) % n);
    for back in 0..n - 1 {
        draft.receive(before, pieces(shape, before, back..back + 1));
        draft.send(after, 0, pieces(shape, rank, back..back + 1));
    }
    draft.finish()
}

/// Bruck's allgather: in round t each member sends all pieces that the member 2^t ranks ahead lacks. (J. Bruck and
/// others, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997.)
pub(super) fn dissemination(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    let n = shape.members;
    let mut distance = 1;
    while distance < n {
        let has = 0..distance.min(n - distance);
        let before = (rank + n - distance) % n;
        draft.receive(before, pieces(shape, before, has.clone()));
        draft.send((rank + distance) % n, 0, pieces(shape, rank, has));
        distance *= 2;
    }
    draft.finish()
}

/// Slices of the pieces that belong to the ranks `rank - d` (modulo the group size), for each distance d in `back`, in
/// this order.
fn pieces(
    shape: Shape<'_>,
    rank: u32,
    back: std::ops::Range<u32>,
) -> impl Iterator<Item = u32> + use<'_> {
    let n = shape.members;
    back.flat_map(move |back| {
        let piece = (rank + n - back) % n;
        slices(shape, piece..piece + 1)
    })
}
