//! Members of action profiles, and groups of action selectors.

use alfirk_bf_rt_json::{ids, Table};
use alfirk_bmv2::{GroupMember, ProfileGroup, ProfileId, ProfileMember, Switch};
use alfirk_p4runtime::bfrt_proto::{TableData, TableKey};

use crate::error::{core, invalid, Outcome};
use crate::match_table::{action_args, action_data, params_of, spec_of};
use crate::pre::Write;
use crate::program::Program;
use crate::values::{self, bytes_of, exact_key, Values};

/// An action profile or selector of the schema and of the switch.
pub(crate) struct Profile<'p> {
    pub table: &'p Table,
    id: ProfileId,
}

impl<'p> Profile<'p> {
    /// Finds the object in the switch.
    pub fn new(program: &'p Program, table: &'p Table, switch: &Switch) -> Outcome<Profile<'p>> {
        let id = switch.profile(program.profile_name(table)).map_err(core)?;
        Ok(Profile { table, id })
    }

    /// The id of the member or group in a key.
    pub fn number(&self, key: &TableKey) -> Outcome<u32> {
        let field = self.table.key.first().map_or(0, |field| field.id);
        let number = values::key_number(self.table, key, field)?;
        u32::try_from(number)
            .map_err(|_| invalid(format!("table {}: the id is too large", self.table.name)))
    }

    /// A member as a request describes it.
    fn member(&self, id: u32, data: &TableData) -> Outcome<ProfileMember> {
        let spec = spec_of(self.table, data.action_id)?;
        let values = Values::new(self.table, &params_of(spec), data)?;
        Ok(ProfileMember {
            id,
            action: spec.name.clone(),
            args: action_args(spec, &values),
        })
    }

    /// Adds a member, or changes it if `is_new` is false.
    pub fn write_member(
        &self,
        switch: &mut Switch,
        id: u32,
        data: &TableData,
        is_new: bool,
    ) -> Outcome {
        let member = self.member(id, data)?;
        match is_new {
            true => switch.insert_member(self.id, &member),
            false => switch.modify_member(self.id, &member),
        }
        .map_err(core)
    }

    /// Deletes a member.
    pub fn delete_member(&self, switch: &mut Switch, id: u32) -> Outcome {
        switch.delete_member(self.id, id).map_err(core)
    }

    /// Ids of all members.
    pub fn members(&self, switch: &Switch) -> Outcome<Vec<u32>> {
        let members = switch.members(self.id).map_err(core)?;
        Ok(members.into_iter().map(|member| member.id).collect())
    }

    /// The key and data of a member.
    pub fn read_member(&self, switch: &Switch, id: u32) -> Outcome<(TableKey, TableData)> {
        let member = switch.member(self.id, id).map_err(core)?;
        let specs = self.table.action_specs.iter().flatten();
        let spec = specs.into_iter().find(|spec| spec.name == member.action);
        let data = spec.map_or_else(TableData::default, |spec| action_data(spec, &member.args));
        let key = exact_key(ids::ACTION_MEMBER_ID, bytes_of(u64::from(id), 32));
        Ok((key, data))
    }

    /// Adds a group, or changes it.
    pub fn write_group(
        &self,
        switch: &mut Switch,
        id: u32,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        match write {
            Write::Insert => self.insert_group(switch, id, data),
            _ => self.modify_group(switch, id, data, write),
        }
    }

    fn insert_group(&self, switch: &mut Switch, id: u32, data: &TableData) -> Outcome {
        let values = Values::new(self.table, &[], data)?;
        let default = self.default_size();
        let max_size = values.number(ids::MAX_GROUP_SIZE);
        let group = ProfileGroup {
            id,
            members: members_of(&values)?,
            max_size: max_size
                .and_then(|size| u32::try_from(size).ok())
                .unwrap_or(default),
        };
        self.check_size(&group)?;
        switch.insert_group(self.id, &group).map_err(core)
    }

    /// Changes a group: adds or removes the members of the request, or else replaces its members.
    fn modify_group(
        &self,
        switch: &mut Switch,
        id: u32,
        data: &TableData,
        write: Write,
    ) -> Outcome {
        let values = Values::new(self.table, &[], data)?;
        let mut group = switch.group(self.id, id).map_err(core)?;
        let given = members_of(&values)?;
        match write {
            Write::Insert | Write::Modify => {
                if values.has(ids::ACTION_MEMBER_ID) || values.has(ids::ACTION_MEMBER_STATUS) {
                    group.members = given;
                }
                if let Some(size) = values.number(ids::MAX_GROUP_SIZE) {
                    group.max_size = u32::try_from(size).unwrap_or(u32::MAX);
                }
            }
            Write::Add => {
                for member in given {
                    group.members.retain(|old| old.id != member.id);
                    group.members.push(member);
                }
            }
            Write::Remove => {
                for member in given {
                    group.members.retain(|old| old.id != member.id);
                }
            }
        }
        self.check_size(&group)?;
        switch.modify_group(self.id, &group).map_err(core)
    }

    /// Deletes a group.
    pub fn delete_group(&self, switch: &mut Switch, id: u32) -> Outcome {
        switch.delete_group(self.id, id).map_err(core)
    }

    /// Ids of all groups.
    pub fn groups(&self, switch: &Switch) -> Outcome<Vec<u32>> {
        let groups = switch.groups(self.id).map_err(core)?;
        Ok(groups.into_iter().map(|group| group.id).collect())
    }

    /// The key and data of a group.
    pub fn read_group(&self, switch: &Switch, id: u32) -> Outcome<(TableKey, TableData)> {
        let group = switch.group(self.id, id).map_err(core)?;
        let members = group.members.iter();
        let fields = vec![
            values::numbers_field(ids::ACTION_MEMBER_ID, members.clone().map(|m| m.id)),
            values::booleans_field(ids::ACTION_MEMBER_STATUS, members.map(|m| m.active)),
            values::number_field(ids::MAX_GROUP_SIZE, u64::from(group.max_size), 32),
        ];
        let key = exact_key(ids::SELECTOR_GROUP_ID, bytes_of(u64::from(id), 32));
        Ok((
            key,
            TableData {
                action_id: 0,
                fields,
            },
        ))
    }

    /// The size of a group that does not set it.
    fn default_size(&self) -> u32 {
        let field = self.table.data_fields();
        let field = field.map(|(_, field)| field);
        let size = field.filter(|field| field.id == ids::MAX_GROUP_SIZE);
        let ty = size.filter_map(|field| match &field.content {
            alfirk_bf_rt_json::FieldContent::Type(ty) => ty.default_value.as_ref()?.as_u64(),
            alfirk_bf_rt_json::FieldContent::Container(_) => None,
        });
        ty.last()
            .and_then(|size| u32::try_from(size).ok())
            .unwrap_or(0)
    }

    fn check_size(&self, group: &ProfileGroup) -> Outcome {
        let (count, limit) = (group.members.len(), group.max_size as usize);
        if count > limit {
            let name = &self.table.name;
            return Err(invalid(format!(
                "table {name}: group {} would have {count} members, above its limit of {limit}",
                group.id
            )));
        }
        Ok(())
    }
}

/// The members in a request, each with its status.
fn members_of(values: &Values) -> Outcome<Vec<GroupMember>> {
    let ids = values.numbers(ids::ACTION_MEMBER_ID);
    let status = values.booleans(ids::ACTION_MEMBER_STATUS);
    if !status.is_empty() && ids.len() != status.len() {
        return Err(invalid(format!(
            "a group has {} members and {} states",
            ids.len(),
            status.len()
        )));
    }
    let members = ids.iter().enumerate().map(|(at, id)| GroupMember {
        id: *id,
        weight: 1,
        active: status.get(at).copied().unwrap_or(true),
    });
    Ok(members.collect())
}
