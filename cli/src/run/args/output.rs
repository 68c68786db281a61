//! Flags of the output of a run: report, captures, trace and page.

use std::net::SocketAddr;
use std::path::PathBuf;

use alfirk_sim::network::{Fidelity, Model};

use crate::exit::Failure;
use crate::run::config::Driver;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print the report as one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,

    /// Capture the frames of each host to pcap files in this folder
    #[arg(long, value_name = "DIR")]
    pub(super) pcap: Option<PathBuf>,

    /// Record every frame on every link (virtual driver): text, or by extension a capture for Wireshark (.pcapng), a timeline for
    /// Perfetto and Chrome (.json), or a trace for `alfirk view` (.jsonl)
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// After the run, serve a page that replays it, as `alfirk view` does, until a signal (virtual driver)
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = crate::view::ADDRESS)]
    pub(super) web: Option<SocketAddr>,

    /// Debug the P4 program of the switches in an editor, by the Debug Adapter Protocol on standard input and output; the editor
    /// gets the report (virtual driver, --model exact, one algorithm)
    #[arg(long, conflicts_with = "web")]
    pub(super) debug: bool,

    /// Wait for the editor at this address instead; port 0 for any free one
    #[arg(long, value_name = "ADDR:PORT", requires = "debug")]
    pub(super) listen: Option<String>,
}

impl OutputArgs {
    /// Rejects outputs that the driver cannot produce.
    pub(super) fn check(&self, driver: Driver) -> Result<(), Failure> {
        let why = match driver {
            Driver::Virtual => return Ok(()),
            Driver::Mininet if self.trace.is_some() => {
                "--trace: only the virtual driver records every frame; with --driver mininet use --pcap"
            }
            Driver::Mininet if self.web.is_some() => {
                "--web: only the virtual driver records every frame; `alfirk ctrl --web` shows the controller of a network"
            }
            Driver::Mininet if self.debug => {
                "--debug: only the virtual driver stops time; `alfirk debug --attach` stops packets in a switch"
            }
            Driver::Mininet => return Ok(()),
        };
        Err(Failure::bad_input(why))
    }

    /// Rejects what a debugger cannot stop in.
    pub(super) fn check_debug(&self, model: &Model, algorithms: usize) -> Result<(), Failure> {
        let why = match (self.debug, model.fidelity, algorithms) {
            (true, Fidelity::Fast, _) => {
                "--debug: the fast model does not execute the P4 program for each packet; add --model exact"
            }
            (true, Fidelity::Exact, 2..) => {
                "--debug: one fabric is debugged at a time; name one algorithm, such as --algorithms alfirk"
            }
            _ => return Ok(()),
        };
        Err(Failure::bad_input(why))
    }
}
