//! The language server for P4_16: diagnostics, fixes, hovers, navigation, completion and formatting in editors.
//!
//! The crate implements the Language Server Protocol, version 3.17; the compiler (`alfirk_compiler::ide`) analyses the
//! programs. [`Server`] is a state machine: it takes one message and returns the messages to send. It reads files
//! through a [`SourceLoader`]; texts that are open in the editor take precedence. [`run`] serves a channel, and
//! [`run_stdio`] standard input and output.
//!
//! [`SourceLoader`]: alfirk_compiler::preproc::SourceLoader

mod convert;
mod position;
mod program;
mod server;
mod settings;

pub use position::{path_of, uri_of};
pub use server::Server;
pub use settings::Settings;

use std::io;

use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::DiskLoader;
use lsp_server::{Connection, Message};

/// Reason for which the language server ended without the requests `shutdown` and `exit`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The editor did not begin with `initialize`, or disconnected without `exit`.
    #[error("the editor violates the Language Server Protocol: {0}")]
    Protocol(String),
    /// The input is not a message of the protocol, or standard input or output failed.
    #[error("cannot read from the editor, or write to it: {0}")]
    Io(#[from] io::Error),
}

/// Runs the language server on standard input and output, until the editor exits.
///
/// # Errors
/// The input is not a message of the protocol, or the editor disconnected without `exit`.
pub fn run_stdio() -> Result<(), Error> {
    let (connection, threads) = Connection::stdio();
    let served = run(connection);
    match threads.join() {
        Err(error) => Err(error.into()),
        Ok(()) => served,
    }
}

/// Runs the language server on a connection to an editor, until the editor exits.
///
/// # Errors
/// The editor did not begin with `initialize`, or disconnected without `exit`.
pub fn run(connection: Connection) -> Result<(), Error> {
    // The compiler recurses as deeply as the program nests.
    on_deep_stack(|| serve(&connection))
}

fn serve(connection: &Connection) -> Result<(), Error> {
    let broken = |error: lsp_server::ProtocolError| Error::Protocol(error.to_string());
    let (id, params) = connection.initialize_start().map_err(broken)?;
    let (mut server, result) = Server::start(&params, Box::new(DiskLoader));
    connection.initialize_finish(id, result).map_err(broken)?;
    let gone = || Error::Protocol("it disconnected without exit".to_owned());
    loop {
        // Publish diagnostics only when no message is waiting, so that several edits are diagnosed once.
        let message = match connection.receiver.try_recv() {
            Ok(message) => message,
            Err(_) => {
                for message in server.idle() {
                    connection.sender.send(message).map_err(|_| gone())?;
                }
                connection.receiver.recv().map_err(|_| gone())?
            }
        };
        if let Message::Request(request) = &message {
            if connection.handle_shutdown(request).map_err(broken)? {
                return Ok(());
            }
        }
        for message in server.handle(message) {
            connection.sender.send(message).map_err(|_| gone())?;
        }
    }
}
