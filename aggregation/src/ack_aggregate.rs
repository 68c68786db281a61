//! Ingress processing of a group's packets, step by step (`ack_aggregate.p4`). Packets from a port that is not a path of the
//! group are dropped.

use alfirk_roce::wire::{NakCode, Syndrome};

use super::decide::{answer, final_feedback};
use super::min_psn_walk::Outcome;
use super::{
    CnpDrop, Feedback, Flaw, Group, Message, MinSearch, Nak, Notice, PacketIn, PacketOut, Point,
    Port, Queued, Sent, Strategy, Word,
};

/// The queued copies of a data packet, one for each path. On the path of the sender, egress drops the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    own: usize,
    paths: usize,
    psn: u32,
    is_new: bool,
}

impl Copies {
    /// Number of copies.
    #[inline]
    pub fn count(&self) -> usize {
        self.paths
    }

    /// Iterates over the copies in the order of path numbers.
    #[inline]
    pub fn queued(self) -> impl Iterator<Item = Queued> {
        let Copies {
            own,
            paths,
            psn,
            is_new,
        } = self;
        (0..paths).map(move |path| {
            if path != own {
                Queued::Copy {
                    path,
                    psn,
                    is_retransmission: !is_new,
                }
            } else if is_new {
                Queued::UpdateFilter { path, acked: psn }
            } else {
                Queued::End
            }
        })
    }
}

impl Group {
    /// Processes data packet `psn` from `port`. `now` is in microseconds, as in all methods.
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<Queued> {
        let (mut queued, copies) = self.data_and_copies(port, psn, now);
        queued.extend(copies.into_iter().flat_map(Copies::queued));
        queued
    }

    /// Like [`Group::data`], but returns the copies apart from the packets that are queued before them. A caller that makes
    /// copies one by one needs no vector of them.
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
        let last = self.last_acked.point.psn;
        let from_current_source = self.sender.data(&config, (port, own), psn, last)?;
        let is_new = from_current_source && self.leaves.sent(space, own, psn);
        let msn = self.leaves.msn(own);
        let asked = Point { psn, msn };

