//! Ingress processing of a group's packets: data, ACKs, NAKs and CNPs (`ack_aggregate.p4`). A packet from a port
//! outside the group's tree is dropped.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that
//! all paths have acknowledged or sent. The *source* is the member of the group that sends at present.

use alfirk_roce::wire::{NakCode, Syndrome};

use super::decide::{ack_of_old_data, final_feedback};
use super::min_psn_walk::WalkStep;
use super::{
    CnpDrop, Feedback, Flaw, Group, Message, MinSearch, Nak, Notice, PacketIn, PacketOut, PathPsn,
    Point, Port, QueuedPacket, SentPacket, Strategy, Work,
};

/// The queued copies of one data packet: one copy per path (port of the group's tree). Egress drops the copy for the
/// sender's own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    from_path: usize,
    paths: usize,
    psn: u32,
    is_new: bool,
}

impl Copies {
    /// Number of copies: one per path (port of the group's tree).
    #[inline]
    pub fn count(&self) -> usize {
        self.paths
    }

    /// Iterates over the copies as packets for the egress queue, in the order of path numbers.
    #[inline]
    pub fn queued(self) -> impl Iterator<Item = QueuedPacket> {
        let Copies {
            from_path,
            paths,
            psn,
            is_new,
        } = self;
        (0..paths).map(move |path| {
            if path != from_path {
                QueuedPacket::Copy {
                    path,
                    psn,
                    is_retransmission: !is_new,
                }
            } else if is_new {
                QueuedPacket::UpdateFilter { path, acked: psn }
            } else {
                QueuedPacket::Drop
            }
        })
    }
}

impl Group {
    /// Processes the data packet with sequence number `psn` from switch port `port`. Returns the packets to queue for
    /// egress. `now` is in microseconds, as in all methods of [`Group`].
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<QueuedPacket> {
        self.counted(&mut Work::default()).data(port, psn, now)
    }

    /// Processes a data packet, as [`Group::data`] does, without allocating its copies. The vector holds the packets to
    /// queue first, such as an ACK to the sender. The copies follow; `None` if the data is not forwarded.
    pub fn data_and_copies(
        &mut self,
        port: Port,
        psn: u32,
        now: u64,
    ) -> (Vec<QueuedPacket>, Option<Copies>) {
        self.counted(&mut Work::default())
            .data_and_copies(port, psn, now)
    }

    pub(super) fn process_data(
        &mut self,
        port: Port,
        psn: u32,
        now: u64,
        (queued, work): (&mut Vec<QueuedPacket>, &mut Work),
    ) -> Option<Copies> {
        let (space, config) = (self.space(), self.constants.config);
        let from_path = self.path_at(port)?;
        let last = self.last_acked.point.psn;
        let from_current_source = self.sender.data(&config, (port, from_path), psn, last)?;
        let is_new = from_current_source && self.leaves.record_sent(space, from_path, psn);
        let msn = self.leaves.msn(from_path);
        let data_point = Point { psn, msn };

        if config.strategy == Strategy::Walk {
            if is_new {
                self.walk_on_data(from_path, now);
            } else if space.lt(self.walk.last_minimum, psn) {
                let search = self.start_probe((port, data_point), now);
                queued.extend(search.map(|search| recirculate(search, None, work)));
            }
        }
        let minimum = self.known_minimum();
        if from_current_source {
            self.waiting_nak.clear_if_resent(psn);
            self.selective_nak.clear(psn);
        }
        self.waiting_nak.clear_stale(space, minimum.psn);
        if !space.lt(minimum.psn, psn) {
            if config.flaw() != Flaw::DroppedTailAck {
                queued.push(self.ack_of_old_data((port, data_point), minimum));
            }
            return None;
        }
        if config.strategy == Strategy::Punt && !is_new {
            work.punts += 1;
            let data_point = Point {
                msn: self.last_acked.extend_msn(space, data_point.msn),
                ..data_point
            };
            let probe = self.packet_in(port, Message::Probe(data_point));
            queued.push(QueuedPacket::Transmit(SentPacket::ToController(probe)));
        }
        from_current_source.then_some(Copies {
            from_path,
            paths: self.constants.ports.len(),
            psn,
            is_new,
        })
    }

