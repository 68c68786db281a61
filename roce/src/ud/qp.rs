//! Queue pairs of the unreliable datagram service.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::packet::{UdHeaders, UdPacket};
use crate::rc::{
    CompletionError, MemoryError, MemorySlice, MemoryTable, PathMtu, Payload, RecvRequest, Remote,
};
use crate::verbs::DeviceError;
use crate::wire::{bth, deth, Opcode, Psn, QpNum};

/// Destination queue pair number of datagrams to a multicast group (IBTA vol. 1, 10.5.1).
pub const MULTICAST_QPN: QpNum = QpNum::new(0xff_ffff);
/// Number of bytes at the start of each receive buffer that are reserved for a GRH (IBTA vol. 1, 10.2.5). With IPv4,
/// the last 20 of them hold the IPv4 header (annex A17.4.5.1).
pub const GRH_LEN: u64 = 40;
/// Highest bit of a Q_Key in a work request: if it is set, the Q_Key of the queue pair is sent instead (IBTA vol. 1,
/// 11.4.1.1).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// Settings of a datagram queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdConfig {
    /// Path MTU: the longest payload of a datagram, which is one packet.
    pub mtu: PathMtu,
    /// Q_Key that received datagrams must have, and the default for sent ones.
    pub qkey: u32,
    /// Priority among the queue pairs of the host: a smaller number sends first, equal numbers alternate.
    pub priority: u8,
}

/// The destination of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdDestination {
    /// IPv4 address of a host or of a multicast group (224.0.0.0/4).
    pub ip: Ipv4Addr,
    /// Number of the host's queue pair; [`MULTICAST_QPN`] for a multicast group.
    pub qpn: QpNum,
    /// Q_Key of the destination. With its highest bit set, the sender's own is sent instead.
    pub qkey: u32,
}

/// A datagram to send.
#[derive(Debug, Clone)]
pub struct UdSendRequest {
    /// Number of the user's choice, which the completion contains.
    pub wr_id: u64,
    /// Host or group, and queue pair, to which the datagram is sent.
    pub to: UdDestination,
    /// Immediate data, which the receiver's completion contains; `None` for a datagram without.
    pub immediate: Option<u32>,
    /// Bytes of the datagram.
    pub payload: Payload,
    /// Whether the user gets a completion when the datagram is sent. Failures are always reported.
    pub is_signaled: bool,
}

/// Reason why a work request for datagrams is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UdPostError {
    /// The host has no datagram queue pair with this number.
    #[error("datagram queue pair {0} does not exist")]
    NoSuchQueuePair(QpNum),
    /// The queue pair is in the error state.
    #[error("datagram queue pair {0} is in the error state; create a new one")]
    ErrorState(QpNum),
    /// The datagram is longer than a packet may be.
    #[error("a datagram of {len} bytes exceeds the path MTU of {mtu} bytes; cut the message into segments")]
    TooLong {
        /// Length of the payload in bytes.
        len: u64,
        /// Path MTU in bytes.
        mtu: usize,
    },
    /// The queue pair number does not fit the destination address: multicast needs [`MULTICAST_QPN`], unicast any
    /// other.
    #[error("wrong queue pair number for {0}: a multicast address needs 0xffffff, a unicast address any other")]
    WrongQueuePair(Ipv4Addr),
    /// The MAC address of this destination is not resolved. The caller must resolve it first, by `resolve`.
    #[error("the link-layer address of {0} is not resolved; resolve it first")]
    Unresolved(Ipv4Addr),
    /// The receive buffer, of this length in bytes, is shorter than [`GRH_LEN`].
    #[error("a receive buffer of {0} bytes cannot hold the global route header; use 40 bytes more than the message")]
    NoSpaceForGrh(u64),
    /// The memory of the request is not registered, or cannot be used in this way.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The RDMA device has reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl UdSendRequest {
    /// Checks the request against the settings of its queue pair.
    pub fn check(&self, config: &UdConfig) -> Result<(), UdPostError> {
        if self.to.ip.is_multicast() != (self.to.qpn == MULTICAST_QPN) {
            return Err(UdPostError::WrongQueuePair(self.to.ip));
        }
        let (len, mtu) = (self.payload.len(), config.mtu.bytes());
        match len > mtu as u64 {
            true => Err(UdPostError::TooLong { len, mtu }),
            false => Ok(()),
        }
    }

    /// The Q_Key that the datagram carries.
    pub fn qkey(&self, config: &UdConfig) -> u32 {
        match self.to.qkey & CONTROLLED_QKEY {
            0 => self.to.qkey,
            _ => config.qkey,
        }
    }
}

