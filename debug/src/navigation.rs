//! Movement in a recording: steps, breakpoints, and the call stack at a stop.

use alfirk_bmv2::trace::stops::{CellKind, Stop, StopKind};
use alfirk_bmv2::trace::TraceEvent;
use alfirk_bmv2::Switch;

use crate::expression::Expression;
use crate::recording::{Place, Position, Recording};
use crate::scopes::Scopes;

/// Maximum number of stops that one request passes, in case a program makes copies endlessly.
const MAX_PASSED: usize = 50_000_000;

/// Number of passes in a fabric after which a movement is interrupted for requests of the editor.
const PASSES_AT_ONCE: usize = 16;

/// Direction of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the end of the test.
    Forward,
    /// Towards its beginning.
    Backward,
}

/// A step of the debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the next line, over actions of tables.
    Over,
    /// To the next line, into actions.
    In,
    /// Out of the action or the programmable block.
    Out,
    /// To the previous line, into actions.
    Back,
}

/// What a breakpoint waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A line of a file.
    Line(Place),
    /// A table, an action or a parser state of this name.
    Function(String),
    /// A change of words of the packet: the first word, and their number.
    Words(u16, usize),
    /// A write to a register: its index, and the cell; `None` for all cells.
    Register(u16, Option<u64>),
    /// The packet is dropped.
    Drop,
    /// An assertion fails.
    Assertion,
    /// A table has no entry for the packet.
    Miss,
}

/// A breakpoint.
#[derive(Debug)]
pub struct Breakpoint {
    /// Id for the editor.
    pub id: u64,
    /// What the breakpoint waits for.
    pub trigger: Trigger,
    /// Condition under which the breakpoint stops.
    pub condition: Option<Expression>,
    /// Number of hits up to which the breakpoint does not stop.
    pub ignored_hits: u64,
    /// Hits so far.
    pub hits: u64,
    /// Text to write instead of stopping; expressions are in braces.
    pub log: Option<String>,
}

/// Reason for which a movement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A step is done.
    Step,
    /// The beginning of the recording.
    Beginning,
    /// A breakpoint: its id, the reason of the protocol, and a description.
    Breakpoint(u64, &'static str, String),
    /// The end of the test.
    End,
    /// The way to the next breakpoint is long; the movement is to be continued.
    Unfinished,
}

/// A frame of the call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the frame.
    pub name: String,
    /// Place in the P4 source.
    pub place: Option<Place>,
    /// Whether the frame only shows where the packet comes from.
    pub is_label: bool,
}

/// Returns the pass of a stop: the packet, its copy, and the block that processes it.
fn pass(stop: &Stop) -> (u64, u32, &'static str) {
    (stop.packet, stop.copy, stop.block)
}

/// Returns the depth of the call stack at a stop.
fn depth(stop: &Stop) -> usize {
    1 + usize::from(stop.action.is_some())
}

/// Moves to the next stop that a step ends at. A breakpoint on the way ends it, too.
pub fn step(
    recording: &mut Recording,
    step: Step,
    breakpoints: &mut [Breakpoint],
    scopes: &Scopes,
    log: &mut Vec<String>,
) -> Halt {
    let start = recording.position();
    let Some(from) = recording.stop(start).cloned() else {
        return run(recording, Direction::Forward, breakpoints, scopes, log);
    };
    let line = |place: Option<&Place>| place.map(|place| (place.file.clone(), place.line));
    let from_line = line(recording.place(start));
    let direction = match step {
        Step::Back => Direction::Backward,
        _ => Direction::Forward,
    };
    let mut at = start;
    for _ in 0..MAX_PASSED {
        let Some(next) = neighbour(recording, at, direction) else {
            return end(recording, direction);
        };
        at = next;
        let Some(stop) = recording.stop(at) else {
            continue;
        };
        let is_other_pass = pass(stop) != pass(&from);
        let is_other_line = line(recording.place(at)) != from_line || depth(stop) != depth(&from);
        let is_end = recording.place(at).is_some()
            && match step {
                Step::In | Step::Back => is_other_pass || is_other_line,
                Step::Over => is_other_pass || (depth(stop) <= depth(&from) && is_other_line),
                Step::Out => is_other_pass || depth(stop) < depth(&from),
            };
        if direction == Direction::Forward {
            recording.move_to(at);
            if let Some(halt) = hit(recording, breakpoints, scopes, log) {
                return halt;
            }
        }
        if is_end {
            recording.move_to(at);
            return Halt::Step;
        }
    }
    recording.move_to(at);
    Halt::Step
}

