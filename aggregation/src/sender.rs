//! Who is the source of the moment, and what has it sent (`sender.p4`)?
//!
//! From the source's port any PSN counts that is in its window. From another port, and while there is no source, only the PSN
//! that comes next, both in the group and on that path: then the source is there. Everything else would be a member's way to
//! take the group over, or to acknowledge what others behind the same port have not received.

use super::{Config, Flaw, Port, Space};

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Where the source is, if there was one yet.
    pub source: Option<Port>,
    /// The newest PSN that was sent.
    pub sent: u32,
    /// The newest PSN that each path has acknowledged, true or not: its claim. It counts for nothing but the path's own turn
    /// as the source.
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

    /// Data comes, when `last_acked` was last acknowledged to the source. Gives whether it is the source's, and nothing if it
    /// is to be dropped: new data of another, or beyond the window.
    pub(crate) fn data(
        &mut self,
        config: &Config,
        (port, path): (Port, usize),
        psn: u32,
        last_acked: u32,
    ) -> Option<bool> {
        let (space, flaw) = (config.space, config.flaw);
        let has_all = !space.lt(self.acked[path], self.sent);
        let is_next = psn == space.next(self.sent) && has_all;
        let is_any = flaw == Flaw::AnyoneSends || (flaw == Flaw::AnyFirst && self.source.is_none());
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

    /// Feedback comes: is it of something that was sent?
    pub(crate) fn feedback(&mut self, space: Space, path: usize, acked: u32) -> bool {
        let newest = &mut self.acked[path];
        if space.lt(*newest, acked) {
            *newest = acked;
        }
        self.has_sent(space, acked)
    }

    /// Serial numbers that are half their space apart have no order: what was not sent must not come in.
    pub(crate) fn has_sent(&self, space: Space, psn: u32) -> bool {
        !space.lt(self.sent, psn)
    }
}
