//! The hybrid schedule of RDMC (section 4.3 of its paper): a binomial pipeline between racks, and one inside each rack.
//!
//! The first member of a rack is its leader; the root is that of its own rack. Leaders send blocks to other racks
//! first, then inside their rack. So each block enters a rack once.

use super::{binomial_pipeline, Send};
use crate::collective::plan::Shape;

/// Calls `note` for every send in which member `rank` is sender or receiver, with its layer: 0 between racks, 1 inside
/// a rack. Does nothing if the member's rack is unknown.
pub(super) fn sends(shape: Shape<'_>, rank: u32, mut note: impl FnMut(u8, Send)) {
    let Some((rack, place, inside)) = shape.racks.of(rank) else {
        return;
    };
    let leads = place == 0;
    let layers = [
        (0, shape.racks.leaders(), leads.then_some(rack)),
        (1, inside, Some(place)),
    ];
    for (layer, ranks, place) in layers {
        let (Some(place), 2..) = (place, ranks.len()) else {
            continue;
        };
        let members = ranks.len() as u32;
        binomial_pipeline::sends(members, shape.slices, place, |send| {
            let [from, to] = [send.from, send.to].map(|place| ranks[place as usize]);
            note(layer, Send { from, to, ..send });
        });
    }
}
