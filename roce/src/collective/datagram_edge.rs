//! A member's endpoint of the datagram edge, over which the root multicasts to all other members
//! ([`super::binomial_ack`]).

use super::error::TransferError;
use super::spec::{SpecError, TransferSpec};
use crate::binomial_ack::{self, EndpointConfig};
use crate::verbs::Verbs;

/// Member number of the root in the datagram group. The root is the group's manager.
pub(super) const ROOT: u32 = 0;

/// This member's endpoint of the edge over which the root multicasts datagrams to all other members.
pub(super) struct DatagramEdge {
    pub(super) member: binomial_ack::Endpoint,
    members: usize,
    is_ready: bool,
    /// Bytes of data that this member has multicast.
    pub(super) sent: u64,
}

impl DatagramEdge {
    pub(super) fn open(
        host: &mut dyn Verbs,
        spec: &TransferSpec,
    ) -> Result<DatagramEdge, TransferError> {
        let datagrams = spec
            .datagrams
            .ok_or(SpecError::MissingDatagramGroup(spec.algorithm))?;
        let rc = spec.rc.unwrap_or(host.default_rc());
        let (_, longest) = spec.slice(0);
        let members = spec.members.len();
        let config =
            EndpointConfig::new(datagrams.group, datagrams.qkey, rc, longest, members as u32);
        Ok(DatagramEdge {
            member: binomial_ack::Endpoint::open(host, config)?,
            members,
            is_ready: false,
            sent: 0,
        })
    }

    /// Whether all members have joined, and this member is connected to its neighbours in the tree.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether this endpoint may be closed: no other member can need a repair from it.
    pub(super) fn may_leave(&self) -> bool {
        self.member.may_leave()
    }

    pub(super) fn close(self, host: &mut dyn Verbs) {
        self.member.close(host);
    }

    /// Once all members have joined, connects to the neighbours in the acknowledgement tree. Returns true only in the
    /// call in which the edge becomes ready.
    pub(super) fn becomes_ready(&mut self, host: &mut dyn Verbs, now: u64) -> bool {
        if self.is_ready || self.member.members().len() < self.members {
            return false;
        }
        self.member.connect_tree(host, now, ROOT);
        self.is_ready = self.member.is_tree_connected(ROOT);
        self.is_ready
    }
}
