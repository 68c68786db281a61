//! The server's side of a connection: receives requests of all services and sends replies.
//!
//! The size of a request is bounded before it is stored: bytes of a message, length of lists, depth of structures.

use std::io::{self, BufReader, BufWriter, Read, Write};

use thrift::{
    protocol::{
        TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier,
        TMessageType, TOutputProtocol, TType,
    },
    ApplicationError, ApplicationErrorKind, Error, Result, TConfiguration, TransportErrorKind,
};

use crate::{simple_pre, simple_pre_lag, simple_switch, standard};

/// Maximum size of a request without a program in bytes. Keys and arguments are short.
const MAX_REQUEST: u64 = 4 << 20;
/// Maximum size of a request with a program in bytes.
const MAX_PROGRAM: u64 = 64 << 20;
/// Maximum number of elements of a list or map in a request.
const MAX_LIST: usize = 1 << 16;
/// Maximum size of a message's header in bytes. The header contains the name of the method.
const MAX_HEADER: u64 = 256;

macro_rules! services {
    ($($variant:ident: $module:ident),*) => {
        /// A request to one of the services, decoded.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Call {
            $(
                #[doc = concat!("A call of the service `", stringify!($module), "`.")]
                $variant($module::Call),
            )*
        }

        /// A reply of one of the services.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Reply {
            $(
                #[doc = concat!("A reply of the service `", stringify!($module), "`.")]
                $variant($module::Reply),
            )*
        }

        impl Call {
            fn read(service: &str, method: &str, p: &mut dyn TInputProtocol) -> Result<Option<Call>> {
                Ok(match service {
                    $($module::NAME => $module::Call::read(method, p)?.map(Call::$variant),)*
                    _ => None,
                })
            }

            /// Executes the request: calls the handler's method, and returns the reply to send.
            pub fn run<H>(self, handler: &mut H) -> Reply
            where
                H: $($module::Handler +)*,
            {
                match self {
                    $(Call::$variant(call) => Reply::$variant(call.run(handler)),)*
                }
            }
        }

        impl Reply {
            fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
                match self {
                    $(Reply::$variant(reply) => reply.write(p),)*
                }
            }
        }
    };
}

services! {
    Standard: standard,
    SimplePre: simple_pre,
    SimplePreLag: simple_pre_lag,
    SimpleSwitch: simple_switch
}

/// Identifies a request, so that its reply can be sent later.
#[derive(Clone, Debug)]
pub struct Ticket {
    name: String,
    sequence: i32,
    /// Whether the client expects a reply; false for a one-way message.
    expects_reply: bool,
}

/// Result of waiting for a request of a client.
#[derive(Debug)]
pub enum Incoming {
    /// A request, with the ticket by which its reply is sent.
    Request(Ticket, Box<Call>),
    /// The client closed the connection.
    End,
}

/// The server's side of the connection of one client: receives requests and sends replies.
pub struct Requests<R: Read, W: Write> {
    input: TBinaryInputProtocol<Bounded<BufReader<R>>>,
    output: TBinaryOutputProtocol<BufWriter<W>>,
}

/// A stream of which at most `left` more bytes may be read.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let room = room.min(buffer.len());
        if room == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the request is too long",
            ));
        }
        let count = self.inner.read(&mut buffer[..room])?;
        self.left -= count as u64;
        Ok(count)
    }
}

impl<R: Read, W: Write> Requests<R, W> {
    /// Creates the server's side of a new connection from its input and output streams.
    pub fn new(input: R, output: W) -> Self {
        let config = TConfiguration::builder()
            .max_string_size(Some(MAX_PROGRAM as usize))
            .max_container_size(Some(MAX_LIST))
            .build()
            .unwrap_or_default();
        let input = Bounded {
            inner: BufReader::new(input),
            left: 0,
        };
        Requests {
            // As in BMv2's server, messages without a version are accepted.
            input: TBinaryInputProtocol::with_config(input, false, config),
            output: TBinaryOutputProtocol::new(BufWriter::new(output), true),
        }
    }

