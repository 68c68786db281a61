//! The ingress half: what is made of a packet (`ack_aggregate.p4` and the steps that it names).

use super::walk::Outcome;
use super::{
    Feedback, Flaw, Group, Message, Nak, Notice, PacketIn, PacketOut, Port, Queued, Sent, Strategy,
    Walker, Word,
};

impl Group {
    /// Data packet `psn` comes in through `port`, which must be a path of the group.
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<Queued> {
        let space = self.config.space;
        let own = self.path_at(port);
        let has_all = !space.lt(self.paths[own].acked, self.sent);
        let is_next = psn == space.next(self.sent) && has_all;
        let counts = self.src_port.is_none_or(|source| source == port) || is_next;
        if space.lt(self.sent, psn) {
            if !counts && self.config.flaw != Flaw::AnyoneSends {
                return Vec::new();
            }
            self.sent = psn;
            self.src_port = Some(port);
        }
        let counts = counts || self.config.flaw == Flaw::AnyoneSends;
        let path = &mut self.paths[own];
        let is_news = counts && space.lt(path.ack_psn, psn);
        if is_news {
            path.ack_psn = psn;
            path.by_sender = true;
        }
        let asker_msn = path.msn;

        let mut queued = Vec::new();
        if self.config.strategy == Strategy::Walk {
            if is_news {
                self.walk_past_sender(own, now);
            } else if space.lt(self.walk.found, psn) {
                let walker = self.begin_probe((port, psn, asker_msn), now);
                queued.extend(walker.map(|walker| self.round(walker, None)));
            }
        }
        let minimum = self.known_minimum();
        if counts && self.is_nak_told && self.waiting.is_some_and(|nak| nak.psn == psn) {
            // It is sent again.
            self.forget_nak();
        }
        self.forget_stale_nak(minimum.0);
        if !space.lt(minimum.0, psn) {
            if self.config.flaw != Flaw::DroppedTailAck {
                queued.push(self.answer((port, psn, asker_msn), minimum));
            }
            return queued;
        }
        if self.config.strategy == Strategy::Punt && !is_news {
            let message = Message::Probe {
                psn,
                msn: asker_msn,
            };
            self.work.punts += 1;
            let probe = self.packet_in(port, message);
            queued.push(Queued::Leave(Sent::ToController(probe)));
        }
        if !counts {
            return queued;
        }
        queued.extend((0..self.paths.len()).map(|path| {
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
        }));
        queued
    }

    /// An ACK, or a NAK that is not fatal, comes in through `port`, which must be a path of the group.
    pub fn feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<Queued> {
        let space = self.config.space;
        let own = self.path_at(port);
        let (acked, own_msn) = feedback.acked(space);
        let path = &mut self.paths[own];
        if space.lt(path.acked, acked) {
            path.acked = acked;
        }
        if space.lt(self.sent, acked) && self.config.flaw != Flaw::AnyAck {
            return Vec::new();
        }
        let is_news = space.reaches(acked, path.ack_psn);
        if is_news {
            path.ack_psn = acked;
            path.by_sender = false;
            path.msn = own_msn;
        }
        self.work.feedback += 1;
        if self.config.strategy == Strategy::Punt {
            self.work.punts += 1;
            self.forget_stale_nak(self.agg.0);
            let what = self.packet_in(port, Message::Feedback(feedback));
            return vec![Queued::Punt {
                path: own,
                acked,
                what,
            }];
        }
        let mut minimum = self.known_minimum();
        let mut goes_round = None;
        if self.config.strategy == Strategy::Walk && is_news {
            match self.walk_on_news(own, now) {
                Outcome::Idle => {}
                Outcome::On(walker) => goes_round = Some(walker),
                Outcome::Done(word) => minimum = (word.psn, self.msn_of(word)),
            }
        }
        self.forget_stale_nak(minimum.0);
        if let Feedback::Nak { nak, .. } = feedback {
            if self.config.flaw == Flaw::CoveredNak {
                return self.tell_at_once(feedback);
            }
            if is_news && space.lt(minimum.0, nak.psn) {
                self.wait_for(nak);
            }
        }
        if let Some(walker) = goes_round {
            return vec![self.round(walker, Some((own, acked)))];
        }
        if acked == minimum.0 {
            minimum.1 = self.at_least_told(own_msn);
        }
        let mut queued = vec![Queued::Learn { path: own, acked }];
        queued.extend(self.conclude(minimum).map(Queued::Leave));
        queued
    }

