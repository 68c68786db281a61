//! Debugging of a running switch: packets arrive, and those that hit a breakpoint are held until the debugger goes on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use alfirk_bmv2::trace::FrameFilter;
use alfirk_bmv2::{LoadedProgram, Switch};
use serde::Deserialize;
use serde_json::Value;

use super::{arguments, event, load, output, stopped, Debugger, Reply, Run};
use crate::navigation::{search_last, Halt};
use crate::recording::{Before, Executed, Position, Record, Recording};

/// Maximum number of packets that are held behind the one at which the debugger is stopped. Further packets are neither
/// recorded nor held.
const MAX_WAITING: usize = 16;

/// Default time in seconds after which a held packet is sent.
const HOLD_SECONDS: u64 = 600;

/// Parses a condition on received frames. The second argument is the BMv2 JSON of the program, whose headers it may name.
pub type ParseFilter = fn(&str, &str) -> Result<FrameFilter, String>;

/// Arguments of the request `attach`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attach {
    /// The P4 program that the switch runs, or its compiled BMv2 JSON; only for messages here.
    pub program: Option<PathBuf>,
    /// BMv2 JSON of `program`, from several compilations. Places in the source are those of the one that the switch runs.
    #[serde(default)]
    pub compiled: Vec<String>,
    /// Condition on received frames, without which all are recorded.
    pub filter: Option<String>,
    /// Whether to stop at the first statement of the next packet.
    #[serde(default)]
    pub stop_on_entry: bool,
    /// A table, an action or a parser state to stop at, as by a function breakpoint.
    pub stop_at: Option<String>,
    /// Time in seconds after which a held packet is sent.
    pub hold_seconds: Option<u64>,
}

/// A held packet that the switch sends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// Number of the packet; see [`Debugger::packet`].
    pub id: u64,
    /// Frames that are sent in place of the held ones, with their ports, if the debugger has changed a value.
    pub frames: Option<Vec<(u32, Vec<u8>)>>,
}

/// State of the debugger of a running switch.
pub(super) struct Live {
    /// BMv2 JSON of the program that the switch runs.
    json: String,
    parse_filter: ParseFilter,
    filter: Option<FrameFilter>,
    program: Option<Arc<LoadedProgram>>,
    hold_seconds: u64,
    /// Whether the configuration is done.
    has_begun: bool,
    /// Whether to stop at the next packet.
    stops_at_next: bool,
    stop_at: Option<String>,
    stop_on_entry: bool,
    /// Number of the packet at which the debugger is stopped; `None` while none is.
    stopped_at: Option<u64>,
    /// Packets that have hit a breakpoint while the debugger was stopped at an earlier one.
    waiting: VecDeque<Waiting>,
    released: Vec<Released>,
}

struct Waiting {
    id: u64,
    packet: Executed,
    stop: usize,
    halt: Halt,
}

impl Debugger {
    /// Creates the debugger of a running switch. `json`: BMv2 JSON of its program.
    pub fn of_switch(json: &str, parse_filter: ParseFilter) -> Debugger {
        Debugger {
            live: Some(Live {
                json: json.to_owned(),
                parse_filter,
                filter: None,
                program: None,
                hold_seconds: HOLD_SECONDS,
                has_begun: false,
                stops_at_next: false,
                stop_at: None,
                stop_on_entry: false,
                stopped_at: None,
                waiting: VecDeque::new(),
                released: Vec::new(),
            }),
            ..Debugger::new(Box::new(super::NoFiles))
        }
    }

