//! Messages between a client's thread and the thread that owns the switch.

use std::sync::Arc;

use alfirk_thrift::{Call, Reply};

use alfirk_bmv2::LoadedProgram;

/// A request of a client's thread.
pub enum Request {
    /// A call of a method that the switch's thread executes.
    Call(Box<Call>),
    /// `bm_load_new_config` with the compiled program and its text.
    Load(Arc<LoadedProgram>, Arc<str>),
    /// Request for the text of the program.
    Config,
}

/// The response to a [`Request`].
pub enum Response {
    /// The result of a [`Request::Call`] or [`Request::Load`].
    Reply(Box<Reply>),
    /// The text of the program, empty if there is none.
    Config(Arc<str>),
}
