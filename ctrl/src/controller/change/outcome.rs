//! End of the procedure that changes a group in use: reports the result, frees the parts that are not used any more, and
//! starts pending work on the group.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind as Packet, Refusal};
use alfirk_roce::wire::Psn;

use super::{Change, Kind, Origin};
use crate::controller::bridge::GroupMember;
use crate::controller::error::GroupError;
use crate::controller::group::GroupPart;
use crate::controller::{ApiReply, Controller};
use crate::topology::SwitchIndex;

impl Controller {
    /// Ends the procedure that changes a group, after all its steps are done or undone, and reports the result.
    pub(super) fn change_ended(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let registration = self.groups.get_mut(&mcst_id);
        let Some((run, removal)) = registration.and_then(|r| r.end_change()) else {
            return;
        };
        let is_made = run.is_done();
        let (change, outcome) = run.into_outcome();
        if is_made {
            self.release_parts(&change.old_parts, &outcome.possible_leftovers);
            self.report_change(mcst_id, &change);
        } else {
            self.release_parts(&change.new_parts, &outcome.possible_leftovers);
            if let Some(error) = outcome.into_group_error() {
                self.change_failed(mcst_id, change.origin, error);
            }
        }
        if let Some(tag) = removal {
            return self.deregister(now, tag, mcst_id);
        }
        // A link or switch may have failed meanwhile.
        if is_made && self.is_broken(mcst_id) {
            self.reroute(now, mcst_id);
        }
        self.remove_members_in_error(now, mcst_id);
    }

    fn report_change(&mut self, mcst_id: Ipv4Addr, change: &Change) {
        let psn = change.next.position.psn.next();
        let remote_qpn = change.next.virtual_qpn;
        match (&change.kind, change.origin) {
            (Kind::Join(member), origin) => {
                let ip = member.spec.ip;
                if let Some(registration) = self.groups.get_mut(&mcst_id) {
                    registration.note_joined(ip, psn);
                }
                match origin {
                    Origin::Api(tag) => self.queue_reply(ApiReply::MemberJoined {
                        tag,
                        mcst_id,
                        ip,
                        remote_qpn,
                        psn,
                    }),
                    _ => self.notify_joined(mcst_id, member, psn),
                }
            }
            (Kind::Leave, Origin::Api(tag)) => {
                self.queue_reply(ApiReply::MembersLeft { tag, mcst_id });
            }
            (Kind::Leave, Origin::Leader(leader)) => {
                self.mrp_reply(mcst_id, leader, Packet::Confirm, 0);
            }
            (Kind::RemoveFailed(members), _) => {
                self.notify_lost(mcst_id, members);
                self.queue_reply(ApiReply::MembersLost {
                    mcst_id,
                    members: members.clone(),
                });
            }
            (Kind::Reroute(lost), _) => {
                self.queue_reply(ApiReply::GroupRerouted { mcst_id });
                if !lost.is_empty() {
                    self.notify_lost(mcst_id, lost);
                    let members = lost.clone();
                    self.queue_reply(ApiReply::MembersLost { mcst_id, members });
                }
            }
            (Kind::Leave, Origin::Controller) => {}
        }
    }

    pub(in crate::controller) fn change_failed(
        &mut self,
        mcst_id: Ipv4Addr,
        origin: Origin,
        error: GroupError,
    ) {
        match origin {
            Origin::Api(tag) => self.queue_reply(ApiReply::Failed { tag, error }),
            Origin::Leader(leader) => {
                let initial = match &error {
                    GroupError::Unwind { initial, .. } => initial,
                    error => error,
                };
                let refusal = match initial {
                    GroupError::InUse(_)
                    | GroupError::Busy(_)
                    | GroupError::SwitchNotReady { .. } => Refusal::Busy,
                    GroupError::SwitchFull { .. } | GroupError::TooManyPaths { .. } => {
                        Refusal::Full
                    }
                    GroupError::Switch(_) => Refusal::SwitchFailed,
                    GroupError::NotAgreed { .. } => Refusal::NotAgreed,
                    _ => Refusal::BadNodes,
                };
                self.mrp_refuse(mcst_id, leader, refusal);
            }
            Origin::Controller => {
                tracing::warn!(%mcst_id, "the group is not changed: {error}");
            }
        }
    }

    fn release_parts(&mut self, parts: &[GroupPart], possible_leftovers: &BTreeSet<SwitchIndex>) {
        for on in parts {
            let control = &mut self.switches[on.switch.0];
            let index = on.group_index;
            match control.boot.is_ready() && !possible_leftovers.contains(&on.switch) {
                true => control.capacity.release(index),
                // Unusable until the switch has been read and repaired.
                false => control.capacity.quarantine(index),
            }
        }
    }

    /// Notifies a member that it has joined, with its initial PSN. The member confirms to the leader.
    pub(in crate::controller) fn notify_joined(
        &mut self,
        mcst_id: Ipv4Addr,
        member: &GroupMember,
        psn: Psn,
    ) {
        let Some(group) = self.groups.get(&mcst_id).map(|r| r.group()) else {
            return;
        };
        let Some(leader) = group.members.first() else {
            return;
        };
        let node = member.spec.node();
        let leader = leader.spec.ip;
        let frame = self.mrp_member_frame(Packet::Register, mcst_id, leader, psn, &node);
        let (switch, port) = self.topology.attachment(member.host);
        self.send_frame(switch, port, frame);
    }

    /// Notifies a group's leader that members were removed after failures.
    fn notify_lost(&mut self, mcst_id: Ipv4Addr, members: &[Ipv4Addr]) {
        let group = self.groups.get(&mcst_id).map(|r| r.group());
        let Some(leader) = group.and_then(|group| group.members.first()) else {
            return;
        };
        let leader = leader.spec.ip;
        self.mrp_report_members(mcst_id, leader, Packet::Leave, 0, members);
    }
}
