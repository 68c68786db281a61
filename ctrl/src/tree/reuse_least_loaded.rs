//! Gleam's algorithm 4: reuse a port of the tree, else take the least loaded one.
//!
//! The paper runs it in every switch on the members that the switch above has sent its way.  Walking from the
//! leader's switch to one member after the other makes the same choices in the same order.
//!
//! The paper leaves open what happens when two branches meet.  On fat-trees and leaf-spine networks they never do.  On
//! others a chosen port may lead to a switch that the tree has reached by another way: the walk then goes on
//! from there, and the links of the detour are dropped, so that the result is a tree on every network.

use super::{Tree, View};
use crate::topology::{HostIndex, Node, SwitchIndex};

pub(super) fn grow(view: &View, members: &[HostIndex]) -> Tree {
    let (root, _) = view.topology.attachment(members[0]);
    let mut tree = Tree::new(root);
    for member in members {
        reach(view, &mut tree, root, *member);
    }
    tree
}

/// Adds what is missing between `root` and `member`.
///
/// Ends because every step comes one link nearer to the member.
pub(super) fn reach(view: &View, tree: &mut Tree, root: SwitchIndex, member: HostIndex) {
    let mut at = root;
    // Links beyond the last switch that was in the tree.
    let mut added: Vec<(SwitchIndex, u32)> = Vec::new();
    loop {
        let port = view.least_loaded(at, member, |port| tree.has_port(at, port));
        let neighbour = view
            .topology
            .behind(at, port)
            .expect("next hops are used ports");
        if !tree.has_port(at, port) {
            added.push((at, port));
        }
        match neighbour.peer.node {
            Node::Host(_) => break,
            Node::Switch(next) => {
                if tree.contains(next) {
                    added.clear();
                }
                at = next;
            }
        }
    }
    for (switch, port) in added {
        tree.add_link(view.topology, switch, port);
    }
}
