//! The recording of packets: what each line of a test, or each frame of a switch, did, and a position that moves in both
//! directions.

use std::collections::BTreeMap;
use std::sync::Arc;

use alfirk_bmv2::trace::stops::{CellKind, CellValue, Override, Stop, StopKind, Stops};
use alfirk_bmv2::trace::{TraceEvent, TraceLine};
use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_bmv2_json::{Parser, SourceInfo};
use alfirk_stf::{summary, Failure, Line, Session};

/// Maximum number of stops that are kept. Beyond it, the oldest lines of the test lose theirs, so that long captures do not
/// fill the memory.
const MAX_KEPT_STOPS: usize = 2_000_000;

/// Maximum number of packets of a running switch or a fabric that are kept, with a copy of the switch for each.
const MAX_KEPT_PACKETS: usize = 64;

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

/// The switch before a packet.
pub enum Before {
    /// The session of a test, from which the line is executed again.
    Session(Box<Session>),
    /// A switch that has received a frame, from which the frame is processed again: ingress port, frame, and time.
    Frame(Box<Switch>, u32, Vec<u8>, u64),
    /// A switch of a fabric.
    Switch(Box<Switch>),
    /// The switch is not kept any more.
    Dropped,
}

/// Where and when a switch of a fabric has processed a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name of the switch.
    pub switch: String,
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// State of the hosts' queue pairs at this time.
    pub queue_pairs: Vec<QueuePairState>,
}

/// State of a queue pair, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePairState {
    /// Name of the host and number of the queue pair.
    pub name: String,
    /// Its state in one line.
    pub summary: String,
    /// Names and values of its variables.
    pub values: Vec<(String, String)>,
}

/// A packet to add to a recording.
pub struct Record {
    /// Number of the packet for people; `None` for that of its stops.
    pub number: Option<u64>,
    /// Where the packet comes from, such as `of line 5 of the test`.
    pub origin: String,
    /// The switch before the packet.
    pub before: Before,
    /// The stops of the packet and its copies.
    pub stops: Stops,
    /// The trace of the packet and its copies.
    pub trace: Vec<TraceLine>,
    /// The switch of a fabric, and the time.
    pub site: Option<Site>,
}

/// A recorded packet: what a line of a test did, or a frame that a switch received.
pub struct Executed {
    /// Number of the packet for people; `None` for that of its stops.
    pub number: Option<u64>,
    /// Where the packet comes from, such as `of line 5 of the test`.
    pub origin: String,
    /// The switch before the packet.
    pub before: Before,
    /// The stops of the packet and its copies; empty for lines that send no packet.
    pub stops: Stops,
    /// The trace of the packet and its copies.
    pub trace: Vec<TraceLine>,
    /// Places of the stops.
    pub places: Vec<Option<Place>>,
    /// The switch of a fabric, and the time.
    pub site: Option<Site>,
    /// Frames that the packet sends after a change of a value, with their ports; `None` without one.
    pub sent: Option<Vec<(u32, Vec<u8>)>>,
    /// Values that the debugger has set.
    overrides: Vec<Override>,
}

/// The passes of packets through the switches of a fabric, in the order of time.
pub trait Passes {
    /// Runs the fabric to the next pass; `None` at the end of the run.
    fn next_pass(&mut self) -> Option<Record>;

    /// Returns the report of the run, and its exit code. The rest of the run is done first.
    fn result(&mut self) -> (String, i32);
}

/// Where packets come from.
enum Source {
    /// The lines of a test, and the session after all executed lines.
    Test {
        lines: Vec<Line>,
        session: Box<Session>,
        /// Commands that were not executed, with the reasons.
        failures: Vec<Failure>,
    },
    /// A running switch, whose driver adds the packets.
    Switch,
    /// A fabric in virtual time.
    Fabric(Box<dyn Passes + Send>),
}

/// A position in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the recorded packet.
    pub executed: usize,
    /// Index of the stop.
    pub stop: usize,
}

