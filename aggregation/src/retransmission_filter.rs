//! Filter that drops copies of a retransmission for paths that have it (`retransmission_filter.p4`).

use super::Space;

/// Newest PSN of each path, stored in egress: a second copy, because egress cannot read the registers of ingress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RetransmissionFilter {
    /// Newest acknowledged PSN, indexed by path.
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

    /// Whether a path lacks `psn`.
    pub(crate) fn needs(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.acked[path], psn)
    }
}
