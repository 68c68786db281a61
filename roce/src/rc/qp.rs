//! A queue pair: requester, responder, and their shared state.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_packet_io::frame::SharedBytes;
use serde::{Deserialize, Serialize};

use super::completion::{Completion, CompletionError, Operation};
use super::config::RcConfig;
use super::memory::{MemoryError, MemorySlice, MemoryTable};
use super::pacer::Pacer;
use super::packet::{RcHeaders, RcPacket};
use super::requester::Requester;
use super::responder::Responder;
use super::timer::{Timer, TimerTable};
use super::violations::Violations;
use crate::dcqcn::{NotificationPoint, ReactionPoint};
use crate::verbs::DeviceError;
use crate::wire::{cnp, ethernet, icrc, ipv4, udp, Opcode, Psn, QpNum, Syndrome};

/// The longest message in bytes (IBTA vol. 1, 9.7.7: 2^31).
pub const MAX_MESSAGE: u64 = 1 << 31;

/// The remote end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    pub ip: Ipv4Addr,
    pub qpn: QpNum,
}

/// The bytes of a message.
#[derive(Debug, Clone)]
pub enum Payload {
    /// In registered memory; read when a packet is built.
    Memory(MemorySlice),
    /// In a buffer of its own.
    Bytes(Arc<[u8]>),
}

impl Payload {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Payload::Memory(slice) => slice.len,
            Payload::Bytes(bytes) => bytes.len() as u64,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `len` bytes from `offset` on.
    pub fn read<'a>(
        &'a self,
        memory: &'a MemoryTable,
        offset: u64,
        len: u64,
    ) -> Result<&'a [u8], MemoryError> {
        match self {
            Payload::Memory(slice) => memory.read(MemorySlice {
                key: slice.key,
                offset: slice.offset + offset,
                len,
            }),
            Payload::Bytes(bytes) => Ok(&bytes[offset as usize..(offset + len) as usize]),
        }
    }

    /// As [`Payload::read`], by reference where possible.
    pub fn share(
        &self,
        memory: &MemoryTable,
        offset: u64,
        len: u64,
    ) -> Result<SharedBytes, MemoryError> {
        match self {
            Payload::Memory(slice) => memory.share(MemorySlice {
                key: slice.key,
                offset: slice.offset + offset,
                len,
            }),
            Payload::Bytes(bytes) => {
                let range = offset as usize..(offset + len) as usize;
                Ok(SharedBytes::new(Arc::clone(bytes), range))
            }
        }
    }
}

/// The operation that carries a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendOperation {
    /// Delivers to the next receive buffer.
    Send { immediate: Option<u32> },
    /// Writes to a remote address. With immediate data it consumes a receive request, which completes; without, the remote user is not
    /// notified.
    Write {
        remote_va: u64,
        rkey: u32,
        immediate: Option<u32>,
    },
}

/// A work request for the requester.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// The user's number, returned in the completion.
    pub wr_id: u64,
    pub operation: SendOperation,
    pub payload: Payload,
}

/// A receive buffer for the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecvRequest {
    /// The user's number, returned in the completion.
    pub wr_id: u64,
    pub buffer: MemorySlice,
}

/// Why a work request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    #[error("queue pair {qpn} is in state {state:?}, which accepts no work requests of this kind")]
    WrongState { qpn: QpNum, state: QpState },
    #[error("a message of {0} bytes exceeds the limit of 2147483648 bytes")]
    TooLong(u64),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why a queue pair cannot be created or modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    #[error("queue pair {0} still has messages in progress")]
    Busy(QpNum),
    #[error("queue pair {qpn} is in state {state:?}, which does not allow this change")]
    WrongState { qpn: QpNum, state: QpState },
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why a queue pair failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum QpFailure {
    /// A request of this side failed.
    #[error("requester: {0}")]
    Requester(CompletionError),
    /// This side rejected a remote request with a fatal NAK.
    #[error("responder: rejected a request of the remote side ({0:?})")]
    Responder(crate::wire::NakCode),
    /// Address resolution failed for the remote address.
    #[error("the address {0} could not be resolved: no ARP reply")]
    Unreachable(Ipv4Addr),
    /// The user closed the queue pair.
    #[error("closed by the user")]
    Closed,
}

/// The state of a queue pair. (Verbs' INIT; RTR and RTS together; ERR.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Created, not connected. Receive buffers can be posted.
    Init,
    /// Connected: sends and receives.
    Ready,
    /// Failed: sends nothing but its last NAK.
    Error(QpFailure),
}

