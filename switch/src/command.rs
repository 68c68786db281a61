//! What the gRPC server asks of the thread that owns the switch.

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
    thrift::request::{Answer, Request},
};
use alfirk_p4rt::ClientId;

/// Commands that wait; who has more to ask waits for room.
const BACKLOG: usize = 1024;

/// One request; answers go back through its channel.
pub enum Command {
    Write(WriteRequest, oneshot::Sender<Result<WriteResponse, Status>>),
    /// The channel closes behind the last part of the answer.
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
    /// Of a Thrift client.
    Thrift(Request, oneshot::Sender<Answer>),
    /// A frame of a port that reads files.
    Frame(u32, Vec<u8>),
    /// For the text that Prometheus reads.
    Metrics(oneshot::Sender<String>),
    Shutdown,
}

/// The sending end: puts a command into the queue and wakes the switch.
#[derive(Clone)]
pub struct CommandSender {
    queue: mpsc::Sender<Command>,
    bell: Arc<Bell>,
}

/// The receiving end. Its descriptor is readable while commands wait.
pub struct CommandReceiver {
    queue: mpsc::Receiver<Command>,
    bell: Arc<Bell>,
}

/// An eventfd.
struct Bell(OwnedFd);

/// A queue of commands.
pub fn commands() -> io::Result<(CommandSender, CommandReceiver)> {
    // SAFETY: eventfd takes no pointers; the descriptor is owned from here on.
    let fd = unsafe {
        let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let bell = Arc::new(Bell(fd));
    let (sender, receiver) = mpsc::channel(BACKLOG);
    Ok((
        CommandSender {
            queue: sender,
            bell: bell.clone(),
        },
        CommandReceiver {
            queue: receiver,
            bell,
        },
    ))
}

impl CommandSender {
    /// False when the switch has stopped.
    pub async fn send(&self, command: Command) -> bool {
        let sent = self.queue.send(command).await.is_ok();
        self.bell.ring();
        sent
    }

    /// The same, for threads that may wait.
    pub fn send_blocking(&self, command: Command) -> bool {
        let sent = self.queue.blocking_send(command).is_ok();
        self.bell.ring();
        sent
    }
}

impl CommandReceiver {
    /// The next command, if one waits.
    pub fn try_recv(&mut self) -> Option<Command> {
        match self.queue.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // Nobody is left who could ask for anything.
            Err(TryRecvError::Disconnected) => Some(Command::Shutdown),
        }
    }

    /// Makes the descriptor readable again, for commands that are left for later.
    pub fn ring_again(&self) {
        self.bell.ring();
    }

    /// Stops the bell; to be called before the queue is emptied.
    pub fn silence(&self) {
        let mut count = [0u8; mem::size_of::<u64>()];
        // SAFETY: the buffer is as long as said. An error means that the bell was silent.
        unsafe {
            libc::read(
                self.bell.0.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

impl AsRawFd for CommandReceiver {
    fn as_raw_fd(&self) -> RawFd {
        self.bell.0.as_raw_fd()
    }
}

impl Bell {
    fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer is as long as said. The only error is a full counter, and then the
        // bell rings already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}
