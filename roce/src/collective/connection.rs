//! A member's end of an edge, and its progress.

use std::net::Ipv4Addr;

use super::edge::EdgeId;
use super::plan::Flow;
use super::spec::RemoteMemory;
use crate::rc::MemoryKey;
use crate::wire::QpNum;

/// This member's end of an edge.
pub(super) struct Connection {
    pub(super) flow: Flow,
    pub(super) qpn: QpNum,
    /// Target of WRITEs; set by `connect`.
    pub(super) remote_memory: Option<RemoteMemory>,
    /// By receiver: the target of each slice's WRITE, with [`WriteMode::PerRequest`](super::WriteMode::PerRequest); set by `connect`.
    pub(super) receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>,
    /// The slice whose regions were announced last.
    pub(super) announced_slice: Option<u32>,
    /// Region announcements of that slice that are not acknowledged yet, one per receiver.
    pub(super) pending_announcements: usize,
    /// Receives posted so far for the slices of an incoming flow.
    pub(super) receives: usize,
    /// At a sender: receives that the receiver has announced; at a receiver: those that this member has announced.
    pub(super) credit: usize,
    /// Scratch buffer for the first block while the size is not known.
    pub(super) scratch: Option<MemoryKey>,
    /// Index of the send schedule that the flow belongs to.
    pub(super) schedule: Option<usize>,
    /// Slices of the flow posted to the queue pair.
    pub(super) posted: usize,
    /// Slices of the flow that have completed.
    pub(super) completed: usize,
}

impl Connection {
    /// A connection with nothing posted.
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
