//! What can go wrong with switches and groups.

use std::net::Ipv4Addr;

use alfirk_p4runtime::{Code, Status};
use alfirk_roce::icrc::neutral::Unsolvable;

use super::virtual_qpns::VirtualQpnError;
use crate::constants::RECOMPUTE_NETWORK;
use crate::tables::ConstraintError;

/// Why something was not done on one switch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SwitchError {
    /// The connection ended.
    #[error("switch {switch}: connection lost: {why}")]
    Lost {
        /// The switch.
        switch: String,
        /// What ended it.
        why: String,
    },
    /// Another controller took over.
    #[error(
        "switch {switch}: another controller is primary; stop it, or use a higher election id"
    )]
    NotPrimary {
        /// The switch.
        switch: String,
    },
    /// The pipeline was refused.
    #[error("switch {switch}: the pipeline was refused: {status}")]
    Pipeline {
        /// The switch.
        switch: String,
        /// What the switch said.
        status: Status,
    },
    /// A call failed as a whole.
    #[error("switch {switch}: {call} failed: {status}")]
    Call {
        /// The switch.
        switch: String,
        /// `Write` or another.
        call: &'static str,
        /// What the switch said.
        status: Status,
    },
    /// One update was refused.
    #[error("switch {switch}: {entity}: {verb} refused: {}: {message}", code.as_str_name())]
    Refused {
        /// The switch.
        switch: String,
        /// What the update was about.
        entity: String,
        /// `insert`, `modify` or `delete`.
        verb: &'static str,
        /// The kind of refusal.
        code: Code,
        /// What the switch said.
        message: String,
    },
    /// No answer in time.
    #[error("switch {switch}: no answer to {call} within {seconds} s")]
    Timeout {
        /// The switch.
        switch: String,
        /// What was asked.
        call: &'static str,
        /// How long was waited.
        seconds: f64,
    },
    /// The pipeline refused a register access.
    #[error("switch {switch}: register access refused by the pipeline: {reason}")]
    Registers {
        /// The switch.
        switch: String,
        /// Why, from the answer's status.
        reason: &'static str,
    },
}

impl SwitchError {
    /// Whether it is certain that the switch did nothing, now or later.
    pub(super) fn is_definite(&self) -> bool {
        matches!(
            self,
            SwitchError::Refused { .. } | SwitchError::Registers { .. }
        )
    }
}

