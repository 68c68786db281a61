//! The minimum PSN over a group's paths on one switch, found here rather than there (`MIN_PSN_PUNT`).
//!
//! The rules are those of `p4src/v1model/ack_aggregate.p4`; what is known is another matter:
//!
//! - Feedback comes here, data does not.  The path that the source is behind counts as having whatever it sent, so it
//!   is left out of the minimum.  When the source changes, the one of before stands where it is known to stand: at what
//!   it has acknowledged or what its source was told, whichever is newer.
//! - What the source was told last comes with every frame.  Every path has that, so it is the floor of all: whoever
//!   begins with it, after a restart, acknowledges nothing that somebody lacks.
//! - The retransmission filter drops copies for paths that have acknowledged, so a path whose last acknowledgement was
//!   missed here may never speak again.  The switch remembers each path's newest, and is asked ([`Aggregate::learn`]).
//!
//! Members of one stream count the same messages, so a message count belongs to a PSN, whoever told it.

use std::collections::BTreeMap;

use alfirk_roce::wire::Psn;

use super::position::Position;

/// Syndrome of an ACK that gives no credits, as the pipeline sends it (`SYNDROME_ACK_NO_CREDITS`).
pub(super) const SYNDROME_ACK: u8 = 0x1f;

/// The type bits of an RNR NAK's syndrome.
const AETH_RNR_NAK: u8 = 1;

/// What an ACK or NAK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Of an ACK the newest PSN that has arrived, of a NAK the next one.
    pub(super) psn: Psn,
    /// The AETH's first byte.
    pub(super) syndrome: u8,
    /// Messages that are complete.
    pub(super) msn: u32,
}

impl Word {
    fn is_nak(&self) -> bool {
        self.syndrome >> 5 != 0
    }

    /// How long the receiver asks the source to wait: nothing for a sequence error; of RNR timers 1 is the shortest,
    /// 0 the longest (IBTA vol. 1, table 45).
    fn patience(&self) -> u8 {
        match self.syndrome >> 5 {
            AETH_RNR_NAK => 1 + (self.syndrome.wrapping_sub(1) & 0x1f),
            _ => 0,
        }
    }

    /// Up to here everything has arrived.
    fn acked(&self) -> Psn {
        match self.is_nak() {
            true => self.psn.prev(),
            false => self.psn,
        }
    }
}

/// One path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    at: Psn,
    /// Messages that are complete with `at`, if that is known.
    msn: Option<u32>,
    /// Where it stood when the source came to be behind it.
    turned: Option<Position>,
}

impl Path {
    fn position(&self) -> Option<Position> {
        let psn = self.at;
        self.msn.map(|msn| Position { psn, msn })
    }
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aggregate {
    /// What the source was told last.
    told: Position,
    /// The NAK that waits until all have what is before it.
    waiting: Option<Word>,
    /// The port that the source is behind.
    source: Option<u32>,
    /// By port.
    paths: BTreeMap<u32, Path>,
}

impl Aggregate {
    /// A group of which no more is known than what its source was told.
    pub(super) fn new(ports: impl IntoIterator<Item = u32>, told: Position) -> Aggregate {
        let path = Path {
            at: told.psn,
            msn: Some(told.msn),
            turned: None,
        };
        Aggregate {
            told,
            waiting: None,
            source: None,
            paths: ports.into_iter().map(|port| (port, path)).collect(),
        }
    }

    /// What the source was told last.
    pub(super) fn told(&self) -> Position {
        self.told
    }

    /// The port that the source is behind.
    pub(super) fn source(&self) -> Option<u32> {
        self.source
    }

    /// What the switch says along with a frame: where the source is, and what it was told.
    pub(super) fn see(&mut self, source: Option<u32>, told: Position) {
        if self.told.psn.precedes(told.psn) {
            self.told = told;
        }
        let told = self.told;
        for path in self.paths.values_mut() {
            if path.at.precedes(told.psn) {
                path.at = told.psn;
                path.msn = Some(told.msn);
            }
        }
        if self.source != source {
            self.source = source;
            if let Some(path) = source.and_then(|port| self.paths.get_mut(&port)) {
                path.turned = path.position().or(path.turned);
            }
        }
    }

