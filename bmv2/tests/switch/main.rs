//! Tests of the switch core with small programs: in P4 ([`p4`]), or in JSON where the JSON itself is tested
//! ([`builder`]).

mod actions;
mod basics;
mod builder;
mod checksums;
mod control_flow;
mod disassembly;
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
