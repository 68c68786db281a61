//! Traces: the steps of packets through a program.
//!
//! Off by default ([`Switch::set_trace`](crate::Switch::set_trace)). A switch that does not trace tests only one
//! flag per packet, parser state and table.

use crate::exec::headers::is_valid;
use crate::exec::words::words_of;
use crate::numbers::number;
use crate::program::{Field, Header, LoadedProgram};
use crate::steps::{LogLine, Step};
use serde::Serialize;
use std::fmt::{self, Write};

/// A line of a trace: one step of one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceLine {
    /// Number of the received frame since tracing began, from 1; copies have the number of the original.
    pub packet: u64,
    /// The step of the packet.
    #[serde(flatten)]
    pub event: TraceEvent,
}

/// A step of a packet. Values of any width are hexadecimal text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TraceEvent {
    /// A frame was received.
    In {
        /// Ingress port.
        port: u32,
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// The parser has finished parsing the packet.
    Parsed {
        /// Names of the states that the parser visited, in order.
        states: Vec<String>,
        /// Names of the headers that are valid after parsing.
        headers: Vec<String>,
        /// Length of the payload in bytes.
        payload: usize,
        /// Name of the error constant with which the parser ended; `None` for `NoError`.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A table was applied to the packet.
    Table {
        /// Name of the table.
        table: String,
        /// Name and value of each key field.
        key: Vec<NamedValue>,
        /// Whether an entry of the table matched.
        hit: bool,
        /// Handle of the matching entry, on a hit.
        #[serde(skip_serializing_if = "Option::is_none")]
        entry: Option<u32>,
        /// Name of the action that ran, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<String>,
        /// Name and value of each action argument.
        data: Vec<NamedValue>,
    },
    /// A field changed, or a header became valid or invalid (`$valid$`).
    Changed {
        /// Name of the field, as `header.field`.
        field: String,
        /// Value of the field when changes were last recorded.
        before: String,
        /// Value of the field after the change.
        after: String,
    },
    /// Ingress enqueued the packet, or a copy of it, for a port.
    Queued {
        /// Egress port.
        port: u32,
        /// Priority of the queue; the highest is served first.
        priority: u8,
        /// Replication id of the copy; 0 for packets that are not multicast.
        rid: u64,
    },
    /// Egress started to process the packet.
    Egress {
        /// Egress port.
        port: u32,
    },
    /// A clone was created for a clone session.
    Cloned {
        /// Number of the clone session.
        session: u32,
    },
    /// The packet was resubmitted to ingress.
    Resubmitted,
    /// The packet was recirculated to ingress.
    Recirculated,
    /// The packet left the switch.
    Out {
        /// Egress port.
        port: u32,
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// The packet was dropped; see [`DropReason::name`](crate::DropReason::name).
    Dropped {
        /// Name of the reason for the drop.
        reason: &'static str,
    },
}

/// Name and value of a key field or action argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// Name of the key field or parameter.
    pub name: String,
    /// The value in hexadecimal.
    pub value: String,
}

/// Terminal escape codes by colour; all empty for plain text.
struct Colors {
    strong: &'static str,
    name: &'static str,
    good: &'static str,
    bad: &'static str,
    end: &'static str,
}

const PLAIN: Colors = Colors {
    strong: "",
    name: "",
    good: "",
    bad: "",
    end: "",
};

const ANSI: Colors = Colors {
    strong: "\x1b[1m",
    name: "\x1b[36m",
    good: "\x1b[32m",
    bad: "\x1b[31m",
    end: "\x1b[0m",
};

impl TraceLine {
    /// Formats the step as one line without a line end, indented under the line of the packet's arrival.
    pub fn text(&self, color: bool) -> String {
        let mut line = String::new();
        // Writing to a string never fails.
        let _ = self.write(&mut line, if color { &ANSI } else { &PLAIN });
        line
    }

    /// Formats the step as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data becomes JSON")
    }

    fn write(&self, out: &mut String, c: &Colors) -> fmt::Result {
        let n = self.packet;
        match &self.event {
            TraceEvent::In { port, bytes } => {
                write!(
                    out,
                    "{}#{n} in{} port {port}, {bytes} bytes",
                    c.strong, c.end
                )
            }
            TraceEvent::Parsed {
                states,
                headers,
                payload,
                error,
            } => {
                let (path, headers) = (states.join(" > "), headers.join(", "));
                write!(out, "#{n}   parser {path}: {}{headers}{}", c.name, c.end)?;
                write!(out, "; {payload} bytes of payload")?;
                match error {
                    Some(error) => write!(out, "; {}{error}{}", c.bad, c.end),
                    None => Ok(()),
                }
            }
            TraceEvent::Table {
                table,
                key,
                hit,
                entry,
                action,
                data,
            } => {
                write!(out, "#{n}   table {}{table}{}", c.name, c.end)?;
                list(out, " [", key, "]")?;
                match (hit, entry) {
                    (true, Some(entry)) => write!(out, " {}hit{} entry {entry}", c.good, c.end)?,
                    (true, None) => write!(out, " {}hit{}", c.good, c.end)?,
                    (false, _) => write!(out, " {}miss{}", c.bad, c.end)?,
                }
                match action {
                    Some(action) => {
                        write!(out, ": {action}")?;
                        list(out, "(", data, ")")
                    }
                    None => Ok(()),
                }
            }
            TraceEvent::Changed {
                field,
                before,
                after,
            } => write!(
                out,
                "#{n}     {field}: {before} > {}{after}{}",
                c.good, c.end
            ),
            TraceEvent::Queued {
                port,
                priority,
                rid,
            } => {
                write!(out, "#{n}   to port {port}, priority {priority}")?;
                match rid {
                    0 => Ok(()),
                    rid => write!(out, ", rid {rid}"),
                }
            }
            TraceEvent::Egress { port } => write!(out, "#{n}   egress for port {port}"),
            TraceEvent::Cloned { session } => write!(out, "#{n}   clone to session {session}"),
            TraceEvent::Resubmitted => write!(out, "#{n}   resubmitted"),
            TraceEvent::Recirculated => write!(out, "#{n}   recirculated"),
            TraceEvent::Out { port, bytes } => {
                write!(
                    out,
                    "{}#{n} out{} port {port}, {bytes} bytes",
                    c.strong, c.end
                )
            }
            TraceEvent::Dropped { reason } => {
                write!(out, "{}#{n} dropped{}: {reason}", c.bad, c.end)
            }
        }
    }
}

