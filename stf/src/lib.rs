//! Packet tests in p4c's STF language, for any switch with a P4Runtime server.
//!
//! [`parse()`] reads a test. [`Control`] translates its commands to P4Runtime requests for a [`Target`]. [`Local`] is a
//! target in this process, without ports, root or real time. Another one is a switch process (`alfirk stf --switch`).
//! [`run()`] executes a test on any target, [`run_here`] on [`Local`]. [`Session`] executes commands
//! one by one, and traces packets. This crate has no I/O, threads or clock.
//!
//! The compiler's tests use this crate, too. It does not depend on the compiler: a program is BMv2 JSON.

mod control;
mod entities;
mod keys;
mod local;
mod names;
mod outcomes;
mod packets;
mod parse;
mod program_info;
mod run;
mod session;
mod target;

pub use control::{arbitration, pipeline_config, rejection_message, Control};
pub use keys::hex;
pub use local::{Local, Records};
pub use names::{by_suffix, did_you_mean};
pub use outcomes::{Outcome, Outcomes};
pub use packets::{summary, Failure, Packets};
pub use parse::{parse, Command, Line, ParseError};
pub use run::run;
pub use session::{run_here, Reading, Session};
pub use target::Target;
