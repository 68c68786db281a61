//! The ingress half: what is made of a packet, step by step (`ack_aggregate.p4`). What comes through a port that is no path of the group
//! goes nowhere.

use alfirk_roce::wire::{NakCode, Syndrome};

use super::decide::{answer, conclude};
use super::min_psn_walk::Outcome;
use super::{
    CnpDrop, Feedback, Flaw, Group, Message, Nak, Notice, PacketIn, PacketOut, Point, Port, Queued,
    Sent, Strategy, Walker, Word,
};

/// What is queued of a data packet, path by path: copies, and where it came from what ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    own: usize,
    paths: usize,
    psn: u32,
    is_news: bool,
}

impl Copies {
    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.paths
    }

    /// They, in the order of path numbers.
    #[inline]
    pub fn queued(self) -> impl Iterator<Item = Queued> {
        let Copies {
            own,
            paths,
            psn,
            is_news,
        } = self;
        (0..paths).map(move |path| {
            if path != own {
                Queued::Copy {
                    path,
                    psn,
                    is_retransmission: !is_news,
                }
            } else if is_news {
                Queued::Learn { path, acked: psn }
            } else {
                Queued::End
            }
        })
    }
}

impl Group {
    /// Data packet `psn` comes in through `port`. `now` is in microseconds, as everywhere.
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<Queued> {
        let (mut queued, copies) = self.data_and_copies(port, psn, now);
        queued.extend(copies.into_iter().flat_map(Copies::queued));
        queued
    }

    /// The same for who makes the copies one by one: what is queued first, and then these.
    pub fn data_and_copies(
        &mut self,
        port: Port,
        psn: u32,
        now: u64,
    ) -> (Vec<Queued>, Option<Copies>) {
        let mut queued = Vec::new();
        let copies = self.take_data(port, psn, now, &mut queued);
        (queued, copies)
    }

    fn take_data(
        &mut self,
        port: Port,
        psn: u32,
        now: u64,
        queued: &mut Vec<Queued>,
    ) -> Option<Copies> {
        let (space, config) = (self.space(), self.fixed.config);
        let own = self.path_at(port)?;
        let last = self.told.last.psn;
        let counts = self.sender.data(&config, (port, own), psn, last)?;
        let is_news = counts && self.leaves.sent(space, own, psn);
        let msn = self.leaves.msn(own);
        let asked = Point { psn, msn };

        if config.strategy == Strategy::Walk {
            if is_news {
                self.walk_past_sender(own, now);
            } else if space.lt(self.walk.found, psn) {
                let walker = self.begin_probe((port, asked), now);
                queued.extend(walker.map(|walker| self.round(walker, None)));
            }
        }
        let minimum = self.known_minimum();
        if counts {
            self.waiting_nak.sent(psn);
            self.selective_nak.sent(psn);
        }
        self.waiting_nak.forget_stale(space, minimum.psn);
        if !space.lt(minimum.psn, psn) {
            if config.flaw != Flaw::DroppedTailAck {
                queued.push(self.answer((port, asked), minimum));
            }
            return None;
        }
        if config.strategy == Strategy::Punt && !is_news {
            self.work.punts += 1;
            let asked = Point {
                msn: self.told.nearest(space, asked.msn),
                ..asked
            };
            let probe = self.packet_in(port, Message::Probe(asked));
            queued.push(Queued::Leave(Sent::ToController(probe)));
        }
        counts.then_some(Copies {
            own,
            paths: self.fixed.ports.len(),
            psn,
            is_news,
        })
    }