impl QpState {
    /// Why the queue pair failed; `None` if it has not.
    pub fn failure(self) -> Option<QpFailure> {
        match self {
            QpState::Error(failure) => Some(failure),
            QpState::Init | QpState::Ready => None,
        }
    }
}

/// Counters of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QpStats {
    /// Request packets sent, retransmissions included.
    pub requests_sent: u64,
    /// Payload bytes of request packets sent.
    pub request_bytes_sent: u64,
    /// Request packets that were retransmissions.
    pub retransmissions: u64,
    /// Request packets acknowledged by the remote side, each counted once.
    #[serde(default)]
    pub requests_acknowledged: u64,
    pub acks_received: u64,
    /// NAKs for PSN sequence errors, and selective NAKs.
    pub naks_received: u64,
    pub rnr_naks_received: u64,
    pub fatal_naks_received: u64,
    /// ACKs and NAKs for PSNs that are not outstanding.
    pub stale_acks: u64,
    pub timeouts: u64,
    /// Request packets received in order.
    pub requests_received: u64,
    /// Payload bytes of request packets received in order.
    pub request_bytes_received: u64,
    /// Request packets received again.
    pub duplicates: u64,
    /// Request packets received after a gap: dropped with go-back-N, kept with selective repeat.
    pub out_of_order: u64,
    pub acks_sent: u64,
    pub naks_sent: u64,
    pub rnr_naks_sent: u64,
    pub cnps_received: u64,
    #[serde(default)]
    pub cnps_sent: u64,
    /// Request packets received with the congestion mark (CE).
    #[serde(default)]
    pub marked_received: u64,
    /// ACKs whose MSN does not match the packets that they acknowledge. A responder's own ACKs match; those aggregated by a switch may
    /// have a smaller MSN, which is valid.
    #[serde(default)]
    pub inexact_msns: u64,
    /// Packets that neither a correct peer nor a correct fabric sends.
    #[serde(default)]
    pub violations: Violations,
}

/// A packet to send: its headers, and a reference to its payload.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The headers, with the pad count set.
    pub headers: RcHeaders,
    /// The payload's source, offset in it, and length in bytes.
    pub payload: Option<(Payload, u64, usize)>,
    /// Whether switches may mark the packet (ECT(0) in the IPv4 header).
    pub ecn_capable: bool,
}

impl Outgoing {
    /// A packet without payload.
    fn bare(headers: RcHeaders) -> Outgoing {
        Outgoing {
            headers,
            payload: None,
            ecn_capable: false,
        }
    }

    /// Bytes that the packet occupies on the wire, from preamble to inter-frame gap.
    fn wire_len(&self) -> u64 {
        let payload = self.payload.as_ref().map_or(0, |(_, _, len)| *len);
        let roce = self.headers.len() + payload + usize::from(self.headers.bth.pad_count);
        let headers = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
        (headers + roce + icrc::TRAILER_LEN + ETHERNET_OVERHEAD) as u64
    }
}

/// Preamble 8, frame check sequence 4, inter-frame gap 12 bytes.
const ETHERNET_OVERHEAD: usize = 24;

/// One end of a reliable connection.
pub struct QueuePair {
    qpn: QpNum,
    config: RcConfig,
    state: QpState,
    remote: Option<Remote>,
    requester: Requester,
    responder: Responder,
    /// The reaction point of DCQCN, with congestion control.
    reaction: Option<ReactionPoint>,
    /// The rate limit, if there is one.
    pacer: Option<Pacer>,
    notification: NotificationPoint,
    /// Whether a CNP is to be sent.
    cnp_due: bool,
    /// Whether another source of the group sends after this one: [`QueuePair::expect_next_source`].
    handed_over: bool,
    shared: Shared,
    /// Whether the failure has been reported to the user.
    is_failure_reported: bool,
}

/// State that requester and responder share.
pub(super) struct Shared {
    pub(super) qpn: QpNum,
    pub(super) timers: TimerTable,
    pub(super) completions: VecDeque<Completion>,
    pub(super) stats: QpStats,
}

impl Shared {
    pub(super) fn complete(
        &mut self,
        wr_id: u64,
        operation: Operation,
        outcome: Result<super::Completed, CompletionError>,
    ) {
        self.completions.push_back(Completion {
            qpn: self.qpn,
            wr_id,
            operation,
            outcome,
        });
    }
}

