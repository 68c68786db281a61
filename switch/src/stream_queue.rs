//! Queue of messages to the client of a stream, such as P4Runtime's, limited in messages and in bytes.

use std::{
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    task::{ready, Context, Poll},
};

use alfirk_p4runtime::{Message, Status};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_stream::Stream;

/// Maximum number of queued messages per client.
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Number of messages that a queue holds beyond its limit; they must not be dropped.
const VITAL_MESSAGES: usize = 2;

/// The switch's end of a client's queue.
#[derive(Debug)]
pub struct StreamSender<T> {
    queue: mpsc::Sender<QueuedMessage<T>>,
    /// Number of bytes in the queue.
    bytes: Arc<AtomicUsize>,
}

/// The client's end of its queue: yields messages, and the status that ends the stream.
#[derive(Debug)]
pub struct StreamReceiver<T> {
    queue: mpsc::Receiver<QueuedMessage<T>>,
    bytes: Arc<AtomicUsize>,
}

/// A queued message, or the status that ends the stream.
#[derive(Debug)]
struct QueuedMessage<T> {
    message: Result<T, Status>,
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
pub fn stream_queue<T>() -> (StreamSender<T>, StreamReceiver<T>) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES + VITAL_MESSAGES);
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

impl<T: Message> StreamSender<T> {
    /// Queues a message to the client. `max_bytes`: limit of the queue in bytes.
    ///
    /// # Errors
    /// When the queue is full, or the client is gone.
    pub fn try_send(&self, message: T, max_bytes: usize) -> Result<(), NotSent> {
        let bytes = message.encoded_len();
        // An empty queue accepts a message of any size.
        let waiting = self.bytes.load(Ordering::Relaxed);
        let is_full = self.queue.capacity() <= VITAL_MESSAGES;
        if is_full || waiting > 0 && waiting + bytes > max_bytes {
            return match self.queue.is_closed() {
                true => Err(NotSent::Closed),
                false => Err(NotSent::Full),
            };
        }
        self.push(Ok(message), bytes)
    }

    /// Queues a small message that must not be dropped, such as a status. The limit in bytes does not apply to it, and a few
    /// such messages have a place in a full queue.
    ///
    /// # Errors
    /// As [`StreamSender::try_send`].
    pub fn try_send_without_limit(&self, message: Result<T, Status>) -> Result<(), NotSent> {
        self.push(message, 0)
    }

    fn push(&self, message: Result<T, Status>, bytes: usize) -> Result<(), NotSent> {
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

impl<T> Stream for StreamReceiver<T> {
    type Item = Result<T, tonic::Status>;

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
        p4::v1::{stream_message_response::Update, PacketIn, StreamMessageResponse},
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
    async fn the_number_of_bytes_is_bounded() {
        let (sender, mut receiver) = stream_queue();
        let limit = 1 << 20;
        let half = limit / 2 - 100;
        assert_eq!(sender.try_send(packet(half), limit), Ok(()));
        assert_eq!(sender.try_send(packet(half), limit), Ok(()));
        assert_eq!(sender.try_send(packet(half), limit), Err(NotSent::Full));
        assert_eq!(sender.try_send(packet(half), 2 * limit), Ok(()));
        let end = Status::new(Code::Aborted, "the end");
        assert_eq!(sender.try_send_without_limit(Err(end)), Ok(()));
        for _ in 0..3 {
            assert!(receiver.next().await.unwrap().is_ok());
        }
        let status = receiver.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert_eq!(sender.try_send(packet(3 * half), limit), Ok(()));
    }

    #[tokio::test]
    async fn the_number_of_messages_is_bounded_too() {
        let (sender, receiver) = stream_queue();
        for _ in 0..MAX_QUEUED_MESSAGES {
            assert_eq!(sender.try_send(packet(1), usize::MAX), Ok(()));
        }
        let again = || sender.try_send(packet(1), usize::MAX);
        assert_eq!(again(), Err(NotSent::Full));
        let end = Err(Status::new(Code::Aborted, "the end"));
        assert_eq!(sender.try_send_without_limit(end), Ok(()));
        drop(receiver);
        assert_eq!(again(), Err(NotSent::Closed));
    }
}
