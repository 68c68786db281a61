//! Traces of the packets that a switch receives.

use std::collections::BTreeMap;

use alfirk_bmv2::trace::{trees, PacketTree, TraceEvent, TraceLine};

/// A frame that a switch has received, and how its pipelines processed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// Time at which the ingress began, in nanoseconds.
    pub time: u64,
    /// Ingress port.
    pub port: u32,
    /// The frame, from the Ethernet header to the last byte before the FCS.
    pub frame: Vec<u8>,
    /// The trace, with the packet's copies.
    pub trace: PacketTree,
}

/// Frames of one switch, and the lines of their traces. Further frames are not kept.
pub(super) struct PacketTraces {
    /// Maximum number of frames.
    limit: usize,
    /// Time, port and bytes of each frame, by its number in the trace.
    frames: BTreeMap<u64, (u64, u32, Vec<u8>)>,
    lines: Vec<TraceLine>,
}

impl PacketTraces {
    pub fn new(limit: usize) -> PacketTraces {
        PacketTraces {
            limit,
            frames: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Whether another frame can be kept.
    pub fn has_space(&self) -> bool {
        self.frames.len() < self.limit
    }

    /// Adds lines of frames that were received earlier.
    pub fn add(&mut self, mut lines: Vec<TraceLine>) {
        lines.retain(|line| self.frames.contains_key(&line.packet));
        self.lines.extend(lines);
    }

    /// Adds a frame with the lines of the trace that it has begun.
    pub fn add_frame(&mut self, time: u64, port: u32, frame: Vec<u8>, lines: Vec<TraceLine>) {
        let is_start = |line: &&TraceLine| matches!(line.event, TraceEvent::In { .. });
        // A link that is down receives no frame.
        if let Some(start) = lines.iter().find(is_start) {
            self.frames.insert(start.packet, (time, port, frame));
        }
        self.add(lines);
    }

    /// Removes and returns the packets, in the order of their arrival.
    pub fn take(&mut self) -> Vec<TracedPacket> {
        let all = trees(&std::mem::take(&mut self.lines)).into_iter();
        let packets = all.filter_map(|trace| {
            let (time, port, frame) = self.frames.remove(&trace.packet)?;
            Some(TracedPacket {
                time,
                port,
                frame,
                trace,
            })
        });
        packets.collect()
    }
}