    /// Waits for the next request. A request for an unknown method is rejected here, and the next one is awaited.
    ///
    /// # Errors
    /// When the bytes are not a valid request, or the connection broke. The connection cannot be used any more. The
    /// client has received an exception where that was possible.
    pub fn receive(&mut self) -> Result<Incoming> {
        loop {
            self.input.transport.left = MAX_HEADER;
            let message = match self.input.read_message_begin() {
                Ok(message) => message,
                Err(Error::Transport(error)) if error.kind == TransportErrorKind::EndOfFile => {
                    return Ok(Incoming::End)
                }
                Err(error) => return Err(error),
            };
            let ticket = Ticket {
                name: message.name,
                sequence: message.sequence_number,
                expects_reply: message.message_type == TMessageType::Call,
            };
            if !matches!(
                message.message_type,
                TMessageType::Call | TMessageType::OneWay
            ) {
                let kind = ApplicationErrorKind::InvalidMessageType;
                return Err(self.refuse(
                    &ticket,
                    kind,
                    "expected a call or one-way message".into(),
                ));
            }
            let has_program = ticket.name.ends_with(":bm_load_new_config");
            self.input.transport.left = if has_program {
                MAX_PROGRAM
            } else {
                MAX_REQUEST
            };
            let (service, method) = ticket.name.split_once(':').unwrap_or(("", &ticket.name));
            match Call::read(service, method, &mut self.input) {
                Ok(Some(call)) => return Ok(Incoming::Request(ticket, Box::new(call))),
                Ok(None) => {
                    self.input.skip(TType::Struct)?;
                    let why = match service {
                        "" => format!(
                            "{method}: the service's name is missing; send it before the method's, as in standard:{method}"
                        ),
                        _ => format!("unknown method {}", ticket.name),
                    };
                    self.exception(&ticket, ApplicationErrorKind::UnknownMethod, why)?;
                }
                Err(error @ Error::Transport(_)) => return Err(error),
                Err(error) => {
                    let why = format!("{}: {error}", ticket.name);
                    return Err(self.refuse(&ticket, ApplicationErrorKind::ProtocolError, why));
                }
            }
        }
    }

    /// Sends the reply to a request.
    ///
    /// # Errors
    /// When the connection broke.
    pub fn send_reply(&mut self, ticket: &Ticket, reply: &Reply) -> Result<()> {
        if !ticket.expects_reply {
            return Ok(());
        }
        self.begin(ticket, TMessageType::Reply)?;
        reply.write(&mut self.output)?;
        self.output.write_message_end()?;
        self.output.flush()
    }

    /// Rejects a request that the server cannot execute. The client receives `why` as an exception.
    ///
    /// # Errors
    /// When the connection broke.
    pub fn fail(&mut self, ticket: &Ticket, why: String) -> Result<()> {
        self.exception(ticket, ApplicationErrorKind::InternalError, why)
    }

    fn begin(&mut self, ticket: &Ticket, kind: TMessageType) -> Result<()> {
        // Clients that put the service's name before the method's do not expect it in the reply.
        let method = ticket
            .name
            .split_once(':')
            .map_or(&ticket.name[..], |n| n.1);
        self.output
            .write_message_begin(&TMessageIdentifier::new(method, kind, ticket.sequence))
    }

    fn exception(
        &mut self,
        ticket: &Ticket,
        kind: ApplicationErrorKind,
        why: String,
    ) -> Result<()> {
        if !ticket.expects_reply {
            return Ok(());
        }
        self.begin(ticket, TMessageType::Exception)?;
        let error = ApplicationError::new(kind, why);
        Error::write_application_error_to_out_protocol(&error, &mut self.output)?;
        self.output.write_message_end()?;
        self.output.flush()
    }

    /// Sends an exception to the client for a request that ends the connection. Returns the error for the caller.
    fn refuse(&mut self, ticket: &Ticket, kind: ApplicationErrorKind, why: String) -> Error {
        // The connection ends even if this fails.
        let _ = self.exception(ticket, kind, why.clone());
        ApplicationError::new(kind, why).into()
    }
}
