//! The recording of a test: what each of its lines did, and a position in it that moves in both directions.

use std::collections::BTreeMap;

use alfirk_bmv2::trace::stops::{CellKind, CellValue, Override, Stop, StopKind, Stops};
use alfirk_bmv2::trace::{TraceEvent, TraceLine};
use alfirk_bmv2::Switch;
use alfirk_bmv2_json::{Parser, SourceInfo};
use alfirk_stf::{Failure, Line, Session};

/// Maximum number of stops that are kept. Beyond it, the oldest lines of the test lose theirs, so that long captures do not
/// fill the memory.
const MAX_KEPT_STOPS: usize = 2_000_000;

/// A place in the P4 source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file, as the compiler knows it.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1; 0 if only the line is known.
    pub column: u64,
}

/// An executed line of the test.
pub struct Executed {
    /// Index of the line in the test.
    pub line: usize,
    /// The session before the line, from which it is executed again.
    pub before: Session,
    /// The stops of the packet and its copies; empty for lines that send no packet.
    pub stops: Stops,
    /// The trace of the packet and its copies.
    pub trace: Vec<TraceLine>,
    /// Places of the stops.
    pub places: Vec<Option<Place>>,
    /// Values that the debugger has set.
    overrides: Vec<Override>,
}

/// A position in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the executed line.
    pub executed: usize,
    /// Index of the stop.
    pub stop: usize,
}

/// Place of a parser state, and the places of its statements.
type StatePlaces = (Option<Place>, Vec<Option<Place>>);

/// The recording of a test, and the current position in it.
pub struct Recording {
    lines: Vec<Line>,
    /// The session after all executed lines.
    session: Session,
    /// The executed lines.
    pub executed: Vec<Executed>,
    /// Index of the first executed line whose stops are still kept.
    first_kept: usize,
    /// Commands that were not executed, with the reasons.
    failures: Vec<Failure>,
    /// Places of parser states, by their names and whether the parser is that of egress.
    states: BTreeMap<(bool, String), StatePlaces>,
    position: Position,
    words: Vec<u64>,
}

impl Recording {
    /// Starts a recording at the beginning of a test.
    pub fn new(session: Session, lines: Vec<Line>, parsers: &[Parser]) -> Recording {
        let place = |info: &Option<SourceInfo>| {
            let info = info.as_ref()?;
            Some(Place {
                file: info.filename.clone(),
                line: info.line,
                column: 0,
            })
        };
        let states = parsers.iter().flat_map(|parser| {
            let is_egress = parser.name.starts_with("egress");
            let states = parser.parse_states.iter();
            states.map(move |state| (is_egress, state))
        });
        let states = states.map(|(is_egress, state)| {
            let statements = state.parser_ops.iter();
            let statements = statements.map(|statement| place(&statement.source_info));
            let key = (is_egress, state.name.clone());
            (key, (place(&state.source_info), statements.collect()))
        });
        Recording {
            lines,
            states: states.collect(),
            session,
            executed: Vec::new(),
            first_kept: 0,
            failures: Vec::new(),
            position: Position {
                executed: 0,
                stop: 0,
            },
            words: Vec::new(),
        }
    }

    /// Returns the names of the parsers' states.
    pub fn state_names(&self) -> impl Iterator<Item = &str> {
        self.states.keys().map(|(_, name)| name.as_str())
    }

    /// Returns the places of parser states and their statements.
    pub fn parser_places(&self) -> impl Iterator<Item = &Place> {
        let all = self.states.values();
        all.flat_map(|(state, operations)| state.iter().chain(operations.iter().flatten()))
    }

    /// Executes the next line of the test. Returns false at the end of the test.
    pub fn execute(&mut self) -> bool {
        let line = self.executed.len();
        let Some(command) = self.lines.get(line) else {
            return false;
        };
        let before = self.session.fork();
        self.session.record_stops(Vec::new());
        self.failures.extend(self.session.step(command));
        self.keep(line, before, Vec::new());
        self.drop_oldest();
        true
    }

