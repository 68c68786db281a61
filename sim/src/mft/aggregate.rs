//! The ingress half: what is made of a packet (`ack_aggregate.p4`).

use super::walk::Outcome;
use super::{
    Feedback, Flaw, Group, Message, Notice, PacketIn, PacketOut, Port, Queued, Sent, Strategy,
    Walker, Word,
};

impl Group {
    /// Data packet `psn` comes in through `port`, which must be a path of the group.
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<Queued> {
        let space = self.config.space;
        let own = self.path_at(port);
        let path = &mut self.paths[own];
        let is_old = !space.lt(path.ack_psn, psn);
        let is_news = !is_old;
        if is_news {
            path.ack_psn = psn;
            path.by_sender = true;
        }
        let asker_msn = path.msn;
        if is_news {
            self.src_port = Some(port);
        }
        let minimum = self.known_minimum();
        if !space.lt(minimum.0, psn) {
            if self.config.flaw == Flaw::DroppedTailAck {
                return Vec::new();
            }
            return vec![self.answer((port, psn, asker_msn), minimum)];
        }

        let mut queued = Vec::new();
        match self.config.strategy {
            Strategy::Tree => {}
            Strategy::Walk if is_news => self.walk_past_sender(own, now),
            Strategy::Walk if !is_old => {}
            Strategy::Walk => {
                if let Some(walker) = self.begin_probe((port, psn, asker_msn), now) {
                    queued.push(self.round(walker, None));
                }
            }
            Strategy::Punt if is_old => {
                let message = Message::Probe {
                    psn,
                    msn: asker_msn,
                };
                self.work.punts += 1;
                let probe = self.packet_in(port, message);
                queued.push(Queued::Leave(Sent::ToController(probe)));
            }
            Strategy::Punt => {}
        }
        queued.extend((0..self.paths.len()).map(|path| {
            if path != own {
                Queued::Copy {
                    path,
                    psn,
                    is_retransmission: is_old,
                }
            } else if is_news {
                Queued::Learn { path, acked: psn }
            } else {
                Queued::End
            }
        }));
        queued
    }

    /// An ACK, or a NAK that is not fatal, comes in through `port`, which must be a path of the group.
    pub fn feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<Queued> {
        let space = self.config.space;
        let own = self.path_at(port);
        let (acked, own_msn) = feedback.acked(space);
        let path = &mut self.paths[own];
        let is_news = !space.lt(acked, path.ack_psn);
        if is_news {
            path.ack_psn = acked;
            path.by_sender = false;
            path.msn = own_msn;
        }
        self.work.feedback += 1;
        if self.config.strategy == Strategy::Punt {
            self.work.punts += 1;
            let what = self.packet_in(port, Message::Feedback(feedback));
            return vec![Queued::Punt {
                path: own,
                acked,
                what,
            }];
        }
        let mut minimum = self.known_minimum();
        if let Feedback::Nak { nak, .. } = feedback {
            if self.config.flaw == Flaw::CoveredNak {
                return self.tell_at_once(feedback);
            }
            let is_oldest = self
                .waiting
                .is_none_or(|waiting| space.lt(nak.psn, waiting.psn));
            if is_news && space.lt(minimum.0, nak.psn) && is_oldest {
                self.waiting = Some(nak);
            }
        }

        // A NAK just after what was told needs no search.
        let ripe = space.next(self.agg.0);
        let is_ripe = self.waiting.is_some_and(|nak| nak.psn == ripe);
        if self.config.strategy == Strategy::Walk && is_news && !is_ripe {
            match self.walk_on_news(own, now) {
                Outcome::Idle => {}
                Outcome::On(walker) => return vec![self.round(walker, Some((own, acked)))],
                Outcome::Done(word) => minimum = (word.psn, self.msn_of(word)),
            }
        }
        if acked == minimum.0 {
            minimum.1 = own_msn;
        }
        let mut queued = vec![Queued::Learn { path: own, acked }];
        queued.extend(self.conclude(minimum).map(Queued::Leave));
        queued
    }

