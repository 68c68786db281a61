//! The sending half: messages become packets, and answers complete them (IBTA vol. 1, 9.7.3, 9.7.5, 9.7.6).
//!
//! Packets are counted in 64 bits from the first one on, so that nothing here wraps; a PSN is the low 24 bits of that count
//! plus the initial PSN. An answer's PSN is turned back into a count by its distance to the oldest unacknowledged
//! packet, which is unambiguous because at most 2^22 packets are outstanding.
//!
//! Every NAK acknowledges all packets before its PSN, whatever its code, as it does at the requesters of Linux rxe (`check_psn`): so a test of a
//! switch sees the completions that a NAK with too high a PSN brings about. Reserved syndromes are fatal, as they are there. Only selective
//! NAKs that come directly from a responder of ours acknowledge nothing ([`LossReports::Direct`]).
//!
//! With selective repeat it never goes back: what is reported lost is sent again before what is new.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::completion::{Completed, CompletionError, Operation};
use super::config::{LossReports, MsnRule, NakRule, PathMtu, RcConfig, Recovery, Retries};
use super::packet::{RcHeaders, RcPacket};
use super::qp::{Outgoing, Payload, QpStats, SendOperation, SendRequest, Shared};
use super::timer::Timer;
use crate::wire::aeth::{credits_of, CREDITS_UNLIMITED};
use crate::wire::{bth, reth, NakCode, Opcode, Psn, QpNum, Syndrome};

/// The most packets that may be outstanding, whatever the configuration says.
const MAX_WINDOW: u32 = 1 << 22;

/// Packets that are sent between two repeats of reported packets in a group, while there are new ones: false reports cost a sixth at most.
const NEW_PER_REPEAT: u32 = 5;

/// Message sequence numbers have 24 bits.
const MSN_MASK: u32 = 0x00ff_ffff;

/// What packet an answer is about.
enum Place {
    /// One that waits for its answer, by its count.
    Outstanding(u64),
    /// One that has been acknowledged, or that another end of the group sent.
    Done,
    NeverSent,
}

/// A message under way.
struct Message {
    wr_id: u64,
    operation: SendOperation,
    payload: Payload,
    /// Count of its first packet.
    first: u64,
    packets: u64,
}

impl Message {
    fn end(&self) -> u64 {
        self.first + self.packets
    }
}

/// A packet that was sent again because of reports.
#[derive(Default)]
struct Repeat {
    /// How many reports made the requester send it again.
    count: u8,
    /// When it was sent again last, in nanoseconds; `None` while it waits to be sent.
    sent: Option<u64>,
}

/// The shortest time from a packet to its acknowledgement, in nanoseconds. Packets that were sent more than once are not measured (Karn's
/// rule).
#[derive(Default)]
struct RoundTrip {
    shortest: Option<u64>,
    /// The packet that is being measured, and when it was sent.
    measured: Option<(u64, u64)>,
}

impl RoundTrip {
    fn sent(&mut self, now: u64, seq: u64) {
        self.measured.get_or_insert((seq, now));
    }

    /// `seq` is sent again.
    fn sent_again(&mut self, seq: u64) {
        self.measured.take_if(|(measured, _)| *measured == seq);
    }

    /// Every packet before `seq` is acknowledged.
    fn acknowledged(&mut self, now: u64, seq: u64) {
        if let Some((_, sent)) = self.measured.take_if(|(measured, _)| *measured < seq) {
            let time = now.saturating_sub(sent);
            self.shortest = Some(self.shortest.map_or(time, |shortest| shortest.min(time)));
        }
    }
}

pub(super) struct Requester {
    initial_psn: Psn,
    messages: VecDeque<Message>,
    /// Index of the message that `next` belongs to.
    cursor: usize,
    /// The oldest packet that is not acknowledged.
    unacked: u64,
    /// The next packet to send; less than `sent` after going back.
    next: u64,
    /// One past the newest packet ever sent.
    sent: u64,
    /// One past the last packet of the last message.
    end: u64,
    /// The newest packet that asked for an ACK since the last time we went back.
    asked: Option<u64>,
    /// The packet that a NAK made us go back to. A second NAK for it is ignored until there is progress.
    nak_handled: Option<u64>,
    /// Whether no ACK has come since a NAK made us go back.
    sends_again: bool,
    /// With selective repeat, what is to be sent again,
    lost: BTreeSet<u64>,
    /// and what has been since the last timeout, because of reports.
    repeats: BTreeMap<u64, Repeat>,
    /// Packets sent since one was sent again because of a report.
    since_repeat: u32,
    round_trip: RoundTrip,
    /// How many messages have completed since the connection began; the low 24 bits are the newest MSN we can expect when
    /// nothing is outstanding.
    done: u64,
    /// The largest count of completed messages that an answer has told.
    told: u64,
    /// How many messages the responder has buffers for, counted from the beginning; `None` when it does not limit us.
    limit: Option<u64>,
    /// Whether another end of the group may send by now.
    is_followed: bool,
    timeouts: u8,
    rnr_naks: u8,
}

