//! A queue pair: requester, responder, and what they share.

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

/// The other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    pub ip: Ipv4Addr,
    pub qpn: QpNum,
}

/// Where the bytes of a message are.
#[derive(Debug, Clone)]
pub enum Payload {
    /// In registered memory, read when a packet is built.
    Memory(MemorySlice),
    /// In bytes of its own.
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

    /// The same by reference, where that is possible.
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

/// What to do with the bytes at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendOperation {
    /// Put them into the next receive buffer.
    Send { immediate: Option<u32> },
    /// Put them to an address. With an immediate, a receive request is used up and completes; without, the
    /// remote user learns nothing.
    Write {
        remote_va: u64,
        rkey: u32,
        immediate: Option<u32>,
    },
}

/// Work for the requester.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// A number of the user's choice, handed back with the completion.
    pub wr_id: u64,
    pub operation: SendOperation,
    pub payload: Payload,
}

/// A buffer for the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecvRequest {
    /// A number of the user's choice, handed back with the completion.
    pub wr_id: u64,
    pub buffer: MemorySlice,
}

/// Why a work request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    #[error("queue pair {qpn} is {state:?}")]
    WrongState { qpn: QpNum, state: QpState },
    #[error("a message of {0} bytes is too long: the limit is 2147483648")]
    TooLong(u64),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why a queue pair cannot be made or modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    #[error("queue pair {0} still has messages under way")]
    Busy(QpNum),
    #[error("queue pair {qpn} is {state:?}")]
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
    /// This side refused a request with a fatal NAK.
    #[error("responder: refused a request of the remote side ({0:?})")]
    Responder(crate::wire::NakCode),
    /// The remote address did not answer.
    #[error("no answer from {0}")]
    Unreachable(Ipv4Addr),
    /// The user ended it.
    #[error("closed by its user")]
    Closed,
}

/// Life of a queue pair. (Verbs' INIT; RTR and RTS together; ERR.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Made, not connected. Receive buffers can be posted.
    Init,
    /// Connected: sends and receives.
    Ready,
    /// Failed: only its last NAK still goes out.
    Error(QpFailure),
}

impl QpState {
    /// What the queue pair died of, if it did.
    pub fn failure(self) -> Option<QpFailure> {
        match self {
            QpState::Error(failure) => Some(failure),
            QpState::Init | QpState::Ready => None,
        }
    }
}

/// What went through a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QpStats {
    /// Request packets sent, retransmissions included.
    pub requests_sent: u64,
    /// Payload bytes in them.
    pub request_bytes_sent: u64,
    /// Request packets sent again.
    pub retransmissions: u64,
    /// Request packets that the other side has acknowledged, each counted once.
    #[serde(default)]
    pub requests_acknowledged: u64,
    pub acks_received: u64,
    /// PSN sequence errors, and selective NAKs.
    pub naks_received: u64,
    pub rnr_naks_received: u64,
    pub fatal_naks_received: u64,
    /// ACKs and NAKs for PSNs that are not outstanding.
    pub stale_acks: u64,
    pub timeouts: u64,
    /// Request packets that came in, in order.
    pub requests_received: u64,
    /// Payload bytes in them.
    pub request_bytes_received: u64,
    /// Request packets that were there already.
    pub duplicates: u64,
    /// Request packets that came after a gap: dropped with go-back-N, kept with selective repeat.
    pub out_of_order: u64,
    pub acks_sent: u64,
    pub naks_sent: u64,
    pub rnr_naks_sent: u64,
    pub cnps_received: u64,
    #[serde(default)]
    pub cnps_sent: u64,
    /// Request packets that came with the congestion mark.
    #[serde(default)]
    pub marked_received: u64,
    /// ACKs whose message count is not that of the packets they acknowledge. A responder's own ACKs are exact; a switch that
    /// merges them may say less, which no requester minds.
    #[serde(default)]
    pub inexact_msns: u64,
    /// Packets that neither a correct peer nor a correct fabric sends.
    #[serde(default)]
    pub violations: Violations,
}

/// A packet to be sent: its headers, and where its payload is.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The pad count is set already.
    pub headers: RcHeaders,
    /// Payload, offset in it, and length in bytes.
    pub payload: Option<(Payload, u64, usize)>,
    /// Whether switches may mark the packet: ECT(0) in the IPv4 header.
    pub ecn_capable: bool,
}

impl Outgoing {
    /// A packet of headers alone.
    fn bare(headers: RcHeaders) -> Outgoing {
        Outgoing {
            headers,
            payload: None,
            ecn_capable: false,
        }
    }

