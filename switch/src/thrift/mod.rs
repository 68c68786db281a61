//! BMv2's runtime services over Thrift, for `simple_switch_CLI` and similar clients.
//!
//! Each client has a thread, which reads requests and writes replies. The thread that owns the switch executes the
//! requests between two packets, as with P4Runtime ([`Runtime`]). Programs are compiled on the client's thread.

mod codes;
mod config;
mod keys;
mod long;
mod multicast;
mod runtime;
mod serialize;
mod simple_switch;
mod standard;

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    thread,
    time::Duration,
};

use alfirk_thrift::{
    standard::{Call as Standard, Reply as StandardReply, SwapOperationErrorCode},
    Call, Incoming, Reply, Requests,
};
use tokio::sync::oneshot;
use tracing::{debug, error, info};

pub use self::{
    long::{LongRequest, Started},
    runtime::{Ports, Runtime, Settings},
};
use super::command::{Command, CommandSender};
use alfirk_bmv2::LoadedProgram;
use alfirk_p4rt::Programs;

/// Maximum number of Thrift clients, each of which has a thread.
const MAX_CLIENTS: usize = 256;
/// Pause after a failed attempt to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A request of a client's thread.
pub enum Request {
    /// A call of a method that the switch's thread executes.
    Call(Box<Call>),
    /// `bm_load_new_config` with the compiled program and its text.
    Load(Arc<LoadedProgram>, Arc<str>),
    /// Request for the text of the program.
    Config,
}

/// The response to a [`Request`].
pub enum Response {
    /// The result of a [`Request::Call`] or [`Request::Load`].
    Reply(Box<Reply>),
    /// The text of the program, empty if there is none.
    Config(Arc<str>),
}

impl<P: Ports> Runtime<'_, P> {
    /// Executes a client's request.
    pub fn handle(&mut self, request: Request) -> Response {
        match request {
            Request::Call(call) => Response::Reply(Box::new(call.run(self))),
            Request::Load(program, text) => {
                let result = self.load_beside(program, text);
                Response::Reply(Box::new(Reply::Standard(StandardReply::BmLoadNewConfig(
                    result,
                ))))
            }
            Request::Config => Response::Config(self.config_text()),
        }
    }
}

/// Starts the thread that accepts Thrift clients on a TCP port, and starts a thread for each client.
///
/// # Errors
/// When a thread cannot be started.
pub fn serve(listener: TcpListener, commands: CommandSender, programs: Programs) -> io::Result<()> {
    let clients = Arc::new(AtomicUsize::new(0));
    let accept = move || loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!("cannot accept a Thrift connection: {error}");
                thread::sleep(ACCEPT_RETRY_PAUSE);
                continue;
            }
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
            debug!("{MAX_CLIENTS} Thrift clients are connected already; a further one is rejected");
            clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (commands, programs, count) = (commands.clone(), programs.clone(), clients.clone());
        let client = move || {
            serve_client(&stream, &commands, &programs);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        let started = thread::Builder::new().name("thrift client".into());
        if let Err(error) = started.spawn(client) {
            error!("cannot start a thread for a Thrift client: {error}");
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    };
    thread::Builder::new()
        .name("thrift".into())
        .spawn(accept)
        .map(|_| ())
}

/// Serves one client until it disconnects.
fn serve_client(stream: &TcpStream, commands: &CommandSender, programs: &Programs) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!("Thrift client: {error}");
    }
    let mut requests = Requests::new(stream, stream);
    loop {
        let (ticket, call) = match requests.receive() {
            Ok(Incoming::Request(ticket, call)) => (ticket, call),
            Ok(Incoming::End) => return,
            Err(error) => {
                info!("disconnecting a Thrift client: {error}");
                return;
            }
        };
        let sent = match execute(*call, commands, programs) {
            Some(reply) => requests.send_reply(&ticket, &reply),
            None => requests.fail(&ticket, "the switch is stopping".into()),
        };
        if let Err(error) = sent {
            debug!("a Thrift client disconnected: {error}");
            return;
        }
    }
}

/// Executes a call of a client; `None` if the switch has stopped.
fn execute(call: Call, commands: &CommandSender, programs: &Programs) -> Option<Reply> {
    let reply = match call {
        Call::Standard(Standard::BmLoadNewConfig(args)) => match programs.load(&args.config_str) {
            Ok(program) => {
                return forward(commands, Request::Load(program, args.config_str.into()))
            }
            Err(error) => {
                error!("bm_load_new_config: {error}");
                // BMv2 has no code for this error; no program has been loaded that could be swapped in.
                let code = SwapOperationErrorCode::NoOngoingSwap;
                StandardReply::BmLoadNewConfig(Err(code.into()))
            }
        },
        Call::Standard(Standard::BmGetConfig(_)) => {
            StandardReply::BmGetConfig(config_text(commands)?.to_string())
        }
        Call::Standard(Standard::BmGetConfigMd5(_)) => {
            StandardReply::BmGetConfigMd5(config::md5(&config_text(commands)?))
        }
        Call::Standard(Standard::BmGetIdFromName(args)) => {
            let text = config_text(commands)?;
            let id = config::id_of(&text, args.resource_type, &args.resource_name);
            StandardReply::BmGetIdFromName(id)
        }
        call => return forward(commands, Request::Call(Box::new(call))),
    };
    Some(Reply::Standard(reply))
}

fn forward(commands: &CommandSender, request: Request) -> Option<Reply> {
    match call_switch(commands, request)? {
        Response::Reply(reply) => Some(*reply),
        Response::Config(_) => None,
    }
}

fn config_text(commands: &CommandSender) -> Option<Arc<str>> {
    match call_switch(commands, Request::Config)? {
        Response::Config(text) => Some(text),
        Response::Reply(_) => None,
    }
}

fn call_switch(commands: &CommandSender, request: Request) -> Option<Response> {
    let (sender, receiver) = oneshot::channel();
    let sent = commands.send_blocking(Command::Thrift(request, sender));
    sent.then(|| receiver.blocking_recv().ok()).flatten()
}
