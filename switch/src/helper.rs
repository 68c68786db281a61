//! A thread that sends in the engine's place, while that goes on with what comes in.
//!
//! To send a frame is to take it to its receiver: on a veth pair the kernel runs the receiving host's
//! TCP in the thread that sends, which takes several times as long as the switch has taken over the
//! frame. So batches that are worth a thread's waking up leave by this one; a single frame is there
//! sooner when the engine sends it. What a port sends while frames of its are here must follow them.

use std::{
    mem,
    sync::{
        mpsc::{channel, sync_channel, Receiver, SyncSender},
        Arc,
    },
    thread,
};

use alfirk_packet_io::{Outlet, SendOutcome};
use tracing::debug;

/// Batches that wait. The engine waits for room; its receive rings hold what comes meanwhile.
const WAITING: usize = 4;
const ALIVE: &str = "the thread lives as long as its queue";

/// The engine's end.
#[derive(Debug)]
pub struct Helper {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    under_way: usize,
    /// Emptied lists, to be used again.
    spare: Vec<Vec<Vec<u8>>>,
}

#[derive(Debug)]
struct Job {
    port: u32,
    outlet: Arc<Outlet>,
    frames: Vec<Vec<u8>>,
}

/// A batch that has left, as far as it went.
#[derive(Debug)]
pub struct Done {
    pub port: u32,
    pub frames: Vec<Vec<u8>>,
    pub sent: SendOutcome,
}

impl Helper {
    /// Starts the thread, if there is a processor for it.
    pub fn start() -> Option<Helper> {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let (jobs, to_do) = sync_channel::<Job>(WAITING);
        let (finished, done) = channel();
        // It ends with the engine, which drops its end of the queue.
        let started = thread::Builder::new().name("sender".into()).spawn(move || {
            for Job {
                port,
                outlet,
                frames,
            } in to_do
            {
                let sent = outlet.send(&frames).unwrap_or_else(|error| {
                    debug!(port, "cannot send: {error}");
                    SendOutcome::default()
                });
                drop(outlet);
                if finished.send(Done { port, frames, sent }).is_err() {
                    return;
                }
            }
        });
        started
            .map(|_| Helper {
                jobs,
                done,
                under_way: 0,
                spare: Vec::new(),
            })
            .inspect_err(|error| debug!("no thread that sends: {error}"))
            .ok()
    }

    /// Has frames sent; `frames` is empty afterwards.
    pub fn send(&mut self, port: u32, outlet: &Arc<Outlet>, frames: &mut Vec<Vec<u8>>) {
        let empty = self.spare.pop().unwrap_or_default();
        let job = Job {
            port,
            outlet: outlet.clone(),
            frames: mem::replace(frames, empty),
        };
        self.jobs.send(job).expect(ALIVE);
        self.under_way += 1;
    }

    /// The next batch that has left, if any has by now.
    pub fn done(&mut self) -> Option<Done> {
        if self.under_way == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Waits for the next batch that has left. None when all have.
    pub fn wait(&mut self) -> Option<Done> {
        if self.under_way == 0 {
            return None;
        }
        self.under_way -= 1;
        Some(self.done.recv().expect(ALIVE))
    }

    /// Takes back an emptied list.
    pub fn recycle(&mut self, frames: Vec<Vec<u8>>) {
        if self.spare.len() < WAITING {
            self.spare.push(frames);
        }
    }
}
