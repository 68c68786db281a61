//! Replies to P4Runtime Read requests.
//!
//! The switch executes one read at a time, in steps, and only polls its ports between the steps. Results are
//! buffered here until the client has received them. The number of buffered replies is limited, since each may hold a
//! copy of all tables; their lifetime is limited, too.

use std::{
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
    time::Duration,
};

use alfirk_p4runtime::p4::v1::{ReadRequest, ReadResponse};
use tokio::sync::{mpsc, Semaphore};
use tokio_stream::Stream;
use tonic::Status;

use super::command::{Command, CommandSender};

/// Maximum number of replies that are buffered at the same time. Further Read requests wait.
const MAX_CONCURRENT: usize = 16;
/// Time limit for a client that does not receive its reply. Then the read is aborted.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits the number of Read requests that are executed and buffered at the same time.
#[derive(Clone)]
pub struct ReadLimiter {
    slots: Arc<Semaphore>,
    client_timeout: Duration,
}

impl Default for ReadLimiter {
    fn default() -> ReadLimiter {
        ReadLimiter::new(MAX_CONCURRENT, CLIENT_TIMEOUT)
    }
}

impl ReadLimiter {
    fn new(max_concurrent: usize, client_timeout: Duration) -> ReadLimiter {
        ReadLimiter {
            slots: Arc::new(Semaphore::new(max_concurrent)),
            client_timeout,
        }
    }

    /// Starts a Read request, once there are fewer than the maximum number. Returns `None` if the switch is stopping.
    pub async fn start(
        &self,
        commands: &CommandSender,
        request: ReadRequest,
    ) -> Option<ReplyStream> {
        let turn = self.slots.clone().acquire_owned().await.ok()?;
        let (finds, mut found) = mpsc::unbounded_channel();
        if !commands.send(Command::Read(request, finds)).await {
            return None;
        }
        let (sender, parts) = mpsc::channel(1);
        let client_timeout = self.client_timeout;
        tokio::spawn(async move {
            // The slot is held until the whole reply was received, or the read was aborted.
            let _turn = turn;
            while let Some(part) = found.recv().await {
                let part = ReplyPart::Found(part.map_err(Status::from));
                if sender.send_timeout(part, client_timeout).await.is_err() {
                    return;
                }
            }
            let _ = sender.send_timeout(ReplyPart::End, client_timeout).await;
        });
        Some(ReplyStream {
            parts,
            is_complete: false,
        })
    }
}

/// Part of a reply, as passed from the switch's thread to the client's stream.
enum ReplyPart {
    Found(Result<ReadResponse, Status>),
    End,
}

/// The parts of a reply to a Read request, as a stream.
pub struct ReplyStream {
    parts: mpsc::Receiver<ReplyPart>,
    is_complete: bool,
}

impl Stream for ReplyStream {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_complete {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_recv(cx));
        self.is_complete = !matches!(part, Some(ReplyPart::Found(Ok(_))));
        Poll::Ready(match part {
            Some(ReplyPart::Found(part)) => Some(part),
            Some(ReplyPart::End) => None,
            // An incomplete reply must not be mistaken for a complete one.
            None => Some(Err(Status::deadline_exceeded(
                "the client did not receive the reply in time; the rest of it was dropped",
            ))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{commands, CommandReceiver};
    use alfirk_p4runtime::p4::v1::Entity;
    use tokio_stream::StreamExt;

    type Finds = mpsc::UnboundedSender<Result<ReadResponse, alfirk_p4runtime::Status>>;

    fn next_read(queue: &mut CommandReceiver) -> Option<Finds> {
        match queue.try_recv()? {
            Command::Read(_, finds) => Some(finds),
            _ => panic!("expected a read"),
        }
    }

    /// Returns this number of entities, each in its own part.
    fn find(finds: Finds, parts: usize) {
        for _ in 0..parts {
            let entities = vec![Entity::default()];
            finds.send(Ok(ReadResponse { entities })).unwrap();
        }
    }

    #[tokio::test]
    async fn reads_are_executed_one_after_the_other() {
        let (commands, mut queue) = commands().unwrap();
        let reads = ReadLimiter::new(1, CLIENT_TIMEOUT);
        let request = ReadRequest::default;
        let mut first = reads.start(&commands, request()).await.unwrap();
        find(next_read(&mut queue).unwrap(), 3);

        let (reads, commands) = (reads.clone(), commands.clone());
        let second = tokio::spawn(async move { reads.start(&commands, request()).await });
        for _ in 0..3 {
            assert!(first.next().await.unwrap().is_ok());
            assert!(next_read(&mut queue).is_none(), "it is not its turn");
        }
        assert!(first.next().await.is_none());
        let mut second = second.await.unwrap().unwrap();
        find(next_read(&mut queue).unwrap(), 1);
        assert!(second.next().await.unwrap().is_ok());
        assert!(second.next().await.is_none());
    }

    #[tokio::test]
    async fn a_read_is_aborted_if_the_client_receives_nothing() {
        let (commands, mut queue) = commands().unwrap();
        let reads = ReadLimiter::new(1, Duration::from_millis(10));
        let mut first = reads
            .start(&commands, ReadRequest::default())
            .await
            .unwrap();
        find(next_read(&mut queue).unwrap(), 3);
        let second = reads.start(&commands, ReadRequest::default()).await;
        assert!(second.is_some() && next_read(&mut queue).is_some());
        assert!(first.next().await.unwrap().is_ok(), "it was there to take");
        let status = first.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert!(first.next().await.is_none());
    }

    #[tokio::test]
    async fn errors_end_the_reply() {
        let (commands, mut queue) = commands().unwrap();
        let request = ReadRequest::default();
        let mut reply = ReadLimiter::default()
            .start(&commands, request)
            .await
            .unwrap();
        let finds = next_read(&mut queue).unwrap();
        let status = alfirk_p4runtime::Status::new(alfirk_p4runtime::Code::NotFound, "no table");
        finds.send(Err(status)).unwrap();
        drop(finds);
        let status = reply.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert!(reply.next().await.is_none());
    }
}
