//! Minimum PSN over a group's paths on one switch, computed by the controller
//! ([`Strategy::Punt`](super::Strategy::Punt)). A *path* is a port of the group's tree on this switch. The
//! *source* is the member of the group that sends at present.
//!
//! The steps are those of the switch, but the controller has less information:
//!
//! - The switch sends feedback (ACKs and NAKs) to the controller, but not data. The source has every packet that another
//!   path acknowledges, so each acknowledgement also advances the source's path. The source's path is not excluded from the
//!   minimum: the reported source may be a former one, which may lack what the present one sends.
//! - Each packet carries the point last acknowledged to the source. Every path has that, so it is a lower bound for all paths.
//!   A controller that starts with it after a restart acknowledges nothing that a receiver lacks.
//! - The retransmission filter drops copies for paths that have acknowledged them. So a path whose last acknowledgement did not
//!   reach the controller may send no other. The switch stores the newest PSN of each path; the controller reads it when
//!   a probe cannot be acknowledged ([`Aggregator::lagging`], [`Aggregator::update_path`]).
//! - Packets arrive faster than they can be processed one by one. A caller passes any number to [`Aggregator::record`], then calls
//!   [`Aggregator::replies`] once: only the newest state is acknowledged.
//!
//! Members of one stream count the same messages, so an MSN belongs to a PSN, no matter which member reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Chain;
use std::{option, vec};

use super::decide::final_feedback;
use super::{Feedback, LastAcked, Message, PacketIn, PacketOut, Point, Port, Space, WaitingNak};

/// The controller's record of one path (port of the group's tree). Its PSNs never decrease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathRecord {
    /// Newest PSN that the path has acknowledged or sent.
    newest_psn: u32,
    /// Newest PSN of the path whose MSN is known, with that MSN.
    newest_with_msn: Point,
}

impl PathRecord {
    /// Records that the path has all packets up to a point.
    fn raise(&mut self, space: Space, to: Point) {
        if space.lt(self.newest_with_msn.psn, to.psn) {
            self.newest_with_msn = to;
        }
        if space.lt(self.newest_psn, to.psn) {
            self.newest_psn = to.psn;
        }
    }
}

/// The controller's state for a group on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregator {
    space: Space,
    last_acked: LastAcked,
    /// The pending NAK. It is removed when sent, because the switch stores sent NAKs.
    waiting_nak: WaitingNak,
    /// Port of the source, as last reported by the switch; `None` before any data.
    source: Option<Port>,
    paths: BTreeMap<Port, PathRecord>,
    /// Newest unanswered retransmission of each port, to be acknowledged once all paths have it.
    probes: BTreeMap<Port, Point>,
}

/// Packets that the controller sends through the switch, as the result of the packets recorded so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// An ACK or NAK for the source; `None` if neither the minimum has advanced nor a NAK is due.
    pub forwarded: Option<PacketOut>,
    /// ACKs of retransmitted data, for the ports that sent it.
    pub probe_replies: Vec<PacketOut>,
}

impl IntoIterator for Replies {
    type Item = PacketOut;
    type IntoIter = Chain<option::IntoIter<PacketOut>, vec::IntoIter<PacketOut>>;

    fn into_iter(self) -> Self::IntoIter {
        self.forwarded.into_iter().chain(self.probe_replies)
    }
}

impl Aggregator {
    /// Creates the state for a group. `ports`: the ports of its tree on the switch. `last_acked`: the point last
    /// acknowledged to the source, which all paths have.
    pub fn new(
        space: Space,
        ports: impl IntoIterator<Item = Port>,
        last_acked: Point,
    ) -> Aggregator {
        let path = PathRecord {
            newest_psn: last_acked.psn,
            newest_with_msn: last_acked,
        };
        Aggregator {
            space,
            last_acked: LastAcked::new(last_acked),
            waiting_nak: WaitingNak::default(),
            source: None,
            paths: ports.into_iter().map(|port| (port, path)).collect(),
            probes: BTreeMap::new(),
        }
    }

    /// Records a packet that the switch has sent to the controller. [`Aggregator::replies`] returns the resulting ACKs
    /// and NAKs.
    pub fn record(&mut self, packet: &PacketIn) {
        self.observe(packet.source, packet.last_acked);
        match packet.message {
            Message::Feedback(feedback) => self.record_feedback(packet.port, feedback),
            Message::Probe(data_point) => self.record_probe(packet.port, data_point),
        }
    }

    /// Records that a path has all packets up to `psn`, as read from the switch's register.
    pub fn update_path(&mut self, port: Port, psn: u32) {
        if let Some(path) = self.paths.get_mut(&port) {
            if self.space.lt(path.newest_psn, psn) {
                path.newest_psn = psn;
            }
        }
    }

    /// Returns the packets to send. Retransmissions that some path still lacks stay pending, until that path has them
    /// or until [`Aggregator::drop_probes`].
    pub fn replies(&mut self) -> Replies {
        let probes = std::mem::take(&mut self.probes);
        let feedback = self.final_feedback();
        let mut probe_replies = Vec::new();
        for (port, probe) in probes {
            let is_source = self.source == Some(port);
            let is_covered = is_source && feedback.is_some() && self.is_acked(probe.psn);
            if is_covered {
                continue;
            }
            match self.probe_reply(port, probe) {
                Some(feedback) => probe_replies.push(self.packet_out(port, feedback)),
                None => {
                    self.probes.insert(port, probe);
                }
            }
        }
        let forwarded = self.source.zip(feedback);
        Replies {
            forwarded: forwarded.map(|(port, feedback)| self.packet_out(port, feedback)),
            probe_replies,
        }
    }

