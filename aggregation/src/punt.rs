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
//!   cannot be answered ([`Aggregator::lagging`], [`Aggregator::learn`]).
//! - Packets come faster than they can be answered one by one. [`Aggregator::take`] any number, then ask for
//!   [`Aggregator::answers`] once: only the newest state is acknowledged.
//!
//! Members of one stream count the same messages, so a message count belongs to a PSN, whoever reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Chain;
use std::{option, vec};

use super::decide::conclude;
use super::{Feedback, Message, PacketIn, PacketOut, Point, Port, Space, Told, WaitingNak};

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
    told: Told,
    /// A NAK that was sent is forgotten: the switch remembers it.
    waiting_nak: WaitingNak,
    /// The port that the source is behind.
    source: Option<Port>,
    paths: BTreeMap<Port, Path>,
    /// The newest data sent again since the last answers, by the port that it came from.
    asked: BTreeMap<Port, Point>,
}

/// What is to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// An ACK or NAK for the source.
    pub told: Option<PacketOut>,
    /// Answers to data sent again.
    pub answered: Vec<PacketOut>,
}

impl IntoIterator for Answers {
    type Item = PacketOut;
    type IntoIter = Chain<option::IntoIter<PacketOut>, vec::IntoIter<PacketOut>>;

    fn into_iter(self) -> Self::IntoIter {
        self.told.into_iter().chain(self.answered)
    }
}

impl Aggregator {
    /// Of a group of which no more is known than what was acknowledged to its source.
    pub fn new(space: Space, ports: impl IntoIterator<Item = Port>, told: Point) -> Aggregator {
        let path = Path {
            at: told.psn,
            known: told,
        };
        Aggregator {
            space,
            told: Told::new(told),
            waiting_nak: WaitingNak::default(),
            source: None,
            paths: ports.into_iter().map(|port| (port, path)).collect(),
            asked: BTreeMap::new(),
        }
    }

    /// A packet of the switch comes in.
    pub fn take(&mut self, packet: &PacketIn) {
        self.see(packet.source, packet.told);
        match packet.message {
            Message::Feedback(feedback) => self.hear(packet.port, feedback),
            Message::Probe(asked) => self.ask(packet.port, asked),
        }
    }

    /// The switch's register says that a path has everything up to `psn`.
    pub fn learn(&mut self, port: Port, psn: u32) {
        if let Some(path) = self.paths.get_mut(&port) {
            if self.space.lt(path.at, psn) {
                path.at = psn;
            }
        }
    }

    /// What is to be sent, as far as is known.  Questions that cannot be answered stay until they can, or until
    /// [`Aggregator::give_up`].
    pub fn answers(&mut self) -> Answers {
        let asked = std::mem::take(&mut self.asked);
        let told = self.conclude();
        let mut answered = Vec::new();
        for (port, question) in asked {
            let is_source = self.source == Some(port);
            let has_heard = is_source && told.is_some() && self.was_told(question.psn);
            if has_heard {
                continue;
            }
            match self.answer(port, question) {
                Some(feedback) => answered.push(self.say(port, feedback)),
                None => {
                    self.asked.insert(port, question);
                }
            }
        }
        let told = self.source.zip(told);
        Answers {
            told: told.map(|(port, feedback)| self.say(port, feedback)),
            answered,
        }
    }

    /// The paths for which a question cannot be answered, as far as is known here.
    pub fn lagging(&self) -> BTreeSet<Port> {
        let questions = self.asked.iter();
        let lacking = questions.flat_map(|(_, question)| {
            let paths = self.paths.iter();
            paths.filter(|(_, path)| self.space.lt(path.at, question.psn))
        });
        lacking.map(|(port, _)| *port).collect()
    }

    /// Drops the questions that still cannot be answered: a source that has no answer sends its data again.
    pub fn give_up(&mut self) {
        self.asked.clear();
    }

    /// What was acknowledged to the source last.
    pub fn told(&self) -> Point {
        self.told.last
    }

    /// What the switch adds to a packet: where the source is, and what was acknowledged to it.
    fn see(&mut self, source: Option<Port>, told: Point) {
        let space = self.space;
        self.told.raise(space, told);
        let told = self.told.last;
        for path in self.paths.values_mut() {
            path.raise(space, told);
        }
        self.source = source;
    }

    fn hear(&mut self, port: Port, feedback: Feedback) {
        let space = self.space;
        let acked = feedback.acked(space);
        let Some(path) = self.paths.get_mut(&port) else {
            return;
        };
        let is_news = space.reaches(acked.psn, path.at);
        if is_news {
            (path.at, path.known) = (acked.psn, acked);
        }
        if let Some(source) = self.source.and_then(|port| self.paths.get_mut(&port)) {
            source.raise(space, acked);
        }
        if let (Feedback::Nak { nak, .. }, Some(minimum)) = (feedback, self.minimum()) {
            self.waiting_nak.hear(space, minimum, nak, is_news);
        }
    }

    /// Data that is sent again asks whether everyone has it.
    fn ask(&mut self, port: Port, asked: Point) {
        if !self.paths.contains_key(&port) {
            return;
        }
        // The path that sends it has it.
        self.learn(port, asked.psn);
        let newest = self.asked.entry(port).or_insert(asked);
        if self.space.lt(newest.psn, asked.psn) {
            *newest = asked;
        }
    }

    fn conclude(&mut self) -> Option<Feedback> {
        let minimum = self.point_at(self.minimum()?);
        let (space, waiting) = (self.space, &mut self.waiting_nak);
        let told = match self.source {
            Some(_) => conclude(space, minimum, &mut self.told, waiting),
            None => None,
        };
        if waiting.is_told {
            waiting.forget();
        }
        waiting.forget_stale(space, minimum.psn);
        told
    }

    /// Another than the present source gets no more than it asked about: what is newer it did not send.
    fn answer(&mut self, port: Port, question: Point) -> Option<Feedback> {
        let minimum = self.minimum()?;
        if self.space.lt(minimum, question.psn) {
            return None;
        }
        if self.source != Some(port) {
            let psn = question.psn;
            let msn = self.known_at(psn).map_or(question.msn, |known| known.msn);
            return Some(Feedback::Ack { psn, msn });
        }
        let minimum = self.point_at(minimum);
        self.told.raise(self.space, minimum);
        Some(Feedback::ack(minimum))
    }

    fn say(&self, port: Port, feedback: Feedback) -> PacketOut {
        PacketOut {
            port: Some(port),
            feedback,
            told: self.told.last,
        }
    }

    fn was_told(&self, psn: u32) -> bool {
        !self.space.lt(self.told.last.psn, psn)
    }

    /// What all paths have; `None` without any.
    fn minimum(&self) -> Option<u32> {
        let all = self.paths.values().map(|path| path.at);
        all.reduce(|a, b| if self.space.lt(b, a) { b } else { a })
    }

    /// With the messages that are complete with the minimum, or with what was acknowledged.
    fn point_at(&self, psn: u32) -> Point {
        let known = self.known_at(psn).unwrap_or(self.told.last);
        let msn = self.told.believed(self.space, psn, known.msn);
        Point { psn, msn }
    }

    /// The newest point not after `psn` whose messages are known.
    fn known_at(&self, psn: u32) -> Option<Point> {
        let paths = self.paths.values();
        let known = paths.map(|path| path.known);
        known
            .chain([self.told.last])
            .filter(|known| !self.space.lt(psn, known.psn))
            .reduce(|a, b| if self.space.lt(a.psn, b.psn) { b } else { a })
    }
}

#[cfg(test)]
mod tests;
