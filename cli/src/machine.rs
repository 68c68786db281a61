//! `alfirk machine`: one of several machines of a network, as `alfirk run --machines` starts it by a remote shell.
//!
//! The two speak over the shell's standard input and output ([`trunk`]): lines of JSON ([`protocol`]), the control sockets of hosts, and files.
//! The machine ends, and takes down what it has, when that connection does.

mod agent;
pub mod protocol;
pub mod trunk;

use crate::exit::Outcome;

/// Have a part of a network on this machine, for the `alfirk run --machines` that has started it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The addresses and ports of the connection, as SSH_CONNECTION has them
    #[arg(long, value_name = "WORDS")]
    connection: Option<String>,
}

pub fn run(args: &Args) -> Outcome {
    agent::run(args.connection.as_deref().unwrap_or_default())
}
