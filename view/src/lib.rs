//! Recordings of runs: the format of traces, and a web page that replays them.
//!
//! * [`trace`]: the format, its writer and its reader.
//! * `server` (feature `server`): serves the page and its traces, including traces that still grow.

#[cfg(feature = "server")]
pub mod server;
pub mod trace;
