//! The connection to an editor: messages of the Debug Adapter Protocol on standard input and output, or by TCP.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::thread;

use alfirk_debug::{encode, Decoder};
use serde_json::Value;
use tokio::sync::mpsc::{self, error::TryRecvError};

use crate::exit::Failure;

/// The connection to an editor.
pub struct Editor {
    input: mpsc::UnboundedReceiver<Result<Value, Failure>>,
    output: Box<dyn Write + Send>,
}

impl Editor {
    /// Connects to the editor that has started this process, or to the first one that connects to the address `listen`.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn connect(listen: Option<&str>) -> Result<Editor, Failure> {
        let Some(address) = listen else {
            return Ok(Editor::new(
                io::stdin(),
                Box::new(io::stdout()),
                "standard input",
            ));
        };
        let unusable = |error| Failure::bad_input(format_args!("--listen {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(unusable)?;
        let at = listener.local_addr().map_err(unusable)?;
        // If stderr is closed, editors can still connect.
        let _ = writeln!(io::stderr(), "debugger listening on {at}");
        let (stream, _) = listener.accept().map_err(unusable)?;
        stream.set_nodelay(true).map_err(unusable)?;
        let input = stream.try_clone().map_err(unusable)?;
        Ok(Editor::new(input, Box::new(stream), "the editor"))
    }

    fn new(
        mut input: impl Read + Send + 'static,
        output: Box<dyn Write + Send>,
        name: &'static str,
    ) -> Editor {
        let (sender, receiver) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let failed = read(&mut input, name, &sender).err();
            if let Some(failure) = failed {
                let _ = sender.send(Err(failure));
            }
        });
        Editor {
            input: receiver,
            output,
        }
    }

    /// Waits for the next message; `None` at the end of the input.
    ///
    /// # Errors
    /// The input is not the protocol.
    pub fn next(&mut self) -> Result<Option<Value>, Failure> {
        self.input.blocking_recv().transpose()
    }

    /// As [`Editor::next`], in an asynchronous task.
    pub async fn next_async(&mut self) -> Result<Option<Value>, Failure> {
        self.input.recv().await.transpose()
    }

    /// Returns the next message without waiting; the inner `None` if there is none yet, the outer at the end of the input.
    ///
    /// # Errors
    /// The input is not the protocol.
    pub fn try_next(&mut self) -> Result<Option<Option<Value>>, Failure> {
        match self.input.try_recv() {
            Ok(message) => message.map(|message| Some(Some(message))),
            Err(TryRecvError::Empty) => Ok(Some(None)),
            Err(TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Sends messages. Returns false if the editor is gone.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn send(&mut self, messages: &[Value]) -> Result<bool, Failure> {
        for message in messages {
            let bytes = encode(message);
            let written = self.output.write_all(&bytes);
            match written.and_then(|()| self.output.flush()) {
                Ok(()) => {}
                Err(error) if is_closed(&error) => return Ok(false),
                Err(error) => return Err(Failure::failed(format!("standard output: {error}"))),
            }
        }
        Ok(true)
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Reads messages until the end of the input, or until the receiver of messages is gone.
fn read(
    input: &mut impl Read,
    name: &str,
    sender: &mpsc::UnboundedSender<Result<Value, Failure>>,
) -> Result<(), Failure> {
    let mut decoder = Decoder::default();
    let mut buffer = [0; 1 << 16];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_closed(&error) => break,
            Err(error) => return Err(Failure::bad_input(format!("{name}: {error}"))),
        };
        decoder.push(&buffer[..count]);
        while let Some(message) = decoder.take_message().map_err(Failure::bad_input)? {
            if sender.send(Ok(message)).is_err() {
                return Ok(());
            }
        }
    }
    decoder.end().map_err(Failure::bad_input)
}
