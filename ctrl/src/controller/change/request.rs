//! Requests to change a group in use.

use std::net::Ipv4Addr;

use super::outcome::change_failed;
use super::{Kind, Origin};
use crate::controller::command::Command;
use crate::controller::error::GroupError;
use crate::controller::event::{MemberSpec, Tag};
use crate::controller::group::Group;
use crate::controller::groups::Groups;
use crate::controller::network::Network;
use crate::tree::Tree;

impl Groups {
    /// Adds a member on a request through the control service.
    pub(in crate::controller) fn request_join(
        &self,
        network: &Network,
        tag: Tag,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) -> Command {
        let origin = Origin::Api(tag);
        // A request that fails for another reason is refused before the host is invited.
        match network.config().ask_members && self.plan_join(network, mcst_id, spec).is_ok() {
            true => Command::InviteToJoin(origin, mcst_id, spec),
            false => Command::Join(origin, mcst_id, spec),
        }
    }

    /// Adds a member; the change fails unless the group is idle, between two messages.
    pub(in crate::controller) fn join(
        &mut self,
        network: &mut Network,
        origin: Origin,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) -> Option<Command> {
        let planned = self.plan_join(network, mcst_id, spec);
        self.begin_change(network, origin, mcst_id, planned)
    }

    /// Removes members at the request of a client or leader; at least two others must remain.
    pub(in crate::controller) fn leave(
        &mut self,
        network: &mut Network,
        origin: Origin,
        mcst_id: Ipv4Addr,
        members: &[Ipv4Addr],
    ) -> Option<Command> {
        let planned = self.plan_leave(network, mcst_id, members, 2);
        let planned = planned.map(|next| (Kind::Leave, next));
        self.begin_change(network, origin, mcst_id, planned)
    }

    /// Removes members that do not respond; a single member may remain.
    pub(in crate::controller) fn remove_members(
        &mut self,
        network: &mut Network,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) -> Option<Command> {
        let planned = self.plan_leave(network, mcst_id, &members, 1);
        let planned = planned.map(|next| (Kind::RemoveFailed(members), next));
        self.begin_change(network, Origin::Controller, mcst_id, planned)
    }

    /// Reroutes a group around failures. Members that cannot be reached are removed if two or more remain.
    pub(in crate::controller) fn reroute(
        &mut self,
        network: &mut Network,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let planned = self.plan_reroute(network, mcst_id);
        self.begin_change(network, Origin::Controller, mcst_id, planned)
    }

    fn begin_change(
        &mut self,
        network: &mut Network,
        origin: Origin,
        mcst_id: Ipv4Addr,
        planned: Result<(Kind, (Group, Tree)), GroupError>,
    ) -> Option<Command> {
        let change = planned.and_then(|(kind, (next, tree))| {
            self.prepare_change(network, kind, origin, next, tree)
        });
        match change {
            Err(error) => change_failed(network, mcst_id, origin, error),
            Ok(change) => {
                if let Some(registration) = self.get_mut(mcst_id) {
                    registration.begin_change(change);
                }
                Some(Command::BeginChange(mcst_id))
            }
        }
    }
}
