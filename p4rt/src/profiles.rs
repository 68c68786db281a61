//! Updates and reads of action profile members, groups and one-shots (P4Runtime § 9.2). A one-shot is a table entry
//! with its own set of actions, for which the server creates the members and the group.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::{
    bytestring,
    p4::v1::{
        action_profile_action,
        action_profile_action_set::{ActionSelectionMode, SizeSemantics},
        action_profile_group::{self, member::WatchKind},
        entity::Entity as Kind,
        update::Type,
        Action, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    },
};

use super::{
    actions::{check_action, show_action},
    device::Device,
    error::{core_error, exhausted, exists, invalid, not_found, unimplemented, UpdateResult},
    metadata::{OneShot, ProfileMetadata},
    schema::{Profile, Schema, Table},
    scope::{EntityVisitor, Scope, View},
};
use alfirk_bmv2::{GroupMember, ProfileGroup, ProfileId, ProfileMember};

fn profile(schema: &Schema, id: u32) -> UpdateResult<(&Profile, ProfileId)> {
    let profile = schema
        .profiles
        .get(&id)
        .ok_or_else(|| invalid(format!("no action profile has id {id:#010x}")))?;
    let core = profile.core.ok_or_else(|| {
        unimplemented(format!(
            "action profile {}: not in the device config",
            profile.name
        ))
    })?;
    Ok((profile, core))
}

/// Checks that all tables of an action profile use one-shots, or all use members and groups (§ 9.2.3).
pub fn check_one_shot_use(scope: &Scope<'_>, table: &Table, one_shot: bool) -> UpdateResult {
    let metadata = &scope.pipeline.profiles;
    let conflict = if one_shot {
        let id = table.profile;
        let is_of_profile = |key: &(u32, u32)| key.0 == id;
        metadata.members.keys().any(is_of_profile) || metadata.groups.keys().any(is_of_profile)
    } else {
        metadata
            .one_shots
            .get(&table.profile)
            .is_some_and(|count| *count > 0)
    };
    if conflict {
        return Err(invalid(format!(
            "table {}: its action profile accepts either members and groups, or one-shot action sets, not both",
            table.name
        )));
    }
    Ok(())
}

/// Returns the table with the most actions, among those that use the profile.
fn table_of<'a>(schema: &'a Schema, profile: &Profile) -> UpdateResult<&'a Table> {
    let tables = profile.tables.iter().filter_map(|id| schema.tables.get(id));
    let table = tables.max_by_key(|table| table.actions.len());
    table.ok_or_else(|| invalid(format!("action profile {}: no table uses it", profile.name)))
}

fn core_member(
    schema: &Schema,
    profile: &Profile,
    id: u32,
    action: Option<&Action>,
) -> UpdateResult<ProfileMember> {
    let action = action.ok_or_else(|| {
        invalid(format!(
            "action profile {}: member {id} has no action",
            profile.name
        ))
    })?;
    let (action, args) = check_action(schema, table_of(schema, profile)?, action, false)?;
    Ok(ProfileMember { id, action, args })
}

/// Checks that a member or group was written through P4Runtime, and was not created by the server for a one-shot.
fn check_written(
    metadata: &ProfileMetadata,
    (profile, id): (u32, u32),
    name: &str,
) -> UpdateResult {
    if id == 0 {
        return Err(invalid(format!("{name}: ids start at 1")));
    }
    let one_shots = metadata.one_shots.get(&profile);
    match one_shots.is_some_and(|count| *count > 0) {
        true => Err(invalid(format!(
            "{name}: the profile's entries are written in one shot"
        ))),
        false => Ok(()),
    }
}