/// Rejects a receive buffer that is too short even for an empty datagram.
pub fn check_receive(request: &RecvRequest) -> Result<(), UdPostError> {
    match request.buffer.len < GRH_LEN {
        true => Err(UdPostError::NoSpaceForGrh(request.buffer.len)),
        false => Ok(()),
    }
}

/// Completion of a work request for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdCompletion {
    /// Number of the local queue pair.
    pub qpn: QpNum,
    /// Number that the user gave to the work request.
    pub wr_id: u64,
    /// Result of the work request.
    pub outcome: Result<CompletedDatagram, CompletionError>,
}

/// Result of a successful work request for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompletedDatagram {
    /// The datagram was sent. Whether it arrived is unknown.
    Sent,
    /// A datagram was received into the buffer. Its payload begins [`GRH_LEN`] bytes after the buffer's start.
    Received {
        /// Length of the payload plus [`GRH_LEN`], in bytes, as in verbs.
        bytes: u64,
        /// Immediate data of the datagram; `None` for one without.
        immediate: Option<u32>,
        /// Address and queue pair of the sender.
        source: Remote,
        /// Destination address: the host's own, or that of the multicast group.
        destination: Ipv4Addr,
    },
}

/// Counters of a datagram queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdStats {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received into a buffer.
    pub received: u64,
    /// Datagrams dropped for a wrong Q_Key. (A NIC also counts these in its bad Q_Key counter, IBTA vol. 1, 10.2.5.)
    pub bad_qkey: u64,
    /// Datagrams dropped because no receive buffer was posted.
    pub no_buffer: u64,
    /// Datagrams dropped because they were longer than the path MTU.
    pub too_long: u64,
}

/// A datagram to send, in the form from which the host builds the frame.
pub(crate) struct UdOutgoing {
    pub(crate) wr_id: u64,
    pub(crate) is_signaled: bool,
    pub(crate) to: Ipv4Addr,
    pub(crate) headers: UdHeaders,
    pub(crate) payload: Payload,
}

/// State machine of a datagram queue pair.
pub struct UdQueuePair {
    qpn: QpNum,
    config: UdConfig,
    next_psn: Psn,
    sends: VecDeque<UdSendRequest>,
    receives: VecDeque<RecvRequest>,
    completions: VecDeque<UdCompletion>,
    has_failed: bool,
    stats: UdStats,
}

impl UdQueuePair {
    pub(crate) fn new(qpn: QpNum, first_psn: Psn, config: UdConfig) -> UdQueuePair {
        UdQueuePair {
            qpn,
            config,
            next_psn: first_psn,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            completions: VecDeque::new(),
            has_failed: false,
            stats: UdStats::default(),
        }
    }

    /// Settings of the queue pair.
    pub fn config(&self) -> &UdConfig {
        &self.config
    }

    /// Counters of the queue pair.
    pub fn stats(&self) -> UdStats {
        self.stats
    }

    /// Whether the queue pair is in the error state, which a failed receive causes.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Posts a datagram to send.
    pub(crate) fn post_send(
        &mut self,
        memory: &MemoryTable,
        request: UdSendRequest,
    ) -> Result<(), UdPostError> {
        if self.has_failed {
            return Err(UdPostError::ErrorState(self.qpn));
        }
        request.check(&self.config)?;
        request.payload.read(memory, 0, request.payload.len())?;
        self.sends.push_back(request);
        Ok(())
    }

    /// Posts a receive buffer.
    pub(crate) fn post_recv(
        &mut self,
        memory: &MemoryTable,
        request: RecvRequest,
    ) -> Result<(), UdPostError> {
        if self.has_failed {
            return Err(UdPostError::ErrorState(self.qpn));
        }
        memory.check(request.buffer)?;
        check_receive(&request)?;
        self.receives.push_back(request);
        Ok(())
    }

