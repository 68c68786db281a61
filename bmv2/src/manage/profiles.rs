//! Control plane requests for action profiles and selectors.

use super::error::unknown;
use super::tables::check_action;
use super::{Change, ManageError, ProfileId};
use crate::program::{LoadedProgram, Profile};
use crate::switch::Switch;
use crate::tables::{
    GroupLimits, GroupState, MemberState, ProfileGroup, ProfileMember, ProfileState, MAX_ENTRIES,
};

type Result<T> = std::result::Result<T, ManageError>;

impl Switch {
    /// Finds an action profile or selector by name.
    ///
    /// # Errors
    /// When the program has none of that name.
    pub fn profile(&self, name: &str) -> Result<ProfileId> {
        let (program, _) = self.parts()?;
        program
            .profile(name)
            .ok_or_else(|| unknown("action profile", name))
    }

    /// Returns all action profiles and selectors of the program.
    pub fn profiles(&self) -> Vec<ProfileId> {
        let count = self
            .parts()
            .map_or(0, |(program, _)| program.profiles.len());
        (0..count as u16).map(ProfileId).collect()
    }

    /// Returns the name of an action profile.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn profile_name(&self, profile: ProfileId) -> Result<&str> {
        let (program, _) = self.parts()?;
        Ok(&profile_of(program, profile)?.name)
    }

    /// Adds a member.
    ///
    /// # Errors
    /// When it exists already, the profile is full, or the action is invalid.
    pub fn insert_member(&mut self, profile: ProfileId, member: &ProfileMember) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let info = profile_of(program, profile)?;
        let action = member_action(program, profile, member)?;
        let members = &mut state.profiles[usize::from(profile.0)].members;
        if members.contains_key(&member.id) {
            return Err(ManageError::MemberExists {
                profile: info.name.clone(),
                id: member.id,
            });
        }
        // The size of a selector limits its groups, not its members.
        let is_full = match info.selector {
            Some(_) => members.len() as u64 >= MAX_ENTRIES,
            None => info.max_size > 0 && members.len() as u64 >= info.max_size,
        };
        if is_full {
            let size = members.len() as u64;
            return Err(ManageError::ProfileFull {
                profile: info.name.clone(),
                size,
            });
        }
        members.insert(member.id, MemberState { action, uses: 0 });
        Ok(())
    }

    /// Changes the action of a member.
    ///
    /// # Errors
    /// When there is no such member, or the action is invalid.
    pub fn modify_member(&mut self, profile: ProfileId, member: &ProfileMember) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let info = profile_of(program, profile)?;
        let action = member_action(program, profile, member)?;
        let members = &mut state.profiles[usize::from(profile.0)].members;
        match members.get_mut(&member.id) {
            Some(old) => old.action = action,
            None => {
                return Err(ManageError::NoMember {
                    profile: info.name.clone(),
                    id: member.id,
                })
            }
        }
        let id = member.id;
        state.changes.record(|| Change::Member { profile, id });
        Ok(())
    }

    /// Removes an unused member.
    ///
    /// # Errors
    /// When there is no such member, or it is in use.
    pub fn delete_member(&mut self, profile: ProfileId, id: u32) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let info = profile_of(program, profile)?;
        let members = &mut state.profiles[usize::from(profile.0)].members;
        match members.get(&id) {
            None => Err(ManageError::NoMember {
                profile: info.name.clone(),
                id,
            }),
            Some(m) if m.uses > 0 => Err(ManageError::MemberInUse {
                profile: info.name.clone(),
                id,
            }),
            Some(_) => {
                members.remove(&id);
                state.changes.record(|| Change::Member { profile, id });
                Ok(())
            }
        }
    }

    /// Returns all members, by id.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn members(&self, profile: ProfileId) -> Result<Vec<ProfileMember>> {
        let (program, state) = self.parts()?;
        profile_of(program, profile)?;
        let members = &state.profiles[usize::from(profile.0)].members;
        let mut list: Vec<_> = members
            .iter()
            .map(|(&id, member)| {
                let (action, args) = member.action.name_and_args(program);
                ProfileMember { id, action, args }
            })
            .collect();
        list.sort_by_key(|m| m.id);
        Ok(list)
    }

    /// Returns a member.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn member(&self, profile: ProfileId, id: u32) -> Result<ProfileMember> {
        let (program, state) = self.parts()?;
        let info = profile_of(program, profile)?;
        let member = state.profiles[usize::from(profile.0)].members.get(&id);
        let member = member.ok_or_else(|| ManageError::NoMember {
            profile: info.name.clone(),
            id,
        })?;
        let (action, args) = member.action.name_and_args(program);
        Ok(ProfileMember { id, action, args })
    }

    /// Returns the lowest unused member id.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn free_member(&self, profile: ProfileId) -> Result<u32> {
        let (program, state) = self.parts()?;
        profile_of(program, profile)?;
        let members = &state.profiles[usize::from(profile.0)].members;
        Ok(lowest_free(|id| members.contains_key(&id)))
    }

    /// Returns the lowest unused group id.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn free_group(&self, profile: ProfileId) -> Result<u32> {
        let (program, state) = self.parts()?;
        profile_of(program, profile)?;
        let groups = &state.profiles[usize::from(profile.0)].groups;
        Ok(lowest_free(|id| groups.contains_key(&id)))
    }

    /// Returns a group.
    ///
    /// # Errors
    /// When there is no such group.
    pub fn group(&self, profile: ProfileId, id: u32) -> Result<ProfileGroup> {
        let (program, state) = self.parts()?;
        let info = profile_of(program, profile)?;
        let group = state.profiles[usize::from(profile.0)].groups.get(&id);
        let group = group.ok_or_else(|| ManageError::NoGroup {
            profile: info.name.clone(),
            id,
        })?;
        Ok(group.group.clone())
    }

    /// Removes all members and groups, even those in use.
    ///
    /// # Errors
    /// When the number is from another program.
    pub(super) fn clear_profile(&mut self, profile: ProfileId) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        profile_of(program, profile)?;
        let state = &mut state.profiles[usize::from(profile.0)];
        *state = ProfileState::new(state.limits);
        Ok(())
    }

    /// Sets the limits of group sizes. Existing groups remain, even above the limits.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn set_group_limits(&mut self, profile: ProfileId, limits: GroupLimits) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        profile_of(program, profile)?;
        let state = &mut state.profiles[usize::from(profile.0)];
        state.limits = limits;
        let groups = state.groups.values();
        state.size = groups.map(|existing| limits.size_of(&existing.group)).sum();
        Ok(())
    }

    /// Adds a group.
    ///
    /// # Errors
    /// When it exists already, a member does not exist, the profile has no selector, or groups would be too large.
    pub fn insert_group(&mut self, profile: ProfileId, group: &ProfileGroup) -> Result<()> {
        self.put_group(profile, group, true, None)
    }

    /// Adds a group that will replace the group `replaced`. The caller removes that group afterwards, so its size is
    /// not counted.
    ///
    /// # Errors
    /// As [`Switch::insert_group`].
    pub fn insert_group_for(
        &mut self,
        profile: ProfileId,
        group: &ProfileGroup,
        replaced: Option<u32>,
    ) -> Result<()> {
        self.put_group(profile, group, true, replaced)
    }

    /// Changes the members of a group.
    ///
    /// # Errors
    /// When there is no such group or member, or groups would be too large.
    pub fn modify_group(&mut self, profile: ProfileId, group: &ProfileGroup) -> Result<()> {
        self.put_group(profile, group, false, None)
    }

    /// Adds a group if `new` is true, else changes an existing one.
    fn put_group(
        &mut self,
        profile: ProfileId,
        group: &ProfileGroup,
        new: bool,
        replaced: Option<u32>,
    ) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let info = profile_of(program, profile)?;
        let name = || info.name.clone();
        if info.selector.is_none() {
            return Err(ManageError::NoSelector { profile: name() });
        }
        let id = group.id;
        let (state, changes) = (
            &mut state.profiles[usize::from(profile.0)],
            &mut state.changes,
        );
        let old = state.groups.get(&group.id);
        match (old, new) {
            (Some(_), true) => {
                return Err(ManageError::GroupExists {
                    profile: name(),
                    id: group.id,
                })
            }
            (None, false) => {
                return Err(ManageError::NoGroup {
                    profile: name(),
                    id: group.id,
                })
            }
            _ => {}
        }
        if let Some(member) = group
            .members
            .iter()
            .find(|m| !state.members.contains_key(&m.id))
        {
            return Err(ManageError::NoMember {
                profile: name(),
                id: member.id,
            });
        }
        let limits = state.limits;
        let size = limits.size_of(group);
        let old_size = old.map_or(0, |old| limits.size_of(&old.group));
        let freed = replaced.and_then(|id| state.groups.get(&id));
        let freed = freed.map_or(0, |group| limits.size_of(&group.group));
        check_size(&info.name, state, group, old_size.max(freed))?;
        let uses = old.map_or(0, |old| old.uses);
        let before: Vec<u32> = old
            .iter()
            .flat_map(|g| &g.group.members)
            .map(|m| m.id)
            .collect();
        for id in before {
            if let Some(member) = state.members.get_mut(&id) {
                member.uses -= 1;
            }
        }
        for member in &group.members {
            if let Some(member) = state.members.get_mut(&member.id) {
                member.uses += 1;
            }
        }
        state
            .groups
            .insert(group.id, GroupState::new(group.clone(), uses));
        state.size = state.size - old_size + size;
        changes.record(|| Change::Group { profile, id });
        Ok(())
    }

    /// Removes an unused group.
    ///
    /// # Errors
    /// When there is no such group, or it is in use.
    pub fn delete_group(&mut self, profile: ProfileId, id: u32) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let info = profile_of(program, profile)?;
        let (state, changes) = (
            &mut state.profiles[usize::from(profile.0)],
            &mut state.changes,
        );
        match state.groups.get(&id) {
            None => {
                return Err(ManageError::NoGroup {
                    profile: info.name.clone(),
                    id,
                })
            }
            Some(g) if g.uses > 0 => {
                return Err(ManageError::GroupInUse {
                    profile: info.name.clone(),
                    id,
                });
            }
            Some(_) => {}
        }
        let group = state.groups.remove(&id).expect("the group was just found");
        state.size -= state.limits.size_of(&group.group);
        for member in group.group.members {
            if let Some(member) = state.members.get_mut(&member.id) {
                member.uses -= 1;
            }
        }
        changes.record(|| Change::Group { profile, id });
        Ok(())
    }

    /// Returns all groups, by id.
    ///
    /// # Errors
    /// When the number is from another program.
    pub fn groups(&self, profile: ProfileId) -> Result<Vec<ProfileGroup>> {
        let (program, state) = self.parts()?;
        profile_of(program, profile)?;
        let groups = &state.profiles[usize::from(profile.0)].groups;
        let mut list: Vec<_> = groups.values().map(|g| g.group.clone()).collect();
        list.sort_by_key(|g| g.id);
        Ok(list)
    }
}

