//! Traces of packets as BMv2 writes them: messages of `packet_trace.proto`.
//!
//! BMv2 traces the received packet, but not its copies. Here each copy has a message of its own, with the number of the
//! packet.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_bmv2::trace::{TraceEvent, TraceLine};
use alfirk_p4runtime::{
    p4::bm::{
        pipeline_stage_event::{Direction, StageKind},
        trace_event, trace_tree, Drop, InputPacket, PacketTrace, PipelineStageEvent,
        TraceEvent as Event, TraceTree, Transmit,
    },
    text,
};

/// Maximum number of packets that wait in queues and are traced. Beyond it, the oldest is returned as it is.
const MAX_WAITING: usize = 4096;

/// The trace of a packet, or of a copy of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyTrace {
    /// Number of the copy; 0 for the received packet.
    pub copy: u32,
    /// The trace.
    pub trace: PacketTrace,
}

impl CopyTrace {
    /// Returns the number of the packet since tracing began, from 0.
    pub fn packet(&self) -> u64 {
        let input = self.trace.input.as_ref();
        input.map_or(0, |input| input.packet_id)
    }

    /// Returns the name of the file: that of BMv2 for a received packet, such as `trace_0.txtpb`, and `trace_0.2.txtpb`
    /// for copy 2 of it.
    pub fn file_name(&self) -> String {
        match self.copy {
            0 => format!("trace_{}.txtpb", self.packet()),
            copy => format!("trace_{}.{copy}.txtpb", self.packet()),
        }
    }

    /// Returns the trace in the text format of protobuf.
    pub fn text(&self) -> String {
        text::to_string(&self.trace)
    }

    /// Returns the trace after a comment with the file's name, which separates traces in one text.
    pub fn named_text(&self) -> String {
        format!("# {}\n{}", self.file_name(), self.text())
    }
}

/// Packet and copy, numbered as in a [`TraceLine`].
type Key = (u64, u32);

/// Composes traces from trace lines, which have the blocks of the program
/// ([`Switch::set_block_trace`](alfirk_bmv2::Switch::set_block_trace)).
#[derive(Debug, Default)]
pub struct PacketTraces {
    /// Traces of packets that are in the switch.
    open: BTreeMap<Key, TraceTree>,
    /// Copies that wait in queues and have no line of their own yet.
    waiting: BTreeSet<Key>,
    /// The packet of the last line, and whether it continues after lines of other packets.
    last: Option<(Key, bool)>,
    /// Ingress ports by the number of the packet.
    ports: BTreeMap<u64, u32>,
}

impl PacketTraces {
    /// Adds lines in their order. Returns the traces that are complete.
    pub fn add<'a>(&mut self, lines: impl IntoIterator<Item = &'a TraceLine>) -> Vec<CopyTrace> {
        let mut complete = Vec::new();
        for line in lines {
            let key = (line.packet, line.copy);
            if self.last.is_some_and(|(last, _)| last != key) {
                complete.extend(self.close_last());
            }
            if let TraceEvent::In { port, .. } = line.event {
                self.ports.insert(line.packet, port);
                if self.ports.len() > MAX_WAITING {
                    self.ports.pop_first();
                }
            }
            self.follow_copies(line);
            let tree = self.open.entry(key).or_default();
            tree.events.extend(event(&line.event));
            tree.outcome = outcome(&line.event).or(tree.outcome.take());
            // A packet that waits in a queue continues, and so does one that was cloned. All others are at their end when
            // lines of another packet follow.
            let continues = matches!(
                line.event,
                TraceEvent::Queued { as_copy: 0, .. } | TraceEvent::Cloned { .. }
            );
            self.last = Some((key, continues));
            if self.open.len() > MAX_WAITING {
                let oldest = self.open.first_key_value().map(|(key, _)| *key);
                complete.extend(oldest.and_then(|key| self.close(key)));
            }
        }
        complete
    }

    /// Adds a copy that the line enqueues to those that wait, and removes the copy of the line.
    fn follow_copies(&mut self, line: &TraceLine) {
        self.waiting.remove(&(line.packet, line.copy));
        if let TraceEvent::Queued { as_copy, .. } = line.event {
            if as_copy != 0 {
                self.waiting.insert((line.packet, as_copy));
            }
            if self.waiting.len() > MAX_WAITING {
                self.waiting.pop_first();
            }
        }
    }

    /// Ends the packet of the last line, unless it waits in a queue. Called when the switch has nothing else to do.
    pub fn close_last(&mut self) -> Option<CopyTrace> {
        match self.last.take() {
            Some((key, false)) => self.close(key),
            _ => None,
        }
    }

    /// Whether no traced packet is in the switch.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Returns the traces of all packets that are in the switch.
    pub fn finish(&mut self) -> Vec<CopyTrace> {
        let keys: Vec<Key> = self.open.keys().copied().collect();
        keys.into_iter().filter_map(|key| self.close(key)).collect()
    }

    fn close(&mut self, key: Key) -> Option<CopyTrace> {
        let root = self.open.remove(&key)?;
        let (packet, copy) = key;
        let input = InputPacket {
            packet_id: packet.saturating_sub(1),
            ingress_port: self.ports.get(&packet).copied().unwrap_or(0),
        };
        let trace = PacketTrace {
            input: Some(input),
            root: Some(root),
        };
        Some(CopyTrace { copy, trace })
    }
}

