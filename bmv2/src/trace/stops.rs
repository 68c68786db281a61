//! Stops of a debugger: the places at which it can halt a packet, with everything that changed between them.
//!
//! The recording is data: a debugger moves forward and backward in it without running the program again. A debugger
//! changes a value by an [`Override`], with which the packet is executed again.

use super::{Source, TraceEvent};
use crate::exec::big::Big;
use crate::externs::register::Register;
use crate::program::{source, LoadedProgram, Note};
use crate::state::State;
use alfirk_bmv2_json::SourceInfo;

/// Maximum number of stops between two calls that take them. Further stops are not recorded, so that a program that
/// loops does not fill the memory.
pub const MAX_STOPS: usize = 200_000;

/// Steps of packets, in order, with the changes between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// The stops, in order.
    pub stops: Vec<Stop>,
    /// Changes of packets' words, in order. See [`Stop::words`].
    pub words: Vec<WordChange>,
    /// Accesses to cells of arrays, in order. See [`Stop::cells`].
    pub cells: Vec<CellAccess>,
}

/// A place at which a debugger can halt. The packet has not executed the statement there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Number of the received frame, as in [`TraceLine`](super::TraceLine).
    pub packet: u64,
    /// Number of the copy, as in [`TraceLine`](super::TraceLine).
    pub copy: u32,
    /// Kind of the place.
    pub kind: StopKind,
    /// Programmable block that processes the packet: `parser`, `ingress`, `egress`, `deparser`, or on Tofino the same with
    /// the gress in front.
    pub block: &'static str,
    /// Index of the running action in the list of the program's actions; `None` outside of actions.
    pub action: Option<u16>,
    /// Index of the applied table whose action runs; `None` if no table runs an action.
    pub table: Option<u16>,
    /// Position in the P4 source, if the program states it.
    pub source: Option<Source>,
    /// Number of word changes before this stop: an end index in [`Stops::words`].
    pub words: usize,
    /// Number of cell accesses before this stop: an end index in [`Stops::cells`].
    pub cells: usize,
    /// Number of trace lines before this stop, since the last call that took the stops.
    pub lines: usize,
}

/// Kind of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// A parser enters the state with this name.
    ParserState(String),
    /// A parser executes the statement with this index, from 0, of the current state.
    ParserStatement(usize),
    /// A parser selects the next state.
    ParserTransition,
    /// An `if` statement.
    Condition,
    /// A statement of a control or an action.
    Statement,
    /// A table is applied. The stop is before the lookup.
    Table,
    /// An action begins.
    Action,
    /// The trace line with index [`Stop::lines`] was recorded: the packet was received, copied, sent or dropped.
    Event,
}

/// A change of a word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordChange {
    /// Index of the word.
    pub slot: u16,
    /// Value before the change.
    pub before: u64,
    /// Value after the change.
    pub after: u64,
}

/// An access to a cell of a register or counter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellAccess {
    /// Kind of the array.
    pub kind: CellKind,
    /// Index of the array in the list of the program's arrays of this kind.
    pub array: u16,
    /// Index of the cell.
    pub index: u64,
    /// Whether the access has written the cell.
    pub written: bool,
    /// Value of the cell after the access.
    pub value: CellValue,
}

/// Kind of an array with cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// A register array.
    Register,
    /// A counter array.
    Counter,
}

/// Value of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellValue {
    /// Value of a register cell: 64-bit words, least significant first.
    Register(Vec<u64>),
    /// Packets and bytes of a counter cell.
    Counter(u64, u64),
}

/// A value that a debugger sets at a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Index of the stop in [`Stops::stops`].
    pub stop: usize,
    /// What is set.
    pub target: OverrideTarget,
    /// The value: 64-bit words, least significant first.
    pub value: Vec<u64>,
}

/// What an [`Override`] sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideTarget {
    /// Words of the packet, from the word with this index on.
    Words(u16),
    /// A cell of a register array, by the indices of array and cell.
    Register(u16, u64),
}

/// Records stops for a debugger.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopRecorder {
    pub stops: Stops,
    overrides: Vec<Override>,
    /// Words of the packet at the last stop.
    seen: Vec<u64>,
    block: &'static str,
    action: Option<u16>,
    table: Option<u16>,
    /// Whether the running action is a statement of a control.
    is_statement: bool,
    /// Number of trace lines since the stops were taken.
    lines: usize,
}

impl StopRecorder {
    pub fn new(overrides: Vec<Override>) -> StopRecorder {
        StopRecorder {
            overrides,
            ..StopRecorder::default()
        }
    }

    /// Sets the block that processes the packet from now on.
    pub fn enter_block(&mut self, name: &'static str) {
        self.block = name;
        (self.action, self.table) = (None, None);
    }

    fn push(&mut self, (packet, copy): (u64, u32), kind: StopKind, source: Option<Source>) {
        if self.stops.stops.len() < MAX_STOPS {
            self.stops.stops.push(Stop {
                packet,
                copy,
                kind,
                block: self.block,
                action: self.action,
                table: self.table,
                source,
                words: self.stops.words.len(),
                cells: self.stops.cells.len(),
                lines: self.lines,
            });
        }
    }

    /// Records the words that differ from those at the last stop.
    fn see(&mut self, program: &LoadedProgram, phv: &[u64]) {
        let layout = &program.layout;
        let arguments = program.actions.iter().map(|action| action.words).max();
        let params = usize::from(layout.params);
        let params = params..params + arguments.unwrap_or(0);
        self.seen.resize(phv.len(), 0);
        for slot in (0..layout.state_end).chain(params) {
            let (before, after) = (self.seen[slot], phv[slot]);
            if before != after {
                self.seen[slot] = after;
                let slot = slot as u16;
                self.stops.words.push(WordChange {
                    slot,
                    before,
                    after,
                });
            }
        }
    }