    /// Processes an ACK, or a NAK that is not fatal, from `port`. Returns the packets to queue for egress.
    pub fn feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<QueuedPacket> {
        self.counted(&mut Work::default())
            .feedback(port, feedback, now)
    }

    pub(super) fn process_feedback(
        &mut self,
        (port, feedback): (Port, Feedback),
        now: u64,
        work: &mut Work,
    ) -> Vec<QueuedPacket> {
        let (space, config) = (self.space(), self.constants.config);
        let Some(from_path) = self.path_at(port) else {
            return Vec::new();
        };
        let acked = feedback.acked(space);
        let is_sent = self.sender.feedback(space, from_path, acked.psn);
        if !is_sent && config.flaw() != Flaw::AnyAck {
            return Vec::new();
        }
        // A NAK of the next unsent PSN acknowledges all packets sent.
        let feedback = match feedback {
            Feedback::Nak { .. }
                if acked.psn == self.sender.sent && config.flaw() != Flaw::NakOfUnsent =>
            {
                Feedback::ack(acked)
            }
            feedback => feedback,
        };
        let is_new = self.leaves.would_advance(space, from_path, acked.psn);
        let is_accepted = self.leaves.record_acked(space, from_path, acked);
        work.feedback += 1;
        if config.strategy == Strategy::Punt {
            work.punts += 1;
            self.waiting_nak
                .clear_stale(space, self.last_acked.point.psn);
            return vec![QueuedPacket::Punt {
                path: from_path,
                acked: acked.psn,
                packet: self.packet_in(port, Message::Feedback(feedback)),
            }];
        }
        let mut minimum = self.known_minimum();
        let mut recirculated = None;
        if config.strategy == Strategy::Walk && is_accepted {
            match self.walk_on_ack(from_path, is_new, now) {
                WalkStep::Idle => {}
                WalkStep::Recirculate(search) => recirculated = Some(search),
                WalkStep::Found(oldest_path) => minimum = self.minimum_point(oldest_path),
            }
        }
        self.waiting_nak.clear_stale(space, minimum.psn);
        if let Feedback::Nak { nak, .. } = feedback {
            if config.flaw() == Flaw::CoveredNak {
                return self.forward_at_once(feedback);
            }
            self.waiting_nak
                .record(space, minimum.psn, nak, is_accepted);
        }
        if let Some(search) = recirculated {
            return vec![recirculate(search, Some((from_path, acked.psn)), work)];
        }
        if acked.psn == minimum.psn {
            minimum.msn = self.plausible_msn(minimum.psn, acked.msn);
        }
        let mut queued = vec![QueuedPacket::UpdateFilter {
            path: from_path,
            acked: acked.psn,
        }];
        queued.extend(self.final_feedback(minimum, work));
        queued
    }

