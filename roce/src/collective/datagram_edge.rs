//! A member's end of the edge of datagrams ([`super::binomial_ack`]).

use super::error::TransferError;
use super::spec::{SpecError, TransferSpec};
use crate::binomial_ack::{self, EndpointConfig};
use crate::verbs::Verbs;

/// The number that the manager, which is the root, has among the members.
pub(super) const ROOT: u32 = 0;

/// A member's end of the edge.
pub(super) struct DatagramEdge {
    pub(super) member: binomial_ack::Endpoint,
    members: usize,
    is_ready: bool,
    /// Bytes of messages that this member has multicast.
    pub(super) sent: u64,
}

impl DatagramEdge {
    pub(super) fn open(
        host: &mut dyn Verbs,
        spec: &TransferSpec,
    ) -> Result<DatagramEdge, TransferError> {
        let datagrams = spec
            .datagrams
            .ok_or(SpecError::NoDatagrams(spec.algorithm))?;
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

    /// Whether everybody is in the group, and this member connected to its neighbours in the root's tree.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether there is nothing that others may still need of this member.
    pub(super) fn is_idle(&self) -> bool {
        self.member.is_idle()
    }

    pub(super) fn close(self, host: &mut dyn Verbs) {
        self.member.close(host);
    }

    /// Sees whether the edge is ready by now; says so once.
    pub(super) fn becomes_ready(&mut self, host: &mut dyn Verbs, now: u64) -> bool {
        if self.is_ready || self.member.members().len() < self.members {
            return false;
        }
        self.member.connect_tree(host, now, ROOT);
        self.is_ready = self.member.is_tree_connected(ROOT);
        self.is_ready
    }
}
