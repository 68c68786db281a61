//! Requests to change a group in use.

use std::net::Ipv4Addr;

use super::{Change, Kind, Origin};
use crate::controller::error::GroupError;
use crate::controller::event::{MemberSpec, Tag};
use crate::controller::group::Group;
use crate::controller::Controller;
use crate::tree::Tree;

impl Controller {
    /// Adds a member on a request through the control service.
    pub(in crate::controller) fn join_for_user(
        &mut self,
        now: u64,
        tag: Tag,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) {
        let origin = Origin::Api(tag);
        // A request that fails for another reason is refused before the host is invited.
        match self.config.ask_members && self.plan_join(mcst_id, spec).is_ok() {
            true => self.invite_to_join(now, origin, mcst_id, spec),
            false => self.join(now, origin, mcst_id, spec),
        }
    }

    /// Adds a member; the change fails unless the group is idle, between two messages.
    pub(in crate::controller) fn join(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        spec: MemberSpec,
    ) {
        self.renew_lease(now, mcst_id);
        let planned = self.plan_join(mcst_id, spec);
        self.begin_change(now, origin, mcst_id, planned);
    }

    /// Removes members at the request of a client or leader; at least two others must remain.
    pub(in crate::controller) fn leave(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) {
        self.renew_lease(now, mcst_id);
        let planned = self.plan_leave(mcst_id, &members, 2);
        let planned = planned.map(|next| (Kind::Leave, next));
        self.begin_change(now, origin, mcst_id, planned);
    }

    /// Removes members that do not respond; a single member may remain.
    pub(in crate::controller) fn remove_members(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) {
        let planned = self.plan_leave(mcst_id, &members, 1);
        let planned = planned.map(|next| (Kind::RemoveFailed(members), next));
        self.begin_change(now, Origin::Controller, mcst_id, planned);
    }

    /// Reroutes a group around failures. Members that cannot be reached are removed if two or more remain.
    pub(in crate::controller) fn reroute(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let planned = self.plan_reroute(mcst_id);
        self.begin_change(now, Origin::Controller, mcst_id, planned);
    }

    fn begin_change(
        &mut self,
        now: u64,
        origin: Origin,
        mcst_id: Ipv4Addr,
        planned: Result<(Kind, (Group, Tree)), GroupError>,
    ) {
        let change =
            planned.and_then(|(kind, (next, tree))| self.prepare_change(kind, origin, next, tree));
        match change {
            Err(error) => self.change_failed(mcst_id, origin, error),
            Ok(change) => {
                if let Some(registration) = self.groups.get_mut(&mcst_id) {
                    registration.begin_change(change);
                }
                self.begin::<Change>(now, mcst_id);
            }
        }
    }
}
