//! Match tables: entries, their lookup structures, and action profiles.

mod entry;
mod index;
mod key;
mod lpm;
mod profile;
mod table;

pub(crate) use entry::{ActionRef, NewEntry, NewKey, Target};
pub use key::KeyFault;
pub use key::KeyMatch;
#[cfg(feature = "jit")]
pub(crate) use key::Packing;
pub use profile::{GroupLimits, GroupMember, ProfileGroup, ProfileMember};
pub(crate) use profile::{GroupState, MemberState, ProfileState};
pub(crate) use table::{identity, TableState, MAX_ENTRIES};
pub use table::{EntryHandle, EntryTarget, TableEntry};