impl Requester {
    pub(super) fn new(initial_psn: Psn) -> Requester {
        Requester {
            initial_psn,
            messages: VecDeque::new(),
            cursor: 0,
            unacked: 0,
            next: 0,
            sent: 0,
            end: 0,
            asked: None,
            nak_handled: None,
            sends_again: false,
            lost: BTreeSet::new(),
            repeats: BTreeMap::new(),
            since_repeat: NEW_PER_REPEAT,
            round_trip: RoundTrip::default(),
            done: 0,
            told: 0,
            limit: None,
            is_followed: false,
            timeouts: 0,
            rnr_naks: 0,
        }
    }

    /// Whether every message is done.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// The PSN after the last one in use.
    pub(super) fn end_psn(&self) -> Psn {
        self.psn(self.end)
    }

    /// How many messages have been posted since the connection began, modulo 2^24.
    pub(super) fn ssn(&self) -> u32 {
        self.posted() as u32 & MSN_MASK
    }

    /// Goes on at `psn`; every message must be done. Messages are counted on.
    pub(super) fn set_psn(&mut self, psn: Psn) {
        self.restart(psn, self.ssn());
    }

    /// Goes on at `psn` after `ssn` messages; every message of its own must be done.
    pub(super) fn restart(&mut self, psn: Psn, ssn: u32) {
        debug_assert!(self.is_idle());
        *self = Requester {
            done: ssn.into(),
            told: ssn.into(),
            ..Requester::new(psn)
        };
    }

    /// Another end of the group may send from now on.
    pub(super) fn be_followed(&mut self) {
        self.is_followed = true;
    }

    /// Completes everything, sent or not.
    pub(super) fn conclude(&mut self, now: u64, config: &RcConfig, shared: &mut Shared) {
        self.sent = self.end;
        self.acknowledge(now, self.end, config, shared);
        self.told = self.done;
        self.sends_again = false;
        shared.timers.stop(Timer::RnrBackoff);
    }

    pub(super) fn post(&mut self, request: SendRequest, mtu: PathMtu) {
        let packets = request.payload.len().div_ceil(mtu.bytes() as u64).max(1);
        self.messages.push_back(Message {
            wr_id: request.wr_id,
            operation: request.operation,
            payload: request.payload,
            first: self.end,
            packets,
        });
        self.end += packets;
    }

    pub(super) fn can_send(&self, config: &RcConfig, shared: &Shared) -> bool {
        (self.has_next(config) || !self.lost.is_empty())
            && !shared.timers.is_set(Timer::RnrBackoff)
            && !shared.timers.is_set(Timer::Pacing)
    }

    /// Whether there is a packet to send that is not a repeat of a lost one.
    fn has_next(&self, config: &RcConfig) -> bool {
        self.next < self.end
            && self.next - self.unacked < u64::from(window(config))
            && (self.next == self.unacked || !self.lacks_credit())
    }

    /// The packet that was reported lost and is to be sent again now. In a group, where one member that reports what it has received
    /// would else keep the source from all others, new packets go in between while there are any; not before the oldest, for which all wait.
    fn take_lost(&mut self, config: &RcConfig) -> Option<u64> {
        let is_early = config.loss_reports == LossReports::Merged
            && self.lost.first() != Some(&self.unacked)
            && self.since_repeat < NEW_PER_REPEAT
            && self.has_next(config);
        let lost = match is_early {
            true => None,
            false => self.lost.pop_first(),
        };
        self.since_repeat = match lost {
            Some(_) => 0,
            None => self.since_repeat.saturating_add(1),
        };
        lost
    }

    /// Whether the responder has no buffer for the message of the next packet. Such a message goes out packet by packet, each
    /// with a request for an answer, which brings new credits (IBTA vol. 1, 9.7.7.2.5).
    fn lacks_credit(&self) -> bool {
        let Some(limit) = self.limit else {
            return false;
        };
        self.messages.get(self.cursor).is_some_and(|message| {
            uses_receive(message.operation) && self.done + self.cursor as u64 >= limit
        })
    }

