//! What is printed, captured and shown of a run.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::run::config::Driver;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(super) json: bool,

    /// Capture what each host sends and receives, into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) pcap: Option<PathBuf>,

    /// Write what happens on every link to this file (virtual driver): one line for every frame, or, by the name's end, a capture of
    /// all ports for Wireshark (.pcapng), a timeline for Perfetto and Chrome (.json) or what `alfirk view` shows (.jsonl)
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// After the run, serve a page that plays it (virtual driver), as `alfirk view` does, until a signal
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = crate::view::ADDRESS)]
    pub(super) web: Option<SocketAddr>,
}

impl OutputArgs {
    /// Refuses what a driver cannot see.
    pub(super) fn check(&self, driver: Driver) -> Result<(), Failure> {
        let why = match driver {
            Driver::Virtual => return Ok(()),
            Driver::Mininet if self.trace.is_some() => {
                "--trace: only the virtual driver sees every frame; use --pcap with --driver mininet"
            }
            Driver::Mininet if self.web.is_some() => {
                "--web: only the virtual driver sees every frame; alfirk ctrl --web shows the controller of a network"
            }
            Driver::Mininet => return Ok(()),
        };
        Err(Failure::bad_input(why))
    }
}
