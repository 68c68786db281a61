//! The current source, and the newest PSN it has sent (`sender.p4`).
//!
//! From the source's port, every PSN within the window is accepted. The window is the number of packets that a source may
//! send beyond the last acknowledged one. From another port, or before there is a source, only the group's next PSN is
//! accepted. That path must have acknowledged all packets before this PSN. The port then becomes the source's. Without this
//! rule, a faulty member could become the source, or acknowledge packets that other members behind the same port have not
//! received.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *source* is the member of the
//! group that sends at present.

use super::{Config, Flaw, Port, Space};

/// The current source, the newest PSN sent, and the PSN that each path has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Port of the source; `None` before any data.
    pub source: Option<Port>,
    /// Newest PSN that the source has sent.
    pub sent: u32,
    /// Newest PSN that each path has acknowledged, even if that PSN was never sent. It only decides whether the path
    /// may become the source.
    pub acked: Vec<u32>,
}

impl Sender {
    pub(crate) fn new(paths: usize, before: u32) -> Sender {
        Sender {
            source: None,
            sent: before,
            acked: vec![before; paths],
        }
    }

    /// Processes a data packet. `last_acked`: the PSN last acknowledged to the source. Returns `None` if the packet
    /// must be dropped: its PSN is new, and beyond the window or from a port that may not become the source's.
    /// Otherwise returns whether it is from the port of the source. A packet with the group's next PSN can make its
    /// port the source's.
    pub(crate) fn data(
        &mut self,
        config: &Config,
        (port, path): (Port, usize),
        psn: u32,
        last_acked: u32,
    ) -> Option<bool> {
        let (space, flaw) = (config.space, config.flaw());
        let has_all = !space.lt(self.acked[path], self.sent);
        let is_next = psn == space.next(self.sent) && has_all;
        let is_any =
            flaw == Flaw::AnyoneSends || (flaw == Flaw::AnyFirstPsn && self.source.is_none());
        let from_current_source = self.source == Some(port) || is_next || is_any;
        if space.lt(self.sent, psn) {
            let ahead = u32::try_from(space.distance(last_acked, psn));
            let is_in_window = ahead.is_ok_and(|ahead| ahead <= config.window);
            if !from_current_source || !(is_in_window || is_any || flaw == Flaw::NoWindow) {
                return None;
            }
            (self.source, self.sent) = (Some(port), psn);
        }
        Some(from_current_source)
    }

    /// Records the PSN that a path acknowledges. Returns whether the source has sent that PSN.
    pub(crate) fn feedback(&mut self, space: Space, path: usize, acked: u32) -> bool {
        let newest = &mut self.acked[path];
        if space.lt(*newest, acked) {
            *newest = acked;
        }
        self.has_sent(space, acked)
    }

    /// Whether `psn` is at most the newest PSN sent. Feedback beyond it is dropped, because the order of serial numbers
    /// holds over half the number space only.
    pub(crate) fn has_sent(&self, space: Space, psn: u32) -> bool {
        !space.lt(self.sent, psn)
    }
}
