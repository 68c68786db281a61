//! The recorder of a switch.

use std::collections::{BTreeMap, VecDeque};

use super::stops::StopRecorder;
use super::{FrameFilter, Observers, TraceEvent, TraceLine};
use crate::exec::headers::is_valid;
use crate::exec::words::words_of;
use crate::numbers::number;
use crate::program::{Field, Header, LoadedProgram};
use crate::steps::{LogLine, Step};

/// Records the steps of packets for traces and the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    /// Number of frames received since recording began.
    pub packets: u64,
    /// Number of the packet whose steps are being recorded.
    packet: u64,
    /// The words of the packet whose steps are being recorded, at the time of the last record of changes.
    seen: Vec<u64>,
    states: Vec<String>,
    /// The observers of traces, each with its condition on received frames.
    observers: Vec<(u8, Option<FrameFilter>)>,
    /// The last [`CHOSEN_PACKETS`] packets that observers have chosen, in the order of their numbers.
    chosen: VecDeque<(u64, Observers)>,
    /// The observers of the packet whose steps are being recorded.
    observed_by: Observers,
    /// The switch's generation in which the recorder was created. Packets of older ones have no number of it.
    pub since: u64,
    /// Whether traces have the start and the end of each block.
    pub blocks: bool,
    /// Whether the packet log is recorded.
    pub logs: bool,
    /// Number of frames logged under previous programs.
    pub logged: u64,
    /// Number by which the log identifies the copy whose steps are being recorded.
    copy: u32,
    /// Number of copies made of each packet, for the last [`COUNTED_PACKETS`] packets.
    copies: Vec<u32>,
    pub lines: Vec<TraceLine>,
    pub log: Vec<LogLine>,
    /// Stops of a debugger, if there is one.
    pub stops: Option<Box<StopRecorder>>,
}

/// Number of packets for which copies are counted. With more packets in the switch, the numbers of copies may repeat.
const COUNTED_PACKETS: usize = 4096;

/// Number of chosen packets whose traces go on. With more of them in the switch, the traces of the oldest end.
const CHOSEN_PACKETS: usize = 1 << 16;

/// Maximum number of recorded lines between two calls that take them. Further lines are discarded, so that a program
/// that loops does not fill the memory.
const MAX_LINES: usize = 10_000;

impl Recorder {
    /// Creates a recorder that records nothing yet. `logged`: number of frames logged before. `since`: the switch's generation.
    pub fn new(logged: u64, since: u64) -> Recorder {
        Recorder {
            logged,
            since,
            copies: vec![0; COUNTED_PACKETS],
            ..Recorder::default()
        }
    }

    /// Changes the observers. Packets that the remaining ones have chosen stay theirs.
    pub fn set_observers(&mut self, observers: &BTreeMap<u8, Option<FrameFilter>>) {
        let all: Observers = observers.keys().copied().collect();
        for (_, chosen_by) in &mut self.chosen {
            *chosen_by = chosen_by.and(all);
        }
        self.chosen.retain(|(_, chosen_by)| !chosen_by.is_empty());
        self.observed_by = self.observed_by.and(all);
        let observers = observers.iter();
        self.observers = observers
            .map(|(of, filter)| (*of, filter.clone()))
            .collect();
    }

    /// Records a step for the log, if the log is on.
    #[inline]
    pub fn log(&mut self, step: impl FnOnce() -> Step) {
        if self.logs && self.log.len() < MAX_LINES {
            let packet = self.logged + self.packet.saturating_sub(1);
            let copy = self.copy;
            let step = step();
            self.log.push(LogLine { packet, copy, step });
        }
    }

    /// Starts recording a received packet, and returns its number.
    pub fn begin(&mut self, frame: &[u8]) -> u64 {
        self.packets += 1;
        let number = self.packets;
        if let Some(copies) = self.copies_of(number) {
            *copies = 0;
        }
        let chosen_by = self.observers.iter().filter(|(_, filter)| {
            let filter = filter.as_ref();
            filter.is_none_or(|filter| filter.holds(frame))
        });
        let chosen_by: Observers = chosen_by.map(|(observer, _)| *observer).collect();
        if !chosen_by.is_empty() {
            if self.chosen.len() == CHOSEN_PACKETS {
                self.chosen.pop_front();
            }
            self.chosen.push_back((number, chosen_by));
        }
        number
    }

    /// Whether the steps of the selected packet are traced.
    pub fn is_tracing(&self) -> bool {
        !self.observed_by.is_empty()
    }

    /// Returns the observers that have chosen a packet.
    fn observers_of(&self, packet: u64) -> Observers {
        let at = self
            .chosen
            .binary_search_by_key(&packet, |(number, _)| *number);
        let chosen = at.ok().and_then(|at| self.chosen.get(at));
        chosen.map_or(Observers::default(), |(_, chosen_by)| *chosen_by)
    }

