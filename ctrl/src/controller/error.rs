//! Errors of switches and groups.

use std::fmt;
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::update;
use alfirk_p4runtime::{Code, Status};
use alfirk_roce::icrc::neutral::Unsolvable;

use super::virtual_qpns::VirtualQpnError;
use crate::constants::RECOMPUTE_NETWORK;
use crate::tables::{ConstraintError, UnsupportedStrategy};

/// Kind of a request to a switch, which a reply must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchRequest {
    /// Election of the primary controller, on the stream.
    Arbitration,
    /// The call GetForwardingPipelineConfig.
    GetPipeline,
    /// The call SetForwardingPipelineConfig.
    SetPipeline,
    /// The call Read.
    Read,
    /// The call Write.
    Write,
    /// Access to a register by a packet to the pipeline.
    RegisterAccess,
}

impl fmt::Display for SwitchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SwitchRequest::Arbitration => "arbitration",
            SwitchRequest::GetPipeline => "GetForwardingPipelineConfig",
            SwitchRequest::SetPipeline => "SetForwardingPipelineConfig",
            SwitchRequest::Read => "Read",
            SwitchRequest::Write => "Write",
            SwitchRequest::RegisterAccess => "a register access",
        })
    }
}

/// Kind of an update in a Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// Adds an entity.
    Insert,
    /// Replaces an entity.
    Modify,
    /// Removes an entity.
    Delete,
    /// The message has no type.
    Unspecified,
}

impl From<update::Type> for UpdateKind {
    fn from(of: update::Type) -> UpdateKind {
        match of {
            update::Type::Insert => UpdateKind::Insert,
            update::Type::Modify => UpdateKind::Modify,
            update::Type::Delete => UpdateKind::Delete,
            update::Type::Unspecified => UpdateKind::Unspecified,
        }
    }
}

impl fmt::Display for UpdateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateKind::Insert => "insert",
            UpdateKind::Modify => "modify",
            UpdateKind::Delete => "delete",
            UpdateKind::Unspecified => "update",
        })
    }
}

/// Error of a task on one switch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SwitchError {
    /// The connection to the switch ended.
    #[error("switch {switch}: connection lost: {why}")]
    Lost {
        /// Name of the switch.
        switch: String,
        /// Cause of the end of the connection.
        why: String,
    },
    /// Another controller with a higher election id is primary.
    #[error(
        "switch {switch}: another controller is primary; stop it, or use a higher election id"
    )]
    NotPrimary {
        /// Name of the switch.
        switch: String,
    },
    /// The switch rejected the pipeline.
    #[error("switch {switch}: SetForwardingPipelineConfig was rejected: {status}")]
    Pipeline {
        /// Name of the switch.
        switch: String,
        /// Status of the reply.
        status: Status,
    },
    /// A call failed without details on updates.
    #[error("switch {switch}: {call} failed: {status}")]
    Call {
        /// Name of the switch.
        switch: String,
        /// The call.
        call: SwitchRequest,
        /// Status of the reply.
        status: Status,
    },
    /// The switch rejected one update.
    #[error("switch {switch}: {entity}: {verb} was rejected: {}: {message}", code.as_str_name())]
    Refused {
        /// Name of the switch.
        switch: String,
        /// Table entry or other P4Runtime entity that the update concerns.
        entity: String,
        /// Kind of the update.
        verb: UpdateKind,
        /// gRPC status code of the rejected update.
        code: Code,
        /// Message of the switch about the rejected update.
        message: String,
    },
    /// A call had no reply within the timeout.
    #[error("switch {switch}: no reply to {call} within {seconds} s")]
    Timeout {
        /// Name of the switch.
        switch: String,
        /// The request without a reply.
        call: SwitchRequest,
        /// Timeout in seconds.
        seconds: f64,
    },
    /// The pipeline rejected a register access.
    #[error("switch {switch}: the pipeline rejected a register access: {reason}")]
    Registers {
        /// Name of the switch.
        switch: String,
        /// Reason, from the status of the reply.
        reason: String,
    },
    /// Frames that the switch sent from a port did not arrive at the neighbour.
    #[error("switch {switch}: frames sent from port {port} do not arrive at the neighbour; check the link")]
    LinkFailed {
        /// Name of the switch.
        switch: String,
        /// Port number on the switch.
        port: u32,
    },
}

impl SwitchError {
    /// Whether the switch certainly did not, and will not, apply the update.
    pub(super) fn is_definite(&self) -> bool {
        matches!(
            self,
            SwitchError::Refused { .. }
                | SwitchError::Registers { .. }
                | SwitchError::LinkFailed { .. }
        )
    }
}