    pub(super) fn attach(&mut self, request: &Value) -> Result<(), String> {
        let attach: Attach = arguments(request)?;
        let live = self.live.as_mut().ok_or(
            "this debugger starts tests; `alfirk debug` attaches to a switch by its attribute `address`",
        )?;
        let json = chosen_program(&live.json, &attach)?;
        if let Some(filter) = &attach.filter {
            let parsed = (live.parse_filter)(filter, json);
            live.filter = Some(parsed.map_err(|error| format!("filter: {error}"))?);
        }
        let (program, parsers) = load(json)?;
        let recording = Recording::of_switch(program.clone(), &parsers);
        live.hold_seconds = attach.hold_seconds.unwrap_or(HOLD_SECONDS);
        live.stop_at = attach.stop_at;
        live.stop_on_entry = attach.stop_on_entry;
        self.run = Some(Run::new(recording, &program));
        live.program = Some(program);
        Ok(())
    }

    /// Begins to record packets.
    pub(super) fn begin_live(&mut self) -> Result<(), String> {
        self.running()?;
        let stop_at = self.live.as_mut().and_then(|live| live.stop_at.take());
        if let Some(name) = stop_at {
            self.stop_at(&name)?;
        }
        if let Some(live) = &mut self.live {
            live.has_begun = true;
            live.stops_at_next = live.stop_on_entry;
        }
        Ok(())
    }

    /// Returns the program with notes that records packets; `None` before a debugger is attached.
    pub fn program(&self) -> Option<&Arc<LoadedProgram>> {
        self.live.as_ref()?.program.as_ref()
    }

    /// Time in seconds after which a held packet is sent.
    pub fn hold_seconds(&self) -> u64 {
        let live = self.live.as_ref();
        live.map_or(HOLD_SECONDS, |live| live.hold_seconds)
    }

    /// Whether a received frame has to be recorded, and passed to [`Debugger::packet`].
    pub fn wants(&self, frame: &[u8]) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        live.has_begun
            && self.run.is_some()
            && (live.stops_at_next || self.breakpoints.values().any(|list| !list.is_empty()))
            && live.waiting.len() < MAX_WAITING
            && live
                .filter
                .as_ref()
                .is_none_or(|filter| filter.holds(frame))
    }

    /// Takes a frame that the switch has received at a port and at a time in nanoseconds, and a copy of the switch before it
    /// ([`Switch::recording_copy`]). Returns whether what the packet sends must be held until [`Debugger::take_released`]
    /// returns its number `id`, and the messages to send.
    pub fn packet(
        &mut self,
        id: u64,
        (port, at): (u32, u64),
        bytes: Vec<u8>,
        before: Switch,
    ) -> (bool, Reply) {
        let mut events = Vec::new();
        let (Some(run), Some(live)) = (&mut self.run, &mut self.live) else {
            return (false, events);
        };
        let (stops, trace, _) = before.process_again(port, &bytes, at, Vec::new());
        let back_to = run.recording.position();
        run.recording.add(Record {
            number: Some(id),
            origin: format!("received at port {port}"),
            before: Before::Frame(Box::new(before), port, bytes, at),
            stops,
            trace,
            site: None,
        });
        let at_once = live.stops_at_next && live.stopped_at.is_none();
        let mut log = Vec::new();
        let mut breakpoints = super::BreakpointsOf::take(&mut self.breakpoints);
        let halt = search_last(
            &mut run.recording,
            at_once,
            &mut breakpoints.all,
            &run.scopes,
            &mut log,
        );
        breakpoints.put_back(&mut self.breakpoints);
        let lines = log.iter();
        events.extend(lines.map(|line| output("console", &format!("{line}\n"))));
        let stop = run.recording.position().stop;
        match (halt, live.stopped_at) {
            (None, _) => {
                run.recording.remove_last(back_to);
                (false, events)
            }
            (Some(halt), None) => {
                live.stops_at_next = false;
                live.stopped_at = Some(id);
                self.groups.clear();
                events.extend(stop_event(halt));
                (true, events)
            }
            (Some(halt), Some(_)) => {
                if let Some(packet) = run.recording.remove_last(back_to) {
                    live.waiting.push_back(Waiting {
                        id,
                        packet,
                        stop,
                        halt,
                    });
                }
                (true, events)
            }
        }
    }

    /// Continues after the last recorded packet: the packet is sent, and the debugger stops at the next one that waits, if any.
    pub(super) fn go_on_live(&mut self, events: &mut Reply) {
        let (Some(run), Some(live)) = (&mut self.run, &mut self.live) else {
            return;
        };
        if let Some(id) = live.stopped_at.take() {
            let frames = run
                .recording
                .executed
                .last_mut()
                .and_then(|packet| packet.sent.take());
            live.released.push(Released { id, frames });
        }
        if let Some(next) = live.waiting.pop_front() {
            let executed = run.recording.next_index();
            run.recording.add_again(next.packet);
            run.recording.move_to(Position {
                executed,
                stop: next.stop,
            });
            live.stopped_at = Some(next.id);
            events.extend(stop_event(next.halt));
        }
    }

    /// Makes the debugger stop at the next packet.
    pub(super) fn pause_live(&mut self) -> bool {
        let Some(live) = &mut self.live else {
            return false;
        };
        live.stops_at_next = true;
        true
    }

    /// Releases all held packets.
    pub(super) fn release_all(&mut self) {
        if let Some(live) = &mut self.live {
            let held = live.stopped_at.take().into_iter();
            let held = held.chain(live.waiting.drain(..).map(|waiting| waiting.id));
            let released = held.map(|id| Released { id, frames: None });
            live.released.extend(released);
        }
    }

    /// Returns the packets that are to be sent now.
    pub fn take_released(&mut self) -> Vec<Released> {
        let live = self.live.as_mut();
        live.map_or_else(Vec::new, |live| std::mem::take(&mut live.released))
    }

    /// Reports that a held packet was sent because its time is over. The debugger still shows it.
    pub fn expired(&mut self, id: u64) -> Reply {
        let live = self.live.as_mut();
        let seconds = live.map_or(0, |live| {
            live.waiting.retain(|waiting| waiting.id != id);
            live.hold_seconds
        });
        self.numbered(vec![output(
            "console",
            &format!("the switch has sent a held packet after {seconds} s\n"),
        )])
    }

    /// Ends the session, because the switch cannot be debugged any more, for the reason `why`.
    pub fn end_live(&mut self, why: &str) -> Reply {
        self.run = None;
        self.is_done = true;
        self.numbered(vec![
            output("stderr", &format!("{why}\n")),
            event("terminated", Value::Null),
        ])
    }
}