fn list(out: &mut String, open: &str, items: &[NamedValue], close: &str) -> fmt::Result {
    out.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(out, "{comma}{} = {}", item.name, item.value)?;
    }
    out.write_str(close)
}

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
    /// Whether traces of packets are recorded.
    pub traces: bool,
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
}

/// Number of packets for which copies are counted. With more packets in the switch, the numbers of copies may repeat.
const COUNTED_PACKETS: usize = 4096;

/// Maximum number of recorded lines between two calls that take them. Further lines are discarded, so that a program
/// that loops does not fill the memory.
const MAX_LINES: usize = 10_000;

impl Recorder {
    pub fn new(traces: bool, logs: bool, logged: u64) -> Recorder {
        Recorder {
            traces,
            logs,
            logged,
            copies: vec![0; if logs { COUNTED_PACKETS } else { 0 }],
            ..Recorder::default()
        }
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
    pub fn begin(&mut self) -> u64 {
        self.packets += 1;
        let number = self.packets;
        if let Some(copies) = self.copies_of(number) {
            *copies = 0;
        }
        number
    }

    /// Returns the number of the next copy of a packet, counted from 1; 0 if the log is off.
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
        let packet = self.packet;
        if self.traces && self.lines.len() < MAX_LINES {
            self.lines.push(TraceLine { packet, event });
        }
    }

    /// Selects the packet and copy to which the following steps belong.
    pub fn select_packet(&mut self, packet: u64, copy: u32, phv: &[u64]) {
        (self.packet, self.copy) = (packet, copy);
        self.see(phv);
    }

    fn see(&mut self, phv: &[u64]) {
        self.seen.clear();
        self.seen.extend_from_slice(phv);
    }

    pub fn parser_state(&mut self, name: &str) {
        if self.traces {
            self.states.push(name.to_owned());
        }
        self.log(|| Step::State(name.to_owned()));
    }

    /// Records the result of the parser.
    pub fn parsed(&mut self, program: &LoadedProgram, phv: &[u64], payload: usize) {
        if !self.traces {
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
        if !self.traces || self.seen.get(..end) == phv.get(..end) {
            return;
        }
        let seen = std::mem::take(&mut self.seen);
        for h in &program.layout.headers {
            self.header_changes(h, &seen, phv);
        }
        self.seen = seen;
        self.see(phv);
    }

    fn header_changes(&mut self, h: &Header, seen: &[u64], phv: &[u64]) {
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
                let field = format!("{}.{}", h.name, f.name);
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
