//! Errors of the commands of `alfirk cli`.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::io;

use alfirk_thrift::{simple_pre, simple_pre_lag, simple_switch, standard, Failure};

/// Result of a command of `alfirk cli`.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of one command. Messages are those of BMv2's CLI, because scripts search for them.
#[derive(Debug)]
pub enum Error {
    /// A value of an entry's key is not valid for the table's key field.
    MatchKey(String),
    /// An argument of an action is not valid for its parameter.
    RuntimeData(String),
    /// Another error in a command or its arguments.
    Input(String),
    /// The switch rejected the operation. Values: kind of operation, and name of the error code.
    Refused(&'static str, String),
    /// The connection to the switch failed.
    Connection(String),
    /// The output cannot be written.
    Output(io::Error),
}

impl Error {
    /// Creates an error in a command or its arguments.
    pub fn input(what: impl Display) -> Error {
        Error::Input(what.to_string())
    }

    /// Whether the error also affects all further commands, so that the session must end.
    pub fn is_final(&self) -> bool {
        matches!(self, Error::Connection(_) | Error::Output(_))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::MatchKey(what) => write!(f, "Invalid match key: {what}"),
            Error::RuntimeData(what) => write!(f, "Invalid runtime data: {what}"),
            Error::Input(what) => write!(f, "Error: {what}"),
            Error::Refused(operation, code) => write!(f, "Invalid {operation} ({code})"),
            Error::Connection(what) => f.write_str(what),
            Error::Output(error) => write!(f, "cannot write to stdout: {error}"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Output(error)
    }
}

impl<E: Refusal> From<Failure<E>> for Error {
    fn from(failure: Failure<E>) -> Error {
        match failure {
            Failure::Refused(refusal) => Error::Refused(E::OPERATION, refusal.to_string()),
            failure @ Failure::Server(_) => Error::input(failure),
            failure @ Failure::Connection(_) => Error::Connection(failure.to_string()),
        }
    }
}

/// An exception of a Thrift service. It is displayed as the name of its error code.
pub trait Refusal: Display {
    /// Kind of operation, for messages.
    const OPERATION: &'static str;
}

macro_rules! refusals {
    ($($exception:ty: $operation:literal),* $(,)?) => {
        $(impl Refusal for $exception {
            const OPERATION: &'static str = $operation;
        })*
    };
}

refusals! {
    standard::InvalidTableOperation: "table operation",
    standard::InvalidCounterOperation: "counter operation",
    standard::InvalidMeterOperation: "meter operation",
    standard::InvalidRegisterOperation: "register operation",
    standard::InvalidSwapOperation: "swap operation",
    standard::InvalidDevMgrOperation: "device manager operation",
    standard::InvalidCrcOperation: "crc operation",
    standard::InvalidToeplitzHashOperation: "Toeplitz hash operation",
    standard::InvalidParseVSetOperation: "parser value set operation",
    simple_pre::InvalidMcOperation: "PRE operation",
    simple_pre_lag::InvalidMcOperation: "PRE operation",
    simple_switch::InvalidMirroringOperation: "mirroring operation",
    Infallible: "operation",
}
