//! Packet tests in p4c's STF language, on any switch that speaks P4Runtime.
//!
//! [`parse`] reads a test; [`Control`] makes P4Runtime requests of its commands, whatever they reach; a [`Target`] is that: [`Local`], our
//! server and its switch in this process, so that a test takes no ports, no root and no time, or a switch that was started (`alfirk stf
//! --switch`). [`run`] goes through the lines, and [`run_here`] does so on [`Local`]. No I/O here, no thread and no clock.
//!
//! The compiler's tests, too, run packets by this crate, which knows no compiler: a program comes as BMv2 JSON.

mod control;
mod entities;
mod keys;
mod local;
mod names;
mod packets;
mod parse;
mod program_info;
mod run;
mod target;

pub use control::{arbitration, pipeline_config, told, Control};
pub use local::Local;
pub use names::{by_suffix, did_you_mean};
pub use packets::{Failure, Packets};
pub use parse::{parse, Command, Line, ParseError};
pub use run::{run, run_here};
pub use target::Target;
