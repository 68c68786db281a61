//! The requester of a queue pair: splits messages into packets, and completes messages by acknowledgements (IBTA vol.
//! 1, 9.7.3, 9.7.5, 9.7.6).
//!
//! Packets have 64-bit numbers, which do not wrap. A PSN is the initial PSN plus the number, modulo 2^24. The PSN of an
//! acknowledgement is converted back by its distance from the oldest unacknowledged packet. That is unambiguous because
//! at most 2^22 packets are in flight.
//!
//! Every NAK, whatever its code, acknowledges all packets before its PSN, as in Linux rxe (`check_psn`). So a test of a
//! switch sees the completions that a NAK with too high a PSN would cause. Reserved syndromes are fatal, as in rxe.
//! Only selective NAKs directly from a responder of this crate acknowledge nothing ([`LossReports::Direct`]).
//!
//! With selective repeat, the requester never goes back. It resends the packets reported lost before it sends new ones.
//!
//! In a multicast group, one end at a time is the *source*, which sends. All sources of a group use one sequence of PSNs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use super::completion::{CompletedRequest, CompletionError, Operation};
use super::config::{LossReports, MsnRule, NakRule, PathMtu, RcConfig, Recovery, Retries};
use super::memory::MemoryTable;
use super::packet::{RcHeaders, RcPacket};
use super::qp::{OutgoingPacket, Payload, QpStats, SendOperation, SendRequest, SharedState};
use super::timer::Timer;
use crate::steady::{StateVisitor, Stream};
use crate::wire::aeth::{credits_of, CREDITS_UNLIMITED};
use crate::wire::{bth, reth, NakCode, Opcode, Psn, QpNum, Syndrome};

/// Upper limit of the window in packets, whatever the configuration.
const MAX_WINDOW: u32 = 1 << 22;

/// Number of new packets sent in a group between two retransmissions of packets that were reported lost. So false
/// reports cost at most a sixth of the rate.
const NEW_PER_REPEAT: u32 = 5;

/// Mask of a message sequence number, which has 24 bits.
const MSN_MASK: u32 = 0x00ff_ffff;

/// The position of an acknowledged PSN relative to the window.
enum Position {
    /// A packet in flight; holds its number.
    Outstanding(u64),
    /// A packet that is acknowledged, or that another source of the group has sent.
    Done,
    NeverSent,
}

/// A posted message that has not completed.
struct Message {
    wr_id: u64,
    operation: SendOperation,
    payload: Payload,
    /// Number of the message's first packet, where packet 0 has the initial PSN.
    first: u64,
    packets: u64,
}

impl Message {
    fn end(&self) -> u64 {
        self.first + self.packets
    }
}

/// Retransmissions of one packet that was reported lost by selective NAKs.
#[derive(Default)]
struct Retransmissions {
    /// Number of loss reports that have caused a retransmission of the packet.
    count: u8,
    /// Time of the last retransmission in nanoseconds; `None` while it waits to be sent.
    sent: Option<u64>,
}

/// Measures the shortest time from the transmission of a packet to its acknowledgement, in nanoseconds. Retransmitted
/// packets are not measured (Karn's algorithm). Only selective repeat uses the time.
#[derive(Default)]
struct RoundTrip {
    shortest: Option<u64>,
    /// Number and send time (in nanoseconds) of the packet that is being measured; `None` if there is none.
    measured: Option<(u64, u64)>,
}

impl RoundTrip {
    fn sent(&mut self, now: u64, seq: u64) {
        self.measured.get_or_insert((seq, now));
    }

    /// Records a retransmission of packet `seq`. A measurement of that packet is dropped.
    fn sent_again(&mut self, seq: u64) {
        self.measured.take_if(|(measured, _)| *measured == seq);
    }

