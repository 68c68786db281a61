//! What passes between a client's thread and the one that owns the switch.

use std::sync::Arc;

use alfirk_thrift::{Call, Reply};

use alfirk_bmv2::LoadedProgram;

/// What a client's thread asks of the one that owns the switch.
pub enum Request {
    Call(Box<Call>),
    /// `bm_load_new_config`, with its program compiled.
    Load(Arc<LoadedProgram>, Arc<str>),
    /// The text of the program.
    Config,
}

/// What comes back.
pub enum Answer {
    Reply(Box<Reply>),
    Config(Arc<str>),
}
