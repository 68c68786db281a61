//! The root sends once; the switches replicate the packets and merge the answers.

use super::plan::{Flow, Plan};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(_members: u32, slices: u32, rank: u32) -> Plan {
    let flow = Flow::all(EdgeId::Group { root: 0 }, slices, 0);
    if rank == 0 {
        Plan {
            outgoing: vec![flow],
            ..Plan::default()
        }
    } else {
        Plan {
            incoming: vec![flow],
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::collective::plan::testing::delivers_everything_once;
    use crate::collective::Algorithm;

    #[test]
    fn everybody_gets_everything() {
        delivers_everything_once(Algorithm::Alfirk);
    }
}
