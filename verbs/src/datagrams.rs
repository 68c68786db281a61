//! A datagram (UD) queue pair of a device.
//!
//! - Datagrams are copied to slots of one registered region before they are posted to the device, so that none needs a
//!   registration of its own. Datagrams without a free slot are queued here.
//! - The sender's address is in the 40 bytes before a received datagram: with RoCEv2 over IPv4, the last 20 of them are
//!   the IPv4 header.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use alfirk_roce::host::HostEvent;
use alfirk_roce::rc::{
    CompletionError, MemoryError, MemoryKey, MemorySlice, Payload, RecvRequest, Remote,
};
use alfirk_roce::ud::{
    check_receive, CompletedDatagram, UdCompletion, UdConfig, UdPostError, UdSendRequest, GRH_LEN,
};
use alfirk_roce::verbs::DeviceError;
use alfirk_roce::wire::{ipv4, QpNum};

use crate::memory::Memory;
use crate::queue_pair::error_of;
use crate::sys::{self, Ah, Context};

/// Maximum number of datagrams in the device's send queue. Each occupies a slot of the registered region until it
/// completes.
const SEND_QUEUE_DEPTH: u32 = 256;
/// Number of receive buffers requested of the device.
const RECEIVE_QUEUE_DEPTH: u32 = 2048;

/// Flag in the number (`wr_id`) of a work request that belongs to the receive queue.
const RECEIVE_FLAG: u64 = 1;
const SEND: u64 = 0;

/// Address handles of hosts and multicast groups, by IPv4 address.
pub(crate) type AddressHandles = BTreeMap<Ipv4Addr, Ah>;

/// A datagram that was posted to the device and has not completed.
struct PostedSend {
    wr_id: u64,
    is_signaled: bool,
    place: u64,
}

pub(crate) struct UdQueuePair {
    // The first field, so that the queue pair is dropped before the memory of its slots, which `destroy` deregisters.
    handle: sys::Qp,
    qpn: QpNum,
    config: UdConfig,
    depth: usize,
    places: MemoryKey,
    free: Vec<u64>,
    sends: VecDeque<PostedSend>,
    waiting_sends: VecDeque<UdSendRequest>,
    receives: VecDeque<RecvRequest>,
    waiting_receives: VecDeque<RecvRequest>,
    is_dead: bool,
}

impl UdQueuePair {
    pub(crate) fn create(
        context: &Context,
        memory: &mut Memory,
        max_depth: u32,
        cookie: u64,
        sq_psn: u32,
        config: UdConfig,
    ) -> Result<UdQueuePair, DeviceError> {
        let (sends, receives) = (
            SEND_QUEUE_DEPTH.min(max_depth),
            RECEIVE_QUEUE_DEPTH.min(max_depth),
        );
        let depth = (sends, receives);
        let (handle, qpn) = sys::Qp::create_ud(context, cookie, depth, config.qkey, sq_psn)?;
        let len = u64::from(sends) * config.mtu.bytes() as u64;
        let places = memory.register(context, len, false);
        Ok(UdQueuePair {
            handle,
            qpn: QpNum::new(qpn),
            config,
            depth: receives as usize,
            places: places.map_err(|error| match error {
                MemoryError::Device(error) => error,
                _ => DeviceError::Unsupported("memory for datagrams"),
            })?,
            free: (0..sends.into()).rev().collect(),
            sends: VecDeque::new(),
            waiting_sends: VecDeque::new(),
            receives: VecDeque::new(),
            waiting_receives: VecDeque::new(),
            is_dead: false,
        })
    }

    pub(crate) fn qpn(&self) -> QpNum {
        self.qpn
    }

    pub(crate) fn attach_multicast(&mut self, group: Ipv4Addr) -> Result<(), DeviceError> {
        self.handle.attach_multicast(group)
    }

    /// Destroys the queue pair and deregisters its memory.
    pub(crate) fn destroy(self, memory: &mut Memory) {
        let places = self.places;
        drop(self);
        // The region was registered when the queue pair was created.
        let _ = memory.remove(places);
    }

    // ---- Work ----

    pub(crate) fn post_send(
        &mut self,
        memory: &mut Memory,
        address_handles: &AddressHandles,
        request: UdSendRequest,
    ) -> Result<(), UdPostError> {
        if self.is_dead {
            return Err(UdPostError::ErrorState(self.qpn));
        }
        request.check(&self.config)?;
        if !address_handles.contains_key(&request.to.ip) {
            return Err(UdPostError::Unresolved(request.to.ip));
        }
        if let Payload::Memory(slice) = request.payload {
            memory.address_and_key(slice)?;
        }
        self.waiting_sends.push_back(request);
        self.refill(memory, address_handles)
    }

    pub(crate) fn post_recv(
        &mut self,
        memory: &Memory,
        request: RecvRequest,
    ) -> Result<(), UdPostError> {
        if self.is_dead {
            return Err(UdPostError::ErrorState(self.qpn));
        }
        memory.address_and_key(request.buffer)?;
        check_receive(&request)?;
        self.waiting_receives.push_back(request);
        self.refill_receives(memory)
    }