    /// Counts a trace line, and records a stop if the line is one at which a debugger can halt.
    pub fn line(&mut self, packet: (u64, u32), event: &TraceEvent) {
        let is_stop = matches!(
            event,
            TraceEvent::In { .. }
                | TraceEvent::Egress { .. }
                | TraceEvent::Cloned { .. }
                | TraceEvent::NoSession { .. }
                | TraceEvent::Multicast { .. }
                | TraceEvent::Resubmitted { .. }
                | TraceEvent::Recirculated { .. }
                | TraceEvent::Out { .. }
                | TraceEvent::Dropped { .. }
        );
        if is_stop {
            self.push(packet, StopKind::Event, None);
        }
        self.lines += 1;
    }

    pub fn take(&mut self) -> Stops {
        self.lines = 0;
        // The words of the next recording are complete changes from zero.
        self.seen.clear();
        std::mem::take(&mut self.stops)
    }
}

/// Records a stop, if a debugger records; sets the values that the debugger has changed there.
pub(crate) fn stop(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    place: impl FnOnce() -> (StopKind, Option<Source>),
) {
    let Some(mut recorder) = state.recorder.take() else {
        return;
    };
    let packet = recorder.selected();
    if let Some(stops) = &mut recorder.stops {
        let at = stops.stops.stops.len();
        for set in stops.overrides.iter().filter(|set| set.stop == at) {
            match set.target {
                OverrideTarget::Words(slot) => {
                    let slot = usize::from(slot);
                    if let Some(words) = phv.get_mut(slot..slot + set.value.len()) {
                        words.copy_from_slice(&set.value);
                    }
                }
                OverrideTarget::Register(array, index) => {
                    if let Some(cells) = state.registers.get_mut(usize::from(array)) {
                        cells.write(index, &Big::from_unsigned(&set.value));
                        let access = register_access(&state.registers, array, index, true);
                        stops.stops.cells.push(access);
                    }
                }
            }
        }
        stops.see(program, phv);
        let (kind, source) = place();
        stops.push(packet, kind, source);
    }
    state.recorder = Some(recorder);
}

/// Records the application of a table, if a debugger records. The statements of a control are in actions of tables without
/// keys, which the source does not have; they get no stop.
pub(crate) fn stop_at_table(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    at: usize,
) {
    let table = &program.tables[at];
    let default = state.tables[at].default.as_ref();
    let default = default.and_then(|default| program.action_name(default.action));
    let is_statement =
        table.keys.is_empty() && default.is_some() && table.name.strip_prefix("tbl_") == default;
    let recorder = state.recorder.as_mut();
    let Some(stops) = recorder.and_then(|recorder| recorder.stops.as_mut()) else {
        return;
    };
    stops.action = None;
    stops.is_statement = is_statement;
    stops.table = u16::try_from(at).ok().filter(|_| !is_statement);
    if !is_statement {
        stop(program, state, phv, || {
            (StopKind::Table, table.source.clone())
        });
    }
}

/// Records a note of the program, if a debugger records. `has_access`: whether the note is about a cell that exists.
pub(crate) fn note(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    note: &Note,
    has_access: bool,
) {
    let position = |info: &Option<SourceInfo>| info.as_ref().map(source);
    let recorder = state.recorder.as_mut();
    let Some(stops) = recorder.and_then(|recorder| recorder.stops.as_mut()) else {
        return;
    };
    match note {
        Note::Primitive(info) | Note::Part(info) => stop(program, state, phv, || {
            (StopKind::Statement, position(info))
        }),
        Note::Test(info) => {
            (stops.action, stops.table) = (None, None);
            stop(program, state, phv, || {
                (StopKind::Condition, position(info))
            });
        }
        Note::Action(name) if !stops.is_statement => {
            let action = program
                .actions
                .iter()
                .position(|action| action.name == *name);
            stops.action = action.and_then(|action| u16::try_from(action).ok());
            stop(program, state, phv, || (StopKind::Action, None));
        }
        Note::RegisterRead { array, i } | Note::RegisterWrite { array, i } if has_access => {
            let written = matches!(note, Note::RegisterWrite { .. });
            let access = register_access(&state.registers, *array, phv[usize::from(*i)], written);
            add_access(state, access);
        }
        Note::Count { array, i } if has_access => {
            let index = phv[usize::from(*i)];
            let cell = usize::try_from(index).unwrap_or(usize::MAX);
            let count = state.counters[usize::from(*array)].get(cell);
            let (packets, bytes) = count.map_or((0, 0), |c| (c.packets, c.bytes));
            let access = CellAccess {
                kind: CellKind::Counter,
                array: *array,
                index,
                written: true,
                value: CellValue::Counter(packets, bytes),
            };
            add_access(state, access);
        }
        _ => {}
    }
}

fn add_access(state: &mut State, access: CellAccess) {
    let recorder = state.recorder.as_mut();
    if let Some(stops) = recorder.and_then(|recorder| recorder.stops.as_mut()) {
        if stops.stops.cells.len() < MAX_STOPS {
            stops.stops.cells.push(access);
        }
    }
}

fn register_access(registers: &[Register], array: u16, index: u64, written: bool) -> CellAccess {
    CellAccess {
        kind: CellKind::Register,
        array,
        index,
        written,
        value: CellValue::Register(registers[usize::from(array)].words(index)),
    }
}