/// Error of a request about a group.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GroupError {
    /// The group has fewer than two members; the value is their number.
    #[error("a group needs two members or more, not {0}")]
    TooFewMembers(usize),
    /// The group has more members than the topology has hosts.
    #[error("a group of {members} is larger than the topology, which has {hosts} hosts")]
    LargerThanTopology {
        /// Number of members requested.
        members: usize,
        /// Number of hosts in the topology.
        hosts: usize,
    },
    /// The address is not that of a host.
    #[error("{0} is not the address of any host of the topology")]
    UnknownHost(Ipv4Addr),
    /// The address is not a multicast address, as datagram groups require.
    #[error("{0} is not a multicast address; datagram groups are in 224.0.0.0/4")]
    NotMulticast(Ipv4Addr),
    /// The maximum number of datagram groups is reached; the value is this maximum.
    #[error("all {0} datagram groups of the switches are in use; leave one, or compile p4src/ with a larger MAX_DATAGRAM_GROUPS")]
    DatagramGroupsFull(u32),
    /// The P4 program has no datagram groups.
    #[error("the P4 program of the switches has no datagram groups; compile p4src/v1model without ALFIRK_PROFILE=PROFILE_CORE")]
    NoDatagrams,
    /// The P4 program does not support the group's strategies.
    #[error(transparent)]
    Strategy(#[from] UnsupportedStrategy),
    /// A host is listed more than once.
    #[error("host {host} ({ip}) is listed twice as a member; list each host once")]
    MemberTwice {
        /// Name of the host.
        host: String,
        /// IPv4 address of the host.
        ip: Ipv4Addr,
    },
    /// The queue pair number of a member is 0, which is reserved; the value is the member's address.
    #[error("member {0}: queue pair number 0 is reserved; give the number of the member's RC queue pair")]
    QueuePair(Ipv4Addr),
    /// The memory region is not aligned, so its addresses cannot be computed by XOR.
    #[error("member {ip}: a memory region of {len} bytes at {va:#x} is not aligned; it must start at a multiple of {alignment:#x}")]
    Region {
        /// IPv4 address of the member.
        ip: Ipv4Addr,
        /// Virtual address of the region.
        va: u64,
        /// Length of the region in bytes.
        len: u64,
        /// Alignment in bytes that its length requires.
        alignment: u128,
    },
    /// The memory region of a member is empty; the value is the member's address.
    #[error("member {0}: a memory region of 0 bytes cannot be written to; leave it out")]
    EmptyRegion(Ipv4Addr),
    /// The address is outside the group range.
    #[error("{mcst_id} is not usable for a group; use an address of {network}/{prefix_len}, except its first and last")]
    OutsideRange {
        /// Requested address of the group.
        mcst_id: Ipv4Addr,
        /// Network address of the group range.
        network: Ipv4Addr,
        /// Prefix length of the group range.
        prefix_len: u8,
    },
    /// The group's ICRCs are to be recomputed, but its address is outside the range for which the pipeline does that.
    #[error("the ICRCs of group {mcst_id} cannot be recomputed: parsers cover only addresses of {network}/17; use one of them, or neutral ICRCs", network = Ipv4Addr::from(RECOMPUTE_NETWORK))]
    NotRecomputed {
        /// Requested address of the group.
        mcst_id: Ipv4Addr,
    },
    /// The address belongs to another group.
    #[error("{0} is the address of another group; deregister that group, or let the controller choose an address")]
    Taken(Ipv4Addr),
    /// The virtual queue pair number is not usable.
    #[error(transparent)]
    VirtualQpn(#[from] VirtualQpnError),
    /// All addresses of the range are in use.
    #[error("all addresses of {network}/{prefix_len} are in use; deregister a group, or set a larger range")]
    NoAddress {
        /// Network address of the group range.
        network: Ipv4Addr,
        /// Prefix length of the group range.
        prefix_len: u8,
    },
    /// A table of a switch has too few free entries.
    #[error("switch {switch} has no space for the group: table {table} needs {needed} entries and has {left} free; deregister groups, or compile p4src/ with larger sizes")]
    SwitchFull {
        /// Name of the switch.
        switch: String,
        /// Name of the full table; `receivers` also if no receiver slot is free.
        table: &'static str,
        /// Number of entries that the group needs.
        needed: usize,
        /// Number of free entries.
        left: usize,
    },
    /// The tree has too many ports on one switch.
    #[error("switch {switch} has no space for the group: the tree needs {paths} ports there, and the pipeline supports {limit}; compile p4src/ with a larger PATH_BITS")]
    TooManyPaths {
        /// Name of the switch.
        switch: String,
        /// Number of ports needed.
        paths: usize,
        /// Maximum number of ports.
        limit: u32,
    },
    /// A switch of the tree is not ready.
    #[error("switch {switch} of the group's tree is not ready: {why}")]
    SwitchNotReady {
        /// Name of the switch.
        switch: String,
        /// Reason why the switch is not ready.
        why: String,
    },
    /// There is no group with that address.
    #[error("there is no group {0}")]
    NoSuchGroup(Ipv4Addr),
    /// The host that is to leave is not a member.
    #[error("{ip} is not a member of group {mcst_id}")]
    NotMember {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// IPv4 address of the host.
        ip: Ipv4Addr,
    },
    /// A member cannot be reached.
    #[error("member {0} cannot be reached: every path to it has a failed link or switch")]
    Unreachable(Ipv4Addr),
    /// Hosts that were invited did not agree.
    #[error("group {mcst_id}: {} did not agree to join; start the application on these hosts, so that they accept the invitation", members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    NotAgreed {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Addresses of the hosts that did not agree.
        members: Vec<Ipv4Addr>,
    },
    /// A member cannot join, because the group is not idle.
    #[error("group {0} has a message in flight; a member can join only between two messages")]
    InUse(Ipv4Addr),
    /// The group is being created, changed or removed.
    #[error("group {0} is being created, changed or removed; retry later")]
    Busy(Ipv4Addr),
    /// No ICRC constants exist for the required rewrite.
    #[error(transparent)]
    Icrc(#[from] Unsolvable),
    /// An entry violates a constraint of the P4 program.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A switch failed; all writes of the request were undone.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The group was removed from the controller, but not from every switch.
    #[error(
        "group {mcst_id} is removed, but its entries remain on switches until they reconnect: {}",
        join(unwind)
    )]
    Removal {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Errors, one per switch.
        unwind: Vec<SwitchError>,
    },
    /// A request failed, and undoing its writes failed as well.
    #[error(
        "{initial}; undoing the request failed, and entries remain on switches until they reconnect: {}",
        join(unwind)
    )]
    Unwind {
        /// Error that caused the undo.
        initial: Box<GroupError>,
        /// Errors while undoing, one per switch.
        unwind: Vec<SwitchError>,
    },
}

fn join(errors: &[SwitchError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