    /// An ACK, or a NAK that is not fatal, comes in through `port`.
    pub fn feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<Queued> {
        let (space, config) = (self.space(), self.fixed.config);
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        let acked = feedback.acked(space);
        let is_sent = self.sender.feedback(space, own, acked.psn);
        if !is_sent && config.flaw != Flaw::AnyAck {
            return Vec::new();
        }
        // Nothing that was sent is missing.
        let feedback = match feedback {
            Feedback::Nak { .. }
                if acked.psn == self.sender.sent && config.flaw != Flaw::NakOfUnsent =>
            {
                Feedback::ack(acked)
            }
            feedback => feedback,
        };
        let is_rise = self.leaves.rises(space, own, acked.psn);
        let is_news = self.leaves.acked(space, own, acked);
        self.work.feedback += 1;
        if config.strategy == Strategy::Punt {
            self.work.punts += 1;
            self.waiting_nak.forget_stale(space, self.told.last.psn);
            return vec![Queued::Punt {
                path: own,
                acked: acked.psn,
                what: self.packet_in(port, Message::Feedback(feedback)),
            }];
        }
        let mut minimum = self.known_minimum();
        let mut goes_round = None;
        if config.strategy == Strategy::Walk && is_news {
            match self.walk_on_news(own, is_rise, now) {
                Outcome::Idle => {}
                Outcome::On(walker) => goes_round = Some(walker),
                Outcome::Done(word) => minimum = self.point_of(word),
            }
        }
        self.waiting_nak.forget_stale(space, minimum.psn);
        if let Feedback::Nak { nak, .. } = feedback {
            if config.flaw == Flaw::CoveredNak {
                return self.tell_at_once(feedback);
            }
            self.waiting_nak.hear(space, minimum.psn, nak, is_news);
        }
        if let Some(walker) = goes_round {
            return vec![self.round(walker, Some((own, acked.psn)))];
        }
        if acked.psn == minimum.psn {
            minimum.msn = self.believed(minimum.psn, acked.msn);
        }
        let mut queued = vec![Queued::Learn {
            path: own,
            acked: acked.psn,
        }];
        queued.extend(self.conclude(minimum));
        queued
    }

