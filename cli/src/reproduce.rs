//! `alfirk reproduce`: tables of the papers, measured anew.

mod binomial_ack_table_1;

use clap::ValueEnum;

use crate::exit::Outcome;

/// Measure a table of one of the papers anew, in virtual time, and print it beside the paper's.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  alfirk reproduce binomial-ack-table-1")]
pub struct Args {
    /// What to measure
    #[arg(value_enum, value_name = "FIGURE")]
    figure: Figure,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// MPI's broadcast by a binomial tree of connections, and multicast with acknowledgements up a binomial tree (Mansoor and
    /// Meehan, table 1)
    #[value(name = "binomial-ack-table-1")]
    BinomialAckTable1,
}

pub fn run(args: &Args) -> Outcome {
    match args.figure {
        Figure::BinomialAckTable1 => binomial_ack_table_1::run(args.json),
    }
}