/// Why a request about a group was not fulfilled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GroupError {
    /// Fewer than two members.
    #[error("a group of {0} cannot multicast; it takes two members or more")]
    TooFewMembers(usize),
    /// More members than hosts.
    #[error("a group of {members} is larger than the topology, which has {hosts} hosts")]
    LargerThanTopology {
        /// Members asked for.
        members: usize,
        /// Hosts there are.
        hosts: usize,
    },
    /// An address that is no host's.
    #[error("{0} is not the address of any host of the topology")]
    UnknownHost(Ipv4Addr),
    /// An address that cannot stand for a group of datagrams.
    #[error("{0} is no multicast address; groups of datagrams are in 224.0.0.0/4")]
    NotMulticast(Ipv4Addr),
    /// The pipeline's table of them is full.
    #[error("there are {0} groups of datagrams, and switches have no room for more; leave one, or compile p4src/ with a larger MAX_DATAGRAM_GROUPS")]
    DatagramGroupsFull(u32),
    /// A host named more than once.
    #[error("host {host} ({ip}) is a member twice; each host can be one once")]
    MemberTwice {
        /// The host.
        host: String,
        /// Its address.
        ip: Ipv4Addr,
    },
    /// A queue pair that no application can have.
    #[error("member {0}: queue pair 0 is the fabric's own; give the number of the member's RC queue pair")]
    QueuePair(Ipv4Addr),
    /// A region whose addresses cannot be made by XOR.
    #[error("member {ip}: a memory region of {len} bytes at {va:#x} is not aligned; it must start at a multiple of {alignment:#x}")]
    Region {
        /// The member.
        ip: Ipv4Addr,
        /// The region's address.
        va: u64,
        /// Its length.
        len: u64,
        /// The alignment that its length asks for.
        alignment: u128,
    },
    /// A region without bytes.
    #[error("member {0}: a memory region of 0 bytes cannot be written to; leave it out")]
    EmptyRegion(Ipv4Addr),
    /// An address that cannot stand for a group.
    #[error("{mcst_id} cannot stand for a group; groups are in {network}/{prefix_len}, its first and last address excepted")]
    OutsideRange {
        /// The address asked for.
        mcst_id: Ipv4Addr,
        /// The range.
        network: Ipv4Addr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// The pipeline does not parse what is sent to the address.
    #[error("the ICRCs of group {mcst_id} cannot be recomputed: parsers know only addresses of {network}/17; use one of them, or neutral ICRCs", network = Ipv4Addr::from(RECOMPUTE_NETWORK))]
    NotRecomputed {
        /// The address asked for.
        mcst_id: Ipv4Addr,
    },
    /// The address stands for another group.
    #[error("{0} stands for another group already; deregister that one or leave the choice to the controller")]
    Taken(Ipv4Addr),
    /// A number that cannot stand for the group.
    #[error(transparent)]
    VirtualQpn(#[from] VirtualQpnError),
    /// Every address stands for a group.
    #[error("every address of {network}/{prefix_len} stands for a group; deregister one or set a larger range")]
    NoAddress {
        /// The range.
        network: Ipv4Addr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// A table of a switch is too full.
    #[error("switch {switch} has no room for the group: it needs {needed} of {table}, and {left} are left; deregister groups, or compile p4src/ with larger sizes")]
    SwitchFull {
        /// The switch.
        switch: String,
        /// The table, or what has a cell for each receiver.
        table: &'static str,
        /// Entries needed.
        needed: usize,
        /// Entries left.
        left: usize,
    },
    /// A tree with too many ports on one switch.
    #[error("switch {switch} would have {paths} ports in the group's tree; its pipeline handles {limit}; compile p4src/ with a larger PATH_BITS")]
    TooManyPaths {
        /// The switch.
        switch: String,
        /// Ports needed.
        paths: usize,
        /// Ports possible.
        limit: u32,
    },
    /// A switch of the tree is not there.
    #[error("switch {switch} of the group's tree is not ready: {why}")]
    SwitchNotReady {
        /// The switch.
        switch: String,
        /// Why.
        why: String,
    },
    /// No group of that address.
    #[error("there is no group {0}")]
    NoSuchGroup(Ipv4Addr),
    /// Somebody who is no member is to leave.
    #[error("{ip} is no member of group {mcst_id}")]
    NotMember {
        /// The group.
        mcst_id: Ipv4Addr,
        /// The address.
        ip: Ipv4Addr,
    },
    /// No way leads to a member.
    #[error(
        "member {0} cannot be reached: every way to it leads through a link or switch that is down"
    )]
    Unreachable(Ipv4Addr),
    /// Hosts that were asked and did not agree.
    #[error("group {mcst_id}: {} did not agree to be in it; have the hosts expect the queue pairs to be registered", members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    NotAgreed {
        /// The group.
        mcst_id: Ipv4Addr,
        /// Their addresses.
        members: Vec<Ipv4Addr>,
    },
    /// Messages are under way.
    #[error("group {0} has messages under way; a member can join only between two of them")]
    InUse(Ipv4Addr),
    /// The group is being made or removed.
    #[error("group {0} is being made, changed or removed; try again when that is done")]
    Busy(Ipv4Addr),
    /// A rewrite that the free header bits cannot balance.
    #[error(transparent)]
    Icrc(#[from] Unsolvable),
    /// Entries that the program does not allow.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A switch failed; what was written is undone.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The group is gone from the controller, but not from every switch.
    #[error("group {mcst_id} is removed, but left state behind: {}", join(unwind))]
    Removal {
        /// The group.
        mcst_id: Ipv4Addr,
        /// What failed, one error per switch.
        unwind: Vec<SwitchError>,
    },
    /// Something failed, and undoing failed too.
    #[error("{initial}; and undoing left state behind: {}", join(unwind))]
    Unwind {
        /// What failed first.
        initial: Box<GroupError>,
        /// What failed while undoing, one error per switch.
        unwind: Vec<SwitchError>,
    },
}

fn join(errors: &[SwitchError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
