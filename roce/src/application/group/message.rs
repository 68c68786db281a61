//! Messages between the leader of a group and the other members, which the driver carries over reliable streams.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::collective::{Algorithm, RemoteMemory};
use crate::wire::{Psn, QpNum};

/// Identifies a stream between the leader and another member, at the end that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl LinkId {
    /// At members other than the leader: the stream to the leader, their only one.
    pub const LEADER: LinkId = LinkId(0);
}

/// Transport of the bytes in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupTransport {
    /// The source sends once, and switches replicate the packets.
    Multicast,
    /// Each member forwards the bytes to the next member, 64 KiB at a time.
    Chain,
    /// The source sends to each member.
    Unicast,
}

impl GroupTransport {
    /// The algorithm of broadcasts among connected members; `None` for multicast.
    pub(super) fn overlay(self) -> Option<Algorithm> {
        match self {
            GroupTransport::Multicast => None,
            GroupTransport::Chain => Some(Algorithm::Chain),
            GroupTransport::Unicast => Some(Algorithm::Unicast),
        }
    }
}

/// Address, queue pair and buffer of a member, which all other members need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// IPv4 address of the member's host.
    pub ip: Ipv4Addr,
    /// Number of the member's queue pair in the group.
    pub qpn: QpNum,
    /// Address, key and length of the member's buffer, for WRITEs.
    pub memory: RemoteMemory,
}

/// One end of a connection between two members of a group without multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshEnd {
    /// Rank of the member that has created the queue pair.
    pub from: u32,
    /// Rank of the member to which the queue pair leads.
    pub to: u32,
    /// Number of the queue pair that member `from` uses towards member `to`.
    pub qpn: QpNum,
    /// PSN of the queue pair's first request.
    pub psn: Psn,
}

/// Random numbers by which a group differs from earlier groups with the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Virtual queue pair number of the group.
    pub virtual_qpn: QpNum,
    /// Initial PSN of every member.
    pub initial_psn: Psn,
}

impl Epoch {
    /// Takes both numbers from 64 random bits.
    pub(super) fn from_random(random: u64) -> Epoch {
        Epoch {
            virtual_qpn: QpNum::ordinary(random as u32),
            initial_psn: Psn::new((random >> 32) as u32),
        }
    }
}

/// A message between the leader of a group and another member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Message {
    /// To the leader: request to join.
    Hello {
        /// The member that joins.
        #[serde(rename = "card")]
        member: MemberInfo,
    },
    /// To a member: its rank, all members, and the group's random numbers.
    Welcome {
        /// Rank of the member that receives the message.
        rank: u32,
        /// All members, by rank.
        members: Vec<MemberInfo>,
        /// The group's random numbers.
        epoch: Epoch,
    },
    /// To the leader: the sender has reached a synchronization point.
    Ready {
        /// Reason why the sender cannot continue as planned; `None` without an error.
        error: Option<String>,
    },
    /// To a member: all members have reached the synchronization point.
    Go {
        /// The transport to use from now on.
        #[serde(rename = "way")]
        transport: GroupTransport,
        /// Ranks of the members that are still in the group.
        alive: Vec<u32>,
    },
    /// To the leader: the sender's queue pairs for connections to each other member. From the leader: those of all
    /// members.
    Mesh {
        /// The ends of the connections.
        ends: Vec<MeshEnd>,
    },
    /// To the leader: the sender leaves the group.
    Leave,
    /// To a member: it was removed from the group, or the group has ended.
    Bye,
}

impl Message {
    /// Whether the receiver may have gone already, so that a failure to send the message is not an error.
    pub fn is_optional(&self) -> bool {
        *self == Message::Bye
    }
}
