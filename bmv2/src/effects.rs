//! Effects of processing a packet.

use crate::drop_reason::DropReason;
use crate::exec::ops::Slot;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest, SharedFrame};
use crate::program::Meta;
use crate::steps::LogLine;
use crate::trace::TraceLine;
use alfirk_packet_io::frame::SplitFrame;
use std::sync::Arc;

/// Effects of processing packets by [`Switch::ingress`](crate::Switch::ingress) and
/// [`Switch::egress`](crate::Switch::egress). The switch appends to the lists; the caller takes from them.
#[derive(Debug, Default)]
pub struct Effects {
    /// Packets for the queues of their egress ports, in order.
    pub enqueued: Vec<Queued>,
    /// Frames to send, each with its egress port.
    pub output: Vec<Output>,
    /// Messages for the control plane, which `digest` calls have sent.
    pub digests: Vec<Digest>,
    /// Reason for each packet that was dropped, in order.
    pub dropped: Vec<DropReason>,
    /// Texts of `log_msg` calls and of failed assertions.
    pub logs: Vec<String>,
    /// Steps of packets, if tracing is on ([`Switch::set_trace`](crate::Switch::set_trace)).
    pub trace: Vec<TraceLine>,
    /// Log lines in BMv2's format, if the log is on ([`Switch::set_log`](crate::Switch::set_log)).
    pub log: Vec<LogLine>,
    /// Buffers of frames that are no longer in use. The switch takes buffers from this list and adds to it, to avoid
    /// allocations.
    pub spare: Vec<Vec<u8>>,
}

impl Effects {
    /// Clears all lists except the spare buffers.
    #[inline]
    pub fn clear(&mut self) {
        /// Clears a list. Most lists are empty, and dropping no elements is a call all the same.
        #[inline]
        fn clear<T>(list: &mut Vec<T>) {
            if !list.is_empty() {
                list.clear();
            }
        }
        clear(&mut self.enqueued);
        clear(&mut self.output);
        clear(&mut self.digests);
        clear(&mut self.dropped);
        clear(&mut self.logs);
        clear(&mut self.trace);
        clear(&mut self.log);
    }

    /// Adds a frame to the output.
    #[inline(always)]
    pub(crate) fn send(&mut self, port: u32, frame: SplitFrame) {
        let sent = self.output.len();
        self.output.reserve(1);
        // `push` is a call that copies the frame once more, from bytes that were written just before, so it waits for them.
        if let Some(next) = self.output.spare_capacity_mut().first_mut() {
            next.write(Output { port, frame });
            // SAFETY: the element after the others is written.
            unsafe { self.output.set_len(sent + 1) };
        }
    }

    /// Takes all output frames and keeps their buffers as spare ones.
    #[inline]
    pub fn recycle(&mut self) {
        while let Some(Output { frame, .. }) = self.output.pop() {
            self.spare.push(frame.into_parts().0);
        }
    }
}

/// A packet that waits in a queue between ingress and egress.
#[derive(Debug)]
pub struct Queued {
    /// Egress port in whose queue the packet waits.
    pub port: u32,
    /// Priority of the queue, from `standard_metadata.priority` or the clone session; the highest is served first.
    pub priority: u8,
    /// Estimated length of the frame in bytes, by which the caller can compute the queue's depth in bytes.
    pub len: usize,
    /// Number of the program load (1 for the first program, then counting up) under which the packet was received.
    pub(crate) generation: u64,
    pub(crate) packet: QueuedPacket,
}

/// The contents of a queue entry: the packet, or one of several copies of a shared packet.
#[derive(Debug)]
pub(crate) enum QueuedPacket {
    /// A packet whose data no other queue entry shares.
    Own(Box<Packet>),
    /// One of several copies of a packet, which share its data while they are queued and differ only in these two
    /// values. The copy is created when it leaves its queue, in the memory of the previous copy.
    Copy {
        of: Arc<SharedPacket>,
        /// Replication id of the copy (`egress_rid`).
        rid: u16,
        /// Number that identifies the copy in traces and the log.
        copy: u32,
    },
}

/// A packet that is shared by its queued copies.
#[derive(Debug)]
pub(crate) struct SharedPacket(pub Box<Packet>);

/// A packet that the switch processes or that waits in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Values of the P4 fields, the action parameters and temporaries, in 64-bit words at the positions of `Layout`.
    pub words: Box<[u64]>,
    /// Bytes of the received frame, shared by all copies of the packet. `None` only in pooled packets that are not in
    /// use.
    pub frame: Option<SharedFrame>,
    /// Offset of the payload in the received frame, in bytes. The payload follows the parsed headers.
    pub payload: usize,
    /// State of processing that no P4 field holds, such as requested clones.
    pub ctx: Context,
}

impl Packet {
    /// Returns the bytes after the parsed headers.
    pub fn rest<'a>(frame: &'a Option<SharedFrame>, payload: usize) -> Rest<'a> {
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

/// State of a queue at the time when a packet leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Time at which the packet was enqueued, in nanoseconds since the switch started.
    pub enq_timestamp: u64,
    /// Number of packets in the queue when the packet was enqueued.
    pub enq_qdepth: u32,
    /// Number of packets in the queue when the packet is dequeued.
    pub deq_qdepth: u32,
}

/// A frame that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Egress port to which the frame is sent.
    pub port: u32,
    /// The frame; it has a tail if the packet was received with one by
    /// [`Switch::ingress_owned`](crate::Switch::ingress_owned).
    pub frame: SplitFrame,
}

/// A message for the control plane, sent by a `digest` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Id of the learn list, which is the program's list of fields to send.
    pub list: u32,
    /// Name of the learn list.
    pub name: String,
    /// Field values in order, big-endian, each padded to whole bytes of its width.
    pub fields: Vec<Vec<u8>>,
}

/// Sets a metadata field; does nothing if the program does not have the field.
pub(crate) fn set(words: &mut [u64], field: Option<Meta>, value: u64) {
    if let Some(field) = field {
        words[slot(field.slot)] = value & field.mask;
    }
}

/// Sets metadata fields to the values in the same order.
pub(crate) fn set_all(words: &mut [u64], fields: &[Option<Meta>], values: &[u64]) {
    for (field, value) in fields.iter().zip(values) {
        set(words, *field, *value);
    }
}

/// Sets a metadata field to a value that no assignment can give it, so that it equals none; does nothing if the program
/// does not have the field.
pub(crate) fn set_unassigned(words: &mut [u64], field: Option<Meta>) {
    if let Some(field) = field {
        words[slot(field.slot)] = field.mask.wrapping_add(1);
    }
}

/// Returns a metadata field; 0 if the program does not have it.
pub(crate) fn get(words: &[u64], field: Option<Meta>) -> u64 {
    field.map_or(0, |field| words[slot(field.slot)])
}

fn slot(slot: Slot) -> usize {
    usize::from(slot)
}
