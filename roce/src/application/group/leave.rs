//! Members that leave a group, or that the fabric has lost.

use super::{GroupMember, GroupTransport};
use crate::registration::LeaderEvent;
use crate::verbs::Verbs;

impl GroupMember {
    /// At the leader: removes the members that leave from the group in the fabric, one at a time.
    pub(super) fn remove_leavers(&mut self, host: &mut dyn Verbs, now: u64) {
        while self.removal.is_none() {
            let Some(rank) = self.peers.take_leaver() else {
                return;
            };
            if !self.alive.remove(&rank) {
                continue;
            }
            let ip = self.infos[rank as usize].ip;
            let is_requested = self.transport == GroupTransport::Multicast
                && self.application.remove_members(host, now, &[ip]);
            match is_requested {
                true => self.removal = Some(rank),
                false => self.peers.dismiss(rank),
            }
        }
    }

    /// At the leader: handles an event of the group's registration in band.
    pub(super) fn handle_leader_event(&mut self, event: LeaderEvent) {
        if let LeaderEvent::Lost { members } = &event {
            let infos = self.infos.iter().zip(0..);
            let lost = infos.filter(|(info, _)| members.contains(&info.ip));
            for (_, rank) in lost {
                self.peers.warn(format!(
                    "member {rank} does not respond and was removed from the group"
                ));
                self.alive.remove(&rank);
                self.peers.disconnect(rank);
            }
            return;
        }
        let has_ended = event == LeaderEvent::Deregistered;
        let Some(rank) = self.removal.take() else {
            return self.leader_events.push_back(event);
        };
        if event != LeaderEvent::Left {
            self.peers.warn(format!(
                "member {rank} leaves, but the fabric has not removed it from the group: {event:?}"
            ));
        }
        self.peers.dismiss(rank);
        if has_ended {
            self.leader_events.push_back(event);
        }
    }
}