/// Moves to the next breakpoint.
pub fn run(
    recording: &mut Recording,
    direction: Direction,
    breakpoints: &mut [Breakpoint],
    scopes: &Scopes,
    log: &mut Vec<String>,
) -> Halt {
    let packets = recording.next_index();
    for _ in 0..MAX_PASSED {
        if recording.is_of_fabric() && recording.next_index() > packets + PASSES_AT_ONCE {
            return Halt::Unfinished;
        }
        let at = recording.position();
        let next = match recording.stop(at) {
            Some(_) => neighbour(recording, at, direction),
            None => recording.first(),
        };
        let Some(next) = next else {
            return end(recording, direction);
        };
        recording.move_to(next);
        if let Some(halt) = hit(recording, breakpoints, scopes, log) {
            return halt;
        }
    }
    Halt::Step
}

fn neighbour(recording: &mut Recording, at: Position, direction: Direction) -> Option<Position> {
    match direction {
        Direction::Forward => recording.after(at),
        Direction::Backward => recording.before(at),
    }
}

fn end(recording: &mut Recording, direction: Direction) -> Halt {
    match direction {
        Direction::Forward => Halt::End,
        Direction::Backward => {
            if let Some(first) = first_place(recording) {
                recording.move_to(first);
            }
            Halt::Beginning
        }
    }
}

/// Returns the first position with a place in the source; the position now, if a movement backward has passed it.
fn first_place(recording: &mut Recording) -> Option<Position> {
    let mut at = recording.position();
    while let Some(earlier) = recording.before(at) {
        at = earlier;
    }
    while recording.place(at).is_none() {
        let next = recording.after(at)?;
        if next > recording.position() {
            break;
        }
        at = next;
    }
    Some(at)
}

/// Returns why a breakpoint stops at the current position; `None` if none does. Writes log points.
fn hit(
    recording: &Recording,
    breakpoints: &mut [Breakpoint],
    scopes: &Scopes,
    log: &mut Vec<String>,
) -> Option<Halt> {
    let mut halt = None;
    for breakpoint in breakpoints {
        let Some((reason, description)) = triggers(recording, &breakpoint.trigger, scopes) else {
            continue;
        };
        let names = scopes.names(recording);
        if let Some(condition) = &breakpoint.condition {
            match condition.evaluate(&names) {
                Ok(value) if value.holds() => {}
                // A header that is invalid here has no fields: the condition does not hold.
                _ => continue,
            }
        }
        breakpoint.hits += 1;
        if breakpoint.hits <= breakpoint.ignored_hits {
            continue;
        }
        match &breakpoint.log {
            Some(text) => log.push(message(text, &names)),
            None if halt.is_none() => {
                halt = Some(Halt::Breakpoint(breakpoint.id, reason, description));
            }
            None => {}
        }
    }
    halt
}

/// Returns the text of a log point, with the values of the expressions in braces.
fn message(text: &str, names: &dyn crate::expression::Names) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out += before;
        let Some((expression, after)) = after.split_once('}') else {
            return out + "{" + after;
        };
        let value = Expression::parse(expression).and_then(|parsed| parsed.evaluate(names));
        out += &value.map_or_else(|error| format!("<{error}>"), |value| value.text());
        rest = after;
    }
    out + rest
}