    /// Processes a CNP, a selective NAK or a fatal NAK from `port`. These are filtered and forwarded, not aggregated.
    /// Returns the packets to queue for egress.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<QueuedPacket> {
        let space = self.space();
        let Some(from_path) = self.path_at(port) else {
            return Vec::new();
        };
        let is_sent = match notice {
            Notice::Cnp => return self.cnp(port, now).into_iter().collect(),
            Notice::SelectiveNak { psn, .. } => self.sender.has_sent(space, psn),
            // A receiver rejects a request only before it has acknowledged that request.
            Notice::FatalNak { nak, .. } => {
                // As in the pipeline, it is the packet before the request that must have been sent.
                let before = space.previous(nak.psn);
                before != self.sender.sent
                    && self.sender.has_sent(space, before)
                    && space.lt(self.sender.acked[from_path], nak.psn)
            }
        };
        let flaw = self.constants.config.flaw();
        if !is_sent {
            return Vec::new();
        }
        if let (Notice::SelectiveNak { psn, .. }, false) =
            (notice, self.constants.config.is_selective)
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
            QueuedPacket::Transmit(SentPacket::Notice {
                port: source,
                notice,
            })
        };
        match notice {
            Notice::Cnp => Vec::new(),
            Notice::SelectiveNak { psn, reports } => {
                let is_open = source != port && space.lt(last_acked.psn, psn);
                let reports = is_open
                    .then(|| self.selective_nak.filter(flaw, psn, reports))
                    .flatten();
                let notice = reports.map(|reports| Notice::SelectiveNak { psn, reports });
                notice.map(pass).into_iter().collect()
            }
            Notice::FatalNak { nak, .. } => {
                // A NAK acknowledges all packets before its PSN, so the forwarded one carries the PSN after the last
                // acknowledged one.
                let nak = Nak {
                    psn: space.next(last_acked.psn),
                    ..nak
                };
                let msn = last_acked.msn;
                let alarm = QueuedPacket::Transmit(SentPacket::Alarm { port, notice });
                vec![alarm, pass(Notice::FatalNak { nak, msn })]
            }
        }
    }

    /// Processes a CNP from `port`: returns it as a packet to the group's source (the member that sends at present),
    /// unless the CNP filter drops it.
    ///
    /// # Errors
    ///
    /// The reason why the filter drops the CNP; `None` if the group has no source yet or `port` is not one of its
    /// paths.
    pub fn cnp(&mut self, port: Port, now: u64) -> Result<QueuedPacket, Option<CnpDrop>> {
        let (space, flaw) = (self.space(), self.constants.config.flaw());
        let from_path = self.path_at(port).ok_or(None)?;
        self.waiting_nak
            .clear_stale(space, self.last_acked.point.psn);
        let source = self.sender.source.ok_or(None)?;
        let is_source = source == port;
        self.cnp_filter
            .filter(flaw, from_path, is_source, now)
            .map_err(Some)?;
        Ok(QueuedPacket::Transmit(SentPacket::Notice {
            port: source,
            notice: Notice::Cnp,
        }))
    }

    /// Processes an ACK or NAK that the controller sends through the switch. Under [`Strategy::Punt`] the controller,
    /// not the switch, computes the minimum.
    pub fn command(&mut self, command: PacketOut) -> Vec<QueuedPacket> {
        self.last_acked.raise(self.space(), command.last_acked);
        if let Feedback::Nak { nak, .. } = command.feedback {
            if !self.waiting_nak.record_sent(nak) {
                return Vec::new();
            }
        }
        let port = command.port.or(self.sender.source);
        let feedback = command.feedback;
        let sent = port.map(|port| SentPacket::Feedback { port, feedback });
        sent.map(QueuedPacket::Transmit).into_iter().collect()
    }

    /// Processes a search packet that has recirculated: compares the newest PSNs of a few more paths. After the last
    /// path, forwards the resulting ACK or NAK to the source.
    pub(super) fn continue_search(
        &mut self,
        search: MinSearch,
        now: u64,
        work: &mut Work,
    ) -> Vec<QueuedPacket> {
        let space = self.space();
        let probe = search.probe;
        match self.continue_walk(search, now) {
            WalkStep::Idle => {
                self.waiting_nak
                    .clear_stale(space, self.last_acked.point.psn);
                Vec::new()
            }
            WalkStep::Recirculate(search) => {
                self.waiting_nak
                    .clear_stale(space, self.last_acked.point.psn);
                vec![recirculate(search, None, work)]
            }
            WalkStep::Found(oldest_path) => {
                let minimum = self.minimum_point(oldest_path);
                self.waiting_nak.clear_stale(space, minimum.psn);
                let advances_minimum = self.last_acked.advances_minimum(space, minimum.psn);
                // A new minimum is acknowledged to the source first, even if a former source's retransmission started
                // the walk.
                let may_reply = |port| self.sender.source == Some(port) || !advances_minimum;
                match probe {
                    Some((port, data_point))
                        if !space.lt(minimum.psn, data_point.psn) && may_reply(port) =>
                    {
                        vec![self.ack_of_old_data((port, data_point), minimum)]
                    }
                    _ => self.final_feedback(minimum, work).into_iter().collect(),
                }
            }
        }
    }

    /// Builds the ACK of retransmitted data that all paths have, for the port that sent the data.
    fn ack_of_old_data(
        &mut self,
        (port, data_point): (Port, Point),
        minimum: Point,
    ) -> QueuedPacket {
        let is_source = self.sender.source == Some(port);
        let data_point = Point {
            msn: self.last_acked.extend_msn(self.space(), data_point.msn),
            ..data_point
        };
        if is_source {
            self.last_acked.raise(self.space(), minimum);
        }
        let feedback = ack_of_old_data(is_source, data_point, minimum);
        QueuedPacket::Transmit(SentPacket::Feedback { port, feedback })
    }

    /// Returns the ACK or NAK to send to the source now that all paths have `minimum`; `None` if there is nothing new to
    /// report, or no source.
    fn final_feedback(&mut self, minimum: Point, work: &mut Work) -> Option<QueuedPacket> {
        let space = self.space();
        let feedback = final_feedback(space, minimum, &mut self.last_acked, &mut self.waiting_nak)?;
        let port = self.sender.source?;
        work.forwarded += 1;
        Some(QueuedPacket::Transmit(SentPacket::Feedback {
            port,
            feedback,
        }))
    }

    /// Processes an ACK or NAK from `port` with headers that a receiver would reject: a VLAN tag, or a wrong TTL,
    /// length or reserved field. Aggregated feedback gets headers of the group's own, so the result is that of
    /// [`Group::feedback`]. Under [`Flaw::KeptHeaders`] the received headers are kept, and the source drops the packet.
    pub fn malformed_feedback(
        &mut self,
        port: Port,
        feedback: Feedback,
        now: u64,
    ) -> Vec<QueuedPacket> {
        let mut queued = self.feedback(port, feedback, now);
        if self.constants.config.flaw() == Flaw::KeptHeaders {
            queued.retain(|queued| {
                !matches!(queued, QueuedPacket::Transmit(SentPacket::Feedback { .. }))
            });
        }
        queued
    }

    /// Implements the deliberate bug [`Flaw::ReservedNak`]: forwards a NAK with a reserved code to the source.
    fn reserved_nak(&mut self, psn: u32) -> Vec<QueuedPacket> {
        let syndrome = Syndrome::Nak(NakCode::Selective).into();
        let msn = self.last_acked.point.msn;
        self.forward_at_once(Feedback::Nak {
            nak: Nak { psn, syndrome },
            msn,
        })
    }

    /// Implements the deliberate bugs [`Flaw::CoveredNak`] and [`Flaw::ReservedNak`]: forwards feedback before all
    /// receivers have the packets before it.
    fn forward_at_once(&mut self, feedback: Feedback) -> Vec<QueuedPacket> {
        let source = self.sender.source;
        let sent = source.map(|port| SentPacket::Feedback { port, feedback });
        sent.map(QueuedPacket::Transmit).into_iter().collect()
    }

    /// Newest PSN that all paths are known to have, with its MSN. Under [`Strategy::Tree`] this is the exact minimum of
    /// all paths, otherwise the point last acknowledged to the source, a lower bound.
    fn known_minimum(&self) -> Point {
        let known = match self.constants.config.strategy {
            Strategy::Tree => self.leaves.minimum(self.space()),
            Strategy::Walk | Strategy::Punt => None,
        };
        known.map_or(self.last_acked.point, |oldest_path| {
            self.minimum_point(oldest_path)
        })
    }

    /// The minimum PSN with an MSN for it. `oldest_path`: the path that has the minimum. If that path sent this PSN, it
    /// has reported no MSN for it. The MSN last acknowledged to the source is then used.
    fn minimum_point(&self, oldest_path: PathPsn) -> Point {
        let last_acked = &self.last_acked;
        let msn = if oldest_path.psn == last_acked.point.psn || oldest_path.by_sender {
            last_acked.point.msn
        } else {
            let msn = last_acked.extend_msn(self.space(), self.leaves.msn(oldest_path.path));
            self.plausible_msn(oldest_path.psn, msn)
        };
        let psn = oldest_path.psn;
        Point { psn, msn }
    }

    fn plausible_msn(&self, psn: u32, msn: u32) -> u32 {
        match self.constants.config.flaw() {
            Flaw::AnyMsn => msn,
            _ => self.last_acked.plausible_msn(self.space(), psn, msn),
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

/// Queues a search packet for recirculation.
fn recirculate(
    search: MinSearch,
    filter_update: Option<(usize, u32)>,
    work: &mut Work,
) -> QueuedPacket {
    work.recirculations += 1;
    QueuedPacket::Recirculate {
        search,
        filter_update,
    }
}
