//! What a control plane does to a switch, by the program's own names and numbers.
//!
//! Nothing here knows P4Info: the P4Runtime server and STF both sit on top. Values are big-endian
//! byte strings of any length that fits; what is read comes back in the shortest form.

mod describe;
mod error;
mod objects;
mod profiles;
mod tables;

pub use error::ManageError;
pub use objects::{CounterInfo, MeterInfo, RegisterInfo};
pub use tables::{ActionInfo, KeyInfo, ParamInfo, TableInfo};

/// A table's number in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

/// An action's number in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionId(pub(crate) u16);

/// An action profile's number in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId(pub(crate) u16);