/// Returns the traces of the packets of complete trace lines, ordered by packet and copy.
pub fn packet_traces(lines: &[TraceLine]) -> Vec<CopyTrace> {
    let mut traces = PacketTraces::default();
    let mut all = traces.add(lines);
    all.extend(traces.finish());
    all.sort_by_key(|trace| (trace.packet(), trace.copy));
    all
}

fn event(event: &TraceEvent) -> Option<Event> {
    let TraceEvent::Block { block, starts } = event else {
        return None;
    };
    let kind = if block.ends_with("deparser") {
        StageKind::Deparser
    } else if block.ends_with("parser") {
        StageKind::Parser
    } else {
        StageKind::Control
    };
    let direction = match starts {
        true => Direction::Enter,
        false => Direction::Exit,
    };
    let stage = PipelineStageEvent {
        stage_name: (*block).to_owned(),
        stage_kind: kind.into(),
        direction: direction.into(),
    };
    Some(Event {
        event: Some(trace_event::Event::PipelineStage(stage)),
    })
}

fn outcome(event: &TraceEvent) -> Option<trace_tree::Outcome> {
    match event {
        TraceEvent::Out { port, bytes } => Some(trace_tree::Outcome::Transmit(Transmit {
            egress_port: *port,
            packet_size: u32::try_from(*bytes).unwrap_or(u32::MAX),
        })),
        TraceEvent::Dropped { .. } => Some(trace_tree::Outcome::Drop(Drop {})),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_bmv2::trace::Observers;

    fn line(copy: u32, event: TraceEvent) -> TraceLine {
        TraceLine {
            packet: 1,
            copy,
            event,
            observers: Observers::default(),
        }
    }

    #[test]
    fn copies_in_queues_are_in_the_switch() {
        let queued = |as_copy| TraceEvent::Queued {
            port: 2,
            priority: 0,
            rid: 0,
            as_copy,
        };
        let mut traces = PacketTraces::default();
        let received = TraceEvent::In { port: 1, bytes: 9 };
        traces.add(&[line(0, received), line(0, queued(1)), line(0, queued(2))]);
        assert_eq!(traces.close_last().map(|trace| trace.copy), Some(0));
        assert!(!traces.is_empty());
        let reason = "queue_full";
        traces.add(&[line(1, TraceEvent::Dropped { reason })]);
        assert_eq!(traces.close_last().map(|trace| trace.copy), Some(1));
        assert!(!traces.is_empty());
        traces.add(&[line(2, TraceEvent::Out { port: 2, bytes: 9 })]);
        assert_eq!(traces.close_last().map(|trace| trace.copy), Some(2));
        assert!(traces.is_empty());
        assert!(traces.finish().is_empty());
    }
}
