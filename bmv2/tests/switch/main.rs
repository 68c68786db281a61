//! Tests of the switch core with small programs: in P4 ([`p4`]), or in JSON where the JSON itself is tested
//! ([`builder`]). They run in the interpreter; `compiled.rs` has the same tests for machine code.

/// The engine of these tests.
mod engine {
    /// Whether programs are compiled before switches run them.
    pub const IS_COMPILED: bool = false;
}

mod actions;
mod basics;
mod builder;
mod checksums;
mod control_flow;
mod coverage;
mod disassembly;
mod exchange;
mod expressions;
mod hostile;
mod management;
mod p4;
mod parser;
mod passes;
mod splits;
mod stacks;
mod tables;
mod threading;
mod traces;
mod traffic;
