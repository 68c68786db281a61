//! A thread that sends large batches of frames in parallel to the engine.
//!
//! On a veth pair, the sending thread runs the receiving host's TCP in the kernel. This takes several times as long as
//! the switch needs for the frame. Batches that are large enough to pay for waking a thread are therefore sent by this
//! one. A single frame is sent sooner by the engine. Frames of a port must follow those of the same port in this
//! thread.

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

/// Maximum number of queued batches. Beyond it the engine waits, and its receive rings hold the received frames.
const WAITING: usize = 4;
const ALIVE: &str = "the thread lives as long as its queue";

/// The engine's end of the thread.
#[derive(Debug)]
pub struct SendThread {
    jobs: SyncSender<Job>,
    done: Receiver<SentBatch>,
    under_way: usize,
    /// Empty lists for reuse.
    spare: Vec<Vec<Vec<u8>>>,
}

#[derive(Debug)]
struct Job {
    port: u32,
    outlet: Arc<Outlet>,
    frames: Vec<Vec<u8>>,
}

/// A sent batch, with the number of frames accepted.
#[derive(Debug)]
pub struct SentBatch {
    pub port: u32,
    pub frames: Vec<Vec<u8>>,
    pub sent: SendOutcome,
}

impl SendThread {
    /// Starts the thread, if there is a second processor.
    pub fn start() -> Option<SendThread> {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let (jobs, to_do) = sync_channel::<Job>(WAITING);
        let (finished, done) = channel();
        // The thread ends with the engine, which drops its end of the queue.
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
                if finished.send(SentBatch { port, frames, sent }).is_err() {
                    return;
                }
            }
        });
        started
            .map(|_| SendThread {
                jobs,
                done,
                under_way: 0,
                spare: Vec::new(),
            })
            .inspect_err(|error| debug!("cannot start the sender thread: {error}"))
            .ok()
    }

    /// Queues frames for sending; `frames` is empty afterwards.
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

    /// Takes the next sent batch, if there is one.
    pub fn next_sent(&mut self) -> Option<SentBatch> {
        if self.under_way == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Waits for the next sent batch. Returns `None` when there are no more.
    pub fn wait(&mut self) -> Option<SentBatch> {
        if self.under_way == 0 {
            return None;
        }
        self.under_way -= 1;
        Some(self.done.recv().expect(ALIVE))
    }

    /// Takes back an empty list for reuse.
    pub fn recycle(&mut self, frames: Vec<Vec<u8>>) {
        if self.spare.len() < WAITING {
            self.spare.push(frames);
        }
    }
}