        if config.strategy == Strategy::Walk {
            if is_new {
                self.walk_past_sender(own, now);
            } else if space.lt(self.walk.found, psn) {
                let search = self.begin_probe((port, asked), now);
                queued.extend(search.map(|search| self.recirculate(search, None)));
            }
        }
        let minimum = self.known_minimum();
        if from_current_source {
            self.waiting_nak.sent(psn);
            self.selective_nak.sent(psn);
        }
        self.waiting_nak.clear_stale(space, minimum.psn);
        if !space.lt(minimum.psn, psn) {
            if config.flaw != Flaw::DroppedTailAck {
                queued.push(self.answer((port, asked), minimum));
            }
            return None;
        }
        if config.strategy == Strategy::Punt && !is_new {
            self.work.punts += 1;
            let asked = Point {
                msn: self.last_acked.nearest(space, asked.msn),
                ..asked
            };
            let probe = self.packet_in(port, Message::Probe(asked));
            queued.push(Queued::Leave(Sent::ToController(probe)));
        }
        from_current_source.then_some(Copies {
            own,
            paths: self.fixed.ports.len(),
            psn,
            is_new,
        })
    }

    /// Processes an ACK, or a NAK that is not fatal, from `port`.
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
        // A NAK of the next unsent PSN acknowledges all that was sent.
        let feedback = match feedback {
            Feedback::Nak { .. }
                if acked.psn == self.sender.sent && config.flaw != Flaw::NakOfUnsent =>
            {
                Feedback::ack(acked)
            }
            feedback => feedback,
        };
        let is_rise = self.leaves.rises(space, own, acked.psn);
        let is_accepted = self.leaves.acked(space, own, acked);
        self.work.feedback += 1;
        if config.strategy == Strategy::Punt {
            self.work.punts += 1;
            self.waiting_nak
                .clear_stale(space, self.last_acked.point.psn);
            return vec![Queued::Punt {
                path: own,
                acked: acked.psn,
                packet: self.packet_in(port, Message::Feedback(feedback)),
            }];
        }
        let mut minimum = self.known_minimum();
        let mut recirculated = None;
        if config.strategy == Strategy::Walk && is_accepted {
            match self.walk_on_news(own, is_rise, now) {
                Outcome::Idle => {}
                Outcome::On(search) => recirculated = Some(search),
                Outcome::Done(word) => minimum = self.point_of(word),
            }
        }
        self.waiting_nak.clear_stale(space, minimum.psn);
        if let Feedback::Nak { nak, .. } = feedback {
            if config.flaw == Flaw::CoveredNak {
                return self.forward_at_once(feedback);
            }
            self.waiting_nak
                .record(space, minimum.psn, nak, is_accepted);
        }
        if let Some(search) = recirculated {
            return vec![self.recirculate(search, Some((own, acked.psn)))];
        }
        if acked.psn == minimum.psn {
            minimum.msn = self.believed(minimum.psn, acked.msn);
        }
        let mut queued = vec![Queued::UpdateFilter {
            path: own,
            acked: acked.psn,
        }];
        queued.extend(self.final_feedback(minimum));
        queued
    }

    /// Processes feedback that is not aggregated, from `port`.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<Queued> {
        let space = self.space();
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        let is_sent = match notice {
            Notice::Cnp => return self.cnp(port, now).into_iter().collect(),
            Notice::SelectiveNak { psn, .. } => self.sender.has_sent(space, psn),
            // A receiver can reject only a request that it has not acknowledged.
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
        let last_acked = self.last_acked.point;
        self.waiting_nak.clear_stale(space, last_acked.psn);
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
                let is_open = source != port && space.lt(last_acked.psn, psn);
                let reports = is_open
                    .then(|| self.selective_nak.passes(flaw, psn, reports))
                    .flatten();
                let notice = reports.map(|reports| Notice::SelectiveNak { psn, reports });
                notice.map(pass).into_iter().collect()
            }
            Notice::FatalNak { nak, .. } => {
                // A NAK acknowledges all packets before it, so its PSN follows the last acknowledged one.
                let nak = Nak {
                    psn: space.next(last_acked.psn),
                    ..nak
                };
                let msn = last_acked.msn;
                let alarm = Queued::Leave(Sent::Alarm { port, notice });
                vec![alarm, pass(Notice::FatalNak { nak, msn })]
            }
        }
    }

    /// Processes a CNP from `port`.
    ///
    /// # Errors
    ///
    /// The reason why the CNP is dropped; `None` if there is no source or `port` is not a path.
    pub fn cnp(&mut self, port: Port, now: u64) -> Result<Queued, Option<CnpDrop>> {
        let (space, flaw) = (self.space(), self.fixed.config.flaw);
        let own = self.path_at(port).ok_or(None)?;
        self.waiting_nak
            .clear_stale(space, self.last_acked.point.psn);
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

    /// Processes feedback from the controller, which has computed the minimum.
    pub fn command(&mut self, command: PacketOut) -> Vec<Queued> {
        self.last_acked.raise(self.space(), command.last_acked);
        if let Feedback::Nak { nak, .. } = command.feedback {
            if !self.waiting_nak.record_sent(nak) {
                return Vec::new();
            }
        }
        let port = command.port.or(self.sender.source);
        let feedback = command.feedback;
        let sent = port.map(|port| Sent::Feedback { port, feedback });
        sent.map(Queued::Leave).into_iter().collect()
    }

    /// Processes a recirculated search packet.
    pub(super) fn pass(&mut self, search: MinSearch, now: u64) -> Vec<Queued> {
        let space = self.space();
        let probe = search.probe;
        match self.walk_on(search, now) {
            Outcome::Idle => {
                self.waiting_nak
                    .clear_stale(space, self.last_acked.point.psn);
                Vec::new()
            }
            Outcome::On(search) => {
                self.waiting_nak
                    .clear_stale(space, self.last_acked.point.psn);
                vec![self.recirculate(search, None)]
            }
            Outcome::Done(word) => {
                let minimum = self.point_of(word);
                self.waiting_nak.clear_stale(space, minimum.psn);
                let advances_minimum = self.last_acked.advances_minimum(space, minimum.psn);
                // A new minimum goes to the source first, also if a former source started the walk.
                let may_reply = |port| self.sender.source == Some(port) || !advances_minimum;
                match probe {
                    Some((port, asked)) if !space.lt(minimum.psn, asked.psn) && may_reply(port) => {
                        vec![self.answer((port, asked), minimum)]
                    }
                    _ => self.final_feedback(minimum).into_iter().collect(),
                }
            }
        }
    }

    /// Acknowledges old data that all paths have.
    fn answer(&mut self, (port, asked): (Port, Point), minimum: Point) -> Queued {
        let is_source = self.sender.source == Some(port);
        let asked = Point {
            msn: self.last_acked.nearest(self.space(), asked.msn),
            ..asked
        };
        if is_source {
            self.last_acked.raise(self.space(), minimum);
        }
        let feedback = answer(is_source, asked, minimum);
        Queued::Leave(Sent::Feedback { port, feedback })
    }

    /// Queues the ACK or NAK for the source, if there is any, once `minimum` is known.
    fn final_feedback(&mut self, minimum: Point) -> Option<Queued> {
        let space = self.space();
        let feedback = final_feedback(space, minimum, &mut self.last_acked, &mut self.waiting_nak)?;
        let port = self.sender.source?;
        self.work.forwarded += 1;
        Some(Queued::Leave(Sent::Feedback { port, feedback }))
    }

    fn recirculate(&mut self, search: MinSearch, filter_update: Option<(usize, u32)>) -> Queued {
        self.work.recirculations += 1;
        Queued::Recirculate {
            search,
            filter_update,
        }
    }

    /// Processes an ACK or NAK from `port` whose headers a receiver would reject: a VLAN tag, TTL, lengths or reserved bits.
    /// Merged feedback gets the headers of the group, so the result is that of [`Group::feedback`]. Under
    /// [`Flaw::MembersForm`] the headers are kept, and the source drops the packet.
    pub fn odd_feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<Queued> {
        let mut queued = self.feedback(port, feedback, now);
        if self.fixed.config.flaw == Flaw::MembersForm {
            queued.retain(|queued| !matches!(queued, Queued::Leave(Sent::Feedback { .. })));
        }
        queued
    }

    /// Forwards a reserved NAK, for [`Flaw::ReservedNak`].
    fn reserved_nak(&mut self, psn: u32) -> Vec<Queued> {
        let syndrome = Syndrome::Nak(NakCode::Selective).into();
        let msn = self.last_acked.point.msn;
        self.forward_at_once(Feedback::Nak {
            nak: Nak { psn, syndrome },
            msn,
        })
    }

    /// Forwards feedback without waiting for the minimum, for [`Flaw::CoveredNak`] and [`Flaw::ReservedNak`].
    fn forward_at_once(&mut self, feedback: Feedback) -> Vec<Queued> {
        let source = self.sender.source;
        let sent = source.map(|port| Sent::Feedback { port, feedback });
        sent.map(Queued::Leave).into_iter().collect()
    }

    /// The minimum if it is known without a search; else the point last acknowledged, which is a lower bound of it.
    fn known_minimum(&self) -> Point {
        let known = match self.fixed.config.strategy {
            Strategy::Tree => self.leaves.minimum(self.space()),
            Strategy::Walk | Strategy::Punt => None,
        };
        known.map_or(self.last_acked.point, |word| self.point_of(word))
    }

    /// A path's word with its MSN. The word of a sender has no MSN; then the MSN last acknowledged is used.
    fn point_of(&self, word: Word) -> Point {
        let last_acked = &self.last_acked;
        let msn = if word.psn == last_acked.point.psn || word.by_sender {
            last_acked.point.msn
        } else {
            let msn = last_acked.nearest(self.space(), self.leaves.msn(word.path));
            self.believed(word.psn, msn)
        };
        let psn = word.psn;
        Point { psn, msn }
    }

    fn believed(&self, psn: u32, msn: u32) -> u32 {
        match self.fixed.config.flaw {
            Flaw::AnyMsn => msn,
            _ => self.last_acked.believed(self.space(), psn, msn),
        }
    }

    fn packet_in(&self, port: Port, message: Message) -> PacketIn {
        PacketIn {
            port,
            message,
            source: self.sender.source,
            last_acked: self.last_acked.point,
        }
    }
}
