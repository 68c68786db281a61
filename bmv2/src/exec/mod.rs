//! Execution of a program on a packet.

pub mod apply;
pub mod big;
pub mod calculate;
pub mod deparse;
pub mod expr;
pub mod headers;
pub mod join;
pub mod log;
pub mod node;
pub mod ops;
pub mod parse;
pub mod run;
mod step;
pub mod verdict;
pub mod words;