pub fn write_member(
    scope: &mut Scope<'_>,
    kind: Type,
    member: &ActionProfileMember,
) -> UpdateResult {
    let schema = scope.pipeline.schema.clone();
    let (profile, core) = profile(&schema, member.action_profile_id)?;
    let id = member.member_id;
    let name = format!("action profile {}: member {id}", profile.name);
    let key = (profile.id, id);
    let metadata = &scope.pipeline.profiles;
    check_written(metadata, key, &name)?;
    let objects = scope.switch.member(core, id).is_ok();
    match kind {
        Type::Delete => {
            if !objects {
                return Err(not_found(format!("{name} does not exist")));
            }
            scope.switch.delete_member(core, id).map_err(core_error)?;
            scope.pipeline.profiles.members.remove(&key);
        }
        _ => {
            let new = core_member(&schema, profile, id, member.action.as_ref())?;
            let shown = ActionProfileMember {
                action_profile_id: profile.id,
                member_id: id,
                action: show_action(&schema, &new.action, &new.args),
            };
            if kind == Type::Insert {
                if objects {
                    return Err(exists(format!("{name} exists already")));
                }
                let members = metadata
                    .members
                    .keys()
                    .filter(|key| key.0 == profile.id)
                    .count();
                if !profile.with_selector && profile.size > 0 && members as u64 >= profile.size {
                    return Err(exhausted(format!(
                        "action profile {} is full with {} members",
                        profile.name, profile.size
                    )));
                }
                scope.switch.insert_member(core, &new).map_err(core_error)?;
            } else {
                if !objects {
                    return Err(not_found(format!("{name} does not exist")));
                }
                scope.switch.modify_member(core, &new).map_err(core_error)?;
            }
            scope.pipeline.profiles.members.insert(key, shown);
        }
    }
    Ok(())
}

pub fn write_group(scope: &mut Scope<'_>, kind: Type, group: &ActionProfileGroup) -> UpdateResult {
    let schema = scope.pipeline.schema.clone();
    let (profile, core) = profile(&schema, group.action_profile_id)?;
    let id = group.group_id;
    let name = format!("action profile {}: group {id}", profile.name);
    if !profile.with_selector {
        return Err(invalid(format!(
            "{name}: groups need a selector, which this profile does not have"
        )));
    }
    let key = (profile.id, id);
    let metadata = &scope.pipeline.profiles;
    check_written(metadata, key, &name)?;
    let objects = metadata.groups.get(&key);
    let is_there = scope.switch.group(core, id).is_ok();
    match (kind, objects) {
        (Type::Insert, _) if is_there => return Err(exists(format!("{name} exists already"))),
        (Type::Modify | Type::Delete, _) if !is_there => {
            return Err(not_found(format!("{name} does not exist")))
        }
        (Type::Modify, Some(old)) if old.max_size != group.max_size => {
            return Err(invalid(format!(
                "{name}: max_size was {} when the group was inserted and cannot change",
                old.max_size
            )))
        }
        _ => {}
    }
    if kind == Type::Delete {
        scope.switch.delete_group(core, id).map_err(core_error)?;
        scope.pipeline.profiles.groups.remove(&key);
        return Ok(());
    }
    check_max_size(&name, profile, group.max_size)?;
    for member in &group.members {
        if scope.switch.member(core, member.member_id).is_err() {
            return Err(not_found(format!(
                "{name}: member {} does not exist",
                member.member_id
            )));
        }
    }
    let new = core_group(&name, profile, group, &metadata.down)?;
    if kind == Type::Insert {
        scope.switch.insert_group(core, &new).map_err(core_error)?;
    } else {
        scope.switch.modify_group(core, &new).map_err(core_error)?;
    }
    scope.pipeline.profiles.groups.insert(key, group.clone());
    Ok(())
}

fn check_max_size(name: &str, profile: &Profile, max_size: i32) -> UpdateResult {
    let limit = profile.max_group_size;
    if max_size < 0 || limit > 0 && max_size > limit {
        return Err(invalid(format!(
            "{name}: max_size {max_size} is not from 0 to {limit}"
        )));
    }
    Ok(())
}

