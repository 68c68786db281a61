//! Memory that servers need only while they process a packet.

use std::collections::VecDeque;
use std::mem;

use alfirk_bmv2::{Output, Queued, SparePackets};

use super::{event::Event, Server};

/// Memory that servers of one thread use in turn ([`Server::exchange_scratch`]): unused buffers, and empty lists.
#[derive(Debug, Default)]
pub struct Scratch {
    packets: SparePackets,
    /// Buffers of frames that are no longer in use.
    buffers: Vec<Vec<u8>>,
    enqueued: Vec<Queued>,
    output: Vec<Output>,
    events: VecDeque<Event>,
    leaving: VecDeque<Queued>,
}

/// Maximum number of unused buffers of frames.
const MAX_BUFFERS: usize = 4096;

impl Scratch {
    /// Adds the buffer of a frame that is no longer in use.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < MAX_BUFFERS {
            self.buffers.push(buffer);
        }
    }
}

impl Server {
    /// Exchanges the server's own memory for `scratch`. A driver of many servers does so before and after a server processes
    /// packets. So all of them use the same memory, which stays in the processor's caches. No effect while events wait.
    pub fn exchange_scratch(&mut self, scratch: &mut Scratch) {
        let fx = &mut self.effects;
        if self.events.is_empty() && fx.enqueued.is_empty() && fx.output.is_empty() {
            self.active.switch.exchange_packets(&mut scratch.packets);
            mem::swap(&mut fx.spare, &mut scratch.buffers);
            mem::swap(&mut fx.enqueued, &mut scratch.enqueued);
            mem::swap(&mut fx.output, &mut scratch.output);
            mem::swap(&mut self.events, &mut scratch.events);
            mem::swap(&mut self.leaving, &mut scratch.leaving);
        }
    }
}
