//! Effects of processing a packet.

use crate::drop_reason::DropReason;
use crate::exec::ops::Slot;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest};
use crate::program::Meta;
use crate::steps::LogLine;
use crate::trace::TraceLine;
use alfirk_packet_io::frame::SplitFrame;
use std::sync::Arc;

/// Receives the effects of [`Switch::ingress`](crate::Switch::ingress) and [`Switch::egress`](crate::Switch::egress).
/// The switch only appends; the caller removes.
#[derive(Debug, Default)]
pub struct Effects {
    /// Packets for the queues of their egress ports, in order.
    pub enqueued: Vec<Queued>,
    /// Frames to send.
    pub output: Vec<Output>,
    /// `digest` messages.
    pub digests: Vec<Digest>,
    /// Reasons of the dropped packets.
    pub dropped: Vec<DropReason>,
    /// Lines of `log_msg`, and failed assertions.
    pub logs: Vec<String>,
    /// Trace lines, when the switch traces.
    pub trace: Vec<TraceLine>,
    /// Log lines in BMv2's format, when the switch logs.
    pub log: Vec<LogLine>,
    /// Returned buffers of used frames, to avoid allocations. Optional.
    pub spare: Vec<Vec<u8>>,
}

impl Effects {
    /// Clears everything but the spare buffers.
    pub fn clear(&mut self) {
        self.enqueued.clear();
        self.output.clear();
        self.digests.clear();
        self.dropped.clear();
        self.logs.clear();
        self.trace.clear();
        self.log.clear();
    }

    /// Takes all output frames and keeps their buffers as spare ones.
    pub fn recycle(&mut self) {
        let heads = self.output.drain(..).map(|output| output.frame);
        self.spare.extend(heads.map(|frame| frame.into_parts().0));
    }
}

/// A packet between ingress and egress.
#[derive(Debug)]
pub struct Queued {
    /// Egress port in whose queue the packet waits.
    pub port: u32,
    /// Priority of the queue, from `standard_metadata.priority` or the clone session; the highest goes first.
    pub priority: u8,
    /// Estimated length on the wire in bytes, for the queue's depth in bytes.
    pub len: usize,
    /// Number of the program load that created the packet.
    pub(crate) generation: u64,
    pub(crate) packet: QueuedPacket,
}

/// The contents of a queued packet.
#[derive(Debug)]
pub(crate) enum QueuedPacket {
    Own(Box<Packet>),
    /// One of several copies, which differ only in these values while they are queued. Each is made when it leaves its
    /// queue, so that it reuses the memory of the copy before.
    Copy {
        of: Arc<SharedPacket>,
        /// Replication id, and number of the copy in traces and the log.
        rid: u16,
        copy: u32,
    },
}

/// A packet shared by its queued copies.
#[derive(Debug)]
pub(crate) struct SharedPacket(pub Box<Packet>);

/// A packet within the switch.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Fields, parameters and temporaries; see `Layout`.
    pub words: Box<[u64]>,
    /// Bytes of the received frame, shared by all copies. `None` only in spare packets.
    pub frame: Option<Arc<Frame>>,
    /// Offset of the payload in the frame.
    pub payload: usize,
    pub ctx: Context,
}

impl Packet {
    /// Returns the bytes after the parsed headers.
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

/// State of the queue when a packet leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Time of enqueueing, in nanoseconds.
    pub enq_timestamp: u64,
    /// Number of packets in the queue at the time of enqueueing, and now.
    pub enq_qdepth: u32,
    pub deq_qdepth: u32,
}

/// A frame that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub port: u32,
    /// Has a tail if the packet was received with one: [`Switch::ingress_owned`](crate::Switch::ingress_owned).
    pub frame: SplitFrame,
}

/// One message of a `digest` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Number and name of the learn list in the program.
    pub list: u32,
    pub name: String,
    /// Field values in order, big-endian, each padded to whole bytes of its width.
    pub fields: Vec<Vec<u8>>,
}

/// Sets a metadata field, if the program has it.
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
