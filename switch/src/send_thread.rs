//! A thread that sends large batches of TCP while the event loop continues.
//!
//! On a veth pair, the sending thread executes the receiving host's TCP in the kernel. This takes several times as
//! long as the switch needs for the frame. Batches of TCP that are large enough to pay for waking a thread are therefore
//! sent by this one. Other frames are sent sooner by the engine, also in large batches: the hand-over takes a large part
//! of the time of sending them. To keep the order, frames of a port that has batches in this thread are sent by it, too.

use std::{
    mem,
    sync::{
        mpsc::{channel, sync_channel, Receiver, SyncSender},
        Arc,
    },
    thread,
};

use alfirk_packet_io::{FrameSender, SendOutcome};
use tracing::debug;

/// Minimum number of frames in a batch for this thread; below it, waking the thread costs more than it saves.
const MIN_BATCH: usize = 24;
/// Maximum number of batches in the thread's queue. If it is full, the event loop waits, and received frames stay in
/// the rings.
const MAX_QUEUED: usize = 4;
const ALIVE: &str = "the thread runs until its queue is closed";

/// Whether the thread shall send a batch, which is large and starts with TCP.
pub fn is_for_thread(frames: &[Vec<u8>]) -> bool {
    frames.len() >= MIN_BATCH && frames.first().is_some_and(|frame| is_tcp(frame))
}

/// Whether a frame carries TCP over IPv4 or IPv6, without VLAN tags and IPv6 extension headers.
fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    let protocol = match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23),
        Some([0x86, 0xdd]) => frame.get(20),
        _ => None,
    };
    protocol == Some(&TCP)
}

/// Handle by which the event loop passes batches of frames to the thread, and gets them back after they are sent.
#[derive(Debug)]
pub struct SendThread {
    jobs: SyncSender<Job>,
    done: Receiver<SentBatch>,
    batches_in_thread: usize,
    /// Empty lists of frames, kept for reuse.
    empty_lists: Vec<Vec<Vec<u8>>>,
}

/// A batch of frames to send.
#[derive(Debug)]
struct Job {
    port: u32,
    frame_sender: Arc<FrameSender>,
    frames: Vec<Vec<u8>>,
}

/// A batch of frames that the kernel has processed, with the result.
#[derive(Debug)]
pub struct SentBatch {
    /// Port number.
    pub port: u32,
    /// The frames, whose buffers may be reused.
    pub frames: Vec<Vec<u8>>,
    /// Number of frames that the kernel accepted or dropped, and whether the others must wait.
    pub sent: SendOutcome,
}

impl SendThread {
    /// Starts the thread; `None` if the machine has only one processor or the thread cannot be started.
    pub fn start() -> Option<SendThread> {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return None;
        }
        let (jobs, to_do) = sync_channel::<Job>(MAX_QUEUED);
        let (finished, done) = channel();
        // The thread ends when the engine drops its end of the queue.
        let started = thread::Builder::new().name("sender".into()).spawn(move || {
            for Job {
                port,
                frame_sender,
                frames,
            } in to_do
            {
                let sent = frame_sender.send(&frames).unwrap_or_else(|error| {
                    debug!(port, "cannot send: {error}");
                    SendOutcome::default()
                });
                drop(frame_sender);
                if finished.send(SentBatch { port, frames, sent }).is_err() {
                    return;
                }
            }
        });
        started
            .map(|_| SendThread {
                jobs,
                done,
                batches_in_thread: 0,
                empty_lists: Vec::new(),
            })
            .inspect_err(|error| debug!("cannot start the sender thread: {error}"))
            .ok()
    }

    /// Passes `frames` to the thread for sending; the list is empty afterwards.
    pub fn send(&mut self, port: u32, frame_sender: &Arc<FrameSender>, frames: &mut Vec<Vec<u8>>) {
        let empty = self.empty_lists.pop().unwrap_or_default();
        let job = Job {
            port,
            frame_sender: frame_sender.clone(),
            frames: mem::replace(frames, empty),
        };
        self.jobs.send(job).expect(ALIVE);
        self.batches_in_thread += 1;
    }

    /// Whether the thread holds batches whose results were not taken.
    pub fn is_busy(&self) -> bool {
        self.batches_in_thread > 0
    }

    /// Takes the next batch that was sent, without waiting; `None` if there is none.
    pub fn next_sent(&mut self) -> Option<SentBatch> {
        if self.batches_in_thread == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.batches_in_thread -= 1;
        Some(done)
    }

    /// Waits for the next batch that was sent. Returns `None` if the thread has no more batches.
    pub fn wait(&mut self) -> Option<SentBatch> {
        if self.batches_in_thread == 0 {
            return None;
        }
        self.batches_in_thread -= 1;
        Some(self.done.recv().expect(ALIVE))
    }

    /// Keeps an empty list of frames for reuse.
    pub fn recycle(&mut self, frames: Vec<Vec<u8>>) {
        if self.empty_lists.len() < MAX_QUEUED {
            self.empty_lists.push(frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], protocol_at: usize, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..14].copy_from_slice(&ethertype);
        frame[protocol_at] = protocol;
        frame
    }

    #[test]
    fn large_batches_of_tcp_are_for_the_thread() {
        let tcp = [frame([0x08, 0x00], 23, 6), frame([0x86, 0xdd], 20, 6)];
        for frame in tcp {
            assert!(is_for_thread(&vec![frame.clone(); MIN_BATCH]));
            assert!(!is_for_thread(&vec![frame; MIN_BATCH - 1]));
        }
        let others = [
            frame([0x08, 0x00], 23, 17),
            frame([0x86, 0xdd], 20, 17),
            frame([0x81, 0x00], 23, 6),
            vec![0x08; 13],
        ];
        for frame in others {
            assert!(!is_for_thread(&vec![frame; MIN_BATCH]));
        }
    }
}