fn triggers(
    recording: &Recording,
    trigger: &Trigger,
    scopes: &Scopes,
) -> Option<(&'static str, String)> {
    let at = recording.position();
    let stop = recording.stop(at)?;
    let executed = recording.current()?;
    let earlier = at.stop.checked_sub(1);
    let earlier = earlier.and_then(|earlier| executed.stops.stops.get(earlier));
    match trigger {
        Trigger::Line(wanted) => {
            let place = recording.place(at)?;
            let is_same = |place: &Place| place.file == wanted.file && place.line == wanted.line;
            if !is_same(place) {
                return None;
            }
            // Several steps of one line are one hit.
            let is_continued = earlier.is_some_and(|earlier| {
                let before = Position {
                    stop: at.stop - 1,
                    ..at
                };
                pass(earlier) == pass(stop)
                    && recording.place(before).is_some_and(is_same)
                    && (depth(earlier) == depth(stop) || earlier.kind == StopKind::Action)
            });
            (!is_continued).then(|| ("breakpoint", String::new()))
        }
        Trigger::Function(name) => {
            let found = match &stop.kind {
                StopKind::ParserState(state) => state.clone(),
                StopKind::Table => scopes.table(stop.table?)?.to_owned(),
                StopKind::Action => scopes.action(stop.action?)?.to_owned(),
                _ => return None,
            };
            is_named(&found, name).then_some(("function breakpoint", found))
        }
        Trigger::Words(slot, count) => {
            let earlier = earlier.filter(|earlier| pass(earlier) == pass(stop))?;
            let changes = &executed.stops.words[earlier.words..stop.words];
            let range = usize::from(*slot)..usize::from(*slot) + count;
            let changed = changes
                .iter()
                .find(|change| range.contains(&usize::from(change.slot)))?;
            Some((
                "data breakpoint",
                format!("{:#x} -> {:#x}", changed.before, changed.after),
            ))
        }
        Trigger::Register(array, cell) => {
            let from = earlier.map_or(0, |earlier| earlier.cells);
            let accesses = &executed.stops.cells[from..stop.cells];
            let written = accesses.iter().find(|access| {
                access.written
                    && access.kind == CellKind::Register
                    && access.array == *array
                    && cell.is_none_or(|cell| cell == access.index)
            })?;
            Some(("data breakpoint", format!("cell {} written", written.index)))
        }
        Trigger::Drop => match recording.event(at)? {
            TraceEvent::Dropped { reason } => {
                Some(("exception", format!("packet dropped: {reason}")))
            }
            _ => None,
        },
        Trigger::Assertion => match recording.event(at)? {
            TraceEvent::Dropped { reason } if reason.contains("assert") => {
                Some(("exception", "an assertion failed".to_owned()))
            }
            _ => None,
        },
        Trigger::Miss => {
            if stop.kind != StopKind::Table {
                return None;
            }
            let lines = executed.trace.get(stop.lines..)?;
            let table = lines
                .iter()
                .find(|line| matches!(line.event, TraceEvent::Table { .. }))?;
            match &table.event {
                TraceEvent::Table {
                    hit: false,
                    table,
                    key,
                    ..
                } if !key.is_empty() => Some(("exception", format!("table {table} misses"))),
                _ => None,
            }
        }
    }
}

