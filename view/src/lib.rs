//! Recordings of runs: a trace of a run in a file, and a web page that replays it.
//!
//! * [`trace`]: the format, its writer and its reader.
//! * `server` (feature `server`): serves the page and its traces, including traces that still grow.

#[cfg(feature = "server")]
pub mod server;
pub mod trace;
