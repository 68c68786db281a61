//! A queue pair of the reliable connection: requester, responder, and the state that they share.
//!
//! The remote end may be a multicast *group*. All ends of a group count the same packets and messages. One end at a time, the
//! *source*, sends requests.

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
use crate::steady::{StateVisitor, Stream};
use crate::verbs::DeviceError;
use crate::wire::{cnp, ethernet, icrc, ipv4, udp, Opcode, Psn, QpNum, Syndrome};

/// Longest message in bytes: 2^31 (IBTA vol. 1, 9.7.7).
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Remote end of a connection: a queue pair, or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    /// IPv4 address of the remote host, or of a group (McstID).
    pub ip: Ipv4Addr,
    /// Number of the remote queue pair, or the group's virtual number.
    pub qpn: QpNum,
}

/// Where the bytes of a message are stored.
#[derive(Debug, Clone)]
pub enum Payload {
    /// In registered memory, which is read when a packet is built.
    Memory(MemorySlice),
    /// In a buffer of the message's own.
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

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads `len` bytes from `offset` on.
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

    /// Like [`Payload::read`], but returns reference-counted bytes. They are copied only if no shared buffer holds them.
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

/// Operation that carries a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendOperation {
    /// SEND: delivers the message to the next receive buffer.
    Send {
        /// Immediate data, which the receive completion contains; `None` for a SEND without.
        immediate: Option<u32>,
    },
    /// RDMA WRITE: writes the message to a remote address. With immediate data it consumes a remote receive request,
    /// which completes. Without, the remote user is not notified.
    Write {
        /// Virtual address at the remote end.
        remote_va: u64,
        /// R_Key of the remote memory region or window.
        rkey: u32,
        /// Immediate data; `None` for a WRITE without.
        immediate: Option<u32>,
    },
}

/// A work request for the requester: a message to send.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// Number of the user's choice, which the completion contains.
    pub wr_id: u64,
    /// Operation that carries the message.
    pub operation: SendOperation,
    /// Bytes of the message.
    pub payload: Payload,
}

/// A work request for the responder: a receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecvRequest {
    /// Number of the user's choice, which the completion contains.
    pub wr_id: u64,
    /// Buffer into which a SEND is received.
    pub buffer: MemorySlice,
}

/// Reason why a queue pair rejects a work request that the user posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The host has no queue pair with this number.
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    /// The queue pair does not accept the request in its present state.
    #[error("queue pair {qpn} is in state {state:?}, which accepts no work requests of this kind")]
    WrongState {
        /// Number of the queue pair.
        qpn: QpNum,
        /// State of the queue pair.
        state: QpState,
    },
    /// The message is longer than [`MAX_MESSAGE`]; holds its length in bytes.
    #[error("a message of {0} bytes exceeds the limit of 2147483648 bytes")]
    TooLong(u64),
    /// The memory of the request is not registered, or cannot be used in this way.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The RDMA device has reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Reason why a queue pair cannot be created or modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// The host has no queue pair with this number.
    #[error("queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    /// Messages of this queue pair are in progress.
    #[error("queue pair {0} still has messages in progress")]
    Busy(QpNum),
    /// The queue pair cannot be modified in this way in its present state.
    #[error("queue pair {qpn} is in state {state:?}, which does not allow this change")]
    WrongState {
        /// Number of the queue pair.
        qpn: QpNum,
        /// State of the queue pair.
        state: QpState,
    },
    /// The RDMA device has reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Reason why a queue pair is in the error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum QpFailure {
    /// A request of the local requester has failed with this status.
    #[error("requester: {0}")]
    Requester(CompletionError),
    /// The local responder has rejected a remote request with this fatal NAK.
    #[error("responder: rejected a request of the remote side ({0:?})")]
    Responder(crate::wire::NakCode),
    /// The MAC address of this remote IPv4 address could not be resolved.
    #[error("the address {0} could not be resolved: no ARP reply")]
    Unreachable(Ipv4Addr),
    /// The user has closed the queue pair.
    #[error("closed by the user")]
    Closed,
}

/// State of a queue pair. `Init` is INIT of verbs, `Ready` is RTR and RTS together, `Error` is ERR.
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
    /// Reason of the failure; `None` if the queue pair has not failed.
    pub fn failure(self) -> Option<QpFailure> {
        match self {
            QpState::Error(failure) => Some(failure),
            QpState::Init | QpState::Ready => None,
        }
    }
}

