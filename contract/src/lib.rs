//! What the data plane and those who talk to it share: the numbers of `p4src`, and its P4Info.
//!
//! Both files here are written by our compiler from the program (`make contract`), and committed, so that a change of the contract is
//! seen in a diff. A test of the command compares them with what the program says now.

#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The P4Info of `p4src/v1model/main.p4` as text (protobuf's text format). Its ids are written in the program (`@id`) and stay.
pub const P4INFO: &str = include_str!("../alfirk.p4info.txtpb");
