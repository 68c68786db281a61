//! Names, types and compile-time values.

mod checked;
mod types;
pub mod value;

pub use checked::*;
pub use types::*;
pub use value::{FoldError, Value, MAX_WIDTH};