    /// Records that every packet before number `seq` is acknowledged.
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
    /// Index in `messages` of the message that contains the next packet to send.
    cursor: usize,
    /// Number of the oldest unacknowledged packet.
    unacked: u64,
    /// Number of the next packet to send. It is less than `sent` while packets are retransmitted (go-back-N).
    next: u64,
    /// Number of the newest packet sent so far, plus one.
    sent: u64,
    /// Number of the last packet of all posted messages, plus one.
    end: u64,
    /// Number of the newest packet sent with AckReq since the requester last went back; `None` if there is none.
    last_ack_req: Option<u64>,
    /// Number of the packet to which a NAK made the requester go back; `None` after progress or a timeout. A second NAK
    /// of that packet is ignored.
    nak_handled: Option<u64>,
    /// Whether a NAK made the requester go back, and no ACK has arrived since.
    is_resending: bool,
    /// With selective repeat: numbers of the packets to resend.
    lost: BTreeSet<u64>,
    /// With selective repeat: packets resent because of loss reports since the last timeout, by packet number.
    retransmissions: BTreeMap<u64, Retransmissions>,
    /// Number of packets sent since the last retransmission that a loss report caused.
    since_repeat: u32,
    round_trip: RoundTrip,
    /// Number of messages completed since the connection began. With no packet in flight, its low 24 bits are the
    /// largest plausible MSN.
    completed: u64,
    /// Largest number of completed messages in any acknowledgement so far.
    max_completed: u64,
    /// Number of messages, since the connection began, for which the responder has granted credits; `None` for unlimited.
    credit_limit: Option<u64>,
    /// Whether another source of the group may have started to send.
    has_next_source: bool,
    timeouts: u8,
    rnr_naks: u8,
    /// Time of the last acknowledgement of packets that were not acknowledged before, in nanoseconds; 0 before the first.
    last_acknowledged_at: u64,
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
            last_ack_req: None,
            nak_handled: None,
            is_resending: false,
            lost: BTreeSet::new(),
            retransmissions: BTreeMap::new(),
            since_repeat: NEW_PER_REPEAT,
            round_trip: RoundTrip::default(),
            completed: 0,
            max_completed: 0,
            credit_limit: None,
            has_next_source: false,
            timeouts: 0,
            rnr_naks: 0,
            last_acknowledged_at: 0,
        }
    }

    /// Time of the last acknowledgement of packets that were not acknowledged before, in nanoseconds; 0 before the first.
    pub(super) fn last_acknowledged_at(&self) -> u64 {
        self.last_acknowledged_at
    }

    /// The stream that this requester sends to `to`; `None` unless the packets in flight and the next packet belong to
    /// one message, of which at least as many packets are acknowledged as are in flight: earlier states rarely recur.
    pub(super) fn stream(
        &self,
        to: Ipv4Addr,
        config: &RcConfig,
        memory: &MemoryTable,
    ) -> Option<Stream> {
        let message = self.messages.front().filter(|_| self.cursor == 0)?;
        let len = message.payload.len();
        let acknowledged = self.unacked.checked_sub(message.first)?;
        let is_begun = acknowledged > 0 && acknowledged >= self.next - self.unacked;
        (is_begun && self.next < message.end()).then_some(())?;
        Some(Stream {
            to,
            next: self.next,
            psn: self.psn(self.next).get(),
            mtu: config.mtu.bytes() as u64,
            message: message.payload.share(memory, 0, len).ok()?,
        })
    }

    /// Visits the state of the requester. Retransmissions are not supported.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Requester {
            initial_psn: _,
            messages,
            cursor,
            unacked,
            next,
            sent,
            end,
            last_ack_req,
            nak_handled,
            is_resending,
            lost,
            retransmissions,
            since_repeat,
            round_trip,
            completed,
            max_completed,
            credit_limit,
            has_next_source,
            timeouts,
            rnr_naks,
            last_acknowledged_at,
        } = self;
        if nak_handled.is_some() || *is_resending || !lost.is_empty() || !retransmissions.is_empty()
        {
            visitor.unsupported();
        }
        if let Some(message) = messages.get(*cursor) {
            visitor.room(message.end() - *next);
        }
        visitor.same(messages.len() as u64);
        for message in messages {
            visitor.same(message.first);
            visitor.same(message.packets);
        }
        visitor.same(*cursor as u64);
        for number in [unacked, next, sent] {
            *number = visitor.number(*number);
        }
        visitor.same(*end);
        visitor.same(last_ack_req.is_some().into());
        *last_ack_req = last_ack_req.map(|number| visitor.number(number));
        *since_repeat = visitor.saturating(*since_repeat, NEW_PER_REPEAT);
        visitor.same(round_trip.shortest.unwrap_or(u64::MAX));
        visitor.same(round_trip.measured.is_some().into());
        if let Some((number, at)) = &mut round_trip.measured {
            *number = visitor.number(*number);
            *at = visitor.time(*at);
        }
        visitor.same(*completed);
        visitor.same(*max_completed);
        visitor.same(credit_limit.unwrap_or(u64::MAX));
        visitor.same((*has_next_source).into());
        visitor.same((*timeouts).into());
        visitor.same((*rnr_naks).into());
        *last_acknowledged_at = visitor.time(*last_acknowledged_at);
    }

    /// Whether every posted message has completed.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// PSN after the last packet of all messages posted so far.
    pub(super) fn end_psn(&self) -> Psn {
        self.psn(self.end)
    }

    /// PSN of the oldest unacknowledged packet.
    pub(super) fn unacknowledged_psn(&self) -> Psn {
        self.psn(self.unacked)
    }

    /// PSN of the next packet to send.
    pub(super) fn next_psn(&self) -> Psn {
        self.psn(self.next)
    }

    /// Number of messages posted since the connection began, modulo 2^24.
    pub(super) fn ssn(&self) -> u32 {
        self.posted() as u32 & MSN_MASK
    }

    /// Continues at `psn` with the present number of messages; every message must have completed.
    pub(super) fn set_psn(&mut self, psn: Psn) {
        self.restart(psn, self.ssn());
    }

    /// Continues at `psn` after `ssn` messages; every message of this requester must have completed.
    pub(super) fn restart(&mut self, psn: Psn, ssn: u32) {
        debug_assert!(self.is_idle());
        *self = Requester {
            completed: ssn.into(),
            max_completed: ssn.into(),
            last_acknowledged_at: self.last_acknowledged_at,
            ..Requester::new(psn)
        };
    }

    /// Records that another source of the group may send from now on.
    pub(super) fn allow_next_source(&mut self) {
        self.has_next_source = true;
    }

    /// Completes every message as acknowledged, whether it was sent or not.
    pub(super) fn conclude(&mut self, now: u64, config: &RcConfig, shared: &mut SharedState) {
        self.sent = self.end;
        self.acknowledge(now, self.end, config, shared);
        self.max_completed = self.completed;
        self.is_resending = false;
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

    pub(super) fn can_send(&self, config: &RcConfig, shared: &SharedState) -> bool {
        (self.has_next(config) || !self.lost.is_empty())
            && !shared.timers.is_set(Timer::RnrBackoff)
            && !shared.timers.is_set(Timer::Pacing)
    }

    /// Whether packet number `next` exists, and the window and the responder's credits allow to send it. Packets that were
    /// reported lost do not count.
    fn has_next(&self, config: &RcConfig) -> bool {
        self.next < self.end
            && self.next - self.unacked < u64::from(window(config))
            && (self.next == self.unacked || !self.lacks_credit())
    }

    /// Removes and returns the number of the packet to resend because of a loss report; `None` if a new packet is to be
    /// sent instead. In a group, new packets are interleaved while there are any, so that one member's false reports
    /// cannot block the source. The oldest unacknowledged packet is resent at once, because all members wait for it.
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

    /// Whether the responder has granted no credit for the message of the next packet. Such a message is sent one
    /// packet at a time with AckReq, and the ACK grants new credits (IBTA vol. 1, 9.7.7.2.5).
    fn lacks_credit(&self) -> bool {
        let Some(limit) = self.credit_limit else {
            return false;
        };
        self.messages.get(self.cursor).is_some_and(|message| {
            uses_receive(message.operation) && self.completed + self.cursor as u64 >= limit
        })
    }

    /// Number of messages posted since the connection began.
    fn posted(&self) -> u64 {
        self.completed + self.messages.len() as u64
    }

    /// Number of messages that are complete when every packet before number `seq` has arrived.
    fn completed_by(&self, seq: u64) -> u64 {
        self.completed + self.messages.partition_point(|m| m.end() <= seq) as u64
    }

    /// Removes and returns the next request packet, if there is one within the window.
    pub(super) fn poll_request(
        &mut self,
        now: u64,
        remote: QpNum,
        config: &RcConfig,
        shared: &mut SharedState,
    ) -> Option<OutgoingPacket> {
        if !self.can_send(config, shared) {
            return None;
        }
        let lost = self.take_lost(config);
        let seq = lost.unwrap_or(self.next);
        // All later packets may wait for a retransmitted one.
        let ack_req = lost.is_some() || self.needs_ack_req(seq, config) || self.lacks_credit();
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
            ack_req,
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
            if let Some(repeat) = self.retransmissions.get_mut(&seq) {
                repeat.sent = Some(now);
            }
        } else if ack_req && config.recovery == Recovery::SelectiveRepeat {
            self.round_trip.sent(now, seq);
        }
        if ack_req {
            self.last_ack_req = self.last_ack_req.max(Some(seq));
        }
        if lost.is_none() {
            self.next += 1;
            self.sent = self.sent.max(self.next);
            if is_last {
                self.cursor += 1;
            }
        }
        if ack_req && !shared.timers.is_set(Timer::AckTimeout) {
            self.start_ack_timer(now, config, shared);
        }
        Some(OutgoingPacket {
            headers,
            payload,
            ecn_capable: false,
        })
    }

    /// Whether packet number `seq` gets AckReq: at the end of a message, after `ack_every` packets without it, and when
    /// the window is full with no AckReq in flight.
    fn needs_ack_req(&self, seq: u64, config: &RcConfig) -> bool {
        let last_of_message = seq + 1 == self.messages[self.cursor].end();
        let outstanding_ask = self
            .last_ack_req
            .filter(|last_ack_req| *last_ack_req >= self.unacked);
        let since = self
            .last_ack_req
            .map_or(self.unacked, |last_ack_req| last_ack_req + 1);
        let fills_window = seq + 1 - self.unacked >= u64::from(window(config));
        last_of_message
            || seq + 1 - since.min(seq) >= u64::from(config.ack_every.max(1))
            || (fills_window && outstanding_ask.is_none())
    }

    /// Handles an ACK or NAK. `is_others`: whether a PSN that this requester never sent belongs to another source of the
    /// group.
    pub(super) fn handle_ack(
        &mut self,
        now: u64,
        packet: &RcPacket<'_>,
        is_others: bool,
        config: &RcConfig,
        shared: &mut SharedState,
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
            stats.violations.bad_ack_length += 1;
            return Ok(());
        }
        let seq = match self.position(packet.headers.bth.psn) {
            Position::Outstanding(seq) => seq,
            Position::Done => {
                stats.stale_acks += 1;
                return Ok(());
            }
            Position::NeverSent if is_others => {
                stats.stale_acks += 1;
                return Ok(());
            }
            Position::NeverSent => {
                stats.violations.psn_beyond_sent += 1;
                return Ok(());
            }
        };
        if aeth.syndrome == Syndrome::Nak(NakCode::Selective)
            && config.recovery == Recovery::SelectiveRepeat
        {
            match config.loss_reports {
                LossReports::Direct => self.handle_report(seq, aeth.reports()),
                LossReports::Merged => {
                    self.acknowledge(now, seq, config, shared);
                    match self.position(aeth.lost()) {
                        Position::Outstanding(lost) => self.handle_merged_report(now, lost),
                        Position::Done => shared.stats.stale_acks += 1,
                        Position::NeverSent => shared.stats.violations.psn_beyond_sent += 1,
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
                self.is_resending = false;
                self.credit_limit = match credits {
                    CREDITS_UNLIMITED => None,
                    code => Some(completed + credits_of(code)),
                };
                self.acknowledge(now, seq + 1, config, shared);
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                self.acknowledge(now, seq, config, shared);
                if config.recovery == Recovery::SelectiveRepeat {
                    // The peer uses go-back-N, or is faulty. Only the packet with the NAK's PSN is resent.
                    self.handle_report(seq, 1);
                    return Ok(());
                }
                let waits = shared.timers.is_set(Timer::RnrBackoff)
                    || (config.nak_rule == NakRule::OncePerAck && self.is_resending);
                if self.nak_handled != Some(seq) && !waits {
                    self.nak_handled = Some(seq);
                    self.is_resending = true;
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

    /// Handles the local ACK timeout: goes back to the oldest unacknowledged packet. With selective repeat, resends only
    /// the oldest and the newest unacknowledged packet.
    pub(super) fn handle_ack_timeout(
        &mut self,
        config: &RcConfig,
        shared: &mut SharedState,
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
        self.is_resending = false;
        match config.recovery {
            Recovery::GoBackN => self.go_back(),
            Recovery::SelectiveRepeat => {
                // The oldest packet, or its ACK, is lost. The newest packet lets all receivers detect their gaps.
                self.lost.extend([self.unacked, self.sent - 1]);
                self.retransmissions.clear();
            }
        }
        Ok(())
    }

    /// Handles a receiver's report of a lost packet, the `reports`th of that packet. Resends it unless it was resent
    /// that often already.
    fn handle_report(&mut self, seq: u64, reports: u8) {
        let repeat = self.retransmissions.entry(seq).or_default();
        if reports > repeat.count && self.lost.insert(seq) {
            repeat.count = repeat.count.saturating_add(1);
            repeat.sent = None;
        }
    }

    /// Handles a switch's report of a lost packet, which does not contain the number of reports. Ignored if the packet
    /// was resent less than a round trip ago, because the report then concerns the earlier transmission.
    fn handle_merged_report(&mut self, now: u64, seq: u64) {
        let shortest = self.round_trip.shortest.unwrap_or(0);
        let repeat = self.retransmissions.entry(seq).or_default();
        let is_under_way = repeat
            .sent
            .is_some_and(|sent| now.saturating_sub(sent) < shortest);
        if !is_under_way && self.lost.insert(seq) {
            repeat.sent = None;
        }
    }

    /// Handles the end of the delay that an RNR NAK requested. The packet to resend was already chosen when the RNR NAK
    /// arrived. The ACK timer starts with the next packet.
    pub(super) fn handle_rnr_timeout(&mut self) {
        self.nak_handled = None;
        self.is_resending = false;
    }

    /// Fails every pending message: the oldest with error `first`, if given, and the others as flushed.
    pub(super) fn flush(&mut self, mut first: Option<CompletionError>, shared: &mut SharedState) {
        self.completed = self.posted();
        for message in self.messages.drain(..) {
            let error = first.take().unwrap_or(CompletionError::Flushed);
            shared.complete(message.wr_id, kind(message.operation), Err(error));
        }
        self.cursor = 0;
        self.lost.clear();
        self.retransmissions.clear();
        self.end = self.sent;
        self.next = self.sent;
        self.unacked = self.sent;
    }

    fn psn(&self, seq: u64) -> Psn {
        self.initial_psn.plus(seq)
    }

    /// Position of a PSN relative to the packets in flight.
    fn position(&self, psn: Psn) -> Position {
        let distance = psn.distance_from(self.psn(self.unacked));
        match u64::try_from(distance) {
            Err(_) => Position::Done,
            Ok(ahead) if self.unacked + ahead < self.sent => {
                Position::Outstanding(self.unacked + ahead)
            }
            Ok(_) => Position::NeverSent,
        }
    }

    /// Checks the MSN of an acknowledgement. Returns the number of completed messages, from which credits are counted.
    ///
    /// Only the PSN acknowledges (9.7.5.1.3): an implausible MSN is counted as a violation, and the number is derived from the PSN.
    /// Linux does the same: the requester of rxe never reads the MSN, those of hfi1 and qib complete only what the PSN covers. In a
    /// group PSN and MSN may come from different members, and a wrong MSN of one member must not block the others.
    ///
    /// An MSN beyond the messages sent is implausible. So is one below that of an earlier acknowledgement, if it acknowledges new
    /// packets. A former source gets its acknowledgements from switches, which may hold an older MSN of its port
    /// (`p4src/v1model/decide.p4`).
    fn check_msn(
        &mut self,
        msn: u32,
        acknowledged: u64,
        config: &RcConfig,
        stats: &mut QpStats,
    ) -> u64 {
        // Serial arithmetic in 24 bits: the number is shifted to the top, so that its sign is that of the distance.
        let ahead = (msn.wrapping_sub(self.max_completed as u32) << 8) as i32 >> 8;
        let max_completed = self.max_completed.checked_add_signed(ahead.into());
        let by_psn = self.completed_by(acknowledged);
        let Some(completed) = max_completed.filter(|c| *c <= self.completed_by(self.sent)) else {
            match config.msn_rule {
                MsnRule::Counted => stats.violations.msn_beyond_sent += 1,
                MsnRule::Restarts => stats.inexact_msns += 1,
            }
            return by_psn;
        };
        if completed < self.max_completed && acknowledged > self.unacked {
            // The MSN of an earlier acknowledgement stays valid.
            match config.msn_rule {
                MsnRule::Counted if !self.has_next_source => stats.violations.msn_went_back += 1,
                MsnRule::Counted | MsnRule::Restarts => stats.inexact_msns += 1,
            }
            return self.max_completed;
        }
        if completed != by_psn {
            stats.inexact_msns += 1;
        }
        self.max_completed = self.max_completed.max(completed);
        completed
    }

    /// Records that every packet before number `seq` has arrived, and completes messages.
    fn acknowledge(&mut self, now: u64, seq: u64, config: &RcConfig, shared: &mut SharedState) {
        if seq == self.unacked {
            return;
        }
        shared.stats.requests_acknowledged += seq - self.unacked;
        self.last_acknowledged_at = now;
        self.unacked = seq;
        self.round_trip.acknowledged(now, seq);
        self.lost = self.lost.split_off(&seq);
        self.retransmissions = self.retransmissions.split_off(&seq);
        self.timeouts = 0;
        self.rnr_naks = 0;
        self.nak_handled = None;
        while self.messages.front().is_some_and(|m| m.end() <= seq) {
            let message = self.messages.pop_front().expect("just looked at");
            self.cursor = self.cursor.saturating_sub(1);
            self.completed += 1;
            let done = CompletedRequest {
                bytes: message.payload.len(),
                immediate: immediate(message.operation),
            };
            shared.complete(message.wr_id, kind(message.operation), Ok(done));
        }
        if self.next < seq {
            // The acknowledgement of the first transmission arrived before the retransmission was sent.
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
        // The timer runs only while a packet with AckReq is in flight. Otherwise a later packet will have AckReq.
        let waits = self
            .last_ack_req
            .is_some_and(|last_ack_req| last_ack_req >= self.unacked);
        if waits && !shared.timers.is_set(Timer::RnrBackoff) {
            self.start_ack_timer(now, config, shared);
        } else {
            shared.timers.stop(Timer::AckTimeout);
        }
    }

    fn start_ack_timer(&self, now: u64, config: &RcConfig, shared: &mut SharedState) {
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
        self.last_ack_req = None;
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

/// Whether the operation consumes a receive buffer at the remote end.
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
