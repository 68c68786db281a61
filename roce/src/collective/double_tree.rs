//! Double binary tree: two trees over all members but the root. Each carries every other slice (message), and a leaf of one
//! is an inner node of the other.
//!
//! So every member sends about as much as it receives, and all links are used. (P. Sanders, J. Speck, J. L. Träff,
//! "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009; the trees are numbered as in NCCL.)
//!
//! In the first tree the even ranks are inner nodes; the height of a rank is the number of its lowest set bit. The
//! second tree is the first one mirrored. Where mirroring would keep the parities of ranks, it is the first one shifted
//! by one rank.

use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`: even slices on the first tree, odd slices on the second.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    for tree in [Tree::First, Tree::Second] {
        let slices = (tree as u32..shape.slices).step_by(2);
        let place = tree.place(shape.members, rank);
        if rank > 0 {
            let parent = tree.rank(shape.members, parent(shape.members, place));
            draft.receive(parent, slices.clone());
        }
        for child in children(shape.members, place) {
            draft.send(tree.rank(shape.members, child), 0, slices.clone());
        }
    }
    draft.finish()
}

#[derive(Debug, Clone, Copy)]
enum Tree {
    First,
    Second,
}

impl Tree {
    /// The position of member `rank` in this tree. Both trees have the same shape, and positions are numbered as the
    /// ranks of the first tree. The root has position 0 in both.
    fn place(self, members: u32, rank: u32) -> u32 {
        match self {
            Tree::Second if rank > 0 && members % 2 == 1 => members - rank,
            Tree::Second if rank == 1 => members - 1,
            Tree::Second if rank > 0 => rank - 1,
            _ => rank,
        }
    }

    /// The rank of the member at a position in this tree; the inverse of [`Tree::place`].
    fn rank(self, members: u32, place: u32) -> u32 {
        match self {
            Tree::Second if place > 0 && members % 2 == 1 => members - place,
            Tree::Second if place > 0 && place == members - 1 => 1,
            Tree::Second if place > 0 => place + 1,
            _ => place,
        }
    }
}

/// The position of the parent of position `place` in a tree of `members` positions; `place` is not 0, the root's.
fn parent(members: u32, place: u32) -> u32 {
    let bit = lowest_bit(place);
    let up = (place ^ bit) | (bit << 1);
    if up < members {
        up
    } else {
        place ^ bit
    }
}

fn children(members: u32, place: u32) -> Vec<u32> {
    if place == 0 {
        // The root's only child is the topmost node of the tree.
        let highest = 1 << (members - 1).ilog2();
        return vec![highest];
    }
    let mut children = Vec::new();
    let half = lowest_bit(place) / 2;
    if half > 0 {
        children.push(place - half);
    }
    // A missing child is replaced by the topmost existing node of its subtree.
    let mut step = half;
    while step > 0 {
        if place + step < members {
            children.push(place + step);
            break;
        }
        step /= 2;
    }
    children
}

fn lowest_bit(place: u32) -> u32 {
    place & place.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::testing::sizes;

    #[test]
    fn no_member_is_an_inner_node_of_both_trees() {
        for members in sizes() {
            let is_inner =
                |tree: Tree, rank| !children(members, tree.place(members, rank)).is_empty();
            let both = |rank: &u32| is_inner(Tree::First, *rank) && is_inner(Tree::Second, *rank);
            assert_eq!((1..members).find(both), None, "of {members}");
            let neither =
                |rank: &u32| !is_inner(Tree::First, *rank) && !is_inner(Tree::Second, *rank);
            // If `members` is even, an odd number remains without the root, and one of them is a leaf in both trees.
            let spare = usize::from(members % 2 == 0);
            assert_eq!((1..members).filter(neither).count(), spare, "of {members}");
        }
    }

    #[test]
    fn parents_and_children_agree() {
        for members in sizes() {
            for place in 1..members {
                let parent = parent(members, place);
                assert!(
                    children(members, parent).contains(&place),
                    "{place} below {parent} of {members}"
                );
            }
        }
    }
}
