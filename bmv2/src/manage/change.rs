//! Change events: a control service's changes to tables and other objects, by which other control services update
//! their caches.

use super::{ProfileId, TableId};
use crate::{tables::EntryHandle, Switch};

/// A change of an object that a control service may have cached. Insertions are not among them: nothing is cached of
/// an object before it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A table entry was deleted, or its action or action profile member was replaced.
    Entry {
        /// The table with the entry.
        table: TableId,
        /// The entry's handle, which a later entry may get.
        entry: EntryHandle,
    },
    /// The idle timeout of a table entry was set.
    IdleTimeout,
    /// The default action of a table was set, or restored to the program's own.
    Default {
        /// The table whose default action was set.
        table: TableId,
        /// Whether the program's own default action was restored.
        is_restored: bool,
    },
    /// A member of an action profile was modified or deleted.
    Member {
        /// The action profile with the member.
        profile: ProfileId,
        /// Id of the member.
        id: u32,
    },
    /// A group of an action profile was modified or deleted.
    Group {
        /// The action profile.
        profile: ProfileId,
        /// Number of the group.
        id: u32,
    },
    /// The copies of a multicast group were changed, or the group was deleted.
    MulticastGroup(u32),
    /// A clone session was set or deleted.
    CloneSession(u32),
    /// The members of a parser value set, with this name, were set.
    ValueSet(String),
    /// All tables, action profiles and multicast groups were cleared.
    Cleared,
}

/// The changes since [`Switch::observe_changes`], in order; `None` while changes are not observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Option<Vec<Change>>);

impl Changes {
    pub fn record(&mut self, change: impl FnOnce() -> Change) {
        if let Some(changes) = &mut self.0 {
            changes.push(change());
        }
    }

    fn start(&mut self) {
        self.0 = Some(Vec::new());
    }

    fn take(&mut self) -> Vec<Change> {
        self.0.take().unwrap_or_default()
    }
}

impl Switch {
    /// Starts to record changes. [`Switch::take_changes`] ends it.
    pub fn observe_changes(&mut self) {
        if let Ok((_, state)) = self.parts_mut() {
            state.changes.start();
            state.pre.changes.start();
        }
    }

    /// Returns the changes since [`Switch::observe_changes`]: those of multicast groups and clone sessions last, else
    /// in order. Nothing more is recorded.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let Ok((_, state)) = self.parts_mut() else {
            return Vec::new();
        };
        let mut changes = state.changes.take();
        changes.extend(state.pre.changes.take());
        changes
    }
}
