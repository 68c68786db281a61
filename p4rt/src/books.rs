//! What P4Runtime remembers beside the switch: what controllers wrote and the switch does not keep.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::p4::v1::{
    ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, CloneSessionEntry,
    MulticastGroupEntry, TableEntry,
};
use rustc_hash::{FxHashMap, FxHashSet};

use alfirk_bmv2::EntryHandle;

/// What the core does not keep of entries. Most entries need nothing here.
#[derive(Debug, Default)]
pub struct TableBook {
    pub(super) notes: FxHashMap<(u32, EntryHandle), Note>,
    pub(super) default_notes: FxHashMap<u32, Note>,
    /// Tables whose default entry a controller has set.
    pub(super) defaults_set: FxHashSet<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Note {
    pub(super) metadata: Vec<u8>,
    pub(super) controller_metadata: u64,
    pub(super) one_shot: Option<OneShot>,
}

impl Note {
    pub(super) fn of(entry: &TableEntry, one_shot: Option<OneShot>) -> Option<Note> {
        let note = Note {
            metadata: entry.metadata.clone(),
            controller_metadata: entry.controller_metadata,
            one_shot,
        };
        let empty =
            note.metadata.is_empty() && note.controller_metadata == 0 && note.one_shot.is_none();
        (!empty).then_some(note)
    }
}

impl TableBook {
    /// Whether the default entry is still the program's.
    pub fn is_initial_default(&self, table: u32) -> bool {
        !self.defaults_set.contains(&table)
    }

    /// The one-shot groups of all entries.
    pub fn one_shots(&self) -> impl Iterator<Item = (u32, &OneShot)> {
        self.notes
            .iter()
            .filter_map(|((table, _), note)| Some((*table, note.one_shot.as_ref()?)))
    }

    /// Notes that the default entry is the program's own, or not.
    pub(super) fn note_default(&mut self, table: u32, is_set: bool) {
        self.default_notes.remove(&table);
        match is_set {
            true => self.defaults_set.insert(table),
            false => self.defaults_set.remove(&table),
        };
    }

    /// The entries of a table of which something is noted.
    pub(super) fn noted(&self, table: u32) -> Vec<EntryHandle> {
        let notes = self.notes.keys().filter(|(of, _)| *of == table);
        notes.map(|(_, entry)| *entry).collect()
    }

    pub(super) fn set(&mut self, table: u32, entry: EntryHandle, note: Option<Note>) {
        match note {
            Some(note) => self.notes.insert((table, entry), note),
            None => self.notes.remove(&(table, entry)),
        };
    }
}

/// Members and groups as they were written, and what one-shots have made.
#[derive(Debug, Default)]
pub struct ProfileBook {
    pub(super) members: BTreeMap<(u32, u32), ActionProfileMember>,
    pub(super) groups: BTreeMap<(u32, u32), ActionProfileGroup>,
    /// Ports known to be down.
    pub(super) down: BTreeSet<u32>,
    /// One-shots of each profile, and the next id for their members and groups.
    pub(super) one_shots: BTreeMap<u32, usize>,
    pub(super) next_id: u32,
}

impl ProfileBook {
    /// Nothing written yet, with these ports down.
    pub fn new(down: BTreeSet<u32>) -> ProfileBook {
        ProfileBook {
            down,
            ..ProfileBook::default()
        }
    }

    pub(super) fn forget_member(&mut self, profile: u32, id: u32) {
        self.members.remove(&(profile, id));
    }

    pub(super) fn forget_group(&mut self, profile: u32, id: u32) {
        self.groups.remove(&(profile, id));
    }

    pub(super) fn forget_all(&mut self) {
        *self = ProfileBook::new(std::mem::take(&mut self.down));
    }
}

/// The group and members behind one entry that was written in one shot.
#[derive(Clone, Debug, PartialEq)]
pub struct OneShot {
    pub group: u32,
    pub(super) members: Vec<u32>,
    /// As it was written, for reads.
    pub set: ActionProfileActionSet,
}

/// Groups and sessions as they were written.
#[derive(Clone, Debug)]
pub struct PreBook {
    pub(super) groups: BTreeMap<u32, MulticastGroupEntry>,
    pub(super) sessions: BTreeMap<u32, CloneSessionEntry>,
    /// Ports known to be down.
    pub(super) down: BTreeSet<u32>,
}

impl PreBook {
    /// Nothing written yet, with these ports down.
    pub fn new(down: BTreeSet<u32>) -> PreBook {
        PreBook {
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
            down,
        }
    }

    pub(super) fn forget_group(&mut self, group: u32) {
        self.groups.remove(&group);
    }

    pub(super) fn forget_session(&mut self, session: u32) {
        self.sessions.remove(&session);
    }

    pub(super) fn forget_groups(&mut self) {
        self.groups.clear();
    }
}