impl QueuePair {
    /// Creates a queue pair. `psn` is the initial PSN of its requester; [`QueuePair::set_sq_psn`] can change it before the first
    /// message.
    pub fn new(qpn: QpNum, psn: Psn, config: RcConfig) -> QueuePair {
        QueuePair {
            qpn,
            config,
            state: QpState::Init,
            remote: None,
            requester: Requester::new(psn),
            responder: Responder::new(),
            reaction: config.congestion.map(ReactionPoint::new),
            pacer: config.pace_bps.map(Pacer::new),
            notification: NotificationPoint::default(),
            cnp_due: false,
            handed_over: false,
            shared: Shared {
                qpn,
                timers: TimerTable::default(),
                completions: VecDeque::new(),
                stats: QpStats::default(),
            },
            is_failure_reported: false,
        }
    }

    pub fn qpn(&self) -> QpNum {
        self.qpn
    }

    pub fn config(&self) -> &RcConfig {
        &self.config
    }

    pub fn state(&self) -> QpState {
        self.state
    }

    pub fn remote(&self) -> Option<Remote> {
        self.remote
    }

    pub fn stats(&self) -> QpStats {
        self.shared.stats
    }

    /// The reaction point of DCQCN, with congestion control.
    pub fn reaction(&self) -> Option<&ReactionPoint> {
        self.reaction.as_ref()
    }

    /// The PSN of the next new request packet.
    pub fn sq_psn(&self) -> Psn {
        self.requester.end_psn()
    }

    /// The PSN that the responder expects next.
    pub fn rq_psn(&self) -> Psn {
        self.responder.expected()
    }

    /// Number of messages that the responder has completed, modulo 2^24.
    pub fn msn(&self) -> u32 {
        self.responder.msn()
    }

    /// Connects to `remote`, whose requests begin with `rq_psn`.
    pub fn connect(&mut self, remote: Remote, rq_psn: Psn) -> Result<(), ModifyError> {
        if self.state != QpState::Init {
            return Err(self.wrong_state());
        }
        self.remote = Some(remote);
        self.responder.set_expected(rq_psn);
        self.state = QpState::Ready;
        Ok(())
    }

