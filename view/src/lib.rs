//! What a run looked like: a trace of it in a file, and a page that plays the trace.
//!
//! * [`trace`]: the format, its writer and its reader.
//! * `server` (feature `server`): serves the page and its traces, of which some may still grow.

#[cfg(feature = "server")]
pub mod server;
pub mod trace;