/// Place of a parser state, and the places of its statements.
type StatePlaces = (Option<Place>, Vec<Option<Place>>);

/// The recording of packets, and the current position in it.
pub struct Recording {
    source: Source,
    /// The recorded packets.
    pub executed: Vec<Executed>,
    /// Index of the first recorded packet whose stops are still kept.
    first_kept: usize,
    /// Places of parser states, by their names and whether the parser is that of egress.
    states: BTreeMap<(bool, String), StatePlaces>,
    position: Position,
    words: Vec<u64>,
    /// A switch with the program in its initial state, for the names and sizes of objects.
    objects: Switch,
}

impl Recording {
    /// Starts a recording at the beginning of a test.
    pub fn of_test(session: Session, lines: Vec<Line>, parsers: &[Parser]) -> Recording {
        let program = session.switch().program().cloned();
        let source = Source::Test {
            lines,
            session: Box::new(session),
            failures: Vec::new(),
        };
        Recording::new(source, program, parsers)
    }

    /// Starts an empty recording of a running switch.
    pub fn of_switch(program: Arc<LoadedProgram>, parsers: &[Parser]) -> Recording {
        Recording::new(Source::Switch, Some(program), parsers)
    }

    /// Starts a recording at the beginning of a fabric's run.
    pub fn of_fabric(
        passes: Box<dyn Passes + Send>,
        program: Arc<LoadedProgram>,
        parsers: &[Parser],
    ) -> Recording {
        Recording::new(Source::Fabric(passes), Some(program), parsers)
    }

