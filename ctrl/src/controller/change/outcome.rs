//! End of the procedure that changes a group in use: reports the result, frees the parts that are not used any more, and
//! starts pending work on the group.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind as Packet, Refusal};

use super::{Change, Kind, Origin};
use crate::controller::command::Command;
use crate::controller::error::GroupError;
use crate::controller::event::ApiReply;
use crate::controller::group::GroupPart;
use crate::controller::groups::Groups;
use crate::controller::mrp::transmit;
use crate::controller::network::Network;
use crate::topology::SwitchIndex;

impl Groups {
    /// Ends the procedure that changes a group, after all its steps are done or undone, and reports the result.
    pub(in crate::controller) fn changed(
        &mut self,
        network: &mut Network,
        mcst_id: Ipv4Addr,
    ) -> Vec<Command> {
        let registration = self.get_mut(mcst_id);
        let Some((run, removal)) = registration.and_then(|r| r.end_change()) else {
            return Vec::new();
        };
        let mut commands = Vec::new();
        let is_made = run.is_done();
        let (change, outcome) = run.into_outcome();
        if is_made {
            self.release_parts(network, &change.old_parts, &outcome.possible_leftovers);
            self.report_change(network, mcst_id, &change);
        } else {
            self.release_parts(network, &change.new_parts, &outcome.possible_leftovers);
            if let Some(error) = outcome.into_group_error() {
                commands.extend(change_failed(network, mcst_id, change.origin, error));
            }
        }
        if let Some(tag) = removal {
            commands.push(Command::Deregister(tag, mcst_id));
            return commands;
        }
        if is_made {
            // A link or switch may have failed meanwhile.
            commands.push(Command::RerouteIfBroken(mcst_id));
        }
        commands.push(Command::RemoveMembersInError(mcst_id));
        commands
    }

    fn report_change(&mut self, network: &mut Network, mcst_id: Ipv4Addr, change: &Change) {
        let psn = change.next.position.psn.next();
        let remote_qpn = change.next.virtual_qpn;
        match (&change.kind, change.origin) {
            (Kind::Join(member), origin) => {
                let ip = member.spec.ip;
                if let Some(registration) = self.get_mut(mcst_id) {
                    registration.note_joined(ip, psn);
                }
                match origin {
                    Origin::Api(tag) => network.reply(ApiReply::MemberJoined {
                        tag,
                        mcst_id,
                        ip,
                        remote_qpn,
                        psn,
                    }),
                    _ => transmit::notify_joined(network, self, mcst_id, member, psn),
                }
            }
            (Kind::Leave, Origin::Api(tag)) => {
                network.reply(ApiReply::MembersLeft { tag, mcst_id });
            }
            (Kind::Leave, Origin::Leader(leader)) => {
                transmit::reply(network, self, mcst_id, leader, Packet::Confirm, 0);
            }
            (Kind::RemoveFailed(members), _) => {
                self.notify_lost(network, mcst_id, members);
                network.reply(ApiReply::MembersLost {
                    mcst_id,
                    members: members.clone(),
                });
            }
            (Kind::Reroute(lost), _) => {
                network.reply(ApiReply::GroupRerouted { mcst_id });
                if !lost.is_empty() {
                    self.notify_lost(network, mcst_id, lost);
                    let members = lost.clone();
                    network.reply(ApiReply::MembersLost { mcst_id, members });
                }
            }
            (Kind::Leave, Origin::Controller) => {}
        }
    }

    fn release_parts(
        &mut self,
        network: &Network,
        parts: &[GroupPart],
        possible_leftovers: &BTreeSet<SwitchIndex>,
    ) {
        for on in parts {
            let (switch, index) = (on.switch, on.group_index);
            match network.is_ready(switch) && !possible_leftovers.contains(&switch) {
                true => self.resources_mut().release(switch, index),
                // Unusable until the switch has been read and repaired.
                false => self.resources_mut().quarantine_index(switch, index),
            }
        }
    }

    /// Notifies a group's leader that members were removed after failures.
    fn notify_lost(&self, network: &mut Network, mcst_id: Ipv4Addr, members: &[Ipv4Addr]) {
        let Some(leader) = self.leader_of(mcst_id) else {
            return;
        };
        transmit::report_members(network, self, mcst_id, leader, Packet::Leave, 0, members);
    }
}

/// Reports to its origin that a change of a group has failed.
pub(in crate::controller) fn change_failed(
    network: &mut Network,
    mcst_id: Ipv4Addr,
    origin: Origin,
    error: GroupError,
) -> Option<Command> {
    match origin {
        Origin::Api(tag) => {
            network.reply(ApiReply::Failed { tag, error });
            None
        }
        Origin::Leader(leader) => {
            let initial = match &error {
                GroupError::Unwind { initial, .. } => initial,
                error => error,
            };
            let refusal = match initial {
                GroupError::InUse(_) | GroupError::Busy(_) | GroupError::SwitchNotReady { .. } => {
                    Refusal::Busy
                }
                GroupError::SwitchFull { .. } | GroupError::TooManyPaths { .. } => Refusal::Full,
                GroupError::Switch(_) => Refusal::SwitchFailed,
                GroupError::NotAgreed { .. } => Refusal::NotAgreed,
                _ => Refusal::BadNodes,
            };
            Some(Command::Refuse(mcst_id, leader, refusal))
        }
        Origin::Controller => {
            tracing::warn!(%mcst_id, "the group is not changed: {error}");
            None
        }
    }
}
