//! Behaviour of the switch core, on small programs put together by hand.

mod actions;
mod basics;
mod builder;
mod checksums;
mod control_flow;
mod expressions;
mod hostile;
mod management;
mod parser;
mod stacks;
mod tables;
mod traces;
mod traffic;
