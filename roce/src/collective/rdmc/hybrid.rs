//! The hybrid of section 4.3: a binomial pipeline between the racks, and one in each rack.
//!
//! The first member of a rack leads it, and the root its own. Leaders pass blocks on inside their rack as they come, after what goes to
//! other racks; so each block crosses into a rack once.

use super::{binomial_pipeline, Send};
use crate::collective::plan::Shape;

/// All sends that a member is a part of, with their layer: 0 between racks, 1 inside. A member whose rack is not known has none.
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
