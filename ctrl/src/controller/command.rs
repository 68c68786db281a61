//! Commands: work that a part of the controller requests of other parts.
//!
//! A part returns commands instead of calling other parts. The controller executes them in order, each with all commands
//! that follow from it before the next one.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Refusal;
use alfirk_roce::wire::Psn;

use super::change::Origin;
use super::creation::Creation;
use super::error::{GroupError, SwitchError};
use super::event::{MemberSpec, Tag};
use super::position::Position;
use super::recovery::PartKey;
use super::removal::Reason;
use super::session::TaskId;
use crate::topology::{LinkIndex, SwitchIndex};

/// Work that a part of the controller requests of other parts.
#[derive(Debug)]
pub(super) enum Command {
    /// Pass the result of a task to its owner.
    EndTask(TaskId, Result<u64, SwitchError>),
    /// Begin the procedure that creates a group, or an agent's part of it.
    BeginCreation(Creation),
    /// Undo the creation of an agent's part of a group.
    CancelCreation(Creation),
    /// Begin the procedure that changes a group.
    BeginChange(Ipv4Addr),
    /// Begin the procedure that removes a group.
    BeginRemoval(Ipv4Addr),
    /// The creation of an agent's part of a group has failed or is cancelled, before it is undone.
    PartFailed(SwitchIndex, Ipv4Addr),
    /// Process a request to remove a group that had to wait for a change.
    Deregister(Tag, Ipv4Addr),
    /// Remove a group in use.
    Remove(Ipv4Addr, Reason),
    /// Add a member to a group.
    Join(Origin, Ipv4Addr, MemberSpec),
    /// Remove members of a group at the request of a leader.
    Leave(Origin, Ipv4Addr, Vec<Ipv4Addr>),
    /// Remove members that do not respond.
    RemoveMembers(Ipv4Addr, Vec<Ipv4Addr>),
    /// Reroute a group whose tree uses a failed link or switch.
    RerouteIfBroken(Ipv4Addr),
    /// Remove the members of a group whose queue pairs are in the error state.
    RemoveMembersInError(Ipv4Addr),
    /// Discard the state of all parts about a group, which is removed.
    GroupDiscarded(Ipv4Addr),
    /// Record the current leader of a group.
    LeaderChanged(Ipv4Addr),
    /// Record an activity of a group.
    RenewLease(Ipv4Addr),
    /// Invite the members of a group of the control service.
    InviteAll(Ipv4Addr),
    /// Invite a host to join a group.
    InviteToJoin(Origin, Ipv4Addr, MemberSpec),
    /// All invited members of a group have agreed.
    Agreed(Ipv4Addr),
    /// Not all invited members of a group have agreed in time.
    NotAgreed(Ipv4Addr, GroupError),
    /// Report to its origin that a change of a group has failed.
    ChangeFailed(Ipv4Addr, Origin, GroupError),
    /// Send a refusal of a registration packet to its sender.
    Refuse(Ipv4Addr, Ipv4Addr, Refusal),
    /// Refuse a registration in band, and undo the parts that agents have created.
    FailGrowth(Ipv4Addr, Refusal),
    /// Remove a refused group once every agent has undone its part.
    DiscardGrowth(Ipv4Addr),
    /// A switch has failed on which agents have created a part of a group.
    GrowthSwitchFailed(Ipv4Addr, SwitchIndex, SwitchError),
    /// A marker has arrived at a port of a switch.
    MarkerReceived((SwitchIndex, u32), Psn),
    /// A member reports that its group makes no progress.
    StallReported(Ipv4Addr, Ipv4Addr),
    /// Monitor a group that makes no progress.
    Watch(Ipv4Addr),
    /// Test whether a link carries frames.
    TestLink(LinkIndex),
    /// Take a link as failed.
    LinkFailed(LinkIndex),
    /// Take a switch as failed.
    ExcludeSwitch(SwitchIndex),
    /// A switch is ready again.
    SwitchReady(SwitchIndex),
    /// Recover the registers of a group's part from a position that all its members have.
    Recover(PartKey, Position),
}

/// A procedure that has ended, done or undone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Boot(SwitchIndex),
    Creation(Creation),
    Change(Ipv4Addr),
    Removal(Ipv4Addr),
}
