//! Construction of a tree from one switch to its members, for any policy.
//!
//! Gleam's algorithm 4 runs in every switch, on the members below it. Walking from the root to one member after the other
//! makes the same choices in the same order.
//!
//! The papers do not define what happens if two branches meet, which is impossible on fat-trees and leaf-spine networks. On
//! other networks, a chosen port may lead to a switch that is already in the tree. Then the walk continues from that switch,
//! and the links of the detour are discarded, so that the result is always a tree.

use super::{Tree, View};
use crate::topology::{Node, SwitchIndex};

/// Adds the missing links between `from`, a switch of the tree, and a member. `choose` returns a next hop towards the member.
///
/// The function terminates because every step is one link nearer to the member.
pub(super) fn reach(
    view: &View,
    tree: &mut Tree,
    from: SwitchIndex,
    choose: impl Fn(&Tree, SwitchIndex) -> u32,
) {
    let mut at = from;
    // Links after the last switch on the path that was already in the tree.
    let mut added: Vec<(SwitchIndex, u32)> = Vec::new();
    loop {
        let port = choose(tree, at);
        let neighbour = view
            .topology
            .neighbour_at(at, port)
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