fn lowest_free(is_taken: impl Fn(u32) -> bool) -> u32 {
    (0..u32::MAX).find(|&id| !is_taken(id)).unwrap_or(u32::MAX)
}

/// Checks a new or changed group against the limits of group sizes. `freed` is the size of the group that it replaces,
/// which does not count.
fn check_size(name: &str, state: &ProfileState, group: &ProfileGroup, freed: u64) -> Result<()> {
    let limits = state.limits;
    let (profile, unit) = (|| name.to_owned(), limits.unit());
    let size = limits.size_of(group);
    let of_group = [limits.max_group_size, u64::from(group.max_size)];
    let limit = of_group.into_iter().filter(|limit| *limit > 0).min();
    if let Some(limit) = limit.filter(|limit| size > (*limit).max(freed)) {
        return Err(ManageError::GroupFull {
            profile: profile(),
            unit,
            id: group.id,
            sum: size,
            limit,
        });
    }
    let sum = state.size - freed + size;
    if limits.size > 0 && sum > limits.size.max(state.size) {
        return Err(ManageError::SelectorFull {
            profile: profile(),
            unit,
            sum,
            size: limits.size,
        });
    }
    Ok(())
}

fn profile_of(program: &LoadedProgram, profile: ProfileId) -> Result<&Profile> {
    let at = usize::from(profile.0);
    program
        .profiles
        .get(at)
        .ok_or_else(|| unknown("action profile", &profile.0.to_string()))
}

/// Checks and converts the member's action, which at least one table of the profile must have.
fn member_action(
    program: &LoadedProgram,
    profile: ProfileId,
    member: &ProfileMember,
) -> Result<crate::tables::ActionRef> {
    let tables = program
        .tables
        .iter()
        .filter(|t| t.profile == Some(profile.0));
    let mut actions = tables.flat_map(|t| &t.actions).map(|(action, _)| *action);
    let named = actions.find(|a| program.actions[usize::from(*a)].name == member.action);
    let action = named.ok_or_else(|| ManageError::ActionNotInTable {
        table: program.profiles[usize::from(profile.0)].name.clone(),
        action: member.action.clone(),
    })?;
    check_action(program, action, &member.args)
}