    /// What is not aggregated comes in through `port`, which must be a path of the group.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<Queued> {
        let own = self.path_at(port);
        let Some(source) = self.src_port else {
            return Vec::new();
        };
        let pass = Queued::Leave(Sent::Notice {
            port: source,
            notice,
        });
        match notice {
            Notice::Cnp if self.cnps.passes(own, now) => vec![pass],
            Notice::Cnp => Vec::new(),
            Notice::FatalNak { .. } => vec![Queued::Leave(Sent::Alarm { port, notice }), pass],
        }
    }

    /// The controller has found the minimum.
    pub fn command(&mut self, command: PacketOut) -> Vec<Queued> {
        if self.config.space.lt(self.agg.0, command.agg.0) {
            self.agg = command.agg;
        }
        let leave = |port| {
            Queued::Leave(Sent::Feedback {
                port,
                feedback: command.feedback,
            })
        };
        command
            .port
            .or(self.src_port)
            .map(leave)
            .into_iter()
            .collect()
    }

    /// A walker comes round.
    pub(super) fn pass(&mut self, walker: Walker, now: u64) -> Vec<Queued> {
        let probe = walker.probe;
        match self.walk_on(walker, now) {
            Outcome::Idle => Vec::new(),
            Outcome::On(walker) => vec![self.round(walker, None)],
            Outcome::Done(word) => {
                let minimum = (word.psn, self.msn_of(word));
                match probe {
                    Some(asker) if !self.config.space.lt(word.psn, asker.1) => {
                        vec![self.answer(asker, minimum)]
                    }
                    _ => self
                        .conclude(minimum)
                        .map(Queued::Leave)
                        .into_iter()
                        .collect(),
                }
            }
        }
    }

    /// Everyone has what came: an ACK for its sender, who knows nothing of what others sent since.
    fn answer(&mut self, asker: (Port, u32, u32), minimum: (u32, u32)) -> Queued {
        let (port, psn, asker_msn) = asker;
        if self.config.space.lt(self.agg.0, minimum.0) {
            self.agg = minimum;
        }
        let (psn, msn) = if self.src_port == Some(port) {
            minimum
        } else {
            (psn, asker_msn)
        };
        let feedback = Feedback::Ack { psn, msn };
        Queued::Leave(Sent::Feedback { port, feedback })
    }

    /// What there is to tell the source, if anything, when all have what comes up to `minimum`.
    fn conclude(&mut self, minimum: (u32, u32)) -> Option<Sent> {
        let space = self.config.space;
        let (psn, msn) = minimum;
        let missing = space.next(psn);
        let told = match self.waiting {
            Some(nak) if nak.psn == missing => Some(Feedback::Nak { nak, msn }),
            _ if space.lt(self.agg.0, psn) => Some(Feedback::Ack { psn, msn }),
            _ => None,
        };
        if self.waiting.is_some_and(|nak| !space.lt(missing, nak.psn)) {
            self.waiting = None;
        }
        let feedback = told?;
        self.agg = minimum;
        let port = self.src_port?;
        self.work.told += 1;
        Some(Sent::Feedback { port, feedback })
    }

    fn round(&mut self, walker: Walker, learn: Option<(usize, u32)>) -> Queued {
        self.work.recirculations += 1;
        Queued::Round { walker, learn }
    }

    /// [`Flaw::CoveredNak`].
    fn tell_at_once(&mut self, feedback: Feedback) -> Vec<Queued> {
        let sent = self.src_port.map(|port| Sent::Feedback { port, feedback });
        sent.map(Queued::Leave).into_iter().collect()
    }

    /// The minimum and its MSN as far as known without a search: what was told last is never too new.
    fn known_minimum(&self) -> (u32, u32) {
        match self.config.strategy {
            Strategy::Tree => {
                let word = self.minimum();
                (word.psn, self.msn_of(word))
            }
            Strategy::Walk | Strategy::Punt => self.agg,
        }
    }

    /// The MSN that goes with a path's word. A sender counts no messages; what was told last is not too new.
    fn msn_of(&self, word: Word) -> u32 {
        if word.psn == self.agg.0 || word.by_sender {
            self.agg.1
        } else {
            self.paths[word.path].msn
        }
    }

    fn packet_in(&self, port: Port, message: Message) -> PacketIn {
        PacketIn {
            port,
            message,
            source: self.src_port,
            told: self.agg,
        }
    }
}
