//! Chance at work on all that comes to the switch from outside: programs, requests, messages and packets. Whatever it makes of them is
//! refused or carried out, in bounded time and memory, without a panic. `run.rs` says how long, and how to run a case again.
//!
//! What the kernel and gRPC add to that is in the tests on veth pairs, `tests/veth/hostile.rs`.

mod chance;
mod corpus;
mod drive;
mod entities;
#[allow(dead_code)]
#[path = "../server/fixture.rs"]
mod fixture;
mod json;
mod loader;
mod messages;
mod packets;
mod requests;
mod run;
