//! A software switch that runs BMv2 JSON as `simple_switch` does.
//!
//! [`LoadedProgram::from_json`] compiles the output of a P4 compiler. A [`Switch`] holds a program and all of its
//! state, and processes frames. It has no I/O and no clock: frames and times are arguments, and results are in
//! [`Effects`]. Ingress and egress are separate calls, because the caller owns the queues between them.
//!
//! The semantics are those of BMv2's documents `JSON_format.md` and `simple_switch.md`.

pub mod choices;
pub mod coverage;
mod disassembly;
mod drop_reason;
mod effects;
mod exec;
mod externs;
mod frame;
#[cfg_attr(not(feature = "jit"), path = "jit/absent.rs")]
mod jit;
mod load;
mod manage;
mod numbers;
mod pre;
mod program;
mod state;
pub mod steps;
mod switch;
mod tables;
mod tofino;
pub mod trace;
mod value_set;

pub use disassembly::disassemble;
pub use drop_reason::DropReason;
pub use effects::{Digest, Effects, Output, QueueState, Queued};
pub use externs::counter::Counter;
pub use externs::hash::{crc16, CrcParams};
pub use externs::meter::{Color, MeterConfig};
pub use load::{LoadError, LoadOptions};
pub use manage::{
    ActionId, ActionInfo, Change, CounterInfo, KeyInfo, ManageError, MeterInfo, ParamInfo,
    ProfileId, RegisterInfo, TableId, TableInfo,
};
pub use pre::{
    CloneSession, Ecmp, Node, NodeHandle, Pre, PreError, PreLimits, Replica, Selection,
    ECMP_PLACES, MAX_SESSION,
};
pub use program::{CompileError, LoadedProgram};
pub use switch::{Engine, PortMode, RecordedFrame, SparePackets, Switch, SwitchOptions};
pub use tables::{
    EntryHandle, EntryTarget, GroupLimits, GroupMember, KeyFault, KeyMatch, ProfileGroup,
    ProfileMember, TableEntry,
};
pub use tofino::PORTS_PER_PIPE;
pub use value_set::Member as ValueSetMember;
