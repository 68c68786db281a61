//! `alfirk trace`: prints traces of packets in a running switch.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use alfirk_ctrl::client::root_cause;
use alfirk_p4rt::packet_trace::CopyTrace;
use alfirk_p4runtime::alfirk::trace::v1::{
    trace_client::TraceClient, trace_message::Trace, Format as MessageFormat, TraceMessage,
    WatchRequest,
};
use alfirk_switch::{stdout_has_colors, TraceFormat};
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use tokio::sync::oneshot;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tracing::{info, warn};

use crate::connection::SwitchArgs;
use crate::exit::{print, Failure, Outcome};

/// Maximum length of a message of the switch in bytes.
const MAX_MESSAGE: usize = 64 << 20;

/// Show how a running switch processes packets: their steps through the P4 program.
///
/// Prints the steps of packets that are received from now on, until Ctrl-C or --count packets. The switch is not restarted, and
/// keeps its entries and registers; while a client watches, it interprets its program instead of running machine code.
///
/// Exit codes: 0 the traces have ended, 1 the switch has ended them or there is none, 2 the filter is not valid.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk trace
  alfirk trace --filter 'UDP.dport == 53 and IP.src in 10.0.0.0/8' --count 10
  alfirk trace --switch 127.0.0.1:50052 --format json")]
pub struct Args {
    /// Select received packets by a condition, as `alfirk packet sniff` does; their copies are traced, too.
    #[arg(long, short = 'f', value_name = "CONDITION")]
    filter: Option<String>,

    /// Stop after this many selected packets, when the last of them has left the switch.
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Form of the traces.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: TraceFormat,

    #[command(flatten)]
    switch: SwitchArgs,
}

/// Runs `alfirk trace` until Ctrl-C, or until the traces end.
pub fn run(args: &Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let endpoint = args.switch.endpoint()?;
    runtime.block_on(async {
        tokio::select! {
            result = watch(args, &endpoint) => result,
            () = stdout_closed() => Err(Failure::PipeClosed),
            interrupt = tokio::signal::ctrl_c() => {
                interrupt.context("cannot wait for Ctrl-C")?;
                Ok(())
            }
        }
    })
}

/// Prints traces until they end.
async fn watch(args: &Args, endpoint: &Endpoint) -> Outcome {
    let channel = args.switch.connect(endpoint).await?;
    let mut client = TraceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let traces = client.watch(request(args)).await;
    let mut traces = traces
        .map_err(|status| failure(args, &status))?
        .into_inner();
    info!(switch = args.switch.address(), "watching");
    loop {
        let message = traces.message().await;
        let Some(message) = message.map_err(|status| ended(args, &status))? else {
            return Ok(());
        };
        if message.lost > 0 {
            let lost = message.lost;
            warn!(lost, "parts of traces are missing, since the output is too slow; a filter makes traces shorter");
        }
        print(text(message))?;
    }
}

fn request(args: &Args) -> WatchRequest {
    let format = match args.format {
        TraceFormat::Text => MessageFormat::Text,
        TraceFormat::Json => MessageFormat::Json,
        TraceFormat::Txtpb => MessageFormat::PacketTrace,
    };
    WatchRequest {
        filter: args.filter.clone().unwrap_or_default(),
        count: args.count.unwrap_or(0),
        format: format.into(),
        colors: stdout_has_colors(),
    }
}

/// Returns what is printed for a message.
fn text(message: TraceMessage) -> String {
    match message.trace {
        Some(Trace::Text(text) | Trace::Json(text)) => text,
        Some(Trace::Packet(packet)) => {
            let (copy, trace) = (packet.copy, packet.trace.unwrap_or_default());
            CopyTrace { copy, trace }.named_text()
        }
        None => String::new(),
    }
}

/// Converts an error that the switch returned.
fn failure(args: &Args, status: &Status) -> Failure {
    let switch = args.switch.address();
    match status.code() {
        Code::InvalidArgument => Failure::bad_input(format_args!("--{}", status.message())),
        Code::Unimplemented => Failure::failed(format_args!(
            "the switch at {switch} does not trace; `alfirk trace` needs an `alfirk switch`"
        )),
        Code::FailedPrecondition | Code::Aborted | Code::ResourceExhausted => {
            Failure::failed(format_args!("{switch}: {}", status.message()))
        }
        _ => args.switch.failure(status),
    }
}

/// Converts an error with which the switch has ended the traces.
fn ended(args: &Args, status: &Status) -> Failure {
    let switch = args.switch.address();
    match status.code() {
        Code::Aborted => Failure::failed(format_args!("{switch}: {}", status.message())),
        _ => Failure::failed(format_args!(
            "the switch at {switch} has ended: {}",
            root_cause(status)
        )),
    }
}

/// Waits until the reader of standard output has closed its end, if it is a pipe.
async fn stdout_closed() {
    let (closed, is_closed) = oneshot::channel();
    // The thread ends with the process at the latest.
    thread::spawn(move || {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        while let Ok(0) | Err(Errno::EINTR) = poll(&mut fds, PollTimeout::NONE) {}
        let _ = closed.send(());
    });
    if is_closed.await.is_err() {
        std::future::pending().await
    }
}
