//! Retransmission filter (`retransmission_filter.p4`): drops the copy of a retransmitted packet for each path that has
//! it.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0.

use super::Space;

/// Newest PSN that each path has. It is stored a second time in egress, because egress cannot read ingress registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RetransmissionFilter {
    /// Newest PSN that each path has acknowledged, indexed by path number.
    pub acked: Vec<u32>,
}

impl RetransmissionFilter {
    pub(crate) fn new(paths: usize, before: u32) -> RetransmissionFilter {
        RetransmissionFilter {
            acked: vec![before; paths],
        }
    }

    /// Records that a path has all packets up to `acked`.
    pub(crate) fn update(&mut self, space: Space, path: usize, acked: u32) {
        let known = &mut self.acked[path];
        if space.lt(*known, acked) {
            *known = acked;
        }
    }

    /// Whether a path lacks packet `psn`, so that its copy must be sent.
    pub(crate) fn needs(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.acked[path], psn)
    }
}
