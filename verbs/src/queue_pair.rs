//! A queue pair of a device, with the bookkeeping that libibverbs leaves to its users.
//!
//! - Work requests beyond the depth of the device's queues are queued here.
//! - The kind of a completed work request follows from the order of completions, because a failed completion does not
//!   contain it.
//! - PSNs can only be set on the transition from RESET to RTS. To change its PSNs, a queue pair repeats these
//!   transitions under the same number, and its receive buffers are posted again.

use std::collections::VecDeque;
use std::sync::Arc;

use alfirk_roce::host::HostEvent;
use alfirk_roce::rc::{
    CompletedRequest, Completion, CompletionError, MemoryKey, MemorySlice, ModifyError, Operation,
    Payload, PostError, QpFailure, QpState, QpStats, RcConfig, RecvRequest, Remote, SendOperation,
    SendRequest, MAX_MESSAGE,
};
use alfirk_roce::verbs::DeviceError;
use alfirk_roce::wire::{NakCode, Psn, QpNum};

use crate::memory::Memory;
use crate::sys::{self, Context, Path};

/// Maximum number of bytes of a message that are copied into its work request (inline data).
const MAX_INLINE: u32 = 64;
/// Depth of the send queue that is requested of the device.
const SEND_QUEUE_DEPTH: u32 = 1024;
/// Depth of the receive queue that is requested of the device.
const RECEIVE_QUEUE_DEPTH: u32 = 2048;

/// Flag in the number (`wr_id`) of a work request that belongs to the receive queue.
const RECEIVE_FLAG: u64 = 1;
const SEND: u64 = 0;

/// A message that was posted to the device and has not completed.
struct PostedSend {
    wr_id: u64,
    operation: Operation,
    bytes: u64,
    packets: u64,
    /// Copy of the message in memory that was registered for this message only; `None` if there is no copy.
    bounce: Option<MemoryKey>,
}

pub(crate) struct QueuePair {
    qpn: QpNum,
    handle: sys::Qp,
    config: RcConfig,
    depth: (usize, usize),
    /// PSN of the next request that this end sends.
    sq_psn: Psn,
    remote: Option<Remote>,
    failure: Option<QpFailure>,
    sends: VecDeque<PostedSend>,
    waiting_sends: VecDeque<SendRequest>,
    receives: VecDeque<RecvRequest>,
    waiting_receives: VecDeque<RecvRequest>,
    /// Whether this end is no longer the source of its group. Once its requests are acknowledged, its responder must
    /// expect the next source's requests, at the PSN after its own.
    awaits_next_source: bool,
    stats: QpStats,
}

impl QueuePair {
    pub(crate) fn create(
        context: &Context,
        max_depth: u32,
        cookie: u64,
        psn: Psn,
        config: RcConfig,
    ) -> Result<QueuePair, DeviceError> {
        let (sends, receives) = (
            SEND_QUEUE_DEPTH.min(max_depth),
            RECEIVE_QUEUE_DEPTH.min(max_depth),
        );
        let (handle, qpn) = sys::Qp::create(context, cookie, sends, receives, MAX_INLINE)?;
        Ok(QueuePair {
            qpn: QpNum::new(qpn),
            handle,
            config,
            depth: (sends as usize, receives as usize),
            sq_psn: psn,
            remote: None,
            failure: None,
            sends: VecDeque::new(),
            waiting_sends: VecDeque::new(),
            receives: VecDeque::new(),
            waiting_receives: VecDeque::new(),
            awaits_next_source: false,
            stats: QpStats::default(),
        })
    }

    pub(crate) fn qpn(&self) -> QpNum {
        self.qpn
    }

    pub(crate) fn remote(&self) -> Option<Remote> {
        self.remote
    }

    pub(crate) fn sq_psn(&self) -> Psn {
        self.sq_psn
    }

    pub(crate) fn stats(&self) -> QpStats {
        self.stats
    }

    pub(crate) fn state(&self) -> QpState {
        match (self.failure, self.remote) {
            (Some(failure), _) => QpState::Error(failure),
            (None, Some(_)) => QpState::Ready,
            (None, None) => QpState::Init,
        }
    }

    fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.waiting_sends.is_empty()
    }

    // ---- Connecting ----

    pub(crate) fn set_sq_psn(&mut self, psn: Psn) -> Result<(), ModifyError> {
        match self.state() {
            QpState::Init => {
                self.sq_psn = psn;
                Ok(())
            }
            state => Err(self.wrong_state(state)),
        }
    }

    pub(crate) fn connect(&mut self, remote: Remote, rq_psn: Psn) -> Result<(), ModifyError> {
        match self.state() {
            QpState::Init => {}
            state => return Err(self.wrong_state(state)),
        }
        self.remote = Some(remote);
        self.establish(remote, rq_psn)?;
        Ok(())
    }

    fn establish(&mut self, remote: Remote, rq_psn: Psn) -> Result<(), DeviceError> {
        self.handle.connect(&Path {
            ip: remote.ip,
            dest_qpn: remote.qpn.get(),
            rq_psn: rq_psn.get(),
            sq_psn: self.sq_psn.get(),
            mtu: self.config.mtu.into(),
            timeout: self.config.ack_timeout.exponent(),
            retry_cnt: self.config.retries.attribute(),
            rnr_retry: self.config.rnr_retries.attribute(),
            min_rnr_timer: self.config.rnr_timer.code(),
        })
    }

    /// Resets the queue pair and connects it again with other PSNs in both directions. All completions must have been
    /// polled, and nothing may be in flight.
    fn restart(&mut self, memory: &Memory, sq_psn: Psn, rq_psn: Psn) -> Result<(), ModifyError> {
        let Some(remote) = self.remote.filter(|_| self.failure.is_none()) else {
            return Err(self.wrong_state(self.state()));
        };
        self.handle.reset()?;
        self.sq_psn = sq_psn;
        for request in &self.receives {
            // The memory was valid when the request was first posted.
            post_receive(&mut self.handle, memory, request).map_err(device)?;
        }
        Ok(self.establish(remote, rq_psn)?)
    }

    pub(crate) fn take_over_sending(&mut self, memory: &Memory) -> Result<(), ModifyError> {
        if !self.is_idle() {
            return Err(ModifyError::Busy(self.qpn));
        }
        let psn = Psn::new(self.handle.rq_psn()?);
        self.awaits_next_source = false;
        self.restart(memory, psn, psn)
    }

    /// Prepares to receive from the next source, from the PSN after this end's own requests on. Takes effect when all
    /// own requests are acknowledged.
    pub(crate) fn expect_next_source(&mut self, memory: &Memory) -> Result<(), ModifyError> {
        self.awaits_next_source = true;
        self.restart_for_next_source(memory)
    }

    /// If this end waits for the next source and all its requests are acknowledged, restarts it at the next source's
    /// PSN.
    fn restart_for_next_source(&mut self, memory: &Memory) -> Result<(), ModifyError> {
        if !self.awaits_next_source || !self.is_idle() {
            return Ok(());
        }
        self.awaits_next_source = false;
        self.restart(memory, self.sq_psn, self.sq_psn)
    }

    pub(crate) fn join_at(&mut self, memory: &Memory, psn: Psn) -> Result<(), ModifyError> {
        if !self.is_idle() {
            return Err(ModifyError::Busy(self.qpn));
        }
        self.restart(memory, psn, psn)
    }

    /// Reports all posted messages as acknowledged, and restarts the queue pair at the PSNs that follow.
    pub(crate) fn conclude(
        &mut self,
        memory: &mut Memory,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), ModifyError> {
        if self.sends.is_empty() {
            return Ok(());
        }
        while let Some(sent) = self.sends.pop_front() {
            events.push_back(self.completion_of(memory, sent, Ok(())));
        }
        let rq_psn = Psn::new(self.handle.rq_psn()?);
        self.restart(memory, self.sq_psn, rq_psn)
    }

    // ---- Work ----

    pub(crate) fn post_send(
        &mut self,
        context: &Context,
        memory: &mut Memory,
        request: SendRequest,
    ) -> Result<(), PostError> {
        match self.state() {
            QpState::Ready => {}
            state => {
                let qpn = self.qpn;
                return Err(PostError::WrongState { qpn, state });
            }
        }
        let len = request.payload.len();
        if len > MAX_MESSAGE {
            return Err(PostError::TooLong(len));
        }
        if let Payload::Memory(slice) = request.payload {
            memory.address_and_key(slice)?;
        }
        self.waiting_sends.push_back(request);
        self.refill(context, memory)
    }

    pub(crate) fn post_recv(
        &mut self,
        memory: &Memory,
        request: RecvRequest,
    ) -> Result<(), PostError> {
        if let state @ QpState::Error(_) = self.state() {
            let qpn = self.qpn;
            return Err(PostError::WrongState { qpn, state });
        }
        memory.address_and_key(request.buffer)?;
        self.waiting_receives.push_back(request);
        self.refill_receives(memory)
    }

    /// Posts messages that are queued here to the device, up to the device's limit.
    fn refill(&mut self, context: &Context, memory: &mut Memory) -> Result<(), PostError> {
        while self.sends.len() < self.depth.0 {
            let Some(request) = self.waiting_sends.pop_front() else {
                break;
            };
            self.send(context, memory, request)?;
        }
        Ok(())
    }

    fn refill_receives(&mut self, memory: &Memory) -> Result<(), PostError> {
        while self.receives.len() < self.depth.1 {
            let Some(request) = self.waiting_receives.pop_front() else {
                break;
            };
            post_receive(&mut self.handle, memory, &request)?;
            self.receives.push_back(request);
        }
        Ok(())
    }

    fn send(
        &mut self,
        context: &Context,
        memory: &mut Memory,
        request: SendRequest,
    ) -> Result<(), PostError> {
        let bytes = request.payload.len();
        let mut bounce = None;
        let (address, lkey) = match &request.payload {
            Payload::Memory(slice) => {
                let (address, lkey) = memory.address_and_key(*slice)?;
                (address.cast_const(), Some(lkey))
            }
            Payload::Bytes(inline) if bytes <= MAX_INLINE.into() => (inline.as_ptr(), None),
            Payload::Bytes(long) => {
                let key = memory.register_shared(context, Arc::clone(long))?;
                bounce = Some(key);
                let (offset, len) = (0, bytes);
                let (address, lkey) = memory.address_and_key(MemorySlice { key, offset, len })?;
                (address.cast_const(), Some(lkey))
            }
        };
        let (operation, write, immediate) = match request.operation {
            SendOperation::Send { immediate } => (Operation::Send, None, immediate),
            SendOperation::Write {
                remote_va,
                rkey,
                immediate,
            } => (Operation::Write, Some((remote_va, rkey)), immediate),
        };
        let send = sys::Message {
            wr_id: SEND,
            address,
            len: bytes as u32,
            lkey,
            write,
            immediate,
        };
        // SAFETY: memory with a key stays valid until its registration ends, after which the device rejects the request; other bytes
        // are copied.
        unsafe { self.handle.send(&send)? };
        let packets = packets(bytes, self.config);
        self.sq_psn = Psn::new(self.sq_psn.get().wrapping_add(packets as u32));
        self.stats.requests_sent += packets;
        self.stats.request_bytes_sent += bytes;
        self.sends.push_back(PostedSend {
            wr_id: request.wr_id,
            operation,
            bytes,
            packets,
            bounce,
        });
        Ok(())
    }

    // ---- Completions ----

    /// Handles the completions of the device, then posts the work requests that are queued here.
    pub(crate) fn drain(
        &mut self,
        context: &Context,
        memory: &mut Memory,
        events: &mut VecDeque<HostEvent>,
    ) {
        if let Err(error) = self.handle.arm() {
            tracing::warn!(
                "queue pair {}: cannot arm the completion queue: {error}",
                self.qpn
            );
        }
        let mut failure = None;
        let mut found = Vec::new();
        loop {
            found.clear();
            if let Err(error) = self.handle.poll(&mut found) {
                tracing::warn!("queue pair {}: cannot read completions: {error}", self.qpn);
            }
            if found.is_empty() {
                break;
            }
            for completion in &found {
                self.handle_completion(completion, memory, events, &mut failure);
            }
        }
        if let Some(failure) = failure {
            self.fail(failure, memory, events);
        }
        if self.failure.is_none() {
            let refilled = self
                .refill(context, memory)
                .and_then(|()| self.refill_receives(memory));
            if let Err(error) = refilled {
                tracing::warn!("queue pair {}: {error}", self.qpn);
                self.fail(
                    QpFailure::Requester(CompletionError::LocalProtection),
                    memory,
                    events,
                );
            } else if let Err(error) = self.restart_for_next_source(memory) {
                tracing::warn!("queue pair {}: {error}", self.qpn);
                self.fail(QpFailure::Closed, memory, events);
            }
        }
    }

    fn handle_completion(
        &mut self,
        completion: &sys::Completion,
        memory: &mut Memory,
        events: &mut VecDeque<HostEvent>,
        failure: &mut Option<QpFailure>,
    ) {
        let is_receive = completion.wr_id & RECEIVE_FLAG != 0;
        let error = completion.outcome.err().map(error_of);
        if let Some(error) = error.filter(|e| *e != CompletionError::Flushed) {
            failure.get_or_insert(match is_receive {
                true => QpFailure::Responder(NakCode::InvalidRequest),
                false => QpFailure::Requester(error),
            });
        }
        if !is_receive {
            // Without an entry, `conclude` has completed the message already.
            if let Some(sent) = self.sends.pop_front() {
                let outcome = error.map_or(Ok(()), Err);
                events.push_back(self.completion_of(memory, sent, outcome));
            }
            return;
        }
        let Some(request) = self.receives.pop_front() else {
            return;
        };
        let (operation, outcome) = match completion.outcome {
            Err(code) => (Operation::Receive, Err(error_of(code))),
            Ok(done) => {
                let bytes = u64::from(done.len);
                self.stats.requests_received += packets(bytes, self.config);
                self.stats.request_bytes_received += bytes;
                let operation = match done.is_write {
                    true => Operation::ReceiveWrite,
                    false => Operation::Receive,
                };
                let immediate = done.immediate;
                (operation, Ok(CompletedRequest { bytes, immediate }))
            }
        };
        events.push_back(HostEvent::Completion(Completion {
            qpn: self.qpn,
            wr_id: request.wr_id,
            operation,
            outcome,
        }));
    }

    /// Creates the completion event of a posted message, and deregisters memory that was registered for this message
    /// only.
    fn completion_of(
        &mut self,
        memory: &mut Memory,
        sent: PostedSend,
        outcome: Result<(), CompletionError>,
    ) -> HostEvent {
        if let Some(key) = sent.bounce {
            // The region exists since the message was posted.
            let _ = memory.remove(key);
        }
        if outcome.is_ok() {
            self.stats.requests_acknowledged += sent.packets;
        }
        HostEvent::Completion(Completion {
            qpn: self.qpn,
            wr_id: sent.wr_id,
            operation: sent.operation,
            outcome: outcome.map(|()| CompletedRequest {
                bytes: sent.bytes,
                immediate: None,
            }),
        })
    }

    /// Marks the queue pair as failed, and reports the work requests that the device has not flushed as flushed.
    pub(crate) fn fail(
        &mut self,
        failure: QpFailure,
        memory: &mut Memory,
        events: &mut VecDeque<HostEvent>,
    ) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure);
        while let Some(sent) = self.sends.pop_front() {
            events.push_back(self.completion_of(memory, sent, Err(CompletionError::Flushed)));
        }
        let flushed = |wr_id, operation| {
            HostEvent::Completion(Completion {
                qpn: self.qpn,
                wr_id,
                operation,
                outcome: Err(CompletionError::Flushed),
            })
        };
        let receives = self
            .receives
            .drain(..)
            .chain(self.waiting_receives.drain(..));
        events.extend(receives.map(|r| flushed(r.wr_id, Operation::Receive)));
        events.extend(self.waiting_sends.drain(..).map(|r| {
            let operation = match r.operation {
                SendOperation::Send { .. } => Operation::Send,
                SendOperation::Write { .. } => Operation::Write,
            };
            flushed(r.wr_id, operation)
        }));
        events.push_back(HostEvent::QpFailed {
            qpn: self.qpn,
            failure,
        });
    }

    fn wrong_state(&self, state: QpState) -> ModifyError {
        ModifyError::WrongState {
            qpn: self.qpn,
            state,
        }
    }
}

