//! Thrift requests for members and groups of action profiles.

use alfirk_thrift::standard::*;

use super::{id, TableResult};
use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::{GroupMember, ProfileGroup, ProfileId, ProfileMember};

pub(super) fn member_to_wire(member: ProfileMember) -> BmMtActProfMember {
    BmMtActProfMember {
        mbr_handle: member.id as i32,
        action_name: member.action,
        action_data: member.args,
    }
}

pub(super) fn group_to_wire(group: ProfileGroup) -> BmMtActProfGroup {
    let mut members: Vec<i32> = group.members.iter().map(|m| m.id as i32).collect();
    members.sort_unstable();
    BmMtActProfGroup {
        grp_handle: group.id as i32,
        mbr_handles: members,
    }
}

impl<P: Ports> Runtime<'_, P> {
    pub(super) fn profile(&self, name: &str) -> TableResult<ProfileId> {
        self.switch().profile(name).map_err(codes::table)
    }

    pub(super) fn group(
        &self,
        profile: &str,
        group: i32,
    ) -> TableResult<(ProfileId, ProfileGroup)> {
        let profile = self.profile(profile)?;
        let group = self.switch().group(profile, id(group));
        Ok((profile, group.map_err(codes::table)?))
    }
}

impl<P: Ports> ProfileCalls for Runtime<'_, P> {
    fn bm_mt_act_prof_add_member(
        &mut self,
        _: i32,
        profile: String,
        action: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<i32> {
        let profile = self.profile(&profile)?;
        let mut switch = self.switch_mut();
        let id = switch.free_member(profile).map_err(codes::table)?;
        let member = ProfileMember { id, action, args };
        let inserted = switch.insert_member(profile, &member);
        inserted.map_err(codes::table)?;
        Ok(id as i32)
    }

    fn bm_mt_act_prof_delete_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let deleted = self.switch_mut().delete_member(core, id(member));
        deleted.map_err(codes::table)?;
        Ok(())
    }

    fn bm_mt_act_prof_modify_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        action: String,
        args: Vec<Vec<u8>>,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let new = ProfileMember {
            id: id(member),
            action,
            args,
        };
        let modified = self.switch_mut().modify_member(core, &new);
        modified.map_err(codes::table)?;
        Ok(())
    }

    fn bm_mt_act_prof_create_group(&mut self, _: i32, profile: String) -> TableResult<i32> {
        let profile = self.profile(&profile)?;
        let mut switch = self.switch_mut();
        let id = switch.free_group(profile).map_err(codes::table)?;
        let group = ProfileGroup {
            id,
            ..ProfileGroup::default()
        };
        let inserted = switch.insert_group(profile, &group);
        inserted.map_err(codes::table)?;
        Ok(id as i32)
    }

    fn bm_mt_act_prof_delete_group(
        &mut self,
        _: i32,
        profile: String,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let deleted = self.switch_mut().delete_group(core, id(group));
        deleted.map_err(codes::table)?;
        Ok(())
    }

    fn bm_mt_act_prof_add_member_to_group(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let found = self.switch().member(core, id(member));
        found.map_err(codes::table)?;
        let (core, mut changed) = self.group(&profile, group)?;
        if changed.members.iter().any(|m| m.id == id(member)) {
            return Err(TableOperationErrorCode::MbrAlreadyInGrp.into());
        }
        changed.members.push(GroupMember {
            id: id(member),
            weight: 1,
            active: true,
        });
        let modified = self.switch_mut().modify_group(core, &changed);
        modified.map_err(codes::table)?;
        Ok(())
    }

    fn bm_mt_act_prof_remove_member_from_group(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
        group: i32,
    ) -> TableResult<()> {
        let core = self.profile(&profile)?;
        let found = self.switch().member(core, id(member));
        found.map_err(codes::table)?;
        let (core, mut changed) = self.group(&profile, group)?;
        let before = changed.members.len();
        changed.members.retain(|m| m.id != id(member));
        if changed.members.len() == before {
            return Err(TableOperationErrorCode::MbrNotInGrp.into());
        }
        let modified = self.switch_mut().modify_group(core, &changed);
        modified.map_err(codes::table)?;
        Ok(())
    }

    fn bm_mt_act_prof_get_members(
        &mut self,
        _: i32,
        profile: String,
    ) -> TableResult<Vec<BmMtActProfMember>> {
        // As in BMv2, an unknown profile has no members.
        let Ok(profile) = self.profile(&profile) else {
            return Ok(Vec::new());
        };
        let members = self.switch().members(profile).map_err(codes::table)?;
        Ok(members.into_iter().map(member_to_wire).collect())
    }

    fn bm_mt_act_prof_get_member(
        &mut self,
        _: i32,
        profile: String,
        member: i32,
    ) -> TableResult<BmMtActProfMember> {
        let profile = self.profile(&profile)?;
        let member = self.switch().member(profile, id(member));
        Ok(member_to_wire(member.map_err(codes::table)?))
    }

    fn bm_mt_act_prof_get_groups(
        &mut self,
        _: i32,
        profile: String,
    ) -> TableResult<Vec<BmMtActProfGroup>> {
        let Ok(profile) = self.profile(&profile) else {
            return Ok(Vec::new());
        };
        let groups = self.switch().groups(profile).map_err(codes::table)?;
        Ok(groups.into_iter().map(group_to_wire).collect())
    }

    fn bm_mt_act_prof_get_group(
        &mut self,
        _: i32,
        profile: String,
        group: i32,
    ) -> TableResult<BmMtActProfGroup> {
        let (_, group) = self.group(&profile, group)?;
        Ok(group_to_wire(group))
    }
}
