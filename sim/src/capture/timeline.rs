//! Timeline in Chrome's trace event format, for viewers such as Perfetto (ui.perfetto.dev).
//!
//! Nodes are processes and their ports are threads. A frame on a link is a slice, which lasts as long as the frame
//! occupies the link. Losses and notes of nodes are instants.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;

use serde::Serialize;

use super::{Record, Sink};
use crate::engine::{wire_bytes, Observation, Observer};
use crate::frame::Frame;

/// Link rate in bits per second of each port, by node name and port number.
pub type Rates = BTreeMap<(String, u32), u64>;

/// Writes a timeline of a whole run.
pub struct Timeline<W> {
    sink: Rc<RefCell<Sink<Lines<W>>>>,
    rates: Rates,
    /// Process number of each node in the file.
    processes: BTreeMap<String, u32>,
    /// Process and thread numbers whose names have been written to the file.
    threads: BTreeSet<(u32, u32)>,
}

/// A JSON array with one object per line.
struct Lines<W> {
    writer: W,
    begun: bool,
}

impl<W: Write> Lines<W> {
    fn add(&mut self, line: &str) -> io::Result<()> {
        let before = if self.begun { ",\n" } else { "[\n" };
        self.begun = true;
        self.writer.write_all(before.as_bytes())?;
        self.writer.write_all(line.as_bytes())
    }

    fn end(&mut self) -> io::Result<()> {
        let end = if self.begun { "\n]\n" } else { "[]\n" };
        self.writer.write_all(end.as_bytes())?;
        self.writer.flush()
    }
}

/// An event of the trace event format.
#[derive(Serialize)]
struct Event<'e> {
    name: &'e str,
    ph: &'e str,
    /// Time of the event in microseconds, with nanoseconds as decimals.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    /// Scope of an instant event: `t` for its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'e str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<&'e str, String>,
}

/// Number of the thread that shows a node's notes. The thread of port N has number N + 1.
const NOTES: u32 = 0;

impl<W: Write + 'static> Timeline<W> {
    /// Creates a timeline that is written to `writer`. `rates`: rate of each port's link, which gives the duration of
    /// the slices.
    pub fn new(writer: W, rates: Rates) -> (Timeline<W>, Record) {
        let lines = Lines {
            writer,
            begun: false,
        };
        let (sink, record) = Sink::new(lines, Lines::end);
        let timeline = Timeline {
            sink,
            rates,
            processes: BTreeMap::new(),
            threads: BTreeSet::new(),
        };
        (timeline, record)
    }

    fn add(&mut self, event: &Event<'_>) {
        let line = serde_json::to_string(event).expect("every key of an event is a string");
        self.sink.borrow_mut().write(|lines| lines.add(&line));
    }

    /// Returns the process and thread numbers of a node's thread. Writes the names of both at their first use.
    fn place(&mut self, node: &str, thread: u32) -> (u32, u32) {
        let number = self.processes.len() as u32 + 1;
        let pid = match self.processes.get(node) {
            Some(pid) => *pid,
            None => {
                self.processes.insert(node.to_owned(), number);
                self.name("process_name", number, NOTES, node);
                number
            }
        };
        if self.threads.insert((pid, thread)) {
            let name = match thread {
                NOTES => "notes".to_owned(),
                port => format!("port {}", port - 1),
            };
            self.name("thread_name", pid, thread, &name);
        }
        (pid, thread)
    }

    fn name(&mut self, what: &str, pid: u32, tid: u32, name: &str) {
        self.add(&Event {
            name: what,
            ph: "M",
            ts: None,
            dur: None,
            pid,
            tid,
            s: None,
            args: BTreeMap::from([("name", name.to_owned())]),
        });
    }

    fn instant(&mut self, now: u64, node: &str, thread: u32, name: &str, frame: Option<String>) {
        let (pid, tid) = self.place(node, thread);
        self.add(&Event {
            name,
            ph: "i",
            ts: Some(microseconds(now)),
            dur: None,
            pid,
            tid,
            s: Some("t"),
            args: frame.into_iter().map(|frame| ("frame", frame)).collect(),
        });
    }
}

impl<W: Write + 'static> Observer for Timeline<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        match observation {
            Observation::Transmit { port, frame } => {
                let (pid, tid) = self.place(name, port + 1);
                let rate = self.rates.get(&(name.to_owned(), port));
                let busy = rate.map(|rate| wire_bytes(frame.len()) as f64 * 8e6 / *rate as f64);
                let title = Frame::read(frame).to_string();
                self.add(&Event {
                    name: &title,
                    ph: "X",
                    ts: Some(microseconds(now)),
                    dur: busy,
                    pid,
                    tid,
                    s: None,
                    args: BTreeMap::from([("bytes", frame.len().to_string())]),
                });
            }
            Observation::Drop {
                port,
                frame,
                reason,
                ..
            } => {
                let frame = frame.map(|frame| Frame::read(frame).to_string());
                self.instant(now, name, port + 1, reason.as_str(), frame);
            }
            Observation::Note(text) => {
                let text = text.to_string();
                self.instant(now, name, NOTES, &text, None);
            }
            // The end of the slice is known from its start.
            Observation::Receive { .. } => {}
            Observation::Group { .. } => {}
        }
    }

    fn wants_notes(&self) -> bool {
        true
    }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::testing::Shared;
    use crate::engine::DropReason;

    #[test]
    fn timeline_slices_last_as_long_as_frames_occupy_the_link() {
        let file = Shared::default();
        let rates = Rates::from([(("h1".to_owned(), 0), 1_000_000_000)]);
        let (mut timeline, record) = Timeline::new(file.clone(), rates);
        let frame: &[u8] = &[0; 101];
        timeline.observe(1_500, "h1", Observation::Transmit { port: 0, frame });
        timeline.observe(1_600, "s1", Observation::Receive { port: 1, frame });
        let (len, reason) = (frame.len(), DropReason::Fault);
        let lost = Observation::Drop {
            port: 2,
            len,
            frame: Some(frame),
            reason,
        };
        timeline.observe(1_700, "s1", lost);
        timeline.observe(1_800, "h1", Observation::Note("post \"1\" B"));
        record.finish().unwrap();

        let events: serde_json::Value = serde_json::from_slice(&file.bytes()).unwrap();
        let events = events.as_array().unwrap();
        let of = |phase: &str| {
            events
                .iter()
                .filter(|e| e["ph"] == phase)
                .cloned()
                .collect::<Vec<_>>()
        };
        let slices = of("X");
        assert_eq!(slices.len(), 1);
        // 125 bytes on the wire, with FCS, preamble and gap: 1 us at 1 Gbit/s.
        assert_eq!(
            (&slices[0]["ts"], &slices[0]["dur"]),
            (&1.5.into(), &1.0.into())
        );
        let names = of("M");
        let named = |what: &str, name: &str| {
            names
                .iter()
                .any(|e| e["name"] == what && e["args"]["name"] == name)
        };
        assert!(named("process_name", "h1") && named("process_name", "s1"));
        assert!(named("thread_name", "port 0") && named("thread_name", "port 2"));
        let instants = of("i");
        assert_eq!(instants[0]["name"], "loss");
        assert_eq!(instants[1]["name"], "post \"1\" B");
    }

    #[test]
    fn a_run_without_events_is_an_empty_array() {
        let file = Shared::default();
        let (_, record) = Timeline::new(file.clone(), Rates::new());
        record.finish().unwrap();
        assert_eq!(file.bytes(), b"[]\n");
    }
}
