//! Queue of messages to the client of a P4Runtime stream, limited in messages and in bytes.

use std::{
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    task::{ready, Context, Poll},
};

use alfirk_p4runtime::{p4::v1::StreamMessageResponse, Message, Status};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_stream::Stream;

/// Maximum number of queued messages per client.
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Maximum number of queued bytes of all clients together; each client has an equal share.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// The switch's end of a client's queue.
#[derive(Debug)]
pub struct StreamSender {
    queue: mpsc::Sender<QueuedMessage>,
    /// Number of bytes in the queue.
    bytes: Arc<AtomicUsize>,
}

/// The client's end of its queue: yields messages, and the status that ends the stream.
#[derive(Debug)]
pub struct StreamReceiver {
    queue: mpsc::Receiver<QueuedMessage>,
    bytes: Arc<AtomicUsize>,
}

/// A queued message, or the status that ends the stream.
#[derive(Debug)]
struct QueuedMessage {
    message: Result<StreamMessageResponse, Status>,
    bytes: usize,
}

/// Reason why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The queue is full, because the client receives too slowly.
    Full,
    /// The client has disconnected.
    Closed,
}

/// Creates the queue of one client.
pub fn stream_queue() -> (StreamSender, StreamReceiver) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let bytes = Arc::new(AtomicUsize::new(0));
    (
        StreamSender {
            queue: sender,
            bytes: bytes.clone(),
        },
        StreamReceiver {
            queue: receiver,
            bytes,
        },
    )
}

impl StreamSender {
    /// Queues a message to the client. `clients`: number of all clients, which share the limit of bytes.
    ///
    /// # Errors
    /// When the queue is full, or the client is gone.
    pub fn try_send(&self, message: StreamMessageResponse, clients: usize) -> Result<(), NotSent> {
        let bytes = message.encoded_len();
        // An empty queue accepts a message of any size.
        let waiting = self.bytes.load(Ordering::Relaxed);
        if waiting > 0 && waiting + bytes > MAX_QUEUED_BYTES / clients.max(1) {
            return match self.queue.is_closed() {
                true => Err(NotSent::Closed),
                false => Err(NotSent::Full),
            };
        }
        self.push(Ok(message), bytes)
    }

    /// Queues a small message that must not be dropped, such as a status. The limit in bytes does not apply to it.
    ///
    /// # Errors
    /// As [`StreamSender::try_send`].
    pub fn try_send_without_limit(
        &self,
        message: Result<StreamMessageResponse, Status>,
    ) -> Result<(), NotSent> {
        self.push(message, 0)
    }

    fn push(
        &self,
        message: Result<StreamMessageResponse, Status>,
        bytes: usize,
    ) -> Result<(), NotSent> {
        // Before the client can take the message.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.queue
            .try_send(QueuedMessage { message, bytes })
            .map_err(|error| {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                match error {
                    TrySendError::Full(_) => NotSent::Full,
                    TrySendError::Closed(_) => NotSent::Closed,
                }
            })
    }
}

impl Stream for StreamReceiver {
    type Item = Result<StreamMessageResponse, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.queue.poll_recv(cx));
        Poll::Ready(next.map(|waiting| {
            self.bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
            waiting.message.map_err(tonic::Status::from)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::{
        p4::v1::{stream_message_response::Update, PacketIn},
        Code,
    };
    use tokio_stream::StreamExt;

    fn packet(bytes: usize) -> StreamMessageResponse {
        StreamMessageResponse {
            update: Some(Update::Packet(PacketIn {
                payload: vec![0; bytes],
                metadata: Vec::new(),
            })),
        }
    }

    #[tokio::test]
    async fn byte_limit_is_divided_among_clients() {
        let (sender, mut receiver) = stream_queue();
        let clients = 256;
        let half = MAX_QUEUED_BYTES / clients / 2 - 100;
        assert_eq!(sender.try_send(packet(half), clients), Ok(()));
        assert_eq!(sender.try_send(packet(half), clients), Ok(()));
        assert_eq!(sender.try_send(packet(half), clients), Err(NotSent::Full));
        // With fewer clients, each has a larger share.
        assert_eq!(sender.try_send(packet(half), clients / 2), Ok(()));
        let end = Status::new(Code::Aborted, "the end");
        assert_eq!(sender.try_send_without_limit(Err(end)), Ok(()));
        for _ in 0..3 {
            assert!(receiver.next().await.unwrap().is_ok());
        }
        let status = receiver.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert_eq!(sender.try_send(packet(3 * half), clients), Ok(()));
    }

    #[tokio::test]
    async fn the_number_of_messages_is_bounded_too() {
        let (sender, receiver) = stream_queue();
        for _ in 0..MAX_QUEUED_MESSAGES {
            assert_eq!(sender.try_send(packet(1), 1), Ok(()));
        }
        assert_eq!(sender.try_send(packet(1), 1), Err(NotSent::Full));
        drop(receiver);
        assert_eq!(sender.try_send(packet(1), 1), Err(NotSent::Closed));
    }
}
