//! Complete tree in which each member has up to K children: those of rank r are K·r + 1 to K·r + K.
//!
//! A member sends to its children slice by slice, alternating between them (round robin). A *slice* is the part of the data
//! in one message.

use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`; `fan_out` is K, at least 1.
pub(super) fn plan(shape: Shape<'_>, rank: u32, fan_out: u32) -> Plan {
    let mut draft = Draft::new(rank);
    if rank > 0 {
        draft.receive((rank - 1) / fan_out, 0..shape.slices);
    }
    let first = u64::from(rank) * u64::from(fan_out) + 1;
    let end = (first + u64::from(fan_out)).min(shape.members.into());
    for child in first..end {
        draft.send(child as u32, 0, 0..shape.slices);
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::EdgeId;

    #[test]
    fn children_follow_one_another_by_rank() {
        let plan = plan(Shape::new(7, 1), 1, 3);
        let edges: Vec<_> = plan.outgoing.iter().map(|flow| flow.edge).collect();
        let edge = |to| EdgeId::Pair { from: 1, to };
        assert_eq!(edges, [edge(4), edge(5), edge(6)]);
        assert_eq!(
            plan.incoming[0].edge,
            EdgeId::Pair { from: 0, to: 1 },
            "the root is the parent"
        );
    }
}
