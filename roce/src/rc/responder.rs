//! The responder of a queue pair: assembles messages from requests in order, and sends ACKs and NAKs (IBTA vol. 1,
//! 9.7.4, 9.7.5).
//!
//! Where the specification leaves a choice, it behaves as Linux rxe. It sends one NAK per gap, then none until the
//! expected packet arrives. It acknowledges duplicates with the newest PSN. An RNR NAK does not count as the gap's NAK.
//! The credit code is always 31.
//!
//! With selective repeat it keeps packets after a gap ([`Reorder`]) and acknowledges those in order as usual. It
//! reports missing packets by selective NAKs, which acknowledge nothing.

use std::collections::VecDeque;

use super::completion::{CompletedRequest, CompletionError, Operation};
use super::config::{RcConfig, Recovery};
use super::memory::{MemorySlice, MemoryTable};
use super::packet::{RcHeaders, RcPacket};
use super::qp::{RecvRequest, SharedState, MAX_MESSAGE};
use super::reorder::Reorder;
use super::timer::Timer;
use super::violations::Violations;
use crate::steady::StateVisitor;
use crate::wire::aeth::CREDITS_UNLIMITED;
use crate::wire::{aeth, bth, NakCode, Opcode, Psn, QpNum, Syndrome};

/// A message of which not all packets have arrived.
struct Inbound {
    /// Memory to which the message is written: a receive buffer for a SEND, the remote end's address for a WRITE.
    target: MemorySlice,
    /// The receive request that a SEND has consumed; `None` for a WRITE.
    receive: Option<RecvRequest>,
    received: u64,
}

/// An ACK or NAK that waits to be sent.
struct Response {
    psn: Psn,
    aeth: aeth::Repr,
}

pub(super) struct Responder {
    expected: Psn,
    msn: u32,
    /// Whether a NAK (PSN sequence error) for the missing packet `expected` has been sent.
    nak_sent: bool,
    /// With selective repeat: packets that have arrived before the expected one.
    reorder: Reorder,
    inbound: Option<Inbound>,
    receives: VecDeque<RecvRequest>,
    responses: VecDeque<Response>,
}

/// Reason why a request with the expected PSN is not accepted.
enum Refusal {
    NotReady,
    Fatal(Fault),
}

/// Error in a request, which causes a fatal NAK.
enum Fault {
    Sequence,
    Length,
    Access,
    /// The request is valid, but its memory is not registered any more.
    Local,
}

impl Fault {
    /// Counts the error as a violation, and returns its NAK code (IBTA vol. 1, table 56).
    fn count(self, violations: &mut Violations) -> NakCode {
        let (counter, code) = match self {
            Fault::Sequence => (&mut violations.bad_sequence, NakCode::InvalidRequest),
            Fault::Length => (&mut violations.bad_length, NakCode::InvalidRequest),
            Fault::Access => (&mut violations.bad_access, NakCode::RemoteAccessError),
            Fault::Local => return NakCode::RemoteOperationalError,
        };
        *counter += 1;
        code
    }
}

impl Responder {
    pub(super) fn new() -> Responder {
        Responder {
            expected: Psn::new(0),
            msn: 0,
            nak_sent: false,
            reorder: Reorder::default(),
            inbound: None,
            receives: VecDeque::new(),
            responses: VecDeque::new(),
        }
    }

    pub(super) fn expected(&self) -> Psn {
        self.expected
    }

    pub(super) fn msn(&self) -> u32 {
        self.msn
    }

    pub(super) fn is_between_messages(&self) -> bool {
        self.inbound.is_none()
    }

    pub(super) fn set_expected(&mut self, psn: Psn) {
        self.expected = psn;
        self.nak_sent = false;
        self.reorder.restart();
    }

    /// Sets the expected PSN to `psn` and the MSN to `ssn`, for example after another source of the group has sent.
    /// `ssn`: number of messages that the group's sources sent before `psn`, modulo 2^24.
    pub(super) fn follow(&mut self, psn: Psn, ssn: u32) {
        self.set_expected(psn);
        self.msn = ssn;
    }

    pub(super) fn post(&mut self, request: RecvRequest) {
        self.receives.push_back(request);
    }

