//! Constants and headers of the P4 programs in `p4src`, and their P4Info, for the controller, hosts and tests.
//!
//! `make contract` generates both files from the P4 program. They are committed, so that a change of the contract is visible in
//! a diff, and a test checks that they are up to date.

#[rustfmt::skip]
mod generated;

pub use generated::*;

/// P4Info of `p4src/v1model/main.p4` in protobuf's text format. Its ids are fixed in the program (`@id`).
pub const P4INFO: &str = include_str!("../alfirk.p4info.txtpb");
