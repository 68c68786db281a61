//! Why a command was not carried out.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::io;

use alfirk_thrift::{simple_pre, simple_pre_lag, simple_switch, standard, Failure};

pub type Result<T> = std::result::Result<T, Error>;

/// What goes wrong with one command. Its texts are those of BMv2's CLI, which scripts look for.
#[derive(Debug)]
pub enum Error {
    /// The key is not in the form that the table asks for.
    MatchKey(String),
    /// An argument of an action is no value of its parameter.
    RuntimeData(String),
    /// Anything else about the command.
    Input(String),
    /// The switch refuses: what kind of operation, and its code's name.
    Refused(&'static str, String),
    /// The connection is of no more use.
    Connection(String),
    /// Nobody reads the output.
    Output(io::Error),
}

impl Error {
    pub fn input(what: impl Display) -> Error {
        Error::Input(what.to_string())
    }

    /// Whether there is no point in another command.
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

/// An exception of the interface, which shows its code's name.
pub trait Refusal: Display {
    /// What was tried.
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