    pub(crate) fn wants_transmit(&self) -> bool {
        !self.sends.is_empty()
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<UdOutgoing> {
        let request = self.sends.pop_front()?;
        let opcode = match request.immediate {
            None => Opcode::UdSendOnly,
            Some(_) => Opcode::UdSendOnlyImm,
        };
        let pad_count = (request.payload.len().wrapping_neg() & 3) as u8;
        let bth = bth::Repr {
            pad_count,
            ..bth::Repr::new(opcode, request.to.qpn, self.next_psn)
        };
        let qkey = request.qkey(&self.config);
        let headers = UdHeaders {
            bth,
            deth: deth::Repr {
                qkey,
                src_qp: self.qpn,
            },
            immediate: request.immediate,
        };
        self.next_psn = self.next_psn.next();
        Some(UdOutgoing {
            wr_id: request.wr_id,
            is_signaled: request.is_signaled,
            to: request.to.ip,
            headers,
            payload: request.payload,
        })
    }

    /// Records that a datagram was sent.
    pub(crate) fn sent(&mut self, wr_id: u64, is_signaled: bool) {
        self.stats.sent += 1;
        if !is_signaled {
            return;
        }
        self.completions.push_back(UdCompletion {
            qpn: self.qpn,
            wr_id,
            outcome: Ok(CompletedDatagram::Sent),
        });
    }

    /// Fails a send whose memory is not registered any more.
    pub(crate) fn fail_send(&mut self, wr_id: u64) {
        self.completions.push_back(UdCompletion {
            qpn: self.qpn,
            wr_id,
            outcome: Err(CompletionError::LocalProtection),
        });
        self.enter_error_state();
    }

    pub(crate) fn poll_completion(&mut self) -> Option<UdCompletion> {
        self.completions.pop_front()
    }

    /// Whether the Q_Key of a received datagram matches; counts a mismatch.
    pub(crate) fn check_qkey(&mut self, qkey: u32) -> bool {
        let is_good = qkey == self.config.qkey;
        self.stats.bad_qkey += u64::from(!is_good);
        is_good
    }

    /// Handles a datagram whose Q_Key and ICRC are valid; `ip_header` has 20 bytes.
    pub(crate) fn handle_packet(
        &mut self,
        packet: &UdPacket<'_>,
        ip_header: &[u8],
        source: Ipv4Addr,
        destination: Ipv4Addr,
        memory: &mut MemoryTable,
    ) {
        if self.has_failed {
            return;
        }
        if packet.payload.len() > self.config.mtu.bytes() {
            self.stats.too_long += 1;
            return;
        }
        let Some(receive) = self.receives.pop_front() else {
            self.stats.no_buffer += 1;
            return;
        };
        let bytes = GRH_LEN + packet.payload.len() as u64;
        let outcome = if bytes > receive.buffer.len {
            Err(CompletionError::LocalLength)
        } else {
            let MemorySlice { key, offset, .. } = receive.buffer;
            let at_header = offset + GRH_LEN - ip_header.len() as u64;
            memory
                .write(key, at_header, ip_header)
                .and_then(|()| memory.write(key, offset + GRH_LEN, packet.payload))
                .map_err(|_| CompletionError::LocalProtection)
        };
        let received = CompletedDatagram::Received {
            bytes,
            immediate: packet.headers.immediate,
            source: Remote {
                ip: source,
                qpn: packet.headers.deth.src_qp,
            },
            destination,
        };
        self.completions.push_back(UdCompletion {
            qpn: self.qpn,
            wr_id: receive.wr_id,
            outcome: outcome.map(|()| received),
        });
        match outcome {
            Ok(()) => self.stats.received += 1,
            Err(_) => self.enter_error_state(),
        }
    }

    /// Enters the error state after a failed work request (IBTA vol. 1, 10.3.1.7): flushes all others.
    fn enter_error_state(&mut self) {
        self.has_failed = true;
        let sends = self.sends.drain(..).map(|request| request.wr_id);
        let receives = self.receives.drain(..).map(|request| request.wr_id);
        let flushed = sends.chain(receives).map(|wr_id| UdCompletion {
            qpn: self.qpn,
            wr_id,
            outcome: Err(CompletionError::Flushed),
        });
        self.completions.extend(flushed);
    }
}