/// Checks the weights and the size of a group (§ 9.2.2), and converts the group to the switch core's form.
fn core_group(
    name: &str,
    profile: &Profile,
    group: &ActionProfileGroup,
    down: &BTreeSet<u32>,
) -> UpdateResult<ProfileGroup> {
    let mut ids = BTreeSet::new();
    let mut members = Vec::with_capacity(group.members.len());
    let mut weights: i64 = 0;
    for member in &group.members {
        let id = member.member_id;
        if !ids.insert(id) {
            return Err(invalid(format!("{name}: member {id} occurs twice")));
        }
        let weight = check_weight(name, profile, member.weight)?;
        weights += i64::from(weight);
        let port = watch_port(name, member.watch_kind.as_ref())?;
        members.push(GroupMember {
            id,
            weight: weight as u32,
            active: port.is_none_or(|port| !down.contains(&port)),
        });
    }
    let size = match profile.sum_of_members {
        Some(_) => members.len() as i64,
        None => weights,
    };
    let limits = [group.max_size, profile.max_group_size];
    let limit = limits.into_iter().filter(|limit| *limit > 0).min();
    if let Some(limit) = limit.filter(|limit| size > i64::from(*limit)) {
        let what = if profile.sum_of_members.is_some() {
            "number of members"
        } else {
            "sum of weights"
        };
        return Err(exhausted(format!(
            "{name}: the {what} is {size}, above the limit {limit}"
        )));
    }
    Ok(ProfileGroup {
        id: group.group_id,
        members,
        max_size: u32::try_from(group.max_size).unwrap_or(0),
    })
}

fn check_weight(name: &str, profile: &Profile, weight: i32) -> UpdateResult<i32> {
    if profile.weights_disallowed {
        if weight != 0 {
            return Err(invalid(format!(
                "{name}: the selector counts members and has no weights"
            )));
        }
        return Ok(1);
    }
    if weight < 1 {
        return Err(invalid(format!("{name}: weight {weight} is below 1")));
    }
    match profile.sum_of_members {
        Some(max) if max > 0 && weight > max => {
            Err(invalid(format!("{name}: weight {weight} is above {max}")))
        }
        _ => Ok(weight),
    }
}

fn watch_port(name: &str, watch: Option<&WatchKind>) -> UpdateResult<Option<u32>> {
    match watch {
        None => Ok(None),
        Some(WatchKind::Watch(port)) => Ok(u32::try_from(*port).ok()),
        Some(WatchKind::WatchPort(bytes)) if bytes.is_empty() => Ok(None),
        Some(WatchKind::WatchPort(bytes)) => bytestring::decode(bytes, 32)
            .map(|port| Some(port as u32))
            .map_err(|error| invalid(format!("{name}: watch port: {error}"))),
    }
}

/// Creates the members and the group for the action set of a one-shot. They replace those of the group `replaced`.
pub fn create_one_shot(
    scope: &mut Scope<'_>,
    table: &Table,
    set: &ActionProfileActionSet,
    replaced: Option<u32>,
) -> UpdateResult<OneShot> {
    let schema = scope.pipeline.schema.clone();
    let (profile, core) = profile(&schema, table.profile)?;
    let name = format!("table {}: action set", table.name);
    if !profile.with_selector {
        return Err(invalid(format!(
            "{name}: the table's action profile has no selector"
        )));
    }
    if set.group_action.is_some() {
        return Err(unimplemented(format!(
            "{name}: group actions are not supported"
        )));
    }
    if set.action_selection_mode() != ActionSelectionMode::DefaultModeDeterminedByActionSelector
        || !matches!(
            (set.size_semantics(), profile.sum_of_members),
            (SizeSemantics::DefaultSizeDeterminedByActionSelector, _)
                | (SizeSemantics::SumOfWeights, None)
                | (SizeSemantics::SumOfMembers, Some(_))
        )
    {
        return Err(unimplemented(format!(
            "{name}: selection mode and size semantics are set by the selector, not by the action set"
        )));
    }

    let metadata = &mut scope.pipeline.profiles;
    let mut new_id = || {
        metadata.next_id += 1;
        metadata.next_id
    };
    let group_id = new_id();
    let ids: Vec<u32> = set
        .action_profile_actions
        .iter()
        .map(|_| new_id())
        .collect();
    let mut group = ActionProfileGroup {
        action_profile_id: profile.id,
        group_id,
        ..Default::default()
    };
    let mut members = Vec::with_capacity(ids.len());
    for (&id, action) in ids.iter().zip(&set.action_profile_actions) {
        use action_profile_action::WatchKind as Watch;
        group.members.push(action_profile_group::Member {
            member_id: id,
            weight: action.weight,
            watch_kind: action.watch_kind.clone().map(|watch| match watch {
                Watch::Watch(port) => WatchKind::Watch(port),
                Watch::WatchPort(port) => WatchKind::WatchPort(port),
            }),
        });
        members.push(core_member(&schema, profile, id, action.action.as_ref())?);
    }
    // An action set that is too large is INVALID_ARGUMENT, a group RESOURCE_EXHAUSTED (§ 9.2.3).
    let down = &scope.pipeline.profiles.down;
    let group =
        core_group(&name, profile, &group, down).map_err(|status| invalid(status.message))?;

    let mut created = OneShot {
        group: group_id,
        members: Vec::new(),
        set: canonical(&schema, set, &members),
    };
    for member in &members {
        let inserted = scope.switch.insert_member(core, member);
        if let Err(error) = inserted {
            remove_parts(scope, core, &created);
            return Err(core_error(error));
        }
        created.members.push(member.id);
    }
    if let Err(error) = scope.switch.insert_group_for(core, &group, replaced) {
        remove_parts(scope, core, &created);
        return Err(core_error(error));
    }
    *scope
        .pipeline
        .profiles
        .one_shots
        .entry(profile.id)
        .or_default() += 1;
    Ok(created)
}