fn post_receive(
    handle: &mut sys::Qp,
    memory: &Memory,
    request: &RecvRequest,
) -> Result<(), PostError> {
    let (address, lkey) = memory.address_and_key(request.buffer)?;
    // SAFETY: the memory stays valid until its registration ends, after which the device cannot write to it.
    unsafe { handle.receive(RECEIVE_FLAG, address, request.buffer.len as u32, lkey)? };
    Ok(())
}

/// Number of packets of a message of `bytes` bytes.
fn packets(bytes: u64, config: RcConfig) -> u64 {
    bytes.div_ceil(config.mtu.bytes() as u64).max(1)
}

fn device(error: PostError) -> ModifyError {
    match error {
        PostError::Device(error) => error.into(),
        _ => DeviceError::System {
            call: "ibv_post_recv",
            errno: libc::EFAULT,
        }
        .into(),
    }
}

/// Converts a status code of `enum ibv_wc_status` to a completion error.
pub(crate) fn error_of(status: u32) -> CompletionError {
    match status {
        1 => CompletionError::LocalLength,
        2..=4 | 8 => CompletionError::LocalProtection,
        5 => CompletionError::Flushed,
        9 => CompletionError::RemoteInvalidRequest,
        10 => CompletionError::RemoteAccess,
        12 => CompletionError::RetryExceeded,
        13 => CompletionError::RnrRetryExceeded,
        _ => CompletionError::RemoteOperational,
    }
}
