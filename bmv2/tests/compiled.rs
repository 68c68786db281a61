//! The tests of `switch` with programs that are compiled to machine code.

/// The engine of these tests.
mod engine {
    /// Whether programs are compiled before switches run them.
    pub const IS_COMPILED: bool = true;
}

#[path = "switch/actions.rs"]
mod actions;
#[path = "switch/basics.rs"]
mod basics;
#[path = "switch/builder.rs"]
mod builder;
#[path = "switch/checksums.rs"]
mod checksums;
#[path = "switch/control_flow.rs"]
mod control_flow;
#[path = "switch/coverage.rs"]
mod coverage;
#[path = "switch/exchange.rs"]
mod exchange;
#[path = "switch/expressions.rs"]
mod expressions;
#[path = "switch/hostile.rs"]
mod hostile;
#[path = "switch/management.rs"]
mod management;
#[path = "switch/p4.rs"]
mod p4;
#[path = "switch/parser.rs"]
mod parser;
#[path = "switch/passes.rs"]
mod passes;
#[path = "switch/splits.rs"]
mod splits;
#[path = "switch/stacks.rs"]
mod stacks;
#[path = "switch/tables.rs"]
mod tables;
#[path = "switch/threading.rs"]
mod threading;
#[path = "switch/traces.rs"]
mod traces;
#[path = "switch/traffic.rs"]
mod traffic;