/// Returns an action set with its actions in canonical form.
fn canonical(
    schema: &Schema,
    set: &ActionProfileActionSet,
    members: &[ProfileMember],
) -> ActionProfileActionSet {
    let mut set = set.clone();
    for (action, member) in set.action_profile_actions.iter_mut().zip(members) {
        action.action = show_action(schema, &member.action, &member.args);
    }
    set
}

/// Removes the group and the members of a one-shot, when no entry refers to them any more.
pub fn remove_one_shot(scope: &mut Scope<'_>, profile_id: u32, one_shot: &OneShot) {
    let schema = scope.pipeline.schema.clone();
    let Ok((_, core)) = profile(&schema, profile_id) else {
        return;
    };
    if let Err(error) = scope.switch.delete_group(core, one_shot.group) {
        tracing::error!("cannot remove a one-shot group: {error}");
    }
    remove_parts(scope, core, one_shot);
    if let Some(count) = scope.pipeline.profiles.one_shots.get_mut(&profile_id) {
        *count = count.saturating_sub(1);
    }
}

fn remove_parts(scope: &mut Scope<'_>, core: ProfileId, one_shot: &OneShot) {
    for &member in &one_shot.members {
        if let Err(error) = scope.switch.delete_member(core, member) {
            tracing::error!("cannot remove a one-shot member: {error}");
        }
    }
}

pub fn read_members(
    view: View<'_>,
    filter: &ActionProfileMember,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let wanted = Selection::new(view, filter.action_profile_id, filter.member_id)?;
    let objects = &view.pipeline.profiles.members;
    for member in wanted.written(objects) {
        found(Kind::ActionProfileMember(member.clone()));
    }
    for profile in external_profiles(view, filter.action_profile_id) {
        for member in view.switch.members(profile.core).map_err(core_error)? {
            if wanted.is_external(objects, (profile.id, member.id)) {
                let action = show_action(&view.pipeline.schema, &member.action, &member.args);
                found(Kind::ActionProfileMember(ActionProfileMember {
                    action_profile_id: profile.id,
                    member_id: member.id,
                    action,
                }));
            }
        }
    }
    Ok(())
}

pub fn read_groups(
    view: View<'_>,
    filter: &ActionProfileGroup,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let wanted = Selection::new(view, filter.action_profile_id, filter.group_id)?;
    let objects = &view.pipeline.profiles.groups;
    for group in wanted.written(objects) {
        found(Kind::ActionProfileGroup(group.clone()));
    }
    for profile in external_profiles(view, filter.action_profile_id) {
        for group in view.switch.groups(profile.core).map_err(core_error)? {
            if wanted.is_external(objects, (profile.id, group.id)) {
                let members = group.members.iter();
                let members = members.map(|member| action_profile_group::Member {
                    member_id: member.id,
                    weight: i32::try_from(member.weight).unwrap_or(i32::MAX),
                    watch_kind: None,
                });
                found(Kind::ActionProfileGroup(ActionProfileGroup {
                    action_profile_id: profile.id,
                    group_id: group.id,
                    members: members.collect(),
                    ..Default::default()
                }));
            }
        }
    }
    Ok(())
}

