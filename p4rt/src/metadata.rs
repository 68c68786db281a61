//! Data of P4Runtime objects that the switch core does not store: the controllers' metadata and original messages.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::p4::v1::{
    ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, CloneSessionEntry,
    MulticastGroupEntry, TableEntry,
};
use rustc_hash::{FxHashMap, FxHashSet};

use alfirk_bmv2::EntryHandle;

/// Data of table entries that the switch core does not store, such as the controller's metadata. Most entries have
/// none.
#[derive(Clone, Debug, Default)]
pub struct TableMetadata {
    pub(super) entries: FxHashMap<(u32, EntryHandle), EntryMetadata>,
    pub(super) defaults: FxHashMap<u32, EntryMetadata>,
    /// Ids of the tables whose default entry was set by a controller.
    pub(super) defaults_set: FxHashSet<u32>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EntryMetadata {
    pub(super) metadata: Vec<u8>,
    pub(super) controller_metadata: u64,
    pub(super) one_shot: Option<OneShot>,
}

impl EntryMetadata {
    pub(super) fn of(entry: &TableEntry, one_shot: Option<OneShot>) -> Option<EntryMetadata> {
        let metadata = EntryMetadata {
            metadata: entry.metadata.clone(),
            controller_metadata: entry.controller_metadata,
            one_shot,
        };
        let empty = metadata.metadata.is_empty()
            && metadata.controller_metadata == 0
            && metadata.one_shot.is_none();
        (!empty).then_some(metadata)
    }
}

impl TableMetadata {
    /// Returns whether a table's default entry is still the one that the program defines.
    pub fn is_initial_default(&self, table: u32) -> bool {
        !self.defaults_set.contains(&table)
    }

    /// Iterates over the groups that were created for entries with an action set (one-shots), with the ids of their
    /// tables.
    pub fn one_shots(&self) -> impl Iterator<Item = (u32, &OneShot)> {
        self.entries
            .iter()
            .filter_map(|((table, _), metadata)| Some((*table, metadata.one_shot.as_ref()?)))
    }

    /// Records who set a table's default entry: a controller (`is_set`) or the program.
    pub(super) fn mark_default(&mut self, table: u32, is_set: bool) {
        self.defaults.remove(&table);
        match is_set {
            true => self.defaults_set.insert(table),
            false => self.defaults_set.remove(&table),
        };
    }

    pub(super) fn set(&mut self, table: u32, entry: EntryHandle, metadata: Option<EntryMetadata>) {
        match metadata {
            Some(metadata) => self.entries.insert((table, entry), metadata),
            None => self.entries.remove(&(table, entry)),
        };
    }
}

/// Members, groups and one-shots of action profiles, as the controllers wrote them. A one-shot is a table entry with
/// its own set of actions.
#[derive(Clone, Debug, Default)]
pub struct ProfileMetadata {
    pub(super) members: BTreeMap<(u32, u32), ActionProfileMember>,
    pub(super) groups: BTreeMap<(u32, u32), ActionProfileGroup>,
    /// Ports whose link is down.
    pub(super) down: BTreeSet<u32>,
    /// Number of one-shots per action profile, by the profile's id.
    pub(super) one_shots: BTreeMap<u32, usize>,
    pub(super) next_id: u32,
}

impl ProfileMetadata {
    /// Creates an empty store. `down` are the ports whose link is down.
    pub fn new(down: BTreeSet<u32>) -> ProfileMetadata {
        ProfileMetadata {
            down,
            ..ProfileMetadata::default()
        }
    }

    pub(super) fn discard_member(&mut self, profile: u32, id: u32) {
        self.members.remove(&(profile, id));
    }

    pub(super) fn discard_group(&mut self, profile: u32, id: u32) {
        self.groups.remove(&(profile, id));
    }

    pub(super) fn discard_all(&mut self) {
        *self = ProfileMetadata::new(std::mem::take(&mut self.down));
    }
}

/// The group and members that the server created for the action set of one table entry (P4Runtime § 9.2.3).
#[derive(Clone, Debug, PartialEq)]
pub struct OneShot {
    pub group: u32,
    pub(super) members: Vec<u32>,
    /// The action set as the controller wrote it, which reads return.
    pub set: ActionProfileActionSet,
}

/// Multicast groups and clone sessions, as the controllers wrote them.
#[derive(Clone, Debug)]
pub struct PreMetadata {
    pub(super) groups: BTreeMap<u32, MulticastGroupEntry>,
    pub(super) sessions: BTreeMap<u32, CloneSessionEntry>,
    /// Ports whose link is down.
    pub(super) down: BTreeSet<u32>,
}

impl PreMetadata {
    /// Creates an empty store. `down` are the ports whose link is down.
    pub fn new(down: BTreeSet<u32>) -> PreMetadata {
        PreMetadata {
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
            down,
        }
    }

    pub(super) fn discard_group(&mut self, group: u32) {
        self.groups.remove(&group);
    }

    pub(super) fn discard_session(&mut self, session: u32) {
        self.sessions.remove(&session);
    }

    pub(super) fn discard_groups(&mut self) {
        self.groups.clear();
    }
}