    /// Ports of the paths that lack the data of a pending retransmission, by the controller's record.
    pub fn lagging(&self) -> BTreeSet<Port> {
        let probes = self.probes.iter();
        let lacking = probes.flat_map(|(_, probe)| {
            let paths = self.paths.iter();
            paths.filter(|(_, path)| self.space.lt(path.newest_psn, probe.psn))
        });
        lacking.map(|(port, _)| *port).collect()
    }

    /// Removes the records of retransmitted packets that wait for an acknowledgement. A source that gets no ACK
    /// retransmits again, and the switch then sends new probes.
    pub fn drop_probes(&mut self) {
        self.probes.clear();
    }

    /// PSN and MSN last acknowledged to the source.
    pub fn last_acked(&self) -> Point {
        self.last_acked.point
    }

    /// Records the switch's state that each packet carries: the port of the source, and the point last acknowledged to
    /// it.
    fn observe(&mut self, source: Option<Port>, last_acked: Point) {
        let space = self.space;
        self.last_acked.raise(space, last_acked);
        let last_acked = self.last_acked.point;
        for path in self.paths.values_mut() {
            path.raise(space, last_acked);
        }
        self.source = source;
    }

    fn record_feedback(&mut self, port: Port, feedback: Feedback) {
        let space = self.space;
        let acked = feedback.acked(space);
        let Some(path) = self.paths.get_mut(&port) else {
            return;
        };
        let is_accepted = space.is_at_or_after(acked.psn, path.newest_psn);
        if is_accepted {
            (path.newest_psn, path.newest_with_msn) = (acked.psn, acked);
        }
        if let Some(source) = self.source.and_then(|port| self.paths.get_mut(&port)) {
            source.raise(space, acked);
        }
        if let (Feedback::Nak { nak, .. }, Some(minimum)) = (feedback, self.minimum()) {
            self.waiting_nak.record(space, minimum, nak, is_accepted);
        }
    }

    /// Records a retransmission, which is acknowledged once all paths have it.
    fn record_probe(&mut self, port: Port, data_point: Point) {
        if !self.paths.contains_key(&port) {
            return;
        }
        // A path that sends data has it.
        self.update_path(port, data_point.psn);
        let newest = self.probes.entry(port).or_insert(data_point);
        if self.space.lt(newest.psn, data_point.psn) {
            *newest = data_point;
        }
    }

    fn final_feedback(&mut self) -> Option<Feedback> {
        let minimum = self.point_at(self.minimum()?);
        let (space, waiting) = (self.space, &mut self.waiting_nak);
        let feedback = match self.source {
            Some(_) => final_feedback(space, minimum, &mut self.last_acked, waiting),
            None => None,
        };
        if waiting.is_sent {
            waiting.clear();
        }
        waiting.clear_stale(space, minimum.psn);
        feedback
    }

    /// Returns the ACK of a retransmission; `None` if a path lacks the data. An ACK to a former source acknowledges no
    /// more than that data.
    fn probe_reply(&mut self, port: Port, probe: Point) -> Option<Feedback> {
        let minimum = self.minimum()?;
        if self.space.lt(minimum, probe.psn) {
            return None;
        }
        if self.source != Some(port) {
            let psn = probe.psn;
            let msn = self.known_at(psn).map_or(probe.msn, |known| known.msn);
            return Some(Feedback::Ack { psn, msn });
        }
        let minimum = self.point_at(minimum);
        self.last_acked.raise(self.space, minimum);
        Some(Feedback::ack(minimum))
    }

    fn packet_out(&self, port: Port, feedback: Feedback) -> PacketOut {
        PacketOut {
            port: Some(port),
            feedback,
            last_acked: self.last_acked.point,
        }
    }

    fn is_acked(&self, psn: u32) -> bool {
        !self.space.lt(self.last_acked.point.psn, psn)
    }

    /// Newest PSN that all paths have acknowledged or sent; `None` without any path.
    fn minimum(&self) -> Option<u32> {
        let all = self.paths.values().map(|path| path.newest_psn);
        all.reduce(|a, b| if self.space.lt(b, a) { b } else { a })
    }

    /// `psn` with its MSN. If no path has reported an MSN for it, the MSN last acknowledged to the source is used.
    fn point_at(&self, psn: u32) -> Point {
        let known = self.known_at(psn).unwrap_or(self.last_acked.point);
        let msn = self.last_acked.plausible_msn(self.space, psn, known.msn);
        Point { psn, msn }
    }

    /// The newest PSN at or before `psn` whose MSN is known, with that MSN. `None` if there is none.
    fn known_at(&self, psn: u32) -> Option<Point> {
        let paths = self.paths.values();
        let known = paths.map(|path| path.newest_with_msn);
        known
            .chain([self.last_acked.point])
            .filter(|known| !self.space.lt(psn, known.psn))
            .reduce(|a, b| if self.space.lt(a.psn, b.psn) { b } else { a })
    }
}

#[cfg(test)]
mod tests;
