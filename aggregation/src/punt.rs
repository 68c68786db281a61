//! The minimum PSN over a group's paths on one switch, found by the controller rather than there
//! ([`Strategy::Punt`](super::Strategy::Punt)).
//!
//! The steps are those of the switch; what is known is another matter:
//!
//! - Feedback comes here, data does not.  The source has what others acknowledge, for it has sent that; so its path counts as
//!   having the newest that any acknowledged while it was the source. It is not left out of the minimum: where the source is, is
//!   known from a packet that may be old, and by now another may send what the one of before lacks.
//! - What was acknowledged to the source last comes with every packet.  Every path has that, so it is the floor of all: whoever
//!   begins with it, after a restart, acknowledges nothing that somebody lacks.
//! - The retransmission filter drops copies for paths that have acknowledged, so a path whose last acknowledgement was
//!   missed here may send no other.  The switch remembers each path's newest, and is to be asked when a question
//!   cannot be answered ([`Aggregator::lagging`], [`Aggregator::update_path`]).
//! - Packets come faster than they can be answered one by one. [`Aggregator::take`] any number, then ask for
//!   [`Aggregator::replies`] once: only the newest state is acknowledged.
//!
//! Members of one stream count the same messages, so a message count belongs to a PSN, whoever reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Chain;
use std::{option, vec};

use super::decide::final_feedback;
use super::{Feedback, LastAcked, Message, PacketIn, PacketOut, Point, Port, Space, WaitingNak};

/// One path. What is known of it stays true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Path {
    /// The newest PSN that it has.
    at: u32,
    /// The newest that it has whose messages are known.
    known: Point,
}

impl Path {
    /// It has everything up to a point.
    fn raise(&mut self, space: Space, to: Point) {
        if space.lt(self.known.psn, to.psn) {
            self.known = to;
        }
        if space.lt(self.at, to.psn) {
            self.at = to.psn;
        }
    }
}

/// What the controller knows of a group on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregator {
    space: Space,
    last_acked: LastAcked,
    /// A NAK that was sent is forgotten: the switch remembers it.
    waiting_nak: WaitingNak,
    /// The port that the source is behind.
    source: Option<Port>,
    paths: BTreeMap<Port, Path>,
    /// The newest data sent again since the last answers, by the port that it came from.
    probes: BTreeMap<Port, Point>,
}

/// What is to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// An ACK or NAK for the source.
    pub forwarded: Option<PacketOut>,
    /// Replies to data sent again.
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
    /// Of a group of which no more is known than what was acknowledged to its source.
    pub fn new(
        space: Space,
        ports: impl IntoIterator<Item = Port>,
        last_acked: Point,
    ) -> Aggregator {
        let path = Path {
            at: last_acked.psn,
            known: last_acked,
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

    /// A packet of the switch comes in.
    pub fn take(&mut self, packet: &PacketIn) {
        self.observe(packet.source, packet.last_acked);
        match packet.message {
            Message::Feedback(feedback) => self.record_feedback(packet.port, feedback),
            Message::Probe(asked) => self.record_probe(packet.port, asked),
        }
    }

    /// The switch's register says that a path has everything up to `psn`.
    pub fn update_path(&mut self, port: Port, psn: u32) {
        if let Some(path) = self.paths.get_mut(&port) {
            if self.space.lt(path.at, psn) {
                path.at = psn;
            }
        }
    }

    /// What is to be sent, as far as is known.  Questions that cannot be answered stay until they can, or until
    /// [`Aggregator::give_up`].
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

    /// The paths for which a question cannot be answered, as far as is known here.
    pub fn lagging(&self) -> BTreeSet<Port> {
        let probes = self.probes.iter();
        let lacking = probes.flat_map(|(_, probe)| {
            let paths = self.paths.iter();
            paths.filter(|(_, path)| self.space.lt(path.at, probe.psn))
        });
        lacking.map(|(port, _)| *port).collect()
    }

    /// Drops the questions that still cannot be answered: a source that has no answer sends its data again.
    pub fn give_up(&mut self) {
        self.probes.clear();
    }

    /// What was acknowledged to the source last.
    pub fn last_acked(&self) -> Point {
        self.last_acked.point
    }

    /// What the switch adds to a packet: where the source is, and what was acknowledged to it.
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
        let is_accepted = space.reaches(acked.psn, path.at);
        if is_accepted {
            (path.at, path.known) = (acked.psn, acked);
        }
        if let Some(source) = self.source.and_then(|port| self.paths.get_mut(&port)) {
            source.raise(space, acked);
        }
        if let (Feedback::Nak { nak, .. }, Some(minimum)) = (feedback, self.minimum()) {
            self.waiting_nak.record(space, minimum, nak, is_accepted);
        }
    }

    /// Data that is sent again asks whether everyone has it.
    fn record_probe(&mut self, port: Port, asked: Point) {
        if !self.paths.contains_key(&port) {
            return;
        }
        // The path that sends it has it.
        self.update_path(port, asked.psn);
        let newest = self.probes.entry(port).or_insert(asked);
        if self.space.lt(newest.psn, asked.psn) {
            *newest = asked;
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

    /// Another than the present source gets no more than it asked about: what is newer it did not send.
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

    /// What all paths have; `None` without any.
    fn minimum(&self) -> Option<u32> {
        let all = self.paths.values().map(|path| path.at);
        all.reduce(|a, b| if self.space.lt(b, a) { b } else { a })
    }

    /// With the messages that are complete with the minimum, or with what was acknowledged.
    fn point_at(&self, psn: u32) -> Point {
        let known = self.known_at(psn).unwrap_or(self.last_acked.point);
        let msn = self.last_acked.believed(self.space, psn, known.msn);
        Point { psn, msn }
    }

    /// The newest point not after `psn` whose messages are known.
    fn known_at(&self, psn: u32) -> Option<Point> {
        let paths = self.paths.values();
        let known = paths.map(|path| path.known);
        known
            .chain([self.last_acked.point])
            .filter(|known| !self.space.lt(psn, known.psn))
            .reduce(|a, b| if self.space.lt(a.psn, b.psn) { b } else { a })
    }
}

#[cfg(test)]
mod tests;
