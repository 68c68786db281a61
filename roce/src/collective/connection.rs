//! A member's queue pair on an edge, and its progress.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use std::net::Ipv4Addr;

use super::edge::EdgeId;
use super::plan::Flow;
use super::spec::RemoteMemory;
use crate::rc::MemoryKey;
use crate::wire::QpNum;

/// This member's queue pair on an edge (connection, or group), and the number of slices that it has carried.
pub(super) struct Connection {
    pub(super) flow: Flow,
    pub(super) qpn: QpNum,
    /// Remote memory that WRITEs go to, set by `connect`; `None` if the remote end has announced none.
    pub(super) remote_memory: Option<RemoteMemory>,
    /// For each receiver: its address, and the target of each slice's WRITE, with
    /// [`WriteMode::PerRequest`](super::WriteMode::PerRequest). Set by `connect`.
    pub(super) receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>,
    /// The slice (message) whose memory regions were announced to the switches last; `None` before the first
    /// announcement.
    pub(super) announced_slice: Option<u32>,
    /// Number of announcements of memory regions that the switches have not acknowledged yet; one is sent per receiver
    /// of the next WRITE.
    pub(super) pending_announcements: usize,
    /// Number of receives posted so far for an incoming flow.
    pub(super) receives: usize,
    /// Number of receives that the receiving end has announced so far. The receiving end is this member on an incoming
    /// edge, the remote end on an outgoing one.
    pub(super) credit: usize,
    /// Scratch buffer for the first block, used while the size of the data is not known; `None` if no first block is
    /// expected.
    pub(super) scratch: Option<MemoryKey>,
    /// Index of the send schedule that orders this connection's slices; `None` if they wait for no other connection.
    pub(super) schedule: Option<usize>,
    /// Number of slices (messages) whose work requests have been posted.
    pub(super) posted: usize,
    /// Number of slices (messages) whose work requests have completed.
    pub(super) completed: usize,
}

impl Connection {
    /// Creates the record of queue pair `qpn`, on which nothing is posted yet.
    pub(super) fn new(flow: Flow, qpn: QpNum) -> Connection {
        Connection {
            flow,
            qpn,
            remote_memory: None,
            receivers: Vec::new(),
            announced_slice: None,
            pending_announcements: 0,
            receives: 0,
            credit: 0,
            scratch: None,
            schedule: None,
            posted: 0,
            completed: 0,
        }
    }

    pub(super) fn is_group(&self) -> bool {
        matches!(self.flow.edge, EdgeId::Group { .. })
    }
}
