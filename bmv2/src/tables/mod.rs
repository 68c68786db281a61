//! Match tables: entries, their lookup structures, and action profiles.

mod index;
mod key;
mod profile;
mod table;

pub use key::KeyFault;
pub use key::KeyMatch;
pub(crate) use key::{prefix, shortest, to_words, NewKey};
pub use profile::{GroupMember, ProfileGroup, ProfileMember};
pub(crate) use profile::{GroupState, MemberState, ProfileState};
pub(crate) use table::{identity, ActionRef, NewEntry, TableState, Target, MAX_ENTRIES};
pub use table::{EntryHandle, EntryTarget, TableEntry};
