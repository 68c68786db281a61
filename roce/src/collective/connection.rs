//! A member's end of an edge, and how far it is.

use std::net::Ipv4Addr;

use super::edge::EdgeId;
use super::plan::Flow;
use super::spec::RemoteMemory;
use crate::rc::MemoryKey;
use crate::wire::QpNum;

/// One end of an edge at this member.
pub(super) struct Connection {
    pub(super) flow: Flow,
    pub(super) qpn: QpNum,
    /// Where WRITEs go; known after `connect`.
    pub(super) remote_memory: Option<RemoteMemory>,
    /// Where each slice's WRITE goes at each receiver, with [`WriteMode::PerRequest`](super::WriteMode::PerRequest); known after `connect`.
    pub(super) receivers: Vec<(Ipv4Addr, Vec<RemoteMemory>)>,
    /// The slice whose regions have been announced last.
    pub(super) told: Option<u32>,
    /// To how many receivers' switches that is not acknowledged yet.
    pub(super) untold: usize,
    /// For how many slices of the flow, if it comes in, a receive has been posted.
    pub(super) receives: usize,
    /// How many of them the receiver has said to have posted, where that is said.
    pub(super) credit: usize,
    /// Where the first block comes to, as long as nobody knows how much there is.
    pub(super) scratch: Option<MemoryKey>,
    /// The schedule that the flow is a part of.
    pub(super) lane: Option<usize>,
    /// How many slices of the flow have been handed to the queue pair.
    pub(super) posted: usize,
    /// How many have completed.
    pub(super) completed: usize,
}

impl Connection {
    /// One with nothing posted.
    pub(super) fn new(flow: Flow, qpn: QpNum) -> Connection {
        Connection {
            flow,
            qpn,
            remote_memory: None,
            receivers: Vec::new(),
            told: None,
            untold: 0,
            receives: 0,
            credit: 0,
            scratch: None,
            lane: None,
            posted: 0,
            completed: 0,
        }
    }

    pub(super) fn is_group(&self) -> bool {
        matches!(self.flow.edge, EdgeId::Group { .. })
    }
}
