//! Lowering of the externs of v1model for BMv2.

mod algorithm;
mod calls;
mod checksum;
mod copies;
mod foreign;
mod objects;

pub use objects::control_kind;