    /// What is not aggregated comes in through `port`.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<Queued> {
        let space = self.space();
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        let is_sent = match notice {
            Notice::Cnp => return self.cnp(port, now).into_iter().collect(),
            Notice::SelectiveNak { psn, .. } => self.sender.has_sent(space, psn),
            // A receiver refuses a request that it has not acknowledged.
            Notice::FatalNak { nak, .. } => {
                self.sender.has_sent(space, nak.psn) && space.lt(self.sender.acked[own], nak.psn)
            }
        };
        let flaw = self.fixed.config.flaw;
        if !is_sent {
            return Vec::new();
        }
        if let (Notice::SelectiveNak { psn, .. }, false) = (notice, self.fixed.config.is_selective)
        {
            return match flaw {
                Flaw::ReservedNak => self.reserved_nak(psn),
                _ => Vec::new(),
            };
        }
        let told = self.told.last;
        self.waiting_nak.forget_stale(space, told.psn);
        let Some(source) = self.sender.source else {
            return Vec::new();
        };
        let pass = |notice| {
            Queued::Leave(Sent::Notice {
                port: source,
                notice,
            })
        };
        match notice {
            Notice::Cnp => Vec::new(),
            Notice::SelectiveNak { psn, reports } => {
                let is_open = source != port && space.lt(told.psn, psn);
                let reports = is_open
                    .then(|| self.selective_nak.passes(flaw, psn, reports))
                    .flatten();
                let notice = reports.map(|reports| Notice::SelectiveNak { psn, reports });
                notice.map(pass).into_iter().collect()
            }
            Notice::FatalNak { nak, .. } => {
                // A requester takes it as an ACK of all before it.
                let nak = Nak {
                    psn: space.next(told.psn),
                    ..nak
                };
                let msn = told.msn;
                let alarm = Queued::Leave(Sent::Alarm { port, notice });
                vec![alarm, pass(Notice::FatalNak { nak, msn })]
            }
        }
    }

    /// A CNP comes in through `port`.
    ///
    /// # Errors
    ///
    /// Why it does not pass, if there is a source and `port` is a path's.
    pub fn cnp(&mut self, port: Port, now: u64) -> Result<Queued, Option<CnpDrop>> {
        let (space, flaw) = (self.space(), self.fixed.config.flaw);
        let own = self.path_at(port).ok_or(None)?;
        self.waiting_nak.forget_stale(space, self.told.last.psn);
        let source = self.sender.source.ok_or(None)?;
        let is_source = source == port;
        self.cnp_filter
            .take(flaw, own, is_source, now)
            .map_err(Some)?;
        Ok(Queued::Leave(Sent::Notice {
            port: source,
            notice: Notice::Cnp,
        }))
    }

    /// The controller has found the minimum.
    pub fn command(&mut self, command: PacketOut) -> Vec<Queued> {
        self.told.raise(self.space(), command.told);
        if let Feedback::Nak { nak, .. } = command.feedback {
            if !self.waiting_nak.told(nak) {
                return Vec::new();
            }
        }
        let port = command.port.or(self.sender.source);
        let feedback = command.feedback;
        let sent = port.map(|port| Sent::Feedback { port, feedback });
        sent.map(Queued::Leave).into_iter().collect()
    }

    /// A walker comes round.
    pub(super) fn pass(&mut self, walker: Walker, now: u64) -> Vec<Queued> {
        let space = self.space();
        let probe = walker.probe;
        match self.walk_on(walker, now) {
            Outcome::Idle => {
                self.waiting_nak.forget_stale(space, self.told.last.psn);
                Vec::new()
            }
            Outcome::On(walker) => {
                self.waiting_nak.forget_stale(space, self.told.last.psn);
                vec![self.round(walker, None)]
            }
            Outcome::Done(word) => {
                let minimum = self.point_of(word);
                self.waiting_nak.forget_stale(space, minimum.psn);
                let is_news = self.told.is_news(space, minimum.psn);
                // What a walk has found is the source's to know first, whoever asked.
                let may_be_told = |port| self.sender.source == Some(port) || !is_news;
                match probe {
                    Some((port, asked))
                        if !space.lt(minimum.psn, asked.psn) && may_be_told(port) =>
                    {
                        vec![self.answer((port, asked), minimum)]
                    }
                    _ => self.conclude(minimum).into_iter().collect(),
                }
            }
        }
    }

    /// Everyone has what came.
    fn answer(&mut self, (port, asked): (Port, Point), minimum: Point) -> Queued {
        let is_source = self.sender.source == Some(port);
        let asked = Point {
            msn: self.told.nearest(self.space(), asked.msn),
            ..asked
        };
        if is_source {
            self.told.raise(self.space(), minimum);
        }
        let feedback = answer(is_source, asked, minimum);
        Queued::Leave(Sent::Feedback { port, feedback })
    }

    /// The ACK or NAK for the source, if there is one, when all have received everything up to `minimum`.
    fn conclude(&mut self, minimum: Point) -> Option<Queued> {
        let space = self.space();
        let feedback = conclude(space, minimum, &mut self.told, &mut self.waiting_nak)?;
        let port = self.sender.source?;
        self.work.forwarded += 1;
        Some(Queued::Leave(Sent::Feedback { port, feedback }))
    }

    fn round(&mut self, walker: Walker, learn: Option<(usize, u32)>) -> Queued {
        self.work.recirculations += 1;
        Queued::Round { walker, learn }
    }

    /// An ACK or NAK comes in through `port` whose frame has a form of its own: a tag, another TTL, lengths or bits that a
    /// receiver of it would take offence at. What is made of it has the group's form, so that is all the same; under
    /// [`Flaw::MembersForm`] what leaves is as it came, and its receiver drops it.
    pub fn odd_feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<Queued> {
        let mut queued = self.feedback(port, feedback, now);
        if self.fixed.config.flaw == Flaw::MembersForm {
            queued.retain(|queued| !matches!(queued, Queued::Leave(Sent::Feedback { .. })));
        }
        queued
    }

    /// [`Flaw::ReservedNak`].
    fn reserved_nak(&mut self, psn: u32) -> Vec<Queued> {
        let syndrome = Syndrome::Nak(NakCode::Selective).into();
        let msn = self.told.last.msn;
        self.tell_at_once(Feedback::Nak {
            nak: Nak { psn, syndrome },
            msn,
        })
    }

    /// [`Flaw::CoveredNak`].
    fn tell_at_once(&mut self, feedback: Feedback) -> Vec<Queued> {
        let source = self.sender.source;
        let sent = source.map(|port| Sent::Feedback { port, feedback });
        sent.map(Queued::Leave).into_iter().collect()
    }

    /// The minimum as far as known without a search: what was acknowledged last is never too new.
    fn known_minimum(&self) -> Point {
        let known = match self.fixed.config.strategy {
            Strategy::Tree => self.leaves.minimum(self.space()),
            Strategy::Walk | Strategy::Punt => None,
        };
        known.map_or(self.told.last, |word| self.point_of(word))
    }

    /// The MSN that goes with a path's word. A sender counts no messages; what was acknowledged last is not too new.
    fn point_of(&self, word: Word) -> Point {
        let told = &self.told;
        let msn = if word.psn == told.last.psn || word.by_sender {
            told.last.msn
        } else {
            let msn = told.nearest(self.space(), self.leaves.msn(word.path));
            self.believed(word.psn, msn)
        };
        let psn = word.psn;
        Point { psn, msn }
    }

    fn believed(&self, psn: u32, msn: u32) -> u32 {
        match self.fixed.config.flaw {
            Flaw::AnyMsn => msn,
            _ => self.told.believed(self.space(), psn, msn),
        }
    }

    fn packet_in(&self, port: Port, message: Message) -> PacketIn {
        PacketIn {
            port,
            message,
            source: self.sender.source,
            told: self.told.last,
        }
    }
}
