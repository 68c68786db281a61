//! How a subcommand of `alfirk` ends: exit codes, error messages, panics and closed pipes.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Result of a subcommand: `Ok` is exit code 0.
pub type Outcome = Result<(), Failure>;

/// Why a subcommand failed. The message goes to stderr as one paragraph after "alfirk: ".
#[derive(Debug)]
pub enum Failure {
    /// Exit code 1: a run, build or test failed.
    Failed(anyhow::Error),
    /// Exit with this code; the message has already been printed.
    AlreadyReported(u8),
    /// Exit code 2: wrong usage or bad input; nothing was run.
    BadInput(anyhow::Error),
    /// The reader of stdout closed the pipe: not an error.
    PipeClosed,
}

impl Failure {
    /// Creates a failure with exit code 1 and this message.
    pub fn failed(message: impl Display) -> Failure {
        Failure::Failed(anyhow::anyhow!("{message}"))
    }

    /// Creates a failure with exit code 2 and this message.
    pub fn bad_input(message: impl Display) -> Failure {
        Failure::BadInput(anyhow::anyhow!("{message}"))
    }

    /// Returns the message, for a place other than stderr.
    pub fn message(&self) -> String {
        match self {
            Failure::Failed(error) | Failure::BadInput(error) => format!("{error:#}"),
            Failure::AlreadyReported(code) => format!("exit code {code}"),
            Failure::PipeClosed => "a pipe was closed".to_owned(),
        }
    }
}

/// An unclassified error has exit code 1; a closed pipe anywhere in its chain is not a failure.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        let pipe_closed = error.chain().any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        });
        if pipe_closed {
            Failure::PipeClosed
        } else {
            Failure::Failed(error)
        }
    }
}

/// Writes a result to stdout.
pub fn print(text: impl Display) -> Outcome {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Failure::PipeClosed
            } else {
                Failure::failed(format_args!("cannot write to stdout: {error}"))
            }
        })
}

/// Prints the message of a failure to stderr and returns the exit code of the process.
pub fn report(outcome: Outcome) -> ExitCode {
    let (code, error) = match outcome {
        Ok(()) | Err(Failure::PipeClosed) => return ExitCode::SUCCESS,
        Err(Failure::AlreadyReported(code)) => return ExitCode::from(code),
        Err(Failure::Failed(error)) => (1, error),
        Err(Failure::BadInput(error)) => (2, error),
    };
    // If stderr is closed, too, only the exit code reports the failure.
    let _ = writeln!(io::stderr(), "alfirk: {error:#}");
    ExitCode::from(code)
}

/// Prints clap's message and returns the exit code: help and version go to stdout with code 0, errors to stderr with
/// code 2.
pub fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Prints a panic as one line instead of a stack trace; `RUST_BACKTRACE` restores the trace.
pub fn hide_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_some() {
        return;
    }
    std::panic::set_hook(Box::new(|info| {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown cause");
        let place = info
            .location()
            .map(|l| format!(" at {l}"))
            .unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "alfirk: this is a bug in alfirk{place}: {what} (set RUST_BACKTRACE=1 for more)"
        );
    }));
}

/// Runs a subcommand of `alfirk`; a panic, already printed by the hook, becomes exit code 1.
pub fn guard(verb: impl FnOnce() -> Outcome) -> Outcome {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(verb))
        .unwrap_or(Err(Failure::AlreadyReported(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_is_not_a_failure_at_any_depth() {
        let error =
            anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(matches!(Failure::from(error), Failure::PipeClosed));
    }

    #[test]
    fn unclassified_error_is_a_failure() {
        assert!(matches!(
            Failure::from(anyhow::anyhow!("x")),
            Failure::Failed(_)
        ));
    }
}
