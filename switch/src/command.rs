//! Commands of the gRPC, Thrift and metrics servers to the thread that owns the switch.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use alfirk_p4runtime::{
    alfirk::links::v1::{ChangeRequest, ChangeResponse, ListRequest, ListResponse},
    p4::v1::*,
    Status,
};
use tokio::sync::{
    mpsc::{self, error::TryRecvError},
    oneshot,
};

use super::{
    stream_queue::StreamSender,
    thrift::request::{Request, Response},
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
    // SAFETY: eventfd takes no pointers; the descriptor is owned from here on.
    let fd = unsafe {
        let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
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
        let mut count = [0u8; mem::size_of::<u64>()];
        // SAFETY: the buffer has the given length. An error means that the event was clear.
        unsafe {
            libc::read(
                self.event.0.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

impl AsRawFd for CommandReceiver {
    fn as_raw_fd(&self) -> RawFd {
        self.event.0.as_raw_fd()
    }
}

impl EventFd {
    fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer has the given length. The only error is a full counter, and then the descriptor is
        // readable already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}