/// An action profile whose members may have been written by other services than P4Runtime. Profiles with one-shots are
/// excluded, since their members are not shown.
struct ExternalProfile {
    id: u32,
    core: ProfileId,
}

fn external_profiles(view: View<'_>, wanted: u32) -> Vec<ExternalProfile> {
    let one_shots = &view.pipeline.profiles.one_shots;
    let has_no_one_shots = |id: u32| one_shots.get(&id).is_none_or(|count| *count == 0);
    let profiles = view.pipeline.schema.profiles.values();
    let chosen = profiles.filter(|p| matches(wanted, p.id) && has_no_one_shots(p.id));
    chosen
        .filter_map(|p| p.core.map(|core| ExternalProfile { id: p.id, core }))
        .collect()
}

fn matches(wanted: u32, id: u32) -> bool {
    wanted == 0 || wanted == id
}

/// The members or groups that a read selects: a single one, those of a profile, or all. Id 0 selects all.
struct Selection {
    profile: u32,
    id: u32,
}

impl Selection {
    fn new(view: View<'_>, profile_id: u32, id: u32) -> UpdateResult<Selection> {
        if profile_id != 0 {
            profile(&view.pipeline.schema, profile_id)?;
        } else if id != 0 {
            return Err(invalid(
                "a member or group id requires an action profile id",
            ));
        }
        Ok(Selection {
            profile: profile_id,
            id,
        })
    }

    /// Returns the selected objects among those written through P4Runtime. Keys are pairs of profile id and object id.
    fn written<'b, T>(
        &'b self,
        objects: &'b BTreeMap<(u32, u32), T>,
    ) -> impl Iterator<Item = &'b T> {
        let chosen = objects
            .iter()
            .filter(|((profile, id), _)| matches(self.profile, *profile) && matches(self.id, *id));
        chosen.map(|(_, one)| one)
    }

    /// Returns whether an object of the switch is selected and was not written through P4Runtime.
    fn is_external<T>(&self, objects: &BTreeMap<(u32, u32), T>, key: (u32, u32)) -> bool {
        !objects.contains_key(&key) && matches(self.id, key.1)
    }
}

impl Device {
    /// Updates groups after a link change of a watch port: excludes members whose port is down, or restores them.
    pub(super) fn refresh_watched(&mut self, port: u32, down: &BTreeSet<u32>) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        pipeline.profiles.down.clone_from(down);
        let watches = |group: &ActionProfileGroup| {
            group.members.iter().any(|member| {
                matches!(watch_port("", member.watch_kind.as_ref()), Ok(Some(p)) if p == port)
            })
        };
        let mut changed = Vec::new();
        for group in pipeline.profiles.groups.values().filter(|g| watches(g)) {
            changed.push((group.action_profile_id, group.clone()));
        }
        for (table, one_shot) in pipeline.tables.one_shots() {
            let group = one_shot.as_group();
            if watches(&group) {
                let profile = pipeline.schema.tables.get(&table).map_or(0, |t| t.profile);
                changed.push((profile, group));
            }
        }
        // One-shots come from a hash map without order; sort by group.
        changed.sort_by_key(|(profile, group)| (*profile, group.group_id));
        for (id, group) in changed {
            let Ok((profile, core)) = profile(&pipeline.schema, id) else {
                continue;
            };
            let result = core_group("group", profile, &group, down)
                .and_then(|group| self.switch.modify_group(core, &group).map_err(core_error));
            if let Err(status) = result {
                tracing::error!(
                    "action profile group {}: cannot apply a change of port {port}: {status}",
                    group.group_id
                );
            }
        }
    }
}

impl OneShot {
    fn as_group(&self) -> ActionProfileGroup {
        use action_profile_action::WatchKind as Watch;
        let members = self.members.iter().zip(&self.set.action_profile_actions);
        ActionProfileGroup {
            group_id: self.group,
            members: members
                .map(|(&member_id, action)| action_profile_group::Member {
                    member_id,
                    weight: action.weight,
                    watch_kind: action.watch_kind.clone().map(|watch| match watch {
                        Watch::Watch(port) => WatchKind::Watch(port),
                        Watch::WatchPort(port) => WatchKind::WatchPort(port),
                    }),
                })
                .collect(),
            ..Default::default()
        }
    }
}
