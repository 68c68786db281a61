//! What externs of v1model become on BMv2.

mod calls;
mod checksum;
mod copies;
mod foreign;
mod objects;

pub use objects::control_kind;