    /// How many messages have been posted since the connection began.
    fn posted(&self) -> u64 {
        self.done + self.messages.len() as u64
    }

    /// How many messages have completed when every packet before `seq` has arrived.
    fn completed_by(&self, seq: u64) -> u64 {
        self.done + self.messages.partition_point(|m| m.end() <= seq) as u64
    }

    /// The next request packet, when there is one and the window has room.
    pub(super) fn poll_request(
        &mut self,
        now: u64,
        remote: QpNum,
        config: &RcConfig,
        shared: &mut Shared,
    ) -> Option<Outgoing> {
        if !self.can_send(config, shared) {
            return None;
        }
        let lost = self.take_lost(config);
        let seq = lost.unwrap_or(self.next);
        // All behind one that is sent again may wait for it.
        let ask = lost.is_some() || self.asks_for_ack(seq, config) || self.lacks_credit();
        let message = match lost {
            Some(seq) => self.messages.partition_point(|m| m.end() <= seq),
            None => self.cursor,
        };
        let message = &self.messages[message];
        let mtu = config.mtu.bytes() as u64;
        let index = seq - message.first;
        let offset = index * mtu;
        let len = (message.payload.len() - offset).min(mtu) as usize;
        let is_first = index == 0;
        let is_last = index + 1 == message.packets;

        let mut headers = RcHeaders::plain(bth::Repr {
            pad_count: (len.wrapping_neg() & 3) as u8,
            ack_req: ask,
            ..bth::Repr::new(
                opcode(message.operation, is_first, is_last),
                remote,
                self.psn(seq),
            )
        });
        if let SendOperation::Write {
            remote_va, rkey, ..
        } = message.operation
        {
            headers.reth = is_first.then(|| reth::Repr {
                virtual_address: remote_va,
                rkey,
                dma_length: message.payload.len() as u32,
            });
        }
        if is_last {
            headers.immediate = immediate(message.operation);
        }
        let payload = (len > 0).then(|| (message.payload.clone(), offset, len));

        shared.stats.requests_sent += 1;
        shared.stats.request_bytes_sent += len as u64;
        if seq < self.sent {
            shared.stats.retransmissions += 1;
            self.round_trip.sent_again(seq);
            if let Some(repeat) = self.repeats.get_mut(&seq) {
                repeat.sent = Some(now);
            }
        } else if ask {
            self.round_trip.sent(now, seq);
        }
        if ask {
            self.asked = self.asked.max(Some(seq));
        }
        if lost.is_none() {
            self.next += 1;
            self.sent = self.sent.max(self.next);
            if is_last {
                self.cursor += 1;
            }
        }
        if ask && !shared.timers.is_set(Timer::AckTimeout) {
            self.start_ack_timer(now, config, shared);
        }
        Some(Outgoing {
            headers,
            payload,
            ecn_capable: false,
        })
    }

    /// An ACK is asked for at the end of a message, after enough packets without asking, and when the window is full and
    /// nothing else would bring an answer.
    fn asks_for_ack(&self, seq: u64, config: &RcConfig) -> bool {
        let last_of_message = seq + 1 == self.messages[self.cursor].end();
        let outstanding_ask = self.asked.filter(|asked| *asked >= self.unacked);
        let since = self.asked.map_or(self.unacked, |asked| asked + 1);
        let fills_window = seq + 1 - self.unacked >= u64::from(window(config));
        last_of_message
            || seq + 1 - since.min(seq) >= u64::from(config.ack_every.max(1))
            || (fills_window && outstanding_ask.is_none())
    }