/// Whether an object is meant by a name: its full name, or the last components of it.
pub fn is_named(full: &str, name: &str) -> bool {
    let before = full.strip_suffix(name);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Returns the call stack at the current position, the innermost frame first.
pub fn stack(recording: &Recording, scopes: &Scopes) -> Vec<Frame> {
    let at = recording.position();
    let (Some(stop), Some(executed)) = (recording.stop(at), recording.current()) else {
        return Vec::new();
    };
    let earlier_place = |accepts: &dyn Fn(&Stop) -> bool| {
        let stops = (0..=at.stop)
            .rev()
            .map(|number| Position { stop: number, ..at });
        let mut same = stops.take_while(|&at| {
            recording
                .stop(at)
                .is_some_and(|other| pass(other) == pass(stop))
        });
        let found = same
            .find(|&at| recording.place(at).is_some() && recording.stop(at).is_some_and(accepts));
        found.and_then(|at| recording.place(at)).cloned()
    };
    let mut frames = Vec::new();
    let plain = |name: String, place| Frame {
        name,
        place,
        is_label: false,
    };
    if let Some(action) = stop.action.and_then(|action| scopes.action(action)) {
        let place = recording.place(at).cloned();
        let place = place.or_else(|| earlier_place(&|other| other.action == stop.action));
        frames.push(plain(action.to_owned(), place));
    }
    if let Some(table) = stop.table.and_then(|table| scopes.table(table)) {
        let source = recording.objects().program();
        let source = source.and_then(|program| program.table_source(stop.table?).cloned());
        let place = source.map(|source| Place {
            file: source.file,
            line: source.line,
            column: source.column,
        });
        frames.push(plain(format!("table {table}"), place));
    }
    let state = state_name(recording, at);
    let block = match (stop.block, state) {
        ("", _) => "switch".to_owned(),
        (block, Some(state)) if block.ends_with("parser") => format!("{block}, state {state}"),
        (block, _) => block.to_owned(),
    };
    let place = match stop.action {
        None => recording
            .place(at)
            .cloned()
            .or_else(|| earlier_place(&|_| true)),
        Some(_) => earlier_place(&|other| other.action.is_none()),
    };
    frames.push(plain(block, place));
    let mut copy = stop.copy;
    let number = executed.number.unwrap_or(stop.packet);
    loop {
        let origin = executed.trace.iter().find_map(|line| {
            let (how, as_copy) = match &line.event {
                TraceEvent::Queued { as_copy, .. } => ("replica", *as_copy),
                TraceEvent::Cloned { as_copy, .. } => ("clone", *as_copy),
                TraceEvent::Resubmitted { as_copy } => ("resubmitted", *as_copy),
                TraceEvent::Recirculated { as_copy } => ("recirculated", *as_copy),
                _ => return None,
            };
            (line.packet == stop.packet && as_copy == copy && line.copy < copy)
                .then_some((how, line.copy))
        });
        let (name, next) = match origin {
            Some((how, of)) => (format!("packet {number}, copy {copy}: {how}"), of),
            None if copy > 0 => (
                format!("packet {number}, copy {copy} {}", executed.origin),
                0,
            ),
            None => (format!("packet {number} {}", executed.origin), 0),
        };
        frames.push(Frame {
            name,
            place: None,
            is_label: true,
        });
        match origin {
            Some(_) => copy = next,
            None => return frames,
        }
    }
}

/// Moves through the last packet of a recording up to the first breakpoint, and returns why to stop there; `None` if no
/// breakpoint stops at the packet. `at_once`: whether to stop at the first place in the source.
pub fn search_last(
    recording: &mut Recording,
    at_once: bool,
    breakpoints: &mut [Breakpoint],
    scopes: &Scopes,
    log: &mut Vec<String>,
) -> Option<Halt> {
    let executed = recording.executed.len().checked_sub(1)?;
    let stops = recording.executed[executed].stops.stops.len();
    for stop in 0..stops {
        let at = Position { executed, stop };
        recording.move_to(at);
        let halt = hit(recording, breakpoints, scopes, log);
        if halt.is_some() {
            return halt;
        }
        if at_once && recording.place(at).is_some() {
            return Some(Halt::Step);
        }
    }
    None
}

/// Returns the name of the parser state at a position.
fn state_name(recording: &Recording, at: Position) -> Option<String> {
    let stop = recording.stop(at)?;
    for number in (0..=at.stop).rev() {
        let earlier = recording.stop(Position { stop: number, ..at })?;
        if pass(earlier) != pass(stop) {
            return None;
        }
        if let StopKind::ParserState(name) = &earlier.kind {
            return Some(name.clone());
        }
    }
    None
}

/// Returns the index of the register array that a name means.
pub fn register(switch: &Switch, name: &str) -> Option<u16> {
    let registers = switch.registers();
    let found = registers
        .iter()
        .position(|register| is_named(&register.name, name));
    found.and_then(|found| u16::try_from(found).ok())
}
