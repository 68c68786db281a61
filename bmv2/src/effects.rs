//! What processing a packet brings about.

use crate::drop_reason::DropReason;
use crate::exec::ops::Slot;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest};
use crate::program::Meta;
use crate::steps::LogLine;
use crate::trace::TraceLine;
use alfirk_packet_io::frame::SplitFrame;
use std::sync::Arc;

/// Collects the effects of [`Switch::ingress`](crate::Switch::ingress) and
/// [`Switch::egress`](crate::Switch::egress). The caller empties it; nothing is ever removed here.
#[derive(Debug, Default)]
pub struct Effects {
    /// Packets for the queues of their egress ports, in order.
    pub enqueued: Vec<Queued>,
    /// Frames to send.
    pub output: Vec<Output>,
    /// Messages of `digest`.
    pub digests: Vec<Digest>,
    /// Packets that went nowhere, and why.
    pub dropped: Vec<DropReason>,
    /// Lines of `log_msg`, and failed assertions.
    pub logs: Vec<String>,
    /// What happened to packets, when the switch traces.
    pub trace: Vec<TraceLine>,
    /// The same in the words of BMv2's log, when the switch logs.
    pub log: Vec<LogLine>,
    /// Used frames given back, so that the next ones need no memory. Optional.
    pub spare: Vec<Vec<u8>>,
}

impl Effects {
    /// Forgets everything but the spare memory.
    pub fn clear(&mut self) {
        self.enqueued.clear();
        self.output.clear();
        self.digests.clear();
        self.dropped.clear();
        self.logs.clear();
        self.trace.clear();
        self.log.clear();
    }

    /// Takes all output frames and gives their memory back.
    pub fn recycle(&mut self) {
        let heads = self.output.drain(..).map(|output| output.frame);
        self.spare.extend(heads.map(|frame| frame.into_parts().0));
    }
}

/// A packet between ingress and egress.
#[derive(Debug)]
pub struct Queued {
    /// The egress port whose queue it belongs to.
    pub port: u32,
    /// Of the queue, from `standard_metadata.priority` or the clone session; higher goes first.
    pub priority: u8,
    /// Bytes on the wire as far as known now, for the queue's depth in bytes.
    pub len: usize,
    /// Which load of a program it belongs to.
    pub(crate) generation: u64,
    pub(crate) packet: Held,
}

/// A packet in a queue.
#[derive(Debug)]
pub(crate) enum Held {
    Own(Box<Packet>),
    /// One of several copies. They differ in no more than this until they leave their queues, so that each is made then, in memory that
    /// the one before has just been in.
    Copy {
        of: Arc<Original>,
        /// The replication id, and the number in traces and the log.
        rid: u16,
        copy: u32,
    },
}

/// What copies are made of.
#[derive(Debug)]
pub(crate) struct Original(pub Box<Packet>);

/// A packet within the switch.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// See `Layout`.
    pub words: Box<[u64]>,
    /// The bytes it came in with, shared by all of its copies. None only in spare packets.
    pub frame: Option<Arc<Frame>>,
    /// Where in them the payload begins.
    pub payload: usize,
    pub ctx: Context,
}

impl Packet {
    /// What comes behind the parsed headers.
    pub fn rest<'a>(frame: &'a Option<Arc<Frame>>, payload: usize) -> Rest<'a> {
        match frame {
            Some(frame) => Rest::new(frame, payload),
            None => Rest::NONE,
        }
    }

    pub fn frame(&self) -> &Frame {
        static EMPTY: Frame = Frame::empty();
        self.frame.as_deref().unwrap_or(&EMPTY)
    }
}

/// What the queue reports about a packet that leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// When it was enqueued, in nanoseconds.
    pub enq_timestamp: u64,
    /// Packets in the queue when it was enqueued, and now.
    pub enq_qdepth: u32,
    pub deq_qdepth: u32,
}

/// A frame that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub port: u32,
    /// With a tail where the packet came in with one: [`Switch::ingress_owned`](crate::Switch::ingress_owned).
    pub frame: SplitFrame,
}

/// One message of a `digest` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The learn list's number and name in the program.
    pub list: u32,
    pub name: String,
    /// The fields in order, big-endian, each in as many bytes as its width needs.
    pub fields: Vec<Vec<u8>>,
}

/// A word of metadata.
pub(crate) fn set(words: &mut [u64], field: Option<Meta>, value: u64) {
    if let Some(field) = field {
        words[slot(field.slot)] = value & field.mask;
    }
}

pub(crate) fn get(words: &[u64], field: Option<Meta>) -> u64 {
    field.map_or(0, |field| words[slot(field.slot)])
}

fn slot(slot: Slot) -> usize {
    usize::from(slot)
}
