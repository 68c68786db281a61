//! The client's side of a Thrift connection.

use std::{
    convert::Infallible,
    io::{self, BufReader, BufWriter},
    net::{TcpStream, ToSocketAddrs},
};

use thiserror::Error;
use thrift::{
    protocol::{
        TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier,
        TMessageType, TOutputProtocol,
    },
    ApplicationError, ApplicationErrorKind, TConfiguration,
};

use crate::{
    simple_pre, simple_pre_lag, simple_switch, standard,
    wire::{read_result, Wire},
};

/// Error of a call of a Thrift method.
#[derive(Debug, Error)]
pub enum Failure<E> {
    /// The server rejected the request with an exception that the interface defines.
    #[error("{0}")]
    Refused(E),
    /// The server does not have the method or service, or could not parse the request.
    #[error("error of the Thrift server: {0}")]
    Server(String),
    /// The connection failed and cannot be used any more.
    #[error("connection to the switch: {0}")]
    Connection(String),
}

impl<E> Failure<E> {
    fn of(error: thrift::Error) -> Self {
        match error {
            thrift::Error::Application(error) => Failure::Server(error.message),
            thrift::Error::Transport(error) => Failure::Connection(error.message),
            thrift::Error::Protocol(error) => Failure::Connection(error.message),
            thrift::Error::User(error) => Failure::Connection(error.to_string()),
        }
    }
}

/// A client's connection to a switch's Thrift server.
pub struct Connection {
    input: TBinaryInputProtocol<BufReader<TcpStream>>,
    output: TBinaryOutputProtocol<BufWriter<TcpStream>>,
    sequence: i32,
}

impl Connection {
    /// Connects to a switch's Thrift server.
    ///
    /// # Errors
    /// Errors of the system, if no address accepts the connection.
    pub fn open(address: impl ToSocketAddrs) -> io::Result<Connection> {
        Connection::over(TcpStream::connect(address)?)
    }

    /// Creates the client's side of a connection from a connected TCP stream.
    ///
    /// # Errors
    /// When the stream's handle cannot be duplicated.
    pub fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        let reader = BufReader::new(stream.try_clone()?);
        // The client trusts the server about the length of replies.
        let config = TConfiguration::no_limits();
        Ok(Connection {
            input: TBinaryInputProtocol::with_config(reader, false, config),
            output: TBinaryOutputProtocol::new(BufWriter::new(stream), true),
            sequence: 0,
        })
    }

    /// Returns a client of the service "standard": tables, arrays, learning, configurations and ports.
    pub fn standard(&mut self) -> standard::Client<'_> {
        standard::Client(self)
    }

    /// Returns a client of the service "simple_pre": multicast groups. BMv2's simple_switch does not have this service.
    pub fn simple_pre(&mut self) -> simple_pre::Client<'_> {
        simple_pre::Client(self)
    }

    /// Returns a client of the service "simple_pre_lag": multicast groups with link aggregation.
    pub fn simple_pre_lag(&mut self) -> simple_pre_lag::Client<'_> {
        simple_pre_lag::Client(self)
    }

    /// Returns a client of the service "simple_switch": clones, queues and clocks.
    pub fn simple_switch(&mut self) -> simple_switch::Client<'_> {
        simple_switch::Client(self)
    }

    pub(crate) fn call<A: Wire, T: Wire, E: Wire>(
        &mut self,
        service: &str,
        method: &str,
        args: &A,
    ) -> Result<T, Failure<E>> {
        match self.exchange(service, method, args).map_err(Failure::of)? {
            Ok(value) => Ok(value),
            Err(error) => Err(Failure::Refused(error)),
        }
    }

    fn exchange<A: Wire, T: Wire, E: Wire>(
        &mut self,
        service: &str,
        method: &str,
        args: &A,
    ) -> thrift::Result<Result<T, E>> {
        self.sequence = self.sequence.wrapping_add(1);
        let name = format!("{service}:{method}");
        self.output.write_message_begin(&TMessageIdentifier::new(
            name,
            TMessageType::Call,
            self.sequence,
        ))?;
        args.write(&mut self.output)?;
        self.output.write_message_end()?;
        self.output.flush()?;

        let message = self.input.read_message_begin()?;
        let wrong =
            |kind, why: &str| thrift::Error::Protocol(thrift::ProtocolError::new(kind, why));
        match message.message_type {
            TMessageType::Reply => {}
            TMessageType::Exception => {
                let error =
                    thrift::Error::read_application_error_from_in_protocol(&mut self.input)?;
                return Err(error.into());
            }
            _ => {
                let kind = thrift::ProtocolErrorKind::InvalidData;
                return Err(wrong(kind, "the reply is not a reply message"));
            }
        }
        if message.sequence_number != self.sequence {
            let kind = thrift::ProtocolErrorKind::InvalidData;
            return Err(wrong(kind, "the reply belongs to another request"));
        }
        let result = read_result::<T, E>(&mut self.input)?;
        self.input.read_message_end()?;
        match result {
            Err(error) => Ok(Err(error)),
            Ok(Some(value)) => Ok(Ok(value)),
            // A `void` method's result has no field for a value.
            Ok(None) => match T::absent() {
                Some(value) => Ok(Ok(value)),
                None => Err(ApplicationError::new(
                    ApplicationErrorKind::MissingResult,
                    format!("the reply to {method} has no result"),
                )
                .into()),
            },
        }
    }
}

/// `Infallible` stands for the exception of a method that declares none. A received exception is an error.
impl Wire for Infallible {
    const TYPE: thrift::protocol::TType = thrift::protocol::TType::Stop;
    fn read(_: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        Err("the reply has an exception that the method does not declare".into())
    }
    fn write(&self, _: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        match *self {}
    }
}