    /// Posts datagrams that are queued here to the device, up to the device's limit.
    fn refill(
        &mut self,
        memory: &mut Memory,
        address_handles: &AddressHandles,
    ) -> Result<(), UdPostError> {
        while !self.free.is_empty() {
            let Some(request) = self.waiting_sends.pop_front() else {
                break;
            };
            self.send(memory, address_handles, &request)?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        memory: &mut Memory,
        address_handles: &AddressHandles,
        request: &UdSendRequest,
    ) -> Result<(), UdPostError> {
        let (Some(handle), Some(place)) = (address_handles.get(&request.to.ip), self.free.pop())
        else {
            return Err(UdPostError::Unresolved(request.to.ip));
        };
        let slice = MemorySlice {
            key: self.places,
            offset: place * self.config.mtu.bytes() as u64,
            len: request.payload.len(),
        };
        match &request.payload {
            Payload::Bytes(bytes) => memory.write(slice.key, slice.offset, bytes)?,
            Payload::Memory(from) => {
                let range = from.offset as usize..(from.offset + from.len) as usize;
                let bytes = memory.bytes(from.key)?.get(range).unwrap_or_default();
                let bytes = bytes.to_vec();
                memory.write(slice.key, slice.offset, &bytes)?;
            }
        }
        let (address, lkey) = memory.address_and_key(slice)?;
        let datagram = sys::Datagram {
            wr_id: SEND,
            address: address.cast_const(),
            len: slice.len as u32,
            lkey,
            qpn: request.to.qpn.get(),
            qkey: request.qkey(&self.config),
            immediate: request.immediate,
        };
        // SAFETY: the slots stay registered until after the queue pair's end, and this slot is not written to before it is free again.
        unsafe { self.handle.send_datagram(handle, &datagram)? };
        self.sends.push_back(PostedSend {
            wr_id: request.wr_id,
            is_signaled: request.is_signaled,
            place,
        });
        Ok(())
    }

    fn refill_receives(&mut self, memory: &Memory) -> Result<(), UdPostError> {
        while self.receives.len() < self.depth {
            let Some(request) = self.waiting_receives.pop_front() else {
                break;
            };
            let (address, lkey) = memory.address_and_key(request.buffer)?;
            let len = request.buffer.len as u32;
            // SAFETY: the memory stays valid until its registration ends, after which the device cannot write to it.
            unsafe { self.handle.receive(RECEIVE_FLAG, address, len, lkey)? };
            self.receives.push_back(request);
        }
        Ok(())
    }

    // ---- Completions ----

    /// Handles the completions of the device, then posts the work requests that are queued here.
    pub(crate) fn drain(
        &mut self,
        memory: &mut Memory,
        address_handles: &AddressHandles,
        events: &mut VecDeque<HostEvent>,
    ) {
        if let Err(error) = self.handle.arm() {
            tracing::warn!("datagram queue pair {}: {error}", self.qpn);
        }
        let mut found = Vec::new();
        loop {
            found.clear();
            if let Err(error) = self.handle.poll(&mut found) {
                tracing::warn!("datagram queue pair {}: {error}", self.qpn);
            }
            if found.is_empty() {
                break;
            }
            for completion in &found {
                if let Some((wr_id, outcome)) = self.handle_completion(completion, memory) {
                    self.is_dead |= outcome.is_err();
                    events.push_back(HostEvent::Datagram(UdCompletion {
                        qpn: self.qpn,
                        wr_id,
                        outcome,
                    }));
                }
            }
        }
        if self.is_dead {
            return self.flush(events);
        }
        let refilled = self.refill(memory, address_handles);
        if let Err(error) = refilled.and_then(|()| self.refill_receives(memory)) {
            tracing::warn!("datagram queue pair {}: {error}", self.qpn);
        }
    }

    /// Handles one completion of the device. Returns the number and the result of the user's work request, if the user
    /// gets a completion for it.
    fn handle_completion(
        &mut self,
        completion: &sys::Completion,
        memory: &Memory,
    ) -> Option<(u64, Result<CompletedDatagram, CompletionError>)> {
        if completion.wr_id & RECEIVE_FLAG == 0 {
            let sent = self.sends.pop_front()?;
            self.free.push(sent.place);
            let outcome = completion.outcome.map(|_| CompletedDatagram::Sent);
            let is_reported = sent.is_signaled || outcome.is_err();
            return is_reported.then(|| (sent.wr_id, outcome.map_err(error_of)));
        }
        let request = self.receives.pop_front()?;
        let outcome = match completion.outcome {
            Err(code) => Err(error_of(code)),
            Ok(done) => received(memory, &request, &done),
        };
        Some((request.wr_id, outcome))
    }

    /// Reports the work requests that the device has not flushed as flushed, in `events`.
    fn flush(&mut self, events: &mut VecDeque<HostEvent>) {
        let sends = self.sends.drain(..).map(|sent| sent.wr_id);
        let waiting = self.waiting_sends.drain(..).map(|request| request.wr_id);
        let receives = self.receives.drain(..).map(|request| request.wr_id);
        let later = self.waiting_receives.drain(..).map(|request| request.wr_id);
        let all = sends.chain(waiting).chain(receives).chain(later);
        events.extend(all.map(|wr_id| {
            HostEvent::Datagram(UdCompletion {
                qpn: self.qpn,
                wr_id,
                outcome: Err(CompletionError::Flushed),
            })
        }));
    }
}

/// Reads the length and the addresses of a received datagram; the device has written the addresses in front of the
/// datagram.
fn received(
    memory: &Memory,
    request: &RecvRequest,
    done: &sys::WorkResult,
) -> Result<CompletedDatagram, CompletionError> {
    let MemorySlice { key, offset, .. } = request.buffer;
    let end = (offset + GRH_LEN) as usize;
    let region = memory.bytes(key).ok();
    let header = region.and_then(|bytes| bytes.get(..end)?.last_chunk());
    let header = header.ok_or(CompletionError::LocalProtection)?;
    let (source, destination) = ipv4::addresses(header);
    Ok(CompletedDatagram::Received {
        bytes: done.len.into(),
        immediate: done.immediate,
        source: Remote {
            ip: source,
            qpn: QpNum::new(done.source_qpn),
        },
        destination,
    })
}