    /// Sets the PSN of the next request; all messages must have completed.
    pub fn set_sq_psn(&mut self, psn: Psn) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.requester.set_psn(psn);
        Ok(())
    }

    /// Sets the PSN that the responder expects next; no message may be partly received.
    pub fn set_rq_psn(&mut self, psn: Psn) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.responder.set_expected(psn);
        Ok(())
    }

    /// Makes this end the source of its group: its next request uses the PSN and message number that its responder expects next.
    ///
    /// All ends of a group count the same packets and messages, so the other receivers need no change. The previous source calls
    /// [`QueuePair::expect_next_source`].
    pub fn take_over_sending(&mut self) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() || !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        let (psn, msn) = (self.responder.expected(), self.responder.msn());
        self.requester.restart(psn, msn);
        self.handed_over = false;
        Ok(())
    }

    /// Prepares the responder of the present source for the next one. It then expects the PSN after everything posted so far,
    /// acknowledged or not. A source starts only when all ends hold everything before, so its first request also acknowledges
    /// everything posted here.
    pub fn expect_next_source(&mut self) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        let (psn, ssn) = (self.requester.end_psn(), self.requester.ssn());
        self.responder.follow(psn, ssn);
        self.requester.allow_next_source();
        self.handed_over = true;
        Ok(())
    }

    /// Starts both directions at `psn`, after `messages` messages: for an end that joins a group in use, whose ends all count the same
    /// packets and messages.
    pub fn join_at(&mut self, psn: Psn, messages: u32) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() || !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.requester.restart(psn, messages);
        self.responder.follow(psn, messages);
        Ok(())
    }

    /// Completes every posted message as acknowledged, because the remote side is known to hold them all: the next source of a group
    /// starts only then. Acknowledgements still in flight become stale.
    pub fn conclude_sends(&mut self, now: u64) {
        if self.state == QpState::Ready {
            self.requester.conclude(now, &self.config, &mut self.shared);
        }
    }

    /// Posts a message. Its memory is checked now, and read when packets are built.
    pub fn post_send(
        &mut self,
        memory: &MemoryTable,
        request: SendRequest,
    ) -> Result<(), PostError> {
        if self.state != QpState::Ready {
            return Err(PostError::WrongState {
                qpn: self.qpn,
                state: self.state,
            });
        }
        let len = request.payload.len();
        if len > MAX_MESSAGE {
            return Err(PostError::TooLong(len));
        }
        if let Payload::Memory(slice) = request.payload {
            memory.check(slice)?;
        }
        self.requester.post(request, self.config.mtu);
        Ok(())
    }

    /// Posts a receive buffer.
    pub fn post_recv(
        &mut self,
        memory: &MemoryTable,
        request: RecvRequest,
    ) -> Result<(), PostError> {
        if let QpState::Error(_) = self.state {
            return Err(PostError::WrongState {
                qpn: self.qpn,
                state: self.state,
            });
        }
        memory.check(request.buffer)?;
        self.responder.post(request);
        Ok(())
    }

    /// Handles a packet from the remote side, after the checks of addresses, P_Key and ICRC.
    pub fn handle_packet(&mut self, now: u64, packet: &RcPacket<'_>, memory: &mut MemoryTable) {
        if self.state != QpState::Ready {
            return;
        }
        let opcode = packet.headers.bth.opcode;
        let result = if opcode == Opcode::Acknowledge {
            let is_others = self.is_for_others(packet);
            self.requester
                .handle_ack(now, packet, is_others, &self.config, &mut self.shared)
                .map_err(QpFailure::Requester)
        } else if opcode.is_request() {
            let psn = packet.headers.bth.psn;
            if self.handed_over && psn.distance_from(self.responder.expected()) >= 0 {
                self.conclude_sends(now);
            }
            self.responder
                .handle_request(now, packet, &self.config, memory, &mut self.shared)
                .map_err(QpFailure::Responder)
        } else if opcode == Opcode::Cnp
            && packet.headers.bth.becn
            && packet.payload.len() == cnp::RESERVED_LEN
        {
            self.shared.stats.cnps_received += 1;
            if let Some(reaction) = &mut self.reaction {
                reaction.congested(now);
            }
            Ok(())
        } else {
            self.shared.stats.violations.bad_opcode += 1;
            Ok(())
        };
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// Number of packets that may follow `packet`, just passed to [`QueuePair::handle_packet`], with no visible effect either:
    /// received in order, full length, no completion, no reply. None of them may have AckReq or a congestion mark. 0 if `packet` had a
    /// visible effect.
    pub fn silent_followers(&self, packet: &RcPacket<'_>) -> u64 {
        let bth = &packet.headers.bth;
        let is_silent = self.state == QpState::Ready
            && !self.handed_over
            && bth.opcode.is_middle()
            && packet.payload.len() == self.config.mtu.bytes();
        match is_silent {
            true => self.responder.silent_followers(bth.psn, &self.config),
            false => 0,
        }
    }

    /// Handles `count` packets, at most [`QueuePair::silent_followers`], at once. `first` has the headers of the first and the payload
    /// of all.
    pub fn handle_followers(
        &mut self,
        packet: &RcPacket<'_>,
        count: u64,
        memory: &mut MemoryTable,
    ) {
        self.responder
            .take_followers(packet, count, memory, &mut self.shared);
    }

    /// Whether an acknowledgement can be meant for a later source of the group: an ACK of a packet received from there, or a NAK of
    /// the next expected packet.
    fn is_for_others(&self, packet: &RcPacket<'_>) -> bool {
        let psn = packet.headers.bth.psn;
        let expected = self.responder.expected();
        let is_ack = packet
            .headers
            .aeth
            .is_some_and(|aeth| matches!(aeth.syndrome, Syndrome::Ack { .. }));
        let others_sent = expected != self.requester.end_psn();
        self.handed_over
            && ((others_sent && psn.precedes(expected)) || (psn == expected && !is_ack))
    }

    /// Handles the congestion mark (CE in the IPv4 header) of the packet just passed to [`QueuePair::handle_packet`].
    pub fn handle_mark(&mut self, now: u64, packet: &RcPacket<'_>) {
        if self.state != QpState::Ready {
            return;
        }
        let congestion = self
            .config
            .congestion
            .filter(|_| packet.headers.bth.opcode.is_request());
        let Some(congestion) = congestion else {
            self.shared.stats.violations.marked_unasked += 1;
            return;
        };
        self.shared.stats.marked_received += 1;
        if self.notification.marked(now, congestion.cnp_interval) {
            self.cnp_due = true;
        }
    }

    /// Whether [`QueuePair::poll_transmit`] would return a packet now.
    pub fn wants_transmit(&self) -> bool {
        match self.state {
            QpState::Init => false,
            QpState::Ready => {
                self.cnp_due
                    || self.responder.has_response()
                    || self.requester.can_send(&self.config, &self.shared)
            }
            QpState::Error(_) => self.responder.has_response(),
        }
    }

    /// Takes the next packet to send. CNPs are sent before responses, and those before requests.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Outgoing> {
        let remote = self.remote?;
        if self.state == QpState::Ready && std::mem::take(&mut self.cnp_due) {
            return Some(self.notify(remote.qpn));
        }
        if let Some(headers) = self.responder.poll_response(remote.qpn, &mut self.shared) {
            return Some(Outgoing::bare(headers));
        }
        if self.state != QpState::Ready {
            return None;
        }
        let mut outgoing =
            self.requester
                .poll_request(now, remote.qpn, &self.config, &mut self.shared)?;
        outgoing.ecn_capable = self.reaction.is_some();
        if self.reaction.is_some() || self.pacer.is_some() {
            let bytes = outgoing.wire_len();
            let by_congestion = self.reaction.as_mut().and_then(|r| r.sent(now, bytes));
            let by_path = self.pacer.as_mut().and_then(|p| p.sent(now, bytes));
            if let Some(at) = by_congestion.max(by_path) {
                self.shared.timers.set(Timer::Pacing, at);
            }
        }
        Some(outgoing)
    }

    /// A congestion notification packet: BTH and reserved bytes (IBTA vol. 1, annex A17.9.3).
    fn notify(&mut self, dest_qp: QpNum) -> Outgoing {
        self.shared.stats.cnps_sent += 1;
        let reserved = Payload::Bytes(Arc::from([0; cnp::RESERVED_LEN]));
        Outgoing {
            payload: Some((reserved, 0, cnp::RESERVED_LEN)),
            ..Outgoing::bare(RcHeaders::plain(cnp::Repr { dest_qp }.bth()))
        }
    }

    /// The time of the next [`QueuePair::handle_timeout`], in nanoseconds.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.shared.timers.next()
    }

    /// Runs every timer that has expired by `now`.
    pub fn handle_timeout(&mut self, now: u64) {
        for timer in Timer::ALL {
            if !self.shared.timers.take_due(timer, now) {
                continue;
            }
            match timer {
                Timer::RnrBackoff => self.requester.handle_rnr_timeout(),
                Timer::Report => {
                    self.responder
                        .handle_report_timeout(now, &self.config, &mut self.shared)
                }
                // Stopping this timer is enough: the next packet may be sent.
                Timer::Pacing => {}
                Timer::AckTimeout => {
                    let result = self
                        .requester
                        .handle_ack_timeout(&self.config, &mut self.shared);
                    if let Err(error) = result {
                        self.fail(QpFailure::Requester(error));
                    }
                }
            }
        }
    }

    /// Takes the next completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.shared.completions.pop_front()
    }

    /// Puts the queue pair into the error state. All pending work requests complete as flushed.
    pub fn fail(&mut self, failure: QpFailure) {
        if let QpState::Error(_) = self.state {
            return;
        }
        self.state = QpState::Error(failure);
        self.shared.timers.stop_all();
        let first = match failure {
            QpFailure::Requester(error) => Some(error),
            _ => None,
        };
        self.requester.flush(first, &mut self.shared);
        self.responder.flush(&mut self.shared);
    }

    /// Returns the failure of the queue pair on the first call after it; then `None`.
    pub fn take_failure(&mut self) -> Option<QpFailure> {
        match self.state {
            QpState::Error(failure) if !std::mem::replace(&mut self.is_failure_reported, true) => {
                Some(failure)
            }
            _ => None,
        }
    }

    /// Fails the queue pair because the memory of the request being sent is not registered any more.
    pub(crate) fn fail_local_protection(&mut self) {
        self.fail(QpFailure::Requester(CompletionError::LocalProtection));
    }

    fn check_modifiable(&self) -> Result<(), ModifyError> {
        match self.state {
            QpState::Error(_) => Err(self.wrong_state()),
            _ => Ok(()),
        }
    }

    fn wrong_state(&self) -> ModifyError {
        ModifyError::WrongState {
            qpn: self.qpn,
            state: self.state,
        }
    }
}
