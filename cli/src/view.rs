//! `alfirk view`, and the page of `alfirk run --web`: serves traces to a browser.

use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use alfirk_view::server::{GrowingBytes, Listener, ServedTrace};
use alfirk_view::trace;
use tokio::runtime::Builder;

use crate::exit::{print, Failure, Outcome};

pub use alfirk_ctrl::client::WEB_ADDRESS as ADDRESS;

/// Replay a recorded run in a browser: every frame on every link, and the group state of every switch.
///
/// Reads traces that `alfirk run --trace FILE.jsonl` wrote, prints the address of a page that plays them, and serves it until
/// SIGINT or SIGTERM. The page loads nothing from other servers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk run --size 256KiB --loss 0.01 --algorithms alfirk --trace lossy.jsonl && alfirk view lossy.jsonl
  alfirk run --size 256KiB --web")]
pub struct Args {
    /// Traces (.jsonl) to replay
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Address and port of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = ADDRESS)]
    listen: SocketAddr,
}

/// Runs `alfirk view` until it is stopped.
pub fn run(args: &Args) -> Outcome {
    let traces = args.traces.iter().map(|path| read(path));
    let traces = traces.collect::<Result<Vec<_>, _>>()?;
    serve(listen(args.listen, "--listen")?, traces)
}

/// Reads and checks a trace file.
fn read(path: &Path) -> Result<ServedTrace, Failure> {
    let bad =
        |why: &dyn std::fmt::Display| Failure::bad_input(format_args!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| bad(&error))?;
    trace::read(&bytes[..]).map_err(|error| bad(&error))?;
    let mut growing = GrowingBytes::default();
    growing.write_all(&bytes).map_err(|error| bad(&error))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(ServedTrace {
        name: name.to_string_lossy().into_owned(),
        bytes: growing,
        is_live: false,
    })
}

/// Binds the address of the page. `flag`: the flag that gives it, for messages.
pub fn listen(address: SocketAddr, flag: &str) -> Result<Listener, Failure> {
    Listener::bind(address).map_err(|error| {
        Failure::failed(format_args!(
            "{flag} {address}: {error}; choose another port, or 0 for a free one"
        ))
    })
}

/// Serves the page with these traces until SIGINT or SIGTERM.
pub fn serve(listener: Listener, traces: Vec<ServedTrace>) -> Outcome {
    let mut runtime = Builder::new_current_thread();
    serve_until_ended(listener, &mut runtime, |listener, until| {
        listener.serve(traces, until)
    })
}

/// Prints the address of a page, and serves it with `serve` until SIGINT or SIGTERM, on a runtime with I/O and time.
pub fn serve_until_ended<S: Future<Output = io::Result<()>>>(
    listener: Listener,
    runtime: &mut Builder,
    serve: impl FnOnce(Listener, Ended) -> S,
) -> Outcome {
    let address = listener.address().map_err(Failure::failed)?;
    let runtime = runtime.enable_all().build().map_err(Failure::failed)?;
    runtime.block_on(async {
        let until = ended().map_err(Failure::failed)?;
        print(format_args!("http://{address}/ (Ctrl-C ends)\n"))?;
        serve(listener, until).await.map_err(Failure::failed)
    })
}

/// Completes at SIGINT or SIGTERM.
pub type Ended = Pin<Box<dyn Future<Output = ()>>>;

/// Returns a future that completes at SIGINT or SIGTERM.
fn ended() -> io::Result<Ended> {
    use tokio::signal::unix::{signal, SignalKind};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}