    fn new(source: Source, program: Option<Arc<LoadedProgram>>, parsers: &[Parser]) -> Recording {
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
        let mut objects = Switch::new(SwitchOptions::default());
        if let Some(program) = program {
            objects.load(program);
        }
        Recording {
            source,
            states: states.collect(),
            objects,
            executed: Vec::new(),
            first_kept: 0,
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

    /// Records what comes next: the next line of the test, or the next pass in the fabric. Returns false if there is nothing.
    pub fn execute(&mut self) -> bool {
        let record = match &mut self.source {
            Source::Test {
                lines,
                session,
                failures,
            } => {
                let Some(command) = lines.get(self.executed.len()) else {
                    return false;
                };
                let before = Before::Session(Box::new(session.fork()));
                session.record_stops(Vec::new());
                failures.extend(session.step(command));
                record_of(session, command, before)
            }
            Source::Switch => return false,
            Source::Fabric(passes) => match passes.next_pass() {
                Some(record) => record,
                None => return false,
            },
        };
        self.add(record);
        true
    }

    /// Adds a packet at the end.
    pub fn add(&mut self, record: Record) {
        let places = self.places(&record.stops);
        let Record {
            number,
            origin,
            before,
            stops,
            trace,
            site,
        } = record;
        self.executed.push(Executed {
            number,
            origin,
            before,
            stops,
            trace,
            places,
            site,
            sent: None,
            overrides: Vec::new(),
        });
        self.drop_oldest();
    }

    /// Removes the last packet, and moves back to a position before it.
    pub fn remove_last(&mut self, back_to: Position) -> Option<Executed> {
        let last = self.executed.pop();
        self.words.clear();
        self.position = back_to;
        self.move_to(back_to);
        last
    }

    /// Adds a packet again that was removed.
    pub fn add_again(&mut self, executed: Executed) {
        self.executed.push(executed);
        self.drop_oldest();
    }

    /// Processes the current packet again, with a value that is set at a stop. Drops the recording after it, if that depends on it.
    ///
    /// # Errors
    /// The packet cannot be processed again.
    pub fn set(&mut self, set: Override) -> Result<(), String> {
        let at = self.position;
        let Some(current) = self.executed.get_mut(at.executed) else {
            return Err("no packet is stopped".to_owned());
        };
        let mut overrides = std::mem::take(&mut current.overrides);
        overrides.retain(|earlier| {
            earlier.stop < set.stop || (earlier.stop == set.stop && earlier.target != set.target)
        });
        overrides.push(set);
        match (&mut self.source, &current.before) {
            (
                Source::Test {
                    lines,
                    session,
                    failures,
                },
                Before::Session(earlier),
            ) => {
                let command = &lines[at.executed];
                let before = Before::Session(Box::new(earlier.fork()));
                **session = earlier.fork();
                failures.retain(|failure| failure.line < Some(command.number));
                session.record_stops(overrides.clone());
                failures.extend(session.step(command));
                let record = record_of(session, command, before);
                self.executed.truncate(at.executed);
                self.add(record);
            }
            (_, Before::Frame(switch, port, frame, time)) => {
                let (stops, trace, sent) =
                    switch.process_again(*port, frame, *time, overrides.clone());
                let places = self.places(&stops);
                if let Some(current) = self.executed.get_mut(at.executed) {
                    (current.stops, current.trace, current.places) = (stops, trace, places);
                    current.sent = Some(sent);
                }
            }
            _ => {
                return Err("values cannot be changed in a fabric, whose run is fixed".to_owned());
            }
        }
        if let Some(current) = self.executed.get_mut(at.executed) {
            current.overrides = overrides;
        }
        self.words.clear();
        self.move_to(at);
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let max_packets = match self.source {
            Source::Test { .. } => usize::MAX,
            Source::Switch | Source::Fabric(_) => MAX_KEPT_PACKETS,
        };
        let kept = |all: &[Executed]| all.iter().map(|line| line.stops.stops.len()).sum::<usize>();
        let last = self.executed.len().saturating_sub(1);
        while self.first_kept < last
            && (last - self.first_kept >= max_packets
                || kept(&self.executed[self.first_kept..]) > MAX_KEPT_STOPS)
        {
            let oldest = &mut self.executed[self.first_kept];
            oldest.stops = Stops::default();
            oldest.places = Vec::new();
            if max_packets < usize::MAX {
                oldest.trace = Vec::new();
                oldest.site = None;
                oldest.before = Before::Dropped;
            }
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

    /// Returns the switch before the packet of the current position; `None` before the first.
    pub fn switch_before(&self) -> Option<&Switch> {
        Some(match &self.current()?.before {
            Before::Session(session) => session.switch(),
            Before::Frame(switch, ..) | Before::Switch(switch) => switch,
            Before::Dropped => &self.objects,
        })
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

    /// Returns a switch with the program, for the names and sizes of its objects.
    pub fn objects(&self) -> &Switch {
        &self.objects
    }

    /// Whether the packets are those of a fabric.
    pub fn is_of_fabric(&self) -> bool {
        matches!(self.source, Source::Fabric(_))
    }

    /// Returns the index of the next packet.
    pub fn next_index(&self) -> usize {
        self.executed.len()
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
        let program = self.objects.program();
        let count = program.map_or(0, |program| program.word_count());
        self.words.resize(count, 0);
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

    /// Executes the rest, and returns the lines to print as errors, the summary, and the exit code.
    pub fn result(&mut self, test: &str) -> (Vec<String>, String, i32) {
        if let Source::Fabric(passes) = &mut self.source {
            let (report, code) = passes.result();
            return (Vec::new(), report, code);
        }
        while self.execute() {}
        let Source::Test {
            session, failures, ..
        } = &mut self.source
        else {
            return (Vec::new(), String::new(), 0);
        };
        let mut all = failures.clone();
        all.extend(session.failures());
        all.sort_by_key(|failure| failure.line.unwrap_or(usize::MAX));
        let texts = all.iter().map(|failure| failure.text(test));
        (
            texts.collect(),
            summary(test, &all),
            i32::from(!all.is_empty()),
        )
    }
}

/// Returns the record of a command that a session has executed.
fn record_of(session: &mut Session, command: &Line, before: Before) -> Record {
    Record {
        number: None,
        origin: format!("of line {} of the test", command.number),
        before,
        stops: session.take_stops(),
        trace: session.take_trace(),
        site: None,
    }
}