/// Counters of a queue pair, from its creation on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QpStats {
    /// Request packets sent, including retransmissions.
    pub requests_sent: u64,
    /// Payload bytes of request packets sent.
    pub request_bytes_sent: u64,
    /// Request packets sent that were retransmissions.
    pub retransmissions: u64,
    /// Request packets acknowledged by the remote end, each counted once.
    #[serde(default)]
    pub requests_acknowledged: u64,
    /// ACKs received.
    pub acks_received: u64,
    /// NAKs received for PSN sequence errors, and selective NAKs.
    pub naks_received: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Fatal NAKs received, after which the queue pair fails.
    pub fatal_naks_received: u64,
    /// ACKs and NAKs received for PSNs that were not outstanding.
    pub stale_acks: u64,
    /// Expiries of the local ACK timeout.
    pub timeouts: u64,
    /// Request packets received in order.
    pub requests_received: u64,
    /// Payload bytes of request packets received in order.
    pub request_bytes_received: u64,
    /// Request packets received again.
    pub duplicates: u64,
    /// Request packets received after a gap: dropped with go-back-N, kept with selective repeat.
    pub out_of_order: u64,
    /// ACKs sent.
    pub acks_sent: u64,
    /// NAKs sent for PSN sequence errors, selective NAKs, and fatal NAKs.
    pub naks_sent: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// CNPs received.
    pub cnps_received: u64,
    /// CNPs sent.
    #[serde(default)]
    pub cnps_sent: u64,
    /// Request packets received with the congestion mark (CE).
    #[serde(default)]
    pub marked_received: u64,
    /// ACKs whose MSN does not match the packets that they acknowledge. A responder's own ACKs match. ACKs aggregated
    /// by a switch may have a smaller MSN, which is valid.
    #[serde(default)]
    pub inexact_msns: u64,
    /// Packets that neither a correct peer nor a correct network sends.
    #[serde(default)]
    pub violations: Violations,
}

impl QpStats {
    /// Visits all counters.
    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let QpStats {
            requests_sent,
            request_bytes_sent,
            retransmissions,
            requests_acknowledged,
            acks_received,
            naks_received,
            rnr_naks_received,
            fatal_naks_received,
            stale_acks,
            timeouts,
            requests_received,
            request_bytes_received,
            duplicates,
            out_of_order,
            acks_sent,
            naks_sent,
            rnr_naks_sent,
            cnps_received,
            cnps_sent,
            marked_received,
            inexact_msns,
            violations,
        } = self;
        visitor.counts([
            requests_sent,
            request_bytes_sent,
            retransmissions,
            requests_acknowledged,
            acks_received,
            naks_received,
            rnr_naks_received,
            fatal_naks_received,
            stale_acks,
            timeouts,
            requests_received,
            request_bytes_received,
            duplicates,
            out_of_order,
            acks_sent,
            naks_sent,
            rnr_naks_sent,
            cnps_received,
            cnps_sent,
            marked_received,
            inexact_msns,
        ]);
        visitor.counts(violations.counters_mut());
    }
}

/// A packet to send: its headers, and a reference to its payload.
#[derive(Debug, Clone)]
pub struct OutgoingPacket {
    /// The headers, with the pad count set.
    pub headers: RcHeaders,
    /// Source of the payload, offset in that source, and length, both in bytes; `None` for a packet without payload.
    pub payload: Option<(Payload, u64, usize)>,
    /// Whether switches may mark the packet (ECT(0) in the IPv4 header).
    pub ecn_capable: bool,
}

impl OutgoingPacket {
    /// Creates a packet without payload, which is not ECN-capable.
    fn bare(headers: RcHeaders) -> OutgoingPacket {
        OutgoingPacket {
            headers,
            payload: None,
            ecn_capable: false,
        }
    }

    /// Bytes that the packet occupies on the wire, from the preamble to the inter-frame gap.
    fn wire_len(&self) -> u64 {
        let payload = self.payload.as_ref().map_or(0, |(_, _, len)| *len);
        let roce = self.headers.len() + payload + usize::from(self.headers.bth.pad_count);
        let headers = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
        (headers + roce + icrc::TRAILER_LEN + ETHERNET_OVERHEAD) as u64
    }
}

