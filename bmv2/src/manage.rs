//! The control plane interface of a switch, by the program's own names and numbers.
//!
//! This module does not depend on P4Info; the P4Runtime server and Thrift use it. Values are big-endian byte strings of
//! any length that fits; values returned are in the shortest form.

mod change;
mod describe;
mod error;
mod objects;
mod profiles;
mod tables;

pub use change::Change;
pub(crate) use change::Changes;
pub use error::ManageError;
pub use objects::{CounterInfo, MeterInfo, RegisterInfo};
pub use tables::{ActionInfo, KeyInfo, ParamInfo, TableInfo};

/// Number of a table in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

/// Number of an action in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionId(pub(crate) u16);

/// Number of an action profile in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId(pub(crate) u16);