    /// The switch's register says that a path has everything up to `psn`.  What it makes of it is for
    /// [`Aggregate::settle`] to say.
    pub(super) fn learn(&mut self, port: u32, psn: Psn) {
        if let Some(path) = self.paths.get_mut(&port) {
            if path.at.precedes(psn) {
                path.at = psn;
                path.msn = None;
            }
        }
    }

    /// Takes the feedback of a path; returns what the source is to be told.
    pub(super) fn hear(&mut self, port: u32, word: Word) -> Option<Word> {
        let acked = word.acked();
        let path = self.paths.get_mut(&port)?;
        let is_news = !acked.precedes(path.at);
        if is_news {
            path.at = acked;
            path.msn = Some(word.msn);
        }
        if word.is_nak() && is_news {
            let minimum = self.minimum(None);
            let is_needed = minimum.is_none_or(|m| m.precedes(word.psn));
            let is_first = self.waiting.is_none_or(|w| {
                word.psn.precedes(w.psn) || word.psn == w.psn && word.patience() > w.patience()
            });
            if is_needed && is_first {
                self.waiting = Some(word);
            }
        }
        self.settle()
    }

    /// What the source is to be told, as far as is known.
    pub(super) fn settle(&mut self) -> Option<Word> {
        let minimum = self.minimum(None)?;
        let msn = self.messages_at(minimum);
        let mut told = None;
        if self.source.is_some() {
            told = match self.waiting {
                Some(nak) if minimum.next() == nak.psn => {
                    self.waiting = None;
                    Some(Word { msn, ..nak })
                }
                _ if self.told.psn.precedes(minimum) => Some(ack(minimum, msn)),
                _ => None,
            };
        }
        self.forget_stale(minimum);
        if told.is_some() {
            self.told = Position { psn: minimum, msn };
        }
        told
    }

    /// Data that is sent again asks whether everyone has it; returns the answer, if so.
    ///
    /// `asked` is an ACK of it with a count of messages that its sender has surely passed.  Another than the present source gets no more than it asked about: what is newer it did not send.
    pub(super) fn ask(&mut self, port: u32, asked: Word) -> Option<Word> {
        let psn = asked.psn;
        let minimum = self.minimum(Some(port));
        // Whoever sends it has it.
        self.learn(port, psn);
        if !self.paths.contains_key(&port) || minimum.is_some_and(|m| m.precedes(psn)) {
            return None;
        }
        if self.source != Some(port) {
            return Some(ack(
                psn,
                self.known_at(psn).map_or(asked.msn, |known| known.msn),
            ));
        }
        // Without others it is alone.
        let minimum = minimum.unwrap_or(psn);
        let msn = self.messages_at(minimum);
        self.forget_stale(minimum);
        if self.told.psn.precedes(minimum) {
            self.told = Position { psn: minimum, msn };
        }
        Some(ack(minimum, msn))
    }

    /// A NAK that everyone has passed was overtaken on the way.
    fn forget_stale(&mut self, minimum: Psn) {
        self.waiting.take_if(|nak| !minimum.precedes(nak.psn));
    }

    /// Over all paths but the source's and that of who asks; `None` when there is no other.
    fn minimum(&self, asker: Option<u32>) -> Option<Psn> {
        let others = self
            .paths
            .iter()
            .filter(|(port, _)| self.source != Some(**port) && asker != Some(**port));
        others
            .map(|(_, path)| path.at)
            .reduce(|a, b| if b.precedes(a) { b } else { a })
    }

    /// Messages that are complete with the minimum, or with what was told.  A count may lag, but does not fall: a path
    /// behind which several members have been the source may know of no message since.
    fn messages_at(&self, psn: Psn) -> u32 {
        let known = self.known_at(psn).unwrap_or(self.told).msn;
        match Psn::new(known).precedes(Psn::new(self.told.msn)) {
            true => self.told.msn,
            false => known,
        }
    }

    /// The newest position not after `psn` whose messages are known.
    fn known_at(&self, psn: Psn) -> Option<Position> {
        let paths = self.paths.values();
        let known = paths.flat_map(|path| [path.position(), path.turned]);
        known
            .flatten()
            .chain([self.told])
            .filter(|known| !psn.precedes(known.psn))
            .reduce(|a, b| if a.psn.precedes(b.psn) { b } else { a })
    }
}

fn ack(psn: Psn, msn: u32) -> Word {
    Word {
        psn,
        syndrome: SYNDROME_ACK,
        msn,
    }
}

#[cfg(test)]
mod tests;