    /// `is_others` says of a packet that was never sent here that another end of the group has sent it.
    pub(super) fn handle_ack(
        &mut self,
        now: u64,
        packet: &RcPacket<'_>,
        is_others: bool,
        config: &RcConfig,
        shared: &mut Shared,
    ) -> Result<(), CompletionError> {
        let Some(aeth) = packet.headers.aeth else {
            shared.stats.violations.bad_opcode += 1;
            return Ok(());
        };
        let stats = &mut shared.stats;
        let counter = match aeth.syndrome {
            Syndrome::Ack { .. } => &mut stats.acks_received,
            Syndrome::RnrNak(_) => &mut stats.rnr_naks_received,
            Syndrome::Nak(NakCode::PsnSequenceError) => &mut stats.naks_received,
            Syndrome::Nak(NakCode::Selective) if config.recovery == Recovery::SelectiveRepeat => {
                &mut stats.naks_received
            }
            Syndrome::Nak(
                NakCode::Selective | NakCode::Reserved(_) | NakCode::InvalidRdRequest,
            )
            | Syndrome::Reserved(_) => &mut stats.violations.bad_syndrome,
            Syndrome::Nak(_) => &mut stats.fatal_naks_received,
        };
        *counter += 1;
        if !packet.payload.is_empty() || packet.headers.bth.pad_count != 0 {
            stats.violations.bad_answer_length += 1;
            return Ok(());
        }
        let seq = match self.place(packet.headers.bth.psn) {
            Place::Outstanding(seq) => seq,
            Place::Done => {
                stats.stale_acks += 1;
                return Ok(());
            }
            Place::NeverSent if is_others => {
                stats.stale_acks += 1;
                return Ok(());
            }
            Place::NeverSent => {
                stats.violations.psn_beyond_sent += 1;
                return Ok(());
            }
        };
        if aeth.syndrome == Syndrome::Nak(NakCode::Selective)
            && config.recovery == Recovery::SelectiveRepeat
        {
            match config.loss_reports {
                LossReports::Direct => self.lose(seq, aeth.reports()),
                LossReports::Merged => {
                    self.acknowledge(now, seq, config, shared);
                    match self.place(aeth.lost()) {
                        Place::Outstanding(lost) => self.lose_merged(now, lost),
                        Place::Done => shared.stats.stale_acks += 1,
                        Place::NeverSent => shared.stats.violations.psn_beyond_sent += 1,
                    }
                }
            }
            return Ok(());
        }
        let acknowledged = match aeth.syndrome {
            Syndrome::Ack { .. } => seq + 1,
            _ => seq,
        };
        let completed = self.check_msn(aeth.msn, acknowledged, config, stats);
        match aeth.syndrome {
            Syndrome::Ack { credits } => {
                self.sends_again = false;
                self.limit = match credits {
                    CREDITS_UNLIMITED => None,
                    code => Some(completed + credits_of(code)),
                };
                self.acknowledge(now, seq + 1, config, shared);
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                self.acknowledge(now, seq, config, shared);
                if config.recovery == Recovery::SelectiveRepeat {
                    // A member of another kind, or a lie: it cannot need more than its own packet.
                    self.lose(seq, 1);
                    return Ok(());
                }
                let waits = shared.timers.is_set(Timer::RnrBackoff)
                    || (config.nak_rule == NakRule::OncePerAck && self.sends_again);
                if self.nak_handled != Some(seq) && !waits {
                    self.nak_handled = Some(seq);
                    self.sends_again = true;
                    self.go_back();
                    shared.timers.stop(Timer::AckTimeout);
                }
            }
            Syndrome::RnrNak(timer) => {
                self.acknowledge(now, seq, config, shared);
                if shared.timers.is_set(Timer::RnrBackoff) {
                    return Ok(());
                }
                if let Retries::Limited(limit) = config.rnr_retries {
                    if self.rnr_naks >= limit {
                        return Err(CompletionError::RnrRetryExceeded);
                    }
                }
                self.rnr_naks = self.rnr_naks.saturating_add(1);
                match config.recovery {
                    Recovery::GoBackN => self.go_back(),
                    Recovery::SelectiveRepeat => {
                        self.lost.insert(seq);
                    }
                }
                shared.timers.stop(Timer::AckTimeout);
                shared.timers.set(Timer::RnrBackoff, now + timer.delay_ns());
            }
            Syndrome::Nak(code) => {
                self.acknowledge(now, seq, config, shared);
                return Err(match code {
                    NakCode::RemoteAccessError => CompletionError::RemoteAccess,
                    NakCode::InvalidRequest => CompletionError::RemoteInvalidRequest,
                    _ => CompletionError::RemoteOperational,
                });
            }
            Syndrome::Reserved(_) => {
                self.acknowledge(now, seq, config, shared);
                return Err(CompletionError::RemoteOperational);
            }
        }
        Ok(())
    }

