//! `alfirk play`: a playground for P4 programs in a browser.

#[cfg(feature = "play")]
mod serve;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::exit::Outcome;

/// Edit, test and trace P4 programs in a browser: diagnostics while typing, packets by layers, entries by forms, and the way of
/// each packet through the program.
///
/// Prints the address of the page, and serves it until SIGINT or SIGTERM. The page loads nothing from other servers. For a class,
/// listen on an address of the network: sessions are separate, programs have limits of size, time and memory, and can include no file
/// of this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk play
  alfirk play basic.p4
  alfirk play --listen 0.0.0.0:8080 --without-solutions")]
pub struct Args {
    /// The program that sessions begin with, with the files that it includes; a test beside it (.stf) is opened, too
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,

    /// Address and port of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Add a folder to the search path of files that the program includes
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,

    /// Leave out the solutions of the labs
    #[arg(long)]
    without_solutions: bool,

    /// Execute requests from standard input: the process that `alfirk play` starts for its sessions
    #[arg(long, hide = true)]
    worker: bool,
}

/// Runs `alfirk play` until it is stopped.
pub fn run(args: &Args) -> Outcome {
    #[cfg(feature = "play")]
    return serve::run(args);
    #[cfg(not(feature = "play"))]
    {
        let Args {
            program: _,
            listen: _,
            include: _,
            without_solutions: _,
            worker: _,
        } = args;
        Err(crate::exit::Failure::failed(
            "this alfirk was built without the playground, as `make quick` does; build it with `make build`",
        ))
    }
}
