//! Member r passes every slice on to member r + 1 as soon as it has it.
//!
//! With n members and s slices the last one is done after about (s + n - 2) / s times the time of one transfer.

use super::plan::{Flow, Plan};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(members: u32, slices: u32, rank: u32) -> Plan {
    let edge = |from| Flow::all(EdgeId::Pair { from, to: from + 1 }, slices, 0);
    Plan {
        incoming: rank.checked_sub(1).map(edge).into_iter().collect(),
        outgoing: (rank + 1 < members)
            .then(|| edge(rank))
            .into_iter()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::collective::plan::testing::delivers_everything_once;
    use crate::collective::Algorithm;

    #[test]
    fn everybody_gets_everything() {
        delivers_everything_once(Algorithm::Chain);
    }
}
