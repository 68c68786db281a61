//! The language server for P4_16: what editors show while a program is written.
//!
//! The compiler finds everything out (`alfirk_compiler::ide`); this crate speaks the Language Server Protocol, version 3.17.
//! [`Server`] is a state machine: a message comes in, messages go out. It reads files through a [`SourceLoader`], under the texts
//! that are open in the editor. [`run`] connects it to a channel, and [`run_stdio`] to standard input and output.
//!
//! [`SourceLoader`]: alfirk_compiler::preproc::SourceLoader

mod answers;
mod place;
mod program;
mod server;
mod settings;

pub use server::Server;
pub use settings::Settings;

use std::io;

use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::DiskLoader;
use lsp_server::{Connection, Message};

/// Why the server has ended otherwise than by `exit` after `shutdown`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The editor does not begin as the protocol says, or has gone away.
    #[error("the editor has broken the protocol: {0}")]
    Protocol(String),
    /// What came in is no message.
    #[error("cannot read what the editor sends, or write to it: {0}")]
    Io(#[from] io::Error),
}

/// Serves the editor that is behind standard input and output, until it ends.
///
/// # Errors
/// What came in is no message of the protocol, or the editor has gone without `exit`.
pub fn run_stdio() -> Result<(), Error> {
    let (connection, threads) = Connection::stdio();
    let served = run(connection);
    match threads.join() {
        Err(error) => Err(error.into()),
        Ok(()) => served,
    }
}

/// Serves an editor, until it ends.
///
/// # Errors
/// The editor does not begin with `initialize`, or has gone without `exit`.
pub fn run(connection: Connection) -> Result<(), Error> {
    // Phases of the compiler recurse as deep as programs nest.
    on_deep_stack(|| serve(&connection))
}

fn serve(connection: &Connection) -> Result<(), Error> {
    let broken = |error: lsp_server::ProtocolError| Error::Protocol(error.to_string());
    let (id, params) = connection.initialize_start().map_err(broken)?;
    let (mut server, answer) = Server::start(&params, Box::new(DiskLoader));
    connection.initialize_finish(id, answer).map_err(broken)?;
    let gone = || Error::Protocol("it has gone without exit".to_owned());
    loop {
        // Whoever types fast sends many texts: messages are for the last one.
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
