//! The root sends everything to each member by itself; its queue pairs take turns.

use super::plan::{Flow, Plan};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(members: u32, slices: u32, rank: u32) -> Plan {
    let edge = |to| Flow::all(EdgeId::Pair { from: 0, to }, slices, 0);
    if rank == 0 {
        Plan {
            outgoing: (1..members).map(edge).collect(),
            ..Plan::default()
        }
    } else {
        Plan {
            incoming: vec![edge(rank)],
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
        delivers_everything_once(Algorithm::Unicast);
    }
}
