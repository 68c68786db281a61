//! `alfirk machine`: runs the part of a network on one of several machines. `alfirk run --machines` starts it through a
//! remote shell.
//!
//! Both ends communicate over the shell's standard input and output ([`trunk`]): lines of JSON ([`protocol`]), the control
//! sockets of hosts, and files. When that connection ends, the machine removes its part of the network and exits.

mod agent;
pub mod protocol;
pub mod trunk;

use crate::exit::Outcome;

/// Run a part of a network on this machine, for the `alfirk run --machines` that started it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Addresses and ports of the connection, in the form of SSH_CONNECTION
    #[arg(long, value_name = "WORDS")]
    connection: Option<String>,
}

/// Runs `alfirk machine`, the agent of `alfirk run --machines`.
pub fn run(args: &Args) -> Outcome {
    agent::run(args.connection.as_deref().unwrap_or_default())
}
