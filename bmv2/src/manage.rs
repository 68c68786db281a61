//! The control plane interface of a switch, which identifies objects by the program's names and numbers.
//!
//! The P4Runtime server and the Thrift server use this module; it does not depend on P4Info. Arguments are
//! big-endian byte strings of any length whose value fits. Results are in the shortest form.

mod change;
mod describe;
mod error;
mod objects;
mod profiles;
mod tables;
mod tofino;

pub use change::Change;
pub(crate) use change::Changes;
pub use error::ManageError;
pub use objects::{CounterInfo, MeterInfo, RegisterInfo};
pub use tables::{ActionInfo, KeyInfo, ParamInfo, TableInfo};

/// Identifies a table of the loaded program: its position in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u16);

/// Identifies an action of the loaded program: its position in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionId(pub(crate) u16);

/// Identifies an action profile of the loaded program: its position in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId(pub(crate) u16);
