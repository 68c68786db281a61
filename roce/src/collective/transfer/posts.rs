//! Posts of slices: the queue pairs of a transfer as the transport of its plan.
//!
//! A *slice* is the part of the data in one message. The *root* has rank 0 and the data at the start.

use super::connection::Connection;
use super::datagram_edge::DatagramEdge;
use crate::collective::depth::RequestLatencies;
use crate::collective::error::TransferError;
use crate::collective::execution::{Due, Sending, Transport};
use crate::collective::spec::TransferSpec;
use crate::rc::MemoryKey;
use crate::verbs::Verbs;

/// Posts the slices of a plan to the queue pairs of a host.
pub(super) struct Posts<'a> {
    pub host: &'a mut dyn Verbs,
    /// Time in nanoseconds.
    pub now: u64,
    pub spec: &'a TransferSpec,
    /// The memory region of the data.
    pub key: MemoryKey,
    /// The connections of the outgoing flows.
    pub outgoing: &'a mut [Connection],
    pub datagrams: Option<&'a mut DatagramEdge>,
    /// The first slice (message) that the root must not post yet; `None` for no limit.
    pub limit: Option<u32>,
    /// Latencies of the root's messages; `None` without a queue depth.
    pub requests: Option<&'a mut RequestLatencies>,
}

impl Transport for Posts<'_> {
    type Error = TransferError;

    fn send(&mut self, due: Due) -> Result<Sending, TransferError> {
        let Due { flow, slice, .. } = due;
        let connection = &mut self.outgoing[flow];
        let is_beyond_limit = self.limit.is_some_and(|limit| slice >= limit);
        let requests = self.requests.as_ref();
        let is_too_deep = requests.is_some_and(|requests| !requests.may_post(slice));
        let is_expected = self.spec.ready.is_none() || due.sent < connection.credit();
        if is_beyond_limit
            || is_too_deep
            || !is_expected
            || !connection.announce_if_needed(self.host, self.spec, slice, due.unacknowledged)?
        {
            return Ok(Sending::Blocked);
        }
        if let Some(requests) = &mut self.requests {
            requests.posted(slice, self.now);
        }
        if !due.edge.is_datagrams() {
            connection.post_slice(self.host, self.spec, self.key, slice)?;
            return Ok(Sending::Posted);
        }
        let Some(edge) = &mut self.datagrams else {
            return Ok(Sending::Blocked);
        };
        match edge.post(self.host, self.now, self.key, self.spec.slice(slice))? {
            true => Ok(Sending::Posted),
            false => Ok(Sending::Blocked),
        }
    }

    fn slice_len(&self, slice: u32) -> u64 {
        self.spec.slice(slice).1
    }
}