    /// No answer came in time: send again from the oldest unacknowledged packet.
    pub(super) fn handle_ack_timeout(
        &mut self,
        config: &RcConfig,
        shared: &mut Shared,
    ) -> Result<(), CompletionError> {
        if self.unacked == self.sent {
            return Ok(());
        }
        shared.stats.timeouts += 1;
        if let Retries::Limited(limit) = config.retries {
            if self.timeouts >= limit {
                return Err(CompletionError::RetryExceeded);
            }
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.nak_handled = None;
        self.sends_again = false;
        match config.recovery {
            Recovery::GoBackN => self.go_back(),
            Recovery::SelectiveRepeat => {
                // The oldest is what somebody lacks, or has acknowledged in vain; by the newest all learn of what they lack.
                self.lost.extend([self.unacked, self.sent - 1]);
                self.repeats.clear();
            }
        }
        Ok(())
    }

    /// A receiver has reported a packet for the `reports`th time. If it was sent again as often, or more, it is on its way.
    fn lose(&mut self, seq: u64, reports: u8) {
        let repeat = self.repeats.entry(seq).or_default();
        if reports > repeat.count && self.lost.insert(seq) {
            repeat.count = repeat.count.saturating_add(1);
            repeat.sent = None;
        }
    }

    /// A switch has reported a packet lost. The number of reports is not known here. If the packet was sent again less than a round trip
    /// ago, the report is about the transmission before that.
    fn lose_merged(&mut self, now: u64, seq: u64) {
        let shortest = self.round_trip.shortest.unwrap_or(0);
        let repeat = self.repeats.entry(seq).or_default();
        let is_under_way = repeat
            .sent
            .is_some_and(|sent| now.saturating_sub(sent) < shortest);
        if !is_under_way && self.lost.insert(seq) {
            repeat.sent = None;
        }
    }

    /// The RNR delay is over. We have gone back already; nothing is outstanding that could bring an answer until
    /// packets flow again, which starts the ACK timer.
    pub(super) fn handle_rnr_timeout(&mut self) {
        self.nak_handled = None;
        self.sends_again = false;
    }

    /// Completes everything left: the oldest message with `first`, if given, and the rest as flushed.
    pub(super) fn flush(&mut self, mut first: Option<CompletionError>, shared: &mut Shared) {
        self.done = self.posted();
        for message in self.messages.drain(..) {
            let error = first.take().unwrap_or(CompletionError::Flushed);
            shared.complete(message.wr_id, kind(message.operation), Err(error));
        }
        self.cursor = 0;
        self.lost.clear();
        self.repeats.clear();
        self.end = self.sent;
        self.next = self.sent;
        self.unacked = self.sent;
    }

    fn psn(&self, seq: u64) -> Psn {
        self.initial_psn.plus(seq)
    }

    /// What packet an answer with this PSN is about.
    fn place(&self, psn: Psn) -> Place {
        let distance = psn.distance_from(self.psn(self.unacked));
        match u64::try_from(distance) {
            Err(_) => Place::Done,
            Ok(ahead) if self.unacked + ahead < self.sent => {
                Place::Outstanding(self.unacked + ahead)
            }
            Ok(_) => Place::NeverSent,
        }
    }

    /// How many messages are complete, as an answer says; credits are counted from there.
    ///
    /// What is acknowledged is for the PSN alone to say (9.7.5.1.3): a count that cannot be is noted, and what the PSN says stands for it.
    /// Linux does alike: rxe's requester never reads the count, those of hfi1 and qib complete only what the PSN finishes. In a group the
    /// count can be that of another member than the PSN, and one member's wrong count must not hold up the others.
    ///
    /// More than were sent cannot be. Fewer than an answer before it told are implausible, too, if it acknowledges something new. A source
    /// of before has its answers from switches, which may know an older count of the port that it is behind (`p4src/shared/decide.p4`).
    fn check_msn(
        &mut self,
        msn: u32,
        acknowledged: u64,
        config: &RcConfig,
        stats: &mut QpStats,
    ) -> u64 {
        // Serial arithmetic in 24 bits: shifted to the top, the sign is that of the distance.
        let ahead = (msn.wrapping_sub(self.told as u32) << 8) as i32 >> 8;
        let told = self.told.checked_add_signed(ahead.into());
        let by_psn = self.completed_by(acknowledged);
        let Some(completed) = told.filter(|c| *c <= self.completed_by(self.sent)) else {
            match config.msn_rule {
                MsnRule::Counted => stats.violations.msn_beyond_sent += 1,
                MsnRule::Restarts => stats.inexact_msns += 1,
            }
            return by_psn;
        };
        if completed < self.told && acknowledged > self.unacked {
            // The count of an earlier answer holds.
            match config.msn_rule {
                MsnRule::Counted if !self.is_followed => stats.violations.msn_went_back += 1,
                MsnRule::Counted | MsnRule::Restarts => stats.inexact_msns += 1,
            }
            return self.told;
        }
        if completed != by_psn {
            stats.inexact_msns += 1;
        }
        self.told = self.told.max(completed);
        completed
    }

    /// Every packet before `seq` has arrived.
    fn acknowledge(&mut self, now: u64, seq: u64, config: &RcConfig, shared: &mut Shared) {
        if seq == self.unacked {
            return;
        }
        shared.stats.requests_acknowledged += seq - self.unacked;
        self.unacked = seq;
        self.round_trip.acknowledged(now, seq);
        self.lost = self.lost.split_off(&seq);
        self.repeats = self.repeats.split_off(&seq);
        self.timeouts = 0;
        self.rnr_naks = 0;
        self.nak_handled = None;
        while self.messages.front().is_some_and(|m| m.end() <= seq) {
            let message = self.messages.pop_front().expect("just looked at");
            self.cursor = self.cursor.saturating_sub(1);
            self.done += 1;
            let done = Completed {
                bytes: message.payload.len(),
                immediate: immediate(message.operation),
            };
            shared.complete(message.wr_id, kind(message.operation), Ok(done));
        }
        if self.next < seq {
            // An answer to the first transmission overtook the retransmission.
            self.next = seq;
            while self
                .messages
                .get(self.cursor)
                .is_some_and(|m| m.end() <= seq)
            {
                self.cursor += 1;
            }
            shared.timers.stop(Timer::RnrBackoff);
        }
        // A packet that asks for an ACK starts the timer. Without one outstanding there is nothing to wait for: one will be sent.
        let waits = self.asked.is_some_and(|asked| asked >= self.unacked);
        if waits && !shared.timers.is_set(Timer::RnrBackoff) {
            self.start_ack_timer(now, config, shared);
        } else {
            shared.timers.stop(Timer::AckTimeout);
        }
    }

    fn start_ack_timer(&self, now: u64, config: &RcConfig, shared: &mut Shared) {
        let outstanding = self.sent - self.unacked;
        let timeout = match config.recovery {
            Recovery::SelectiveRepeat if outstanding <= u64::from(config.ack_every) => {
                config.low_timeout_ns()
            }
            _ => config.ack_timeout.ns(),
        };
        if let Some(timeout) = timeout {
            shared.timers.set(Timer::AckTimeout, now + timeout);
        }
    }

    fn go_back(&mut self) {
        self.next = self.unacked;
        self.cursor = 0;
        self.asked = None;
    }
}

fn window(config: &RcConfig) -> u32 {
    config.window.clamp(1, MAX_WINDOW)
}

fn kind(operation: SendOperation) -> Operation {
    match operation {
        SendOperation::Send { .. } => Operation::Send,
        SendOperation::Write { .. } => Operation::Write,
    }
}

/// Whether the message takes a receive buffer at the other end.
fn uses_receive(operation: SendOperation) -> bool {
    match operation {
        SendOperation::Send { .. } => true,
        SendOperation::Write { immediate, .. } => immediate.is_some(),
    }
}

fn immediate(operation: SendOperation) -> Option<u32> {
    match operation {
        SendOperation::Send { immediate } | SendOperation::Write { immediate, .. } => immediate,
    }
}

fn opcode(operation: SendOperation, is_first: bool, is_last: bool) -> Opcode {
    let immediate = immediate(operation).is_some();
    match (operation, is_first, is_last) {
        (SendOperation::Send { .. }, true, true) if immediate => Opcode::SendOnlyImm,
        (SendOperation::Send { .. }, true, true) => Opcode::SendOnly,
        (SendOperation::Send { .. }, true, false) => Opcode::SendFirst,
        (SendOperation::Send { .. }, false, false) => Opcode::SendMiddle,
        (SendOperation::Send { .. }, false, true) if immediate => Opcode::SendLastImm,
        (SendOperation::Send { .. }, false, true) => Opcode::SendLast,
        (SendOperation::Write { .. }, true, true) if immediate => Opcode::WriteOnlyImm,
        (SendOperation::Write { .. }, true, true) => Opcode::WriteOnly,
        (SendOperation::Write { .. }, true, false) => Opcode::WriteFirst,
        (SendOperation::Write { .. }, false, false) => Opcode::WriteMiddle,
        (SendOperation::Write { .. }, false, true) if immediate => Opcode::WriteLastImm,
        (SendOperation::Write { .. }, false, true) => Opcode::WriteLast,
    }
}