    /// Executes the current line again, with values that are set at stops, and drops the recording after it.
    pub fn set(&mut self, set: Override) {
        let at = self.position;
        let Some(executed) = self.executed.get_mut(at.executed) else {
            return;
        };
        let mut overrides = std::mem::take(&mut executed.overrides);
        overrides.retain(|earlier| {
            earlier.stop < set.stop || (earlier.stop == set.stop && earlier.target != set.target)
        });
        overrides.push(set);
        let line = executed.line;
        let before = executed.before.fork();
        self.session = executed.before.fork();
        self.executed.truncate(at.executed);
        let number = self.lines[line].number;
        self.failures.retain(|failure| failure.line < Some(number));
        self.session.record_stops(overrides.clone());
        self.failures.extend(self.session.step(&self.lines[line]));
        self.keep(line, before, overrides);
        self.words.clear();
        self.move_to(at);
    }

    fn keep(&mut self, line: usize, before: Session, overrides: Vec<Override>) {
        let (stops, trace) = (self.session.take_stops(), self.session.take_trace());
        let places = self.places(&stops);
        self.executed.push(Executed {
            line,
            before,
            stops,
            trace,
            places,
            overrides,
        });
    }

    fn drop_oldest(&mut self) {
        let kept = |all: &[Executed]| all.iter().map(|line| line.stops.stops.len()).sum::<usize>();
        let last = self.executed.len().saturating_sub(1);
        while self.first_kept < last && kept(&self.executed[self.first_kept..]) > MAX_KEPT_STOPS {
            let oldest = &mut self.executed[self.first_kept];
            oldest.stops = Stops::default();
            oldest.places.clear();
            self.first_kept += 1;
        }
    }

    /// Returns the place of each stop.
    fn places(&self, stops: &Stops) -> Vec<Option<Place>> {
        let mut state = None;
        let mut places: Vec<Option<Place>> = Vec::with_capacity(stops.stops.len());
        for stop in &stops.stops {
            let parser_place = |number: Option<usize>| {
                let (place, operations) = self.states.get(state.as_ref()?)?;
                let operation = number.and_then(|number| operations.get(number)?.as_ref());
                operation.or(place.as_ref()).cloned()
            };
            places.push(match &stop.kind {
                StopKind::ParserState(name) => {
                    let key = (stop.block.starts_with("egress"), name.clone());
                    let found = self.states.get(&key);
                    state = Some(key);
                    found.and_then(|(place, _)| place.clone())
                }
                StopKind::ParserStatement(number) => parser_place(Some(*number)),
                StopKind::ParserTransition => None,
                StopKind::Event | StopKind::Action => None,
                StopKind::Condition | StopKind::Statement | StopKind::Table => {
                    stop.source.as_ref().map(|source| Place {
                        file: source.file.clone(),
                        line: source.line,
                        column: source.column,
                    })
                }
            });
        }
        // An action is where its first statement is, or else where its table is.
        for at in 0..places.len() {
            let stop = &stops.stops[at];
            if stop.kind == StopKind::Action {
                let next = stops.stops.get(at + 1);
                let is_same = next.is_some_and(|next| next.kind == StopKind::Statement);
                let neighbour = if is_same { at + 1 } else { at.wrapping_sub(1) };
                places[at] = places.get(neighbour).cloned().flatten();
            }
        }
        places
    }

    /// Returns the current position.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the executed line of the current position; `None` before the first.
    pub fn current(&self) -> Option<&Executed> {
        self.executed.get(self.position.executed)
    }

    /// Returns the stop at a position.
    pub fn stop(&self, at: Position) -> Option<&Stop> {
        self.executed.get(at.executed)?.stops.stops.get(at.stop)
    }

    /// Returns the place of a position in the P4 source.
    pub fn place(&self, at: Position) -> Option<&Place> {
        self.executed
            .get(at.executed)?
            .places
            .get(at.stop)?
            .as_ref()
    }