    /// What is not aggregated comes in through `port`, which must be a path of the group.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<Queued> {
        let space = self.config.space;
        let own = self.path_at(port);
        if let Notice::FatalNak { nak, .. } = notice {
            if space.lt(self.sent, space.previous(nak.psn)) {
                return Vec::new();
            }
        }
        self.forget_stale_nak(self.agg.0);
        let Some(source) = self.src_port else {
            return Vec::new();
        };
        let pass = |notice| {
            Queued::Leave(Sent::Notice {
                port: source,
                notice,
            })
        };
        match notice {
            Notice::Cnp if self.cnps.passes(own, now) => vec![pass(notice)],
            Notice::Cnp => Vec::new(),
            Notice::FatalNak { nak, .. } => {
                // A requester takes it as an ACK of all before it.
                let told = Notice::FatalNak {
                    nak: Nak {
                        psn: space.next(self.agg.0),
                        ..nak
                    },
                    msn: self.agg.1,
                };
                vec![Queued::Leave(Sent::Alarm { port, notice }), pass(told)]
            }
        }
    }

    /// The controller has found the minimum.
    pub fn command(&mut self, command: PacketOut) -> Vec<Queued> {
        if self.config.space.lt(self.agg.0, command.agg.0) {
            self.agg = command.agg;
        }
        if let Feedback::Nak { nak, .. } = command.feedback {
            let is_told = self.is_nak_told && self.waiting.is_some_and(|told| told.psn == nak.psn);
            (self.waiting, self.is_nak_told) = (Some(nak), true);
            if is_told {
                return Vec::new();
            }
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
            Outcome::Idle => {
                self.forget_stale_nak(self.agg.0);
                Vec::new()
            }
            Outcome::On(walker) => {
                self.forget_stale_nak(self.agg.0);
                vec![self.round(walker, None)]
            }
            Outcome::Done(word) => {
                let minimum = (word.psn, self.msn_of(word));
                self.forget_stale_nak(minimum.0);
                let space = self.config.space;
                let is_news = space.lt(self.agg.0, word.psn);
                match probe {
                    Some(asker)
                        if !space.lt(word.psn, asker.1)
                            && (self.src_port == Some(asker.0) || !is_news) =>
                    {
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
        let is_source = self.src_port == Some(port);
        if is_source && self.config.space.lt(self.agg.0, minimum.0) {
            self.agg = minimum;
        }
        let (psn, msn) = match is_source || psn == minimum.0 {
            true => minimum,
            false => (psn, asker_msn),
        };
        let feedback = Feedback::Ack { psn, msn };
        Queued::Leave(Sent::Feedback { port, feedback })
    }

    /// A NAK that is no older than what all have. Of several of one PSN any RNR NAK counts more than a sequence error,
    /// and the longest timer most.
    fn wait_for(&mut self, nak: Nak) {
        let space = self.config.space;
        match self.waiting {
            Some(known) if space.lt(known.psn, nak.psn) => {}
            Some(known) if known.psn == nak.psn => {
                if !self.is_nak_told && nak.patience() > known.patience() {
                    self.waiting = Some(nak);
                }
            }
            _ => (self.waiting, self.is_nak_told) = (Some(nak), false),
        }
    }

    fn forget_nak(&mut self) {
        (self.waiting, self.is_nak_told) = (None, false);
    }

    /// All have what a NAK says is missing.
    fn forget_stale_nak(&mut self, minimum: u32) {
        let space = self.config.space;
        if self.waiting.is_some_and(|nak| !space.lt(minimum, nak.psn)) {
            self.forget_nak();
        }
    }

    /// What there is to tell the source, if anything, when all have what comes up to `minimum`.
    fn conclude(&mut self, minimum: (u32, u32)) -> Option<Sent> {
        let space = self.config.space;
        let (psn, msn) = minimum;
        let told = match self.waiting {
            Some(nak) if nak.psn == space.next(psn) && !self.is_nak_told => {
                self.is_nak_told = true;
                Some(Feedback::Nak { nak, msn })
            }
            _ if space.lt(self.agg.0, psn) => Some(Feedback::Ack { psn, msn }),
            _ => None,
        };
        if space.lt(self.agg.0, psn) {
            self.agg = minimum;
        }
        let feedback = told?;
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
            self.at_least_told(self.paths[word.path].msn)
        }
    }

    /// A count of messages may lag, but does not fall.
    fn at_least_told(&self, msn: u32) -> u32 {
        let ahead = self.config.space.reaches(msn, self.agg.1);
        if ahead {
            msn
        } else {
            self.agg.1
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
