//! Commands that the gRPC, Thrift and metrics servers send to the thread that owns the switch.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use alfirk_p4runtime::{
    alfirk::links::v1::{ChangeRequest, ChangeResponse, ListRequest, ListResponse},
    p4::v1::*,
    Status,
};
use rustix::{
    event::{eventfd, EventfdFlags},
    io::{read, write},
};
use tokio::sync::{
    mpsc::{self, error::TryRecvError},
    oneshot,
};

use super::{
    bfrt::BfRtCommand,
    debug::EditorSender,
    stream_queue::StreamSender,
    thrift::{Request, Response},
    watch::{NewWatch, WatchedProgram},
};
use alfirk_p4rt::ClientId;

/// Maximum number of commands in the queue. Further senders wait.
const MAX_QUEUED_COMMANDS: usize = 1024;

/// A command to the thread that owns the switch. The command holds the channel for its reply, if it has one.
pub enum Command {
    Write(WriteRequest, oneshot::Sender<Result<WriteResponse, Status>>),
    /// A P4Runtime Read request. The channel closes after the last part of the reply.
    Read(
        ReadRequest,
        mpsc::UnboundedSender<Result<ReadResponse, Status>>,
    ),
    SetPipeline(
        Box<SetForwardingPipelineConfigRequest>,
        oneshot::Sender<Result<SetForwardingPipelineConfigResponse, Status>>,
    ),
    GetPipeline(
        GetForwardingPipelineConfigRequest,
        oneshot::Sender<Result<GetForwardingPipelineConfigResponse, Status>>,
    ),
    Capabilities(
        CapabilitiesRequest,
        oneshot::Sender<Result<CapabilitiesResponse, Status>>,
    ),
    StreamOpen(
        StreamSender<StreamMessageResponse>,
        oneshot::Sender<Result<ClientId, Status>>,
    ),
    StreamMessage(ClientId, StreamMessageRequest),
    StreamClose(ClientId),
    ListLinks(ListRequest, oneshot::Sender<Result<ListResponse, Status>>),
    ChangeLinks(
        ChangeRequest,
        oneshot::Sender<Result<ChangeResponse, Status>>,
    ),
    /// A request of a Thrift client.
    Thrift(Request, oneshot::Sender<Response>),
    /// A request of a BfRuntime client.
    BfRt(BfRtCommand),
    /// A debugger is to be attached: the channel of messages to its editor, the editor's address, and the channel for the
    /// number of the session.
    AttachDebugger(EditorSender, String, oneshot::Sender<Result<u64, Status>>),
    /// A message of the editor of a debugger.
    DebugMessage(u64, String),
    /// The editor of a debugger has disconnected.
    DetachDebugger(u64),
    /// A client is going to watch traces, and needs the program of the switch.
    PrepareWatch(oneshot::Sender<Result<WatchedProgram, Status>>),
    /// A client watches traces; the channel is for the number of the watch.
    Watch(Box<NewWatch>, oneshot::Sender<Result<u64, Status>>),
    /// A client that watched traces has disconnected.
    EndWatch(u64),
    /// A frame that a port has read from a file.
    Frame(u32, Vec<u8>),
    /// A request for the metrics in the text format of Prometheus.
    Metrics(oneshot::Sender<String>),
    Shutdown,
}

/// Sending end of the command queue. Sending a command wakes the thread that owns the switch.
#[derive(Clone)]
pub struct CommandSender {
    queue: mpsc::Sender<Command>,
    event: Arc<EventFd>,
}

/// Receiving end of the command queue. Its file descriptor is readable while commands are queued.
pub struct CommandReceiver {
    queue: mpsc::Receiver<Command>,
    event: Arc<EventFd>,
}

/// An eventfd, by which other threads wake the thread that owns the switch from epoll.
struct EventFd(OwnedFd);

/// Creates a queue of commands.
pub fn commands() -> io::Result<(CommandSender, CommandReceiver)> {
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let event = Arc::new(EventFd(fd));
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_COMMANDS);
    Ok((
        CommandSender {
            queue: sender,
            event: event.clone(),
        },
        CommandReceiver {
            queue: receiver,
            event,
        },
    ))
}

impl CommandSender {
    /// Sends a command; waits if the queue is full. Returns false if the switch has stopped.
    pub async fn send(&self, command: Command) -> bool {
        let sent = self.queue.send(command).await.is_ok();
        self.event.signal();
        sent
    }

    /// Sends a command as [`CommandSender::send`] does, but blocks the thread while the queue is full.
    pub fn send_blocking(&self, command: Command) -> bool {
        let sent = self.queue.blocking_send(command).is_ok();
        self.event.signal();
        sent
    }
}

impl CommandReceiver {
    /// Takes the next command; `None` if there is none.
    pub fn try_recv(&mut self) -> Option<Command> {
        match self.queue.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // All senders were dropped, so no more commands can arrive.
            Err(TryRecvError::Disconnected) => Some(Command::Shutdown),
        }
    }

    /// Makes the file descriptor readable again if the queue still holds commands.
    pub fn signal_again(&self) {
        self.event.signal();
    }

    /// Makes the file descriptor unreadable. Must be called before the commands are taken from the queue.
    pub fn clear_event(&self) {
        // An error means that the event was clear.
        let _ = read(&self.event.0, &mut [0u8; 8]);
    }
}

impl AsFd for CommandReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.0.as_fd()
    }
}

impl EventFd {
    fn signal(&self) {
        // The only error is a full counter, and then the descriptor is readable already.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }
}
