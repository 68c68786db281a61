//! Commands: work that a part of the controller requests of other parts.
//!
//! What a method needs of parts that are not its arguments, it returns as commands. The controller executes them in order, each with all commands
//! that follow from it before the next one.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Refusal;
use alfirk_roce::wire::Psn;

use super::change::{change_failed, Change, Origin};
use super::creation::Creation;
use super::error::{GroupError, SwitchError};
use super::event::{MemberSpec, Tag};
use super::position::Position;
use super::recovery::PartKey;
use super::removal::{Reason, Removal};
use super::session::TaskId;
use super::Controller;
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

impl Controller {
    /// Executes commands in order, each with all that follows from it before the next one.
    pub(super) fn execute(&mut self, now: u64, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            let follow_ups = self.execute_one(now, command);
            // A `Vec`, because the type of a recursive call must not grow.
            self.execute(now, follow_ups);
        }
    }

    fn execute_one(&mut self, now: u64, command: Command) -> Vec<Command> {
        let (network, groups) = (&mut self.network, &mut self.groups);
        let follow_up = match command {
            Command::EndTask(task, result) => {
                self.end_task(now, task, result);
                None
            }
            Command::BeginCreation(creation) => {
                self.begin::<Creation>(now, creation);
                None
            }
            Command::CancelCreation(creation) => {
                self.cancel::<Creation>(now, creation);
                None
            }
            Command::BeginChange(mcst_id) => {
                self.begin::<Change>(now, mcst_id);
                None
            }
            Command::BeginRemoval(mcst_id) => {
                self.begin::<Removal>(now, mcst_id);
                None
            }
            Command::PartFailed(switch, mcst_id) => Some(self.mrp.part_failed(switch, mcst_id)),
            Command::Deregister(tag, mcst_id) => groups.deregister(network, tag, mcst_id),
            Command::Remove(mcst_id, reason) => groups.remove(mcst_id, reason),
            Command::Join(origin, mcst_id, spec) => {
                self.leases.renew(now, network, groups, mcst_id);
                groups.join(network, origin, mcst_id, spec)
            }
            Command::Leave(origin, mcst_id, members) => {
                self.leases.renew(now, network, groups, mcst_id);
                groups.leave(network, origin, mcst_id, &members)
            }
            Command::RemoveMembers(mcst_id, members) => {
                groups.remove_members(network, mcst_id, members)
            }
            Command::RerouteIfBroken(mcst_id) => {
                let topology = network.topology();
                let is_broken = |group| self.health.is_broken(topology, group);
                match groups.group(mcst_id).is_some_and(is_broken) {
                    true => groups.reroute(network, mcst_id),
                    false => None,
                }
            }
            Command::RemoveMembersInError(mcst_id) => {
                self.punts.remove_members_in_error(groups, mcst_id)
            }
            Command::GroupDiscarded(mcst_id) => {
                self.punts.discard_group(mcst_id);
                self.recoveries.discard_group(mcst_id);
                self.leases.discard(mcst_id);
                self.mrp.discard_group(groups, mcst_id);
                None
            }
            Command::LeaderChanged(mcst_id) => {
                self.mrp.note_leader(groups, mcst_id);
                None
            }
            Command::RenewLease(mcst_id) => {
                self.leases.renew(now, network, groups, mcst_id);
                None
            }
            Command::InviteAll(mcst_id) => {
                self.mrp.invite_all(now, network, groups, mcst_id);
                None
            }
            Command::InviteToJoin(origin, mcst_id, spec) => self
                .mrp
                .invite_to_join(now, network, groups, origin, mcst_id, spec),
            Command::Agreed(mcst_id) => groups.agreed(mcst_id),
            Command::NotAgreed(mcst_id, error) => groups.not_agreed(network, mcst_id, error),
            Command::ChangeFailed(mcst_id, origin, error) => {
                change_failed(network, mcst_id, origin, error)
            }
            Command::Refuse(mcst_id, leader, refusal) => {
                self.mrp.refuse(network, groups, mcst_id, leader, refusal);
                None
            }
            Command::FailGrowth(mcst_id, refusal) => {
                return self.mrp.fail_growth(network, groups, mcst_id, refusal);
            }
            Command::DiscardGrowth(mcst_id) => self.mrp.discard_growth(network, groups, mcst_id),
            Command::GrowthSwitchFailed(mcst_id, switch, error) => {
                Some(self.mrp.switch_failed(mcst_id, switch, error))
            }
            Command::MarkerReceived(at, number) => return self.markers.received(at, number),
            Command::StallReported(mcst_id, member) => {
                self.recoveries
                    .stall_reported(now, network, groups, mcst_id, member);
                None
            }
            Command::Watch(mcst_id) => {
                self.health.watch(now, network, groups, mcst_id);
                None
            }
            Command::TestLink(link) => {
                self.markers.test_link(now, network, link);
                None
            }
            Command::LinkFailed(link) => {
                if self.health.note_link(link, false) {
                    self.reroute_around_failures(now);
                }
                None
            }
            Command::ExcludeSwitch(switch) => {
                self.health.exclude_switch(network, switch);
                self.reroute_around_failures(now);
                None
            }
            Command::SwitchReady(switch) => {
                if self.health.note_reconnected(switch) {
                    self.reroute_around_failures(now);
                }
                None
            }
            Command::Recover(part, base) => {
                self.recoveries.recover(now, network, groups, part, base);
                None
            }
        };
        follow_up.into_iter().collect()
    }
}
