//! Action profiles: actions shared by entries, directly or in groups with a selector.

use super::entry::ActionRef;
use rustc_hash::FxHashMap;

/// A member of an action profile, in the control plane's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileMember {
    /// Member id, unique within the profile.
    pub id: u32,
    /// Name of the action, one of the actions of the profile's tables.
    pub action: String,
    /// Arguments in declaration order, as big-endian bytes.
    pub args: Vec<Vec<u8>>,
}

/// A group of an action selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileGroup {
    /// Group id, unique within the selector.
    pub id: u32,
    /// Members among which the selector chooses, in any order.
    pub members: Vec<GroupMember>,
    /// Maximum size of the group, in the unit of [`GroupLimits`]; 0 if only the selector's limit applies.
    pub max_size: u32,
}

/// A member of a selector's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Id of the member, as in [`ProfileMember::id`].
    pub id: u32,
    /// Weight, which is proportional to the share of hash values that choose the member.
    pub weight: u32,
    /// Whether the member can be chosen; false while its watch port is down.
    pub active: bool,
}

/// State of an action profile: its members and groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProfileState {
    pub members: FxHashMap<u32, MemberState>,
    pub groups: FxHashMap<u32, GroupState>,
    pub limits: GroupLimits,
    /// Total size of all groups, in the unit of the limits.
    pub size: u64,
}

impl ProfileState {
    pub(crate) fn new(limits: GroupLimits) -> ProfileState {
        ProfileState {
            limits,
            ..ProfileState::default()
        }
    }
}

/// Limits of the group sizes of an action selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Maximum total size of all groups; 0 for no limit.
    pub size: u64,
    /// Maximum size of one group; 0 for no limit.
    pub max_group_size: u64,
    /// Whether a group's size is the number of its members instead of the sum of their weights.
    pub counts_members: bool,
}

impl GroupLimits {
    /// Returns the size of a group, in members or in weights.
    pub fn size_of(&self, group: &ProfileGroup) -> u64 {
        match self.counts_members {
            true => group.members.len() as u64,
            false => group.members.iter().map(|m| u64::from(m.weight)).sum(),
        }
    }

    /// Returns the unit of group sizes for messages, such as members.
    pub fn unit(&self) -> &'static str {
        match self.counts_members {
            true => "number of members",
            false => "sum of weights",
        }
    }
}

/// State of a member: its action in the form that the interpreter calls, and the number of references to it.
#[derive(Clone, Debug)]
pub(crate) struct MemberState {
    pub action: ActionRef,
    /// Number of table entries and groups that refer to the member.
    pub uses: usize,
}

/// State of a group: its definition, and the table from which a hash value selects a member.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub group: ProfileGroup,
    /// The active members in ascending order of ids: sum of the weights up to this member, and id.
    choices: Vec<(u64, u32)>,
    /// Sum of the weights of the group's active members.
    total: u64,
    /// Number of table entries that refer to the group.
    pub uses: usize,
}

impl GroupState {
    pub fn new(group: ProfileGroup, uses: usize) -> GroupState {
        let mut members: Vec<_> = group.members.iter().filter(|m| m.active).collect();
        members.sort_by_key(|m| m.id);
        let mut total = 0;
        let choices = members
            .iter()
            .map(|m| {
                total += u64::from(m.weight);
                (total, m.id)
            })
            .collect();
        GroupState {
            choices,
            total,
            group,
            uses,
        }
    }

    /// Returns the ids of the members that hash values can select, in ascending order.
    pub fn members(&self) -> Vec<u32> {
        let mut end = 0;
        let choices = self.choices.iter().filter(|(up_to, _)| {
            let has_weight = *up_to > end;
            end = *up_to;
            has_weight
        });
        choices.map(|(_, id)| *id).collect()
    }

    /// Returns the member that a hash value selects; `None` when the group is empty.
    pub fn choose(&self, hash: u64) -> Option<u32> {
        let point = hash.checked_rem(self.total)?;
        let at = self.choices.partition_point(|(end, _)| *end <= point);
        self.choices.get(at).map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_chosen_in_order_of_ids_and_by_weight() {
        let member = |id, weight, active| GroupMember { id, weight, active };
        let members = vec![member(7, 1, true), member(3, 2, true), member(5, 9, false)];
        let group = GroupState::new(
            ProfileGroup {
                id: 1,
                members,
                max_size: 0,
            },
            0,
        );
        let chosen: Vec<_> = (0..4).map(|hash| group.choose(hash).unwrap()).collect();
        assert_eq!(chosen, [3, 3, 7, 3]);
        assert_eq!(GroupState::new(ProfileGroup::default(), 0).choose(5), None);
    }
}
