//! A retransmission goes only where it is missing (`retransmission_filter.p4`).

use super::Space;

/// The newest PSN that each path has, as egress knows it: a second copy, because egress cannot read ingress' registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RetransmissionFilter {
    /// By path.
    pub acked: Vec<u32>,
}

impl RetransmissionFilter {
    pub(crate) fn new(paths: usize, before: u32) -> RetransmissionFilter {
        RetransmissionFilter {
            acked: vec![before; paths],
        }
    }

    /// A path has all up to `acked`.
    pub(crate) fn update(&mut self, space: Space, path: usize, acked: u32) {
        let known = &mut self.acked[path];
        if space.lt(*known, acked) {
            *known = acked;
        }
    }

    /// Does a path need this copy?
    pub(crate) fn needs(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.acked[path], psn)
    }
}
