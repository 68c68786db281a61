//! The hybrid of section 4.3: a binomial pipeline between the racks, and one in each rack.
//!
//! The first member of a rack leads it, and the root its own. Leaders pass blocks on inside their rack as they come, after what goes to
//! other racks; so each block crosses into a rack once.

use std::collections::BTreeMap;

use super::{binomial_pipeline, Send};
use crate::collective::plan::Shape;

/// All sends that a member is a part of, with their layer: 0 between racks, 1 inside.
pub(super) fn sends(shape: Shape<'_>, rank: u32, mut note: impl FnMut(u8, Send)) {
    let rack_of = |rank: u32| shape.racks.get(rank as usize).copied().unwrap_or(0);
    let own = rack_of(rank);
    let mut leaders = Vec::new();
    let mut led = BTreeMap::new();
    let mut inside = Vec::new();
    for member in 0..shape.members {
        let rack = rack_of(member);
        led.entry(rack).or_insert_with(|| leaders.push(member));
        if rack == own {
            inside.push(member);
        }
    }
    for (layer, ranks) in [leaders, inside].into_iter().enumerate() {
        let Some(place) = ranks.iter().position(|member| *member == rank) else {
            continue;
        };
        if ranks.len() < 2 {
            continue;
        }
        let members = ranks.len() as u32;
        binomial_pipeline::sends(members, shape.slices, place as u32, |send| {
            let [from, to] = [send.from, send.to].map(|place| ranks[place as usize]);
            note(layer as u8, Send { from, to, ..send });
        });
    }
}