fn stop_event(halt: Halt) -> Option<Value> {
    match halt {
        Halt::Breakpoint(id, reason, text) => Some(stopped(reason, &text, Some(id))),
        Halt::Step | Halt::Beginning => Some(stopped("entry", "", None)),
        Halt::End | Halt::Unfinished => None,
    }
}

/// Returns the JSON of a compilation that equals the running program in all but positions in the source; the running
/// program itself if no program is named.
fn chosen_program<'a>(running: &'a str, attach: &'a Attach) -> Result<&'a str, String> {
    let Some(program) = &attach.program else {
        return Ok(running);
    };
    let of_switch = without_positions(running);
    let mut all = attach.compiled.iter();
    let same = all.find(|text| text.as_str() == running || without_positions(text) == of_switch);
    same.map(String::as_str).ok_or_else(|| {
        let name = serde_json::from_str::<Value>(running).ok();
        let name = name.and_then(|json| Some(json.get("program")?.as_str()?.to_owned()));
        let name = name.unwrap_or_else(|| "unnamed".to_owned());
        format!(
            "the switch runs another program ({name}) than {}; attach with the one that it runs, or without `program`",
            program.display()
        )
    })
}

/// Returns a program as JSON without what depends on the place of its source.
fn without_positions(json: &str) -> Option<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("source_info");
                members.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(json).ok()?;
    let top = value.as_object_mut()?;
    top.remove("program");
    top.remove("__meta__");
    strip(&mut value);
    Some(value)
}