    pub(super) fn has_response(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Removes and returns the next ACK or NAK.
    pub(super) fn poll_response(
        &mut self,
        remote: QpNum,
        shared: &mut SharedState,
    ) -> Option<RcHeaders> {
        let response = self.responses.pop_front()?;
        match response.aeth.syndrome {
            Syndrome::Ack { .. } => shared.stats.acks_sent += 1,
            Syndrome::RnrNak(_) => shared.stats.rnr_naks_sent += 1,
            _ => shared.stats.naks_sent += 1,
        }
        Some(RcHeaders {
            aeth: Some(response.aeth),
            ..RcHeaders::plain(bth::Repr::new(Opcode::Acknowledge, remote, response.psn))
        })
    }

    /// Number of full packets that may follow packet `psn` in its message and are only written to memory. 0 unless
    /// `psn` was the last packet accepted.
    pub(super) fn silent_followers(&self, psn: Psn, config: &RcConfig) -> u64 {
        let is_in_order = self.expected == psn.next() && !self.nak_sent && self.reorder.is_empty();
        let mtu = config.mtu.bytes() as u64;
        match &self.inbound {
            // The packet that fills the target would be the last one.
            Some(inbound) if is_in_order => {
                (inbound.target.len - inbound.received).saturating_sub(1) / mtu
            }
            _ => 0,
        }
    }

    /// Accepts the next `count` packets of a message in one call, at most [`Responder::silent_followers`]. `first` has
    /// the headers of the first of these packets, and the payloads of all.
    pub(super) fn accept_followers(
        &mut self,
        first: &RcPacket<'_>,
        count: u64,
        memory: &mut MemoryTable,
        shared: &mut SharedState,
    ) {
        debug_assert_eq!(
            self.expected, first.headers.bth.psn,
            "followers are in order"
        );
        let inbound = self.inbound.as_mut();
        let inbound = inbound.expect("followers are middle packets of a message");
        let offset = inbound.target.offset + inbound.received;
        memory
            .write(inbound.target.key, offset, first.payload)
            .expect("the previous packet was written to the same region");
        let len = first.payload.len() as u64;
        inbound.received += len;
        shared.stats.requests_received += count;
        shared.stats.request_bytes_received += len;
        self.expected = self.expected.plus(count);
        self.reorder.accepted_in_order(count);
    }

    /// Visits the state of the responder. A shift also writes the received bytes to memory.
    pub(super) fn visit_state(&mut self, memory: &mut MemoryTable, visitor: &mut StateVisitor<'_>) {
        let Responder {
            expected,
            msn,
            nak_sent,
            reorder,
            inbound,
            receives,
            responses,
        } = self;
        *expected = Psn::new(visitor.psn(expected.get()));
        visitor.same((*msn).into());
        visitor.same((*nak_sent).into());
        reorder.visit_state(visitor);
        visitor.same(receives.len() as u64);
        visitor.same(responses.len() as u64);
        for Response { psn, aeth } in responses {
            *psn = Psn::new(visitor.psn(psn.get()));
            visitor.same(u8::from(aeth.syndrome).into());
            visitor.same(aeth.msn.into());
        }
        visitor.same(inbound.is_some().into());
        let Some(Inbound {
            target,
            receive,
            received,
        }) = inbound
        else {
            return;
        };
        visitor.same(target.key.0.into());
        visitor.same(target.offset);
        visitor.same(target.len);
        visitor.same(receive.is_some().into());
        let Some(stream) = visitor.stream() else {
            return visitor.same(*received);
        };
        visitor.room((target.len - *received).saturating_sub(1) / stream.mtu);
        let before = std::mem::replace(received, visitor.bytes(*received));
        if *received > before {
            let bytes = &stream.message.bytes()[before as usize..*received as usize];
            memory
                .write(target.key, target.offset + before, bytes)
                .expect("the packet before was written to the same region");
        }
    }

    /// Handles a request packet. In case of an error, the fatal NAK is queued, and its code is returned.
    pub(super) fn handle_request(
        &mut self,
        now: u64,
        packet: &RcPacket<'_>,
        config: &RcConfig,
        memory: &mut MemoryTable,
        shared: &mut SharedState,
    ) -> Result<(), NakCode> {
        let bth = &packet.headers.bth;
        match bth.psn.distance_from(self.expected) {
            0 => {}
            ahead if ahead > 0 => {
                shared.stats.out_of_order += 1;
                if config.recovery == Recovery::SelectiveRepeat {
                    self.store_early(now, ahead.unsigned_abs().into(), packet, config, shared);
                    return Ok(());
                }
                if !self.nak_sent {
                    self.nak_sent = true;
                    let nak = Syndrome::Nak(NakCode::PsnSequenceError);
                    self.respond(self.expected, nak, config);
                }
                return Ok(());
            }
            _ => {
                shared.stats.duplicates += 1;
                if bth.ack_req {
                    self.acknowledge(config);
                }
                return Ok(());
            }
        }
        let mut has_ack_req = bth.ack_req;
        let mut is_accepted = self.accept_expected(now, packet, config, memory, shared)?;
        while let Some(early) = self.reorder.next_early().filter(|_| is_accepted) {
            has_ack_req |= early.packet().headers.bth.ack_req;
            is_accepted = self.accept_expected(now, &early.packet(), config, memory, shared)?;
        }
        // After an RNR NAK no ACK is needed, because the NAK acknowledges the packets before it.
        if has_ack_req && is_accepted {
            self.acknowledge(config);
        }
        self.set_report_timer(config, shared);
        Ok(())
    }

    /// Handles the timer of loss reports: reports missing packets once more.
    pub(super) fn handle_report_timeout(
        &mut self,
        now: u64,
        config: &RcConfig,
        shared: &mut SharedState,
    ) {
        self.report(now, config);
        self.set_report_timer(config, shared);
    }

    /// Stores a packet whose PSN is `ahead` PSNs after the expected one, and reports the packets missing before it.
    fn store_early(
        &mut self,
        now: u64,
        ahead: u64,
        packet: &RcPacket<'_>,
        config: &RcConfig,
        shared: &mut SharedState,
    ) {
        if !self.reorder.store(now, ahead, packet, config) {
            shared.stats.duplicates += 1;
        }
        self.report(now, config);
        if packet.headers.bth.ack_req {
            self.acknowledge(config);
        }
        self.set_report_timer(config, shared);
    }

    fn report(&mut self, now: u64, config: &RcConfig) {
        for (ahead, reports) in self.reorder.reports(now, config) {
            self.responses.push_back(Response {
                psn: self.expected.plus(ahead),
                aeth: aeth::Repr::selective_nak(reports),
            });
        }
    }

    fn set_report_timer(&self, config: &RcConfig, shared: &mut SharedState) {
        let next = self.reorder.next_report();
        match next.filter(|_| config.recovery == Recovery::SelectiveRepeat) {
            Some(at) => shared.timers.set(Timer::Report, at),
            None => shared.timers.stop(Timer::Report),
        }
    }

    /// Accepts the expected packet. Returns false if it needs a receive buffer and none is posted.
    fn accept_expected(
        &mut self,
        now: u64,
        packet: &RcPacket<'_>,
        config: &RcConfig,
        memory: &mut MemoryTable,
        shared: &mut SharedState,
    ) -> Result<bool, NakCode> {
        match self.execute(packet, config, memory, shared) {
            Ok(()) => {
                shared.stats.requests_received += 1;
                shared.stats.request_bytes_received += packet.payload.len() as u64;
                self.expected = self.expected.next();
                self.nak_sent = false;
                self.reorder.accepted(now);
                Ok(true)
            }
            Err(Refusal::NotReady) => {
                let timer = config.rnr_timer;
                self.reorder.rejected(now, timer.delay_ns(), config);
                self.respond(self.expected, Syndrome::RnrNak(timer), config);
                Ok(false)
            }
            Err(Refusal::Fatal(fault)) => {
                let code = fault.count(&mut shared.stats.violations);
                self.respond(self.expected, Syndrome::Nak(code), config);
                Err(code)
            }
        }
    }

    /// Completes every pending receive as flushed.
    pub(super) fn flush(&mut self, shared: &mut SharedState) {
        let half_done = self.inbound.take().and_then(|i| i.receive);
        for request in half_done.into_iter().chain(self.receives.drain(..)) {
            shared.complete(
                request.wr_id,
                Operation::Receive,
                Err(CompletionError::Flushed),
            );
        }
    }

    /// Executes a request whose PSN is the expected one.
    fn execute(
        &mut self,
        packet: &RcPacket<'_>,
        config: &RcConfig,
        memory: &mut MemoryTable,
        shared: &mut SharedState,
    ) -> Result<(), Refusal> {
        let opcode = packet.headers.bth.opcode;
        self.check_sequence(opcode)?;
        check_length(opcode, packet.payload.len(), config.mtu.bytes())?;
        let needs_receive = opcode.is_write() && opcode.has_immediate();
        if needs_receive && self.receives.is_empty() {
            return Err(Refusal::NotReady);
        }

        let mut inbound = match self.inbound.take() {
            Some(inbound) => inbound,
            None if opcode.is_send() => self.begin_send()?,
            None => begin_write(packet, memory)?,
        };
        let len = packet.payload.len() as u64;
        let left = inbound.target.len - inbound.received;
        if len > left {
            if let Some(receive) = inbound.receive {
                let error = Err(CompletionError::LocalLength);
                shared.complete(receive.wr_id, Operation::Receive, error);
            }
            return Err(Refusal::Fatal(Fault::Length));
        }
        let is_write = inbound.receive.is_none();
        if is_write && opcode.is_last() != (len == left) {
            // The length of the packets differs from the DMA length in the RETH.
            return Err(Refusal::Fatal(Fault::Length));
        }
        let offset = inbound.target.offset + inbound.received;
        if len > 0 {
            memory
                .write(inbound.target.key, offset, packet.payload)
                .map_err(|_| Refusal::Fatal(Fault::Local))?;
        }
        inbound.received += len;
        if !opcode.is_last() {
            self.inbound = Some(inbound);
            return Ok(());
        }

        self.msn = (self.msn + 1) & 0x00ff_ffff;
        let done = CompletedRequest {
            bytes: inbound.received,
            immediate: packet.headers.immediate,
        };
        if let Some(receive) = inbound.receive {
            shared.complete(receive.wr_id, Operation::Receive, Ok(done));
        } else if needs_receive {
            let receive = self.receives.pop_front().expect("checked above");
            shared.complete(receive.wr_id, Operation::ReceiveWrite, Ok(done));
        }
        Ok(())
    }

    /// Checks the order of opcodes: a first packet begins a message, other packets continue one of the same operation
    /// (IBTA vol. 1, 9.7.4.1.2).
    fn check_sequence(&self, opcode: Opcode) -> Result<(), Refusal> {
        let supported = (opcode.is_send() || opcode.is_write())
            && !matches!(
                opcode,
                Opcode::SendLastInvalidate | Opcode::SendOnlyInvalidate
            );
        let in_sequence = match &self.inbound {
            None => opcode.is_first(),
            Some(inbound) => !opcode.is_first() && opcode.is_send() == inbound.receive.is_some(),
        };
        if supported && in_sequence {
            Ok(())
        } else {
            Err(Refusal::Fatal(Fault::Sequence))
        }
    }

    fn begin_send(&mut self) -> Result<Inbound, Refusal> {
        let receive = self.receives.pop_front().ok_or(Refusal::NotReady)?;
        Ok(Inbound {
            target: receive.buffer,
            receive: Some(receive),
            received: 0,
        })
    }

    /// Queues an ACK of everything received in order.
    fn acknowledge(&mut self, config: &RcConfig) {
        let credits = CREDITS_UNLIMITED;
        self.respond(self.expected.prev(), Syndrome::Ack { credits }, config);
    }

    fn respond(&mut self, psn: Psn, syndrome: Syndrome, config: &RcConfig) {
        if config.ack_coalescing {
            // A later response supersedes a queued ACK.
            let is_ack = |r: &Response| matches!(r.aeth.syndrome, Syndrome::Ack { .. });
            if self.responses.back().is_some_and(is_ack) {
                self.responses.pop_back();
            }
        }
        self.responses.push_back(Response {
            psn,
            aeth: aeth::Repr {
                syndrome,
                msn: self.msn,
            },
        });
    }
}

fn begin_write(packet: &RcPacket<'_>, memory: &MemoryTable) -> Result<Inbound, Refusal> {
    let reth = packet.headers.reth.ok_or(Refusal::Fatal(Fault::Sequence))?;
    let len = u64::from(reth.dma_length);
    if len > MAX_MESSAGE {
        return Err(Refusal::Fatal(Fault::Length));
    }
    let target = if len == 0 {
        // A WRITE of 0 bytes needs neither a valid address nor a valid key (IBTA vol. 1, C9-88).
        MemorySlice {
            key: super::MemoryKey(reth.rkey),
            offset: 0,
            len: 0,
        }
    } else {
        memory
            .remote_slice(reth.rkey, reth.virtual_address, len)
            .map_err(|_| Refusal::Fatal(Fault::Access))?
    };
    Ok(Inbound {
        target,
        receive: None,
        received: 0,
    })
}

/// Checks the payload length: packets before the last one are full, and the last of several is not empty (IBTA vol. 1,
/// 9.7.4.1.6).
fn check_length(opcode: Opcode, len: usize, mtu: usize) -> Result<(), Refusal> {
    let good = match (opcode.is_first(), opcode.is_last()) {
        (true, true) => len <= mtu,
        (false, true) => len > 0 && len <= mtu,
        _ => len == mtu,
    };
    if good {
        Ok(())
    } else {
        Err(Refusal::Fatal(Fault::Length))
    }
}
