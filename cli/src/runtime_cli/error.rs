//! Errors of commands.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::io;

use alfirk_thrift::{simple_pre, simple_pre_lag, simple_switch, standard, Failure};

/// Result of a command.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of one command. Its texts are those of BMv2's CLI, which scripts search for.
#[derive(Debug)]
pub enum Error {
    /// The key does not have the form of the table's key.
    MatchKey(String),
    /// An argument of an action is not valid for its parameter.
    RuntimeData(String),
    /// Another error of the command line.
    Input(String),
    /// The switch rejected the operation: its kind, and the name of the error code.
    Refused(&'static str, String),
    /// The connection failed.
    Connection(String),
    /// The output was closed.
    Output(io::Error),
}

impl Error {
    /// Creates an error of the command line.
    pub fn input(what: impl Display) -> Error {
        Error::Input(what.to_string())
    }

    /// Whether no further command can succeed.
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

/// An exception of a Thrift service, whose display is the name of its code.
pub trait Refusal: Display {
    /// Kind of operation in messages.
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