    /// Returns the words of the packet at the current position.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the switch after all executed lines.
    pub fn switch(&self) -> &Switch {
        self.session.switch()
    }

    /// Returns the line of the test with this index.
    pub fn line(&self, index: usize) -> Option<&Line> {
        self.lines.get(index)
    }

    /// Returns the position after this one. Executes the next lines of the test, if necessary; `None` at its end.
    pub fn after(&mut self, at: Position) -> Option<Position> {
        let mut next = Position {
            stop: at.stop + 1,
            ..at
        };
        loop {
            if self.stop(next).is_some() {
                return Some(next);
            }
            if next.executed >= self.executed.len() && !self.execute() {
                return None;
            }
            if self.stop(next).is_none() {
                next = Position {
                    executed: next.executed + 1,
                    stop: 0,
                };
            }
        }
    }

    /// Returns the first position of the test; `None` if it sends no packet.
    pub fn first(&mut self) -> Option<Position> {
        let before = Position {
            executed: 0,
            stop: 0,
        };
        while self.executed.is_empty() {
            if !self.execute() {
                return None;
            }
        }
        match self.stop(before) {
            Some(_) => Some(before),
            None => self.after(before),
        }
    }

    /// Returns the position before this one; `None` at the beginning of the recording.
    pub fn before(&self, at: Position) -> Option<Position> {
        if let Some(stop) = at.stop.checked_sub(1) {
            return Some(Position { stop, ..at });
        }
        let earlier = self.executed.get(self.first_kept..at.executed)?;
        let found = earlier
            .iter()
            .rposition(|line| !line.stops.stops.is_empty())?;
        let executed = self.first_kept + found;
        let stop = self.executed[executed].stops.stops.len() - 1;
        Some(Position { executed, stop })
    }

    /// Moves to a position.
    pub fn move_to(&mut self, to: Position) {
        let from = self.position;
        let Some(executed) = self.executed.get(to.executed) else {
            return;
        };
        let stops = &executed.stops;
        let end = |at: usize| stops.stops.get(at).map_or(0, |stop| stop.words);
        let mut at = match from.executed == to.executed && !self.words.is_empty() {
            true => end(from.stop),
            false => {
                self.words.clear();
                0
            }
        };
        let count = executed.before.switch().program();
        self.words
            .resize(count.map_or(0, |program| program.word_count()), 0);
        while at < end(to.stop) {
            let change = stops.words[at];
            self.words[usize::from(change.slot)] = change.after;
            at += 1;
        }
        while at > end(to.stop) {
            at -= 1;
            let change = stops.words[at];
            self.words[usize::from(change.slot)] = change.before;
        }
        self.position = to;
    }

    /// Returns the value of a cell at the current position, if the packet has accessed the cell before.
    pub fn cell(&self, kind: CellKind, array: u16, index: u64) -> Option<&CellValue> {
        let stops = &self.current()?.stops;
        let end = stops.stops.get(self.position.stop)?.cells;
        let accesses = stops.cells[..end].iter().rev();
        let mut of_cell = accesses
            .filter(|access| access.kind == kind && access.array == array && access.index == index);
        of_cell.next().map(|access| &access.value)
    }

    /// Returns the trace line that a stop stands for; `None` if it is not an event.
    pub fn event(&self, at: Position) -> Option<&TraceEvent> {
        let executed = self.executed.get(at.executed)?;
        let stop = executed.stops.stops.get(at.stop)?;
        let line = executed.trace.get(stop.lines)?;
        (stop.kind == StopKind::Event).then_some(&line.event)
    }

    /// Executes the rest of the test, and returns all of its failures, ordered by line; those without a line are last.
    pub fn failures(&mut self) -> Vec<Failure> {
        while self.execute() {}
        let mut all = self.failures.clone();
        all.extend(self.session.failures());
        all.sort_by_key(|failure| failure.line.unwrap_or(usize::MAX));
        all
    }
}
