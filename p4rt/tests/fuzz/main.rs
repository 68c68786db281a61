//! Fuzz tests of all inputs of the switch: programs, requests, messages and packets. Each input must be rejected or
//! executed, in bounded time and memory, without a panic. `run.rs` documents the duration and how to repeat a case.
//!
//! The tests on veth pairs, `switch/tests/veth/hostile.rs`, cover the kernel and gRPC.

mod chance;
mod corpus;
mod engines;
mod entities;
#[allow(dead_code)]
#[path = "../server/fixture.rs"]
mod fixture;
mod generated;
mod json;
mod loader;
mod messages;
mod packets;
mod requests;
mod run;
