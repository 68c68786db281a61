//! Traces as trees: each copy of a packet below the packet that it is a copy of.

use super::{TraceEvent, TraceLine};
use serde::Serialize;
use std::collections::BTreeMap;

/// A packet with its steps, and its copies with theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacketTree {
    /// Number of the received frame since tracing began, from 1.
    pub packet: u64,
    /// Number of the copy; 0 for the received packet.
    pub copy: u32,
    /// The steps of this packet, in order.
    pub steps: Vec<TraceEvent>,
    /// Clones, replicas, and the packet after resubmission or recirculation, in the order in which they were made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<PacketTree>,
}

/// Arranges the lines of a trace as trees, one for each received frame, in the order of their arrival.
///
/// A copy whose origin is not in the trace is a tree of its own.
pub fn trees(lines: &[TraceLine]) -> Vec<PacketTree> {
    let mut steps: BTreeMap<(u64, u32), Vec<TraceEvent>> = BTreeMap::new();
    let mut origin: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    for line in lines {
        let key = (line.packet, line.copy);
        steps.entry(key).or_default().push(line.event.clone());
        // A copy has a larger number than its origin, so that origins form no cycle.
        if let Some(copy) = made(&line.event).filter(|&copy| copy > line.copy) {
            origin.entry((line.packet, copy)).or_insert(line.copy);
        }
    }
    let mut children: BTreeMap<(u64, u32), Vec<PacketTree>> = BTreeMap::new();
    let mut roots = Vec::new();
    // Copies first, so that all copies of a packet are complete when it is reached.
    for ((packet, copy), steps) in steps.into_iter().rev() {
        let mut copies = children.remove(&(packet, copy)).unwrap_or_default();
        copies.reverse();
        let tree = PacketTree {
            packet,
            copy,
            steps,
            copies,
        };
        match origin.get(&(packet, copy)) {
            Some(&of) => children.entry((packet, of)).or_default().push(tree),
            None => roots.push(tree),
        }
    }
    roots.reverse();
    roots
}

/// Returns the number of the copy that a step has made.
fn made(event: &TraceEvent) -> Option<u32> {
    match event {
        TraceEvent::Queued { as_copy, .. }
        | TraceEvent::Cloned { as_copy, .. }
        | TraceEvent::Resubmitted { as_copy }
        | TraceEvent::Recirculated { as_copy } => Some(*as_copy),
        _ => None,
    }
}
