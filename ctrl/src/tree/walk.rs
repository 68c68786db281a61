//! Construction of a tree from one switch to its members, for any policy.
//!
//! Gleam's algorithm 4 runs in every switch on the members that the switch above has sent its way.  Walking from the
//! root to one member after the other makes the same choices in the same order.
//!
//! The papers leave open what happens when two branches meet.  On fat-trees and leaf-spine networks they never do.  On
//! others a chosen port may lead to a switch that the tree has reached by another way: the walk then goes on
//! from there, and the links of the detour are dropped, so that the result is a tree on every network.

use super::{Tree, View};
use crate::topology::{Node, SwitchIndex};

/// Adds what is missing between `from`, a switch of the tree, and a member; `choose` names one of the next hops to it.
///
/// Ends because every step comes one link nearer to the member.
pub(super) fn reach(
    view: &View,
    tree: &mut Tree,
    from: SwitchIndex,
    choose: impl Fn(&Tree, SwitchIndex) -> u32,
) {
    let mut at = from;
    // Links beyond the last switch that was in the tree.
    let mut added: Vec<(SwitchIndex, u32)> = Vec::new();
    loop {
        let port = choose(tree, at);
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
