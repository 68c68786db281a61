//! `alfirk new`: writes files to start with.

mod bfrt;
mod ptf;
mod samples;

use std::path::PathBuf;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::program::SourceFlags;
use crate::run::Control;

/// Write packet tests to start with.
///
/// Exit codes: 0 success; 1 the program has errors, or a file cannot be written; 2 wrong usage or bad input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  alfirk new ptf basic.p4")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Ptf(PtfArgs),
}

/// Write PTF tests of a P4 program: one for each table, and a README.
///
/// Each test inserts an entry and reads it back. Where one of a few common packets reaches the table, the test sends the packet, and
/// expects what the program does now. Tests that use BfRuntime also write and read a cell of each counter, meter and register.
/// `alfirk ptf PROGRAM` runs the tests.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  alfirk new ptf basic.p4 --output tests
  alfirk new ptf router.p4 --arch tna")]
struct PtfArgs {
    /// The P4_16 program.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// Folder to create [default: NAME-ptf beside NAME.p4].
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,

    /// Control interface of the tests [default: bfrt for the architectures tna and t2na, else p4runtime].
    #[arg(long, value_name = "INTERFACE")]
    control: Option<Control>,

    #[command(flatten)]
    source: SourceFlags,
}

/// Runs `alfirk new`.
pub fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Ptf(args) => ptf::run(args),
    }
}