    /// Bytes whose time the packet takes on the wire, from preamble to inter-frame gap.
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
    /// The rate of the requester, with congestion control.
    reaction: Option<ReactionPoint>,
    /// The rate that it never exceeds, where there is one.
    pacer: Option<Pacer>,
    notification: NotificationPoint,
    /// Whether a CNP waits for the wire.
    cnp_due: bool,
    /// Whether other ends of a group send after what this one has sent: [`QueuePair::expect_next_source`].
    handed_over: bool,
    shared: Shared,
    /// Whether the failure has been reported to the user.
    failure_told: bool,
}

/// What requester and responder both write to.
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
    /// `psn` is the first PSN of this requester; [`QueuePair::set_sq_psn`] changes it until the first message.
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
            failure_told: false,
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

    /// The rate machine, with congestion control.
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

    /// How many messages the responder has completed, modulo 2^24.
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

    /// Sets the PSN of the next request; every message must be done.
    pub fn set_sq_psn(&mut self, psn: Psn) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.requester.set_psn(psn);
        Ok(())
    }

    /// Sets the PSN that the responder expects next; no message may be half received.
    pub fn set_rq_psn(&mut self, psn: Psn) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.responder.set_expected(psn);
        Ok(())
    }

    /// Makes this end of a group's connection the one that sends: its next request takes the PSN and the message number that
    /// its responder expects next.
    ///
    /// All ends of a group count the same packets and messages, so nothing changes at the others. The end that sent before
    /// follows by [`QueuePair::expect_next_source`].
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

    /// Has the responder of the end that sends in a group expect what comes after everything posted so far, be it
    /// acknowledged or not: the next request that arrives is the next source's first. Since a source begins only when all ends
    /// have everything before, that request also acknowledges everything posted here.
    pub fn expect_next_source(&mut self) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        let (psn, ssn) = (self.requester.end_psn(), self.requester.ssn());
        self.responder.follow(psn, ssn);
        self.requester.be_followed();
        self.handed_over = true;
        Ok(())
    }

    /// Starts both directions at this PSN, and as if so many messages had been sent and received: for an end that joins a
    /// group in use, whose ends all count the same packets and messages.
    pub fn join_at(&mut self, psn: Psn, messages: u32) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() || !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.requester.restart(psn, messages);
        self.responder.follow(psn, messages);
        Ok(())
    }

    /// Completes every posted message as acknowledged, because the remote side is known to have them all: in a group the next
    /// source begins only then. Answers that are still under way are stale from now on.
    pub fn conclude_sends(&mut self, now: u64) {
        if self.state == QpState::Ready {
            self.requester.conclude(now, &self.config, &mut self.shared);
        }
    }

    /// Takes a message to be sent. Its memory is checked now, and read when packets are built.
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

    /// Takes a buffer for a message to come.
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

    /// Takes a packet from the remote side; addresses, P_Key and ICRC have been checked.
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

    /// How many packets may follow `packet`, which was given to [`QueuePair::handle_packet`] just now, of which the same is true as of it: it
    /// was taken in order, it is as long as packets can be, and it led to nothing that anybody can see. None of them may ask for an
    /// ACK, or have the congestion mark. 0 if it is not true of it.
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

    /// Takes so many packets of which [`QueuePair::silent_followers`] has said that they change nothing: the first one, which has the payload
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

    /// Whether an answer can be for another end of the group that sends after this one: an ACK of what has come from there,
    /// or a NAK of the next packet, which is lost here, too, or has not come yet.
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

    /// The packet that [`QueuePair::handle_packet`] took just now came with the congestion mark (CE in the IPv4 header).
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

    /// Whether [`QueuePair::poll_transmit`] would give a packet now.
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

    /// The next packet to send. Notifications go before responses, and these before requests.
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

    /// A congestion notification: BTH and reserved bytes (IBTA vol. 1, annex A17.9.3).
    fn notify(&mut self, dest_qp: QpNum) -> Outgoing {
        self.shared.stats.cnps_sent += 1;
        let reserved = Payload::Bytes(Arc::from([0; cnp::RESERVED_LEN]));
        Outgoing {
            payload: Some((reserved, 0, cnp::RESERVED_LEN)),
            ..Outgoing::bare(RcHeaders::plain(cnp::Repr { dest_qp }.bth()))
        }
    }

    /// When [`QueuePair::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.shared.timers.next()
    }

    /// Handles every timer that is due at `now`.
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
                // That it has stopped lets the next packet go.
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

    /// The next finished work request.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.shared.completions.pop_front()
    }

    /// Puts the queue pair into the error state. Every work request left completes as flushed.
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

    /// The failure of the queue pair, once.
    pub fn take_failure(&mut self) -> Option<QpFailure> {
        match self.state {
            QpState::Error(failure) if !std::mem::replace(&mut self.failure_told, true) => {
                Some(failure)
            }
            _ => None,
        }
    }

    /// The local memory of the request being sent is gone.
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
