//! Commands of the gRPC, Thrift and metrics servers to the thread that owns the switch.

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
    stream_queue::StreamSender,
    thrift::{Request, Response},
};
use alfirk_p4rt::ClientId;

/// Maximum number of queued commands; further senders wait.
const BACKLOG: usize = 1024;

/// A command; replies are sent through its channel.
pub enum Command {
    Write(WriteRequest, oneshot::Sender<Result<WriteResponse, Status>>),
    /// A read; the channel closes after the last part of the reply.
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
    StreamOpen(StreamSender, oneshot::Sender<Result<ClientId, Status>>),
    StreamMessage(ClientId, StreamMessageRequest),
    StreamClose(ClientId),
    ListLinks(ListRequest, oneshot::Sender<Result<ListResponse, Status>>),
    ChangeLinks(
        ChangeRequest,
        oneshot::Sender<Result<ChangeResponse, Status>>,
    ),
    /// A request of a Thrift client.
    Thrift(Request, oneshot::Sender<Response>),
    /// A frame for a port that reads files.
    Frame(u32, Vec<u8>),
    /// Request for the metrics in Prometheus' format.
    Metrics(oneshot::Sender<String>),
    Shutdown,
}

/// Sending end of the command queue; sending wakes the switch's thread.
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

/// An eventfd, by which other threads wake the switch's thread from epoll.
struct EventFd(OwnedFd);

/// Creates a queue of commands.
pub fn commands() -> io::Result<(CommandSender, CommandReceiver)> {
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let event = Arc::new(EventFd(fd));
    let (sender, receiver) = mpsc::channel(BACKLOG);
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
    /// Sends a command. Returns false when the switch has stopped.
    pub async fn send(&self, command: Command) -> bool {
        let sent = self.queue.send(command).await.is_ok();
        self.event.signal();
        sent
    }

    /// Blocking form of [`CommandSender::send`].
    pub fn send_blocking(&self, command: Command) -> bool {
        let sent = self.queue.blocking_send(command).is_ok();
        self.event.signal();
        sent
    }
}

impl CommandReceiver {
    /// Takes the next command, if there is one.
    pub fn try_recv(&mut self) -> Option<Command> {
        match self.queue.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // All senders were dropped, so no more commands can arrive.
            Err(TryRecvError::Disconnected) => Some(Command::Shutdown),
        }
    }

    /// Makes the file descriptor readable again, if commands remain in the queue.
    pub fn signal_again(&self) {
        self.event.signal();
    }

    /// Clears the event; must be called before the queue is emptied.
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
