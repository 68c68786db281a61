//! Answers to Read requests. The switch makes one at a time, in steps between which it serves its ports and no other request;
//! what it has found waits here until the client has taken it. Only so many answers may wait, and none for ever: memory is
//! bounded by that many copies of the tables.

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

/// Answers that wait to be taken; other requests wait for their turn.
const AT_A_TIME: usize = 16;
/// A client that takes nothing of its answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The room for answers.
#[derive(Clone)]
pub struct Reads {
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads::new(AT_A_TIME, PATIENCE)
    }
}

impl Reads {
    fn new(at_a_time: usize, patience: Duration) -> Reads {
        Reads {
            turns: Arc::new(Semaphore::new(at_a_time)),
            patience,
        }
    }

    /// Has the switch answer a request when it is its turn. `None` when the switch is stopping.
    pub async fn answer(&self, commands: &CommandSender, request: ReadRequest) -> Option<Answer> {
        let turn = self.turns.clone().acquire_owned().await.ok()?;
        let (finds, mut found) = mpsc::unbounded_channel();
        if !commands.send(Command::Read(request, finds)).await {
            return None;
        }
        let (sender, parts) = mpsc::channel(1);
        let patience = self.patience;
        tokio::spawn(async move {
            // Until all has been taken, or nobody takes it.
            let _turn = turn;
            while let Some(part) = found.recv().await {
                let part = Part::Found(part.map_err(Status::from));
                if sender.send_timeout(part, patience).await.is_err() {
                    return;
                }
            }
            let _ = sender.send_timeout(Part::End, patience).await;
        });
        Some(Answer { parts, over: false })
    }
}

enum Part {
    Found(Result<ReadResponse, Status>),
    End,
}

/// The parts of an answer as they are taken.
pub struct Answer {
    parts: mpsc::Receiver<Part>,
    over: bool,
}

impl Stream for Answer {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_recv(cx));
        self.over = !matches!(part, Some(Part::Found(Ok(_))));
        Poll::Ready(match part {
            Some(Part::Found(part)) => Some(part),
            Some(Part::End) => None,
            // Nobody may take a part for the whole.
            None => Some(Err(Status::deadline_exceeded(
                "the answer was not taken in time, and the rest of it is dropped",
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
            _ => panic!("only reads are asked for"),
        }
    }

    /// An answer of so many entities, each in its own part.
    fn find(finds: Finds, parts: usize) {
        for _ in 0..parts {
            let entities = vec![Entity::default()];
            finds.send(Ok(ReadResponse { entities })).unwrap();
        }
    }

    #[tokio::test]
    async fn answers_are_given_in_turn() {
        let (commands, mut queue) = commands().unwrap();
        let reads = Reads::new(1, PATIENCE);
        let request = ReadRequest::default;
        let mut first = reads.answer(&commands, request()).await.unwrap();
        find(next_read(&mut queue).unwrap(), 3);

        let (reads, commands) = (reads.clone(), commands.clone());
        let second = tokio::spawn(async move { reads.answer(&commands, request()).await });
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
    async fn who_takes_nothing_gives_way_and_is_told() {
        let (commands, mut queue) = commands().unwrap();
        let reads = Reads::new(1, Duration::from_millis(10));
        let mut first = reads
            .answer(&commands, ReadRequest::default())
            .await
            .unwrap();
        find(next_read(&mut queue).unwrap(), 3);
        let second = reads.answer(&commands, ReadRequest::default()).await;
        assert!(second.is_some() && next_read(&mut queue).is_some());
        assert!(first.next().await.unwrap().is_ok(), "it was there to take");
        let status = first.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert!(first.next().await.is_none());
    }

    #[tokio::test]
    async fn errors_end_the_answer() {
        let (commands, mut queue) = commands().unwrap();
        let request = ReadRequest::default();
        let mut answer = Reads::default().answer(&commands, request).await.unwrap();
        let finds = next_read(&mut queue).unwrap();
        let status = alfirk_p4runtime::Status::new(alfirk_p4runtime::Code::NotFound, "no table");
        finds.send(Err(status)).unwrap();
        drop(finds);
        let status = answer.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert!(answer.next().await.is_none());
    }
}