    /// Returns the number of the next copy of a packet, counted from 1.
    pub fn copy_number(&mut self, packet: u64) -> u32 {
        self.copies_of(packet).map_or(0, |copies| {
            *copies += 1;
            *copies
        })
    }

    fn copies_of(&mut self, packet: u64) -> Option<&mut u32> {
        self.copies.get_mut(packet as usize % COUNTED_PACKETS)
    }

    pub fn record(&mut self, event: TraceEvent) {
        let (packet, copy) = (self.packet, self.copy);
        if self.is_tracing() && self.lines.len() < MAX_LINES {
            if let Some(stops) = &mut self.stops {
                stops.line((packet, copy), &event);
            }
            self.lines.push(TraceLine {
                packet,
                copy,
                event,
                observers: self.observed_by,
            });
        }
    }

    /// Records that the packet, or the copy with this number of it, was enqueued.
    pub fn queued(&mut self, port: u32, priority: u8, rid: u64, copy: u32) {
        let as_copy = if copy == self.copy { 0 } else { copy };
        self.record(TraceEvent::Queued {
            port,
            priority,
            rid,
            as_copy,
        });
    }

    /// Returns the numbers of the packet and copy whose steps are being recorded.
    pub fn selected(&self) -> (u64, u32) {
        (self.packet, self.copy)
    }

    /// Sets the block that processes the packet, and records its start.
    pub fn enter_block(&mut self, block: &'static str) {
        if let Some(stops) = &mut self.stops {
            stops.enter_block(block);
        }
        self.block(block, true);
    }

    /// Records the end of a block.
    pub fn leave_block(&mut self, block: &'static str) {
        self.block(block, false);
    }

    fn block(&mut self, block: &'static str, starts: bool) {
        if self.blocks {
            self.record(TraceEvent::Block { block, starts });
        }
    }

    /// Selects the packet and copy to which the following steps belong.
    pub fn select_packet(&mut self, packet: u64, copy: u32, phv: &[u64]) {
        (self.packet, self.copy) = (packet, copy);
        self.observed_by = self.observers_of(packet);
        self.see(phv);
    }

    fn see(&mut self, phv: &[u64]) {
        self.seen.clear();
        self.seen.extend_from_slice(phv);
    }

    pub fn parser_state(&mut self, name: &str) {
        if self.is_tracing() {
            self.states.push(name.to_owned());
        }
        self.log(|| Step::State(name.to_owned()));
    }

    /// Records the result of the parser.
    pub fn parsed(&mut self, program: &LoadedProgram, phv: &[u64], payload: usize) {
        if !self.is_tracing() {
            return;
        }
        let headers = program.layout.headers.iter();
        let valid = headers.filter(|h| !h.metadata && is_valid(h, phv));
        let error = program.intrinsic.parser_error.and_then(|field| {
            let code = phv[usize::from(field.slot)];
            let no_error = program.parser.errors.no_error & field.mask;
            (code != no_error).then(|| program.error_name(code))
        });
        let event = TraceEvent::Parsed {
            states: std::mem::take(&mut self.states),
            headers: valid.map(|h| h.name.clone()).collect(),
            payload,
            error,
        };
        self.record(event);
        self.see(phv);
    }

    /// Records the fields that have changed since the last call.
    pub fn changes(&mut self, program: &LoadedProgram, phv: &[u64]) {
        let end = program.layout.state_end;
        if !self.is_tracing() || self.seen.get(..end) == phv.get(..end) {
            return;
        }
        let seen = std::mem::take(&mut self.seen);
        for h in &program.layout.headers {
            self.header_changes(program, h, &seen, phv);
        }
        self.seen = seen;
        self.see(phv);
    }

    fn header_changes(&mut self, program: &LoadedProgram, h: &Header, seen: &[u64], phv: &[u64]) {
        if !h.metadata {
            let at = usize::from(h.valid);
            if seen[at] != phv[at] {
                let field = format!("{}.{}", h.name, alfirk_bmv2_json::FieldRef::VALID);
                self.changed(field, &seen[at..=at], &phv[at..=at]);
            }
            if phv[at] == 0 {
                return;
            }
        }
        for f in &h.fields {
            let words = words_at(f);
            if seen[words.clone()] != phv[words.clone()] {
                let field = program.source_name(&h.name, &f.name);
                self.changed(field, &seen[words.clone()], &phv[words]);
            }
        }
    }

    fn changed(&mut self, field: String, before: &[u64], after: &[u64]) {
        let (before, after) = (number(before), number(after));
        self.record(TraceEvent::Changed {
            field,
            before,
            after,
        });
    }
}

fn words_at(f: &Field) -> std::ops::Range<usize> {
    let start = usize::from(f.slot);
    start..start + words_of(f.bits)
}