/// Bytes that Ethernet adds to a frame on the wire: preamble 8, frame check sequence 4, inter-frame gap 12.
const ETHERNET_OVERHEAD: usize = 24;

/// One end of a reliable connection.
pub struct QueuePair {
    qpn: QpNum,
    config: RcConfig,
    state: QpState,
    remote: Option<Remote>,
    requester: Requester,
    responder: Responder,
    /// Sender's rate control by DCQCN (reaction point); `None` without congestion control.
    reaction: Option<ReactionPoint>,
    /// Rate limit of request packets; `None` for the rate of the port.
    pacer: Option<Pacer>,
    notification: NotificationPoint,
    /// Whether a CNP is to be sent to the remote end.
    cnp_due: bool,
    /// Whether this end has handed the role of the source to a later one: [`QueuePair::expect_next_source`].
    handed_over: bool,
    shared: SharedState,
    /// Whether the failure has been reported to the user.
    is_failure_reported: bool,
}

/// State that requester and responder share.
pub(super) struct SharedState {
    pub(super) qpn: QpNum,
    pub(super) timers: TimerTable,
    pub(super) completions: VecDeque<Completion>,
    pub(super) stats: QpStats,
}

impl SharedState {
    pub(super) fn complete(
        &mut self,
        wr_id: u64,
        operation: Operation,
        outcome: Result<super::CompletedRequest, CompletionError>,
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
            shared: SharedState {
                qpn,
                timers: TimerTable::default(),
                completions: VecDeque::new(),
                stats: QpStats::default(),
            },
            is_failure_reported: false,
        }
    }

    /// Number of the queue pair.
    pub fn qpn(&self) -> QpNum {
        self.qpn
    }

    /// Settings of the queue pair.
    pub fn config(&self) -> &RcConfig {
        &self.config
    }

    /// Present state of the queue pair.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Remote end; `None` before the connection.
    pub fn remote(&self) -> Option<Remote> {
        self.remote
    }

    /// Counters of the queue pair.
    pub fn stats(&self) -> QpStats {
        self.shared.stats
    }

    /// Sender's rate control by DCQCN (reaction point); `None` without congestion control.
    pub fn reaction(&self) -> Option<&ReactionPoint> {
        self.reaction.as_ref()
    }

    /// PSN of the next new request packet.
    pub fn sq_psn(&self) -> Psn {
        self.requester.end_psn()
    }

    /// PSN of the oldest request packet that is not acknowledged; that of the next one, if all are.
    pub fn unacknowledged_psn(&self) -> Psn {
        self.requester.unacknowledged_psn()
    }

    /// PSN of the next request packet to send: of a retransmission after a NAK with go-back-N, or of a new packet.
    pub fn next_psn(&self) -> Psn {
        self.requester.next_psn()
    }

    /// PSN that the responder expects next.
    pub fn rq_psn(&self) -> Psn {
        self.responder.expected()
    }

    /// Number of messages that the responder has completed, modulo 2^24.
    pub fn msn(&self) -> u32 {
        self.responder.msn()
    }

    /// Connects the queue pair to `remote`, whose requests begin with `rq_psn`.
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

    /// Makes this end the source of its group. Its next request uses the PSN and message number that its responder
    /// expects next.
    ///
    /// All ends of a group count the same packets and messages, so the other receivers need no change. The previous
    /// source calls [`QueuePair::expect_next_source`].
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

    /// Prepares the responder of the group's present source for requests of the next source. The responder then expects
    /// the PSN after everything posted so far, acknowledged or not. A source starts only when all ends hold all earlier
    /// data, so its first request also acknowledges everything posted here.
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

    /// Starts both directions at `psn`, after `messages` messages. For an end that joins a group in use, whose ends all
    /// count the same packets and messages.
    pub fn join_at(&mut self, psn: Psn, messages: u32) -> Result<(), ModifyError> {
        self.check_modifiable()?;
        if !self.requester.is_idle() || !self.responder.is_between_messages() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.requester.restart(psn, messages);
        self.responder.follow(psn, messages);
        Ok(())
    }

    /// Completes every posted message as acknowledged. To be called when the next source of a group starts, because the
    /// other members then hold all these messages. Acknowledgements still in flight become stale.
    pub fn conclude_sends(&mut self, now: u64) {
        if self.state == QpState::Ready {
            self.requester.conclude(now, &self.config, &mut self.shared);
        }
    }

    /// Posts a message to send. Its memory is checked now, and read when packets are built.
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

    /// Number of packets that may follow `packet`, just passed to [`QueuePair::handle_packet`], without a visible
    /// effect: received in order, full length, no completion, no reply. None of them may have AckReq or a congestion
    /// mark. 0 if `packet` had a visible effect.
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

    /// Handles `count` consecutive packets in one call, at most [`QueuePair::silent_followers`]. `packet` has the headers
    /// of the first packet and the payloads of all.
    pub fn handle_followers(
        &mut self,
        packet: &RcPacket<'_>,
        count: u64,
        memory: &mut MemoryTable,
    ) {
        self.responder
            .accept_followers(packet, count, memory, &mut self.shared);
    }

    /// Whether an acknowledgement may be for a later source of the group than this end: an ACK of a packet received
    /// from that source, or a NAK of the next expected packet.
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

    /// Removes and returns the next packet to send. CNPs are sent before responses, and those before requests.
    pub fn poll_transmit(&mut self, now: u64) -> Option<OutgoingPacket> {
        let remote = self.remote?;
        if self.state == QpState::Ready && std::mem::take(&mut self.cnp_due) {
            return Some(self.create_cnp(remote.qpn));
        }
        if let Some(headers) = self.responder.poll_response(remote.qpn, &mut self.shared) {
            return Some(OutgoingPacket::bare(headers));
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

    /// Creates a congestion notification packet: BTH and reserved bytes (IBTA vol. 1, annex A17.9.3).
    fn create_cnp(&mut self, dest_qp: QpNum) -> OutgoingPacket {
        self.shared.stats.cnps_sent += 1;
        let reserved = Payload::Bytes(Arc::from([0; cnp::RESERVED_LEN]));
        OutgoingPacket {
            payload: Some((reserved, 0, cnp::RESERVED_LEN)),
            ..OutgoingPacket::bare(RcHeaders::plain(cnp::Repr { dest_qp }.bth()))
        }
    }

    /// Time of the next [`QueuePair::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.shared.timers.next()
    }

    /// Handles every timer that has expired by `now`.
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
                // Stopping the pacing timer is enough: the next packet may be sent.
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

    /// The stream that this end sends at present, if the packets in flight and the next packet belong to one message, of
    /// which at least as many packets are acknowledged as are in flight; `None` otherwise.
    pub(crate) fn stream(&self, memory: &MemoryTable) -> Option<Stream> {
        let remote = self.remote.filter(|_| self.state == QpState::Ready)?;
        self.requester.stream(remote.ip, &self.config, memory)
    }

    /// Visits the state of the queue pair. Queue pairs with congestion control are not supported, because its rates are
    /// not linear in time.
    ///
    /// `own`: IPv4 address of this end.
    pub(crate) fn visit_state(
        &mut self,
        own: Ipv4Addr,
        memory: &mut MemoryTable,
        visitor: &mut StateVisitor<'_>,
    ) {
        let QueuePair {
            qpn: _,
            config,
            state,
            remote,
            requester,
            responder,
            reaction,
            pacer,
            notification: _,
            cnp_due,
            handed_over,
            shared,
            is_failure_reported,
        } = self;
        if reaction.is_some() || config.congestion.is_some() || !shared.completions.is_empty() {
            visitor.unsupported();
        }
        visitor.same(match state {
            QpState::Init => 0,
            QpState::Ready => 1,
            QpState::Error(_) => 2,
        });
        let remote = remote.map(|remote| remote.ip);
        visitor.enter(remote);
        requester.visit_state(visitor);
        visitor.enter(remote.into_iter().chain([own]));
        responder.visit_state(memory, visitor);
        if let Some(pacer) = pacer {
            pacer.visit_state(visitor);
        }
        for flag in [*cnp_due, *handed_over, *is_failure_reported] {
            visitor.same(flag.into());
        }
        shared.timers.visit_state(visitor);
        shared.stats.visit_state(visitor);
    }

    /// Time of the last acknowledgement of a packet that was not acknowledged before, in nanoseconds; 0 before the first.
    pub fn last_acknowledged_at(&self) -> u64 {
        self.requester.last_acknowledged_at()
    }

    /// Removes and returns the next completion.
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
