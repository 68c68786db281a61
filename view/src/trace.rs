//! Format of traces, with writer and reader: lines of JSON, ordered by time.
//!
//! The first line is a [`Header`], all others are [`Event`]s, whose key `e` has the kind. Events refer to nodes by
//! their index in the header. Times are nanoseconds on the fabric's clock.

use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Version of the format that this crate reads and writes.
pub const VERSION: u32 = 2;

/// First line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format, [`VERSION`].
    pub alfirk_trace: u32,
    /// Program that wrote the trace, such as `alfirk 0.1.0`.
    pub program: String,
    /// Name of the run, such as `chain`.
    pub title: String,
    /// Name of the topology.
    pub topology: String,
    /// All nodes: hosts, switches and the controller. Events refer to them by index.
    pub nodes: Vec<Node>,
    /// Links between hosts and switches.
    pub links: Vec<Link>,
    /// Indexes in `nodes` of the hosts that take part in the run, the source first.
    pub members: Vec<usize>,
}

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name in the topology.
    pub name: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// IPv4 address of a host; `None` for other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<Ipv4Addr>,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// The controller.
    Controller,
}

/// A full-duplex link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Both ends: index of the node in the header, and port.
    pub ends: [(usize, u32); 2],
    /// Rate in bits per second in each direction.
    pub rate_bps: u64,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
}

/// An event: a line of the trace after the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The first bit of a frame leaves a port. Unless it is lost, its last bit arrives at the other end after its transmission time and the
    /// link's delay.
    Tx(FrameEvent),
    /// A frame is lost on the link at the time of its [`Event::Tx`], later because the link went down, or before it was
    /// sent, without an `Event::Tx`.
    Lost(LostEvent),
    /// A note: an action of a host's application, or a decision of the controller.
    Note(NoteEvent),
    /// The group state of a switch has changed.
    Mft(MftEvent),
    /// Last line of a trace.
    End(EndEvent),
}

/// A transmitted frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameEvent {
    /// Time in nanoseconds.
    pub t: u64,
    /// Index of the sending node in the header's list.
    pub n: usize,
    /// Port of the sending node.
    pub p: u32,
    /// Length of the frame in bytes, without its FCS.
    pub len: usize,
    /// Kind of the frame.
    pub k: FrameKind,
    /// PSN; `None` if the frame has no base transport header (BTH).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<u32>,
    /// Description of the frame, such as `10.0.0.1 > 10.255.0.1 SendFirst qp 1 psn 7 4096 B`.
    pub text: String,
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    /// A request of a reliable connection.
    Data,
    /// An ACK.
    Ack,
    /// A NAK, including RNR NAKs.
    Nak,
    /// A congestion notification.
    Cnp,
    /// Any other frame: ARP, flow control, registration and others.
    Other,
}

/// A lost frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostEvent {
    /// Time in nanoseconds.
    pub t: u64,
    /// Index of the node that sent the frame or should have sent it, or whose input queue was full.
    pub n: usize,
    /// Port of the node.
    pub p: u32,
    /// Length of the frame in bytes, without its FCS.
    pub len: usize,
    /// Reason of the loss: `loss`, `queue-full`, `input-full`, `too-long` or `link-down`.
    pub why: String,
    /// Description as in [`FrameEvent`]; empty if the frame was lost before its bytes existed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A note about a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteEvent {
    /// Time in nanoseconds.
    pub t: u64,
    /// Index of the node in the header's list.
    pub n: usize,
    /// Text of the note.
    pub text: String,
}

/// State of a group on a switch: its row of the Multicast Forwarding Table (MFT), and its registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MftEvent {
    /// Time in nanoseconds.
    pub t: u64,
    /// Index of the switch in the header's list of nodes.
    pub n: usize,
    /// The group's address (McstID).
    pub group: Ipv4Addr,
    /// All paths of the group in its first event of a switch, and after paths were added or removed; otherwise the
    /// paths that changed.
    pub paths: Vec<PathState>,
    /// Number of paths of the group on the switch; 0 if the group has been removed.
    pub count: usize,
    /// The group's registers; `None` if they were not read from the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<FeedbackState>,
}

/// State of a path of a group: one output port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathState {
    /// Index of the path in the group, from 0.
    pub path: usize,
    /// Port of the switch.
    pub port: u32,
    /// Newest PSN acknowledged on the path (AckPSN); on the path to the source, the newest PSN that the source has
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<u32>,
}

/// Registers of a switch for the feedback (ACKs and NAKs) of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedbackState {
    /// Smallest AckPSN of all paths: all receivers have acknowledged it.
    pub minimum: u32,
    /// Last PSN acknowledged to the source.
    pub last_acked: u32,
    /// Newest PSN that the source has sent.
    pub sent: u32,
    /// Port of the source; `None` before it has sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// PSN of a NAK that waits until all earlier PSNs are acknowledged, then is sent to the source; `None` if none
    /// waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nak: Option<u32>,
}

/// Last line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndEvent {
    /// Time of the end in nanoseconds; not before that of the last event.
    pub t: u64,
    /// Whether the trace has all events; false if it reached its size limit.
    pub complete: bool,
}

impl Event {
    /// Time of the event in nanoseconds.
    pub fn time(&self) -> u64 {
        match self {
            Event::Tx(event) => event.t,
            Event::Lost(event) => event.t,
            Event::Note(event) => event.t,
            Event::Mft(event) => event.t,
            Event::End(event) => event.t,
        }
    }

    /// Index of the node of the event, and its port if the event has one; `None` for the end.
    fn place(&self) -> Option<(usize, Option<u32>)> {
        match self {
            Event::Tx(event) => Some((event.n, Some(event.p))),
            Event::Lost(event) => Some((event.n, Some(event.p))),
            Event::Note(event) => Some((event.n, None)),
            Event::Mft(event) => Some((event.n, None)),
            Event::End(_) => None,
        }
    }
}

/// Writer of a trace.
pub struct Writer<W> {
    to: W,
    /// Number of bytes that can still be written before the last line.
    remaining_bytes: u64,
    /// Time of the last event.
    last_time: u64,
    is_cut: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a trace. Its events may have at most `limit` bytes in total.
    ///
    /// # Errors
    /// The output `to` cannot be written.
    pub fn new(to: W, header: &Header, limit: u64) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            to,
            remaining_bytes: u64::MAX,
            last_time: 0,
            is_cut: false,
        };
        writer.line(header)?;
        writer.remaining_bytes = limit;
        Ok(writer)
    }

    /// Writes an event; does nothing once the limit is reached.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if !self.is_cut {
            self.last_time = event.time();
            self.line(event)?;
        }
        Ok(())
    }

    /// Whether the size limit is reached, so that further events would be ignored.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Writes the last line ([`Event::End`]).
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        let end = Event::End(EndEvent {
            t: self.last_time,
            complete: !self.is_cut,
        });
        self.remaining_bytes = u64::MAX;
        self.line(&end)?;
        self.to.flush()
    }

    fn line(&mut self, what: &impl Serialize) -> io::Result<()> {
        let line = alfirk_json_lines::to_line(what)?;
        match self.remaining_bytes.checked_sub(line.len() as u64) {
            Some(left) => {
                self.remaining_bytes = left;
                self.to.write_all(&line)
            }
            None => {
                self.is_cut = true;
                Ok(())
            }
        }
    }
}

/// Why a file is not a trace. Line numbers start at 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first line is not a header.
    #[error("line 1: not a trace for the page ({why}); alfirk run --trace FILE.jsonl writes one")]
    NoHeader {
        /// Why the line is not a header, from the JSON parser.
        why: String,
    },
    /// The trace has a format version that this crate does not read.
    #[error("line 1: version {found} of the format; this alfirk reads version {VERSION}")]
    Version {
        /// Format version of the file.
        found: u32,
    },
    /// A line is not a valid event, or contradicts the header or the line before.
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line in the file, from 1.
        line: usize,
        /// What is wrong with the line.
        why: String,
    },
}

/// Reads and checks a whole trace. A trace without [`Event::End`] is accepted, because its run may have been
/// interrupted or may continue.
///
/// # Errors
/// The trace cannot be read or is not valid; the error is the first one.
pub fn read(from: impl BufRead) -> Result<(Header, Vec<Event>), TraceError> {
    let mut lines = from.lines().enumerate();
    let no_header = |why: String| TraceError::NoHeader { why };
    let first = match lines.next() {
        Some((_, line)) => line.map_err(unreadable(1))?,
        None => return Err(no_header("it is empty".to_owned())),
    };
    let header = header(&first)?;
    let mut events = Vec::new();
    let mut last = 0;
    let mut has_ended = false;
    for (number, line) in lines {
        let number = number + 1;
        let line = line.map_err(unreadable(number))?;
        let bad = |why: String| TraceError::Line { line: number, why };
        let event: Event = serde_json::from_str(&line).map_err(|why| bad(why.to_string()))?;
        if has_ended {
            return Err(bad("an event after the `end` event".to_owned()));
        }
        if event.time() < last {
            let (at, last) = (event.time(), last);
            return Err(bad(format!(
                "time {at} is before that of the line above, {last}"
            )));
        }
        last = event.time();
        check_place(&header, &event).map_err(bad)?;
        has_ended = matches!(event, Event::End(_));
        events.push(event);
    }
    Ok((header, events))
}

/// Converts an error of a read: invalid UTF-8 is an invalid line of the trace, all others are errors of the operating
/// system.
fn unreadable(line: usize) -> impl Fn(io::Error) -> TraceError {
    move |error| match error.kind() {
        io::ErrorKind::InvalidData if line == 1 => TraceError::NoHeader {
            why: "it is not UTF-8 text".to_owned(),
        },
        io::ErrorKind::InvalidData => TraceError::Line {
            line,
            why: "it is not UTF-8 text".to_owned(),
        },
        _ => TraceError::Io(error),
    }
}

/// Parses and checks the first line of a trace.
fn header(line: &str) -> Result<Header, TraceError> {
    /// Part of the header that all format versions have.
    #[derive(Deserialize)]
    struct CommonHeader {
        alfirk_trace: u32,
    }
    let no_header = |why: serde_json::Error| TraceError::NoHeader {
        why: why.to_string(),
    };
    let any: CommonHeader = serde_json::from_str(line).map_err(no_header)?;
    if any.alfirk_trace != VERSION {
        return Err(TraceError::Version {
            found: any.alfirk_trace,
        });
    }
    let header: Header = serde_json::from_str(line).map_err(no_header)?;
    let bad = |why: String| TraceError::Line { line: 1, why };
    let count = header.nodes.len();
    for (number, link) in header.links.iter().enumerate() {
        if link.ends.iter().any(|(node, _)| *node >= count) {
            return Err(bad(format!(
                "link {number} ends at a node that is not in `nodes`"
            )));
        }
        if link.rate_bps == 0 {
            return Err(bad(format!("link {number}: `rate_bps` must not be 0")));
        }
    }
    let is_host = |&member: &usize| {
        let node = header.nodes.get(member);
        node.is_some_and(|node| node.kind == NodeKind::Host)
    };
    if let Some(member) = header.members.iter().find(|member| !is_host(member)) {
        return Err(bad(format!(
            "member {member} is not the index of a host in `nodes`"
        )));
    }
    Ok(header)
}

/// Checks that the node and port of an event are in the header.
fn check_place(header: &Header, event: &Event) -> Result<(), String> {
    let Some((node, port)) = event.place() else {
        return Ok(());
    };
    let Some(known) = header.nodes.get(node) else {
        return Err(format!("node {node} is not in `nodes` of the header"));
    };
    let is_switch = known.kind == NodeKind::Switch;
    if matches!(event, Event::Mft(_)) && !is_switch {
        return Err(format!("{} is not a switch", known.name));
    }
    if let (Some(port), Event::Tx(_)) = (port, event) {
        let is_there = |link: &Link| link.ends.contains(&(node, port));
        if !header.links.iter().any(is_there) {
            return Err(format!("port {port} of {} has no link", known.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_nodes() -> Header {
        let node = |name: &str, kind| Node {
            name: name.to_owned(),
            kind,
            ip: None,
        };
        Header {
            alfirk_trace: VERSION,
            program: "test".to_owned(),
            title: "chain".to_owned(),
            topology: "pair".to_owned(),
            nodes: vec![node("h1", NodeKind::Host), node("s1", NodeKind::Switch)],
            links: vec![Link {
                ends: [(0, 0), (1, 1)],
                rate_bps: 1_000_000_000,
                delay_ns: 500,
            }],
            members: vec![0],
        }
    }

    fn written(events: &[Event], limit: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &two_nodes(), limit).unwrap();
        for event in events {
            writer.event(event).unwrap();
        }
        writer.finish().unwrap();
        bytes
    }

    fn note(t: u64, text: &str) -> Event {
        let text = text.to_owned();
        Event::Note(NoteEvent { t, n: 0, text })
    }

    fn event() -> impl Strategy<Value = Event> {
        let kinds = [
            FrameKind::Data,
            FrameKind::Ack,
            FrameKind::Nak,
            FrameKind::Cnp,
            FrameKind::Other,
        ];
        let psn = prop::option::of(0u32..1 << 24);
        let frame = (
            any::<bool>(),
            prop::sample::select(kinds.to_vec()),
            psn,
            ".*",
        );
        let frame = frame.prop_map(|(is_host, k, psn, text)| {
            let (n, p) = if is_host { (0, 0) } else { (1, 1) };
            Event::Tx(FrameEvent {
                t: 0,
                n,
                p,
                len: 60,
                k,
                psn,
                text,
            })
        });
        let lost = ("[a-z-]*", ".*").prop_map(|(why, text)| {
            Event::Lost(LostEvent {
                t: 0,
                n: 1,
                p: 9,
                len: 60,
                why,
                text,
            })
        });
        let psn = 0u32..1 << 24;
        let nak = prop::option::of(psn.clone());
        let feedback = (psn.clone(), psn.clone(), psn.clone(), nak, any::<bool>());
        let feedback =
            feedback.prop_map(
                |(minimum, last_acked, sent, nak, has_source)| FeedbackState {
                    minimum,
                    last_acked,
                    sent,
                    nak,
                    source: has_source.then_some(1),
                },
            );
        let mft =
            (prop::option::of(psn), prop::option::of(feedback)).prop_map(|(ack, feedback)| {
                Event::Mft(MftEvent {
                    t: 0,
                    n: 1,
                    group: Ipv4Addr::new(10, 255, 0, 1),
                    paths: vec![PathState {
                        path: 0,
                        port: 1,
                        ack,
                    }],
                    count: 1,
                    feedback,
                })
            });
        prop_oneof![frame, lost, ".*".prop_map(|text| note(0, &text)), mft]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(event(), 0..20)) {
            let bytes = written(&events, u64::MAX);
            let (header, read) = read(&bytes[..]).unwrap();
            prop_assert_eq!(header, two_nodes());
            let (end, rest) = read.split_last().unwrap();
            prop_assert_eq!(rest, &events[..]);
            prop_assert_eq!(end, &Event::End(EndEvent { t: 0, complete: true }));
        }

        #[test]
        fn nothing_makes_the_reader_panic(events in prop::collection::vec(event(), 0..4), at in any::<prop::sample::Index>(), to: u8) {
            let mut bytes = written(&events, u64::MAX);
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = read(&bytes[..]);
            bytes.truncate(at);
            let _ = read(&bytes[..]);
        }
    }

    #[test]
    fn a_trace_reports_that_it_reached_its_limit() {
        let events: Vec<Event> = (0..100).map(|t| note(t, "a note of some length")).collect();
        let bytes = written(&events, 1_000);
        let (_, read) = read(&bytes[..]).unwrap();
        let (end, rest) = read.split_last().unwrap();
        assert!(!rest.is_empty() && rest.len() < 100);
        let t = rest.len() as u64;
        let expected = EndEvent { t, complete: false };
        assert_eq!(end, &Event::End(expected));
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        let bytes = written(&[note(5, "a")], u64::MAX);
        let whole = String::from_utf8(bytes).unwrap();
        let with = |line: &str| {
            let (before, _) = whole.rsplit_once("{\"e\":\"end\"").unwrap();
            read(format!("{before}{line}\n").as_bytes())
                .unwrap_err()
                .to_string()
        };
        let cases = [
            ("{\"e\":\"note\",\"t\":4,\"n\":0,\"text\":\"\"}", "line 3: time 4 is before that of the line above, 5"),
            ("{\"e\":\"note\",\"t\":6,\"n\":2,\"text\":\"\"}", "line 3: node 2 is not in `nodes` of the header"),
            ("{\"e\":\"mft\",\"t\":6,\"n\":0,\"group\":\"10.255.0.1\",\"paths\":[],\"count\":0}", "line 3: h1 is not a switch"),
            ("{\"e\":\"tx\",\"t\":6,\"n\":1,\"p\":2,\"len\":1,\"k\":\"ack\",\"text\":\"\"}", "line 3: port 2 of s1 has no link"),
            ("{\"e\":\"end\",\"t\":6,\"complete\":true}\n{\"e\":\"end\",\"t\":6,\"complete\":true}", "line 4: an event after the `end` event"),
            ("{\"e\":\"note\"", "line 3: EOF while parsing"),
        ];
        for (line, expected) in cases {
            let error = with(line);
            assert!(error.starts_with(expected), "{error}");
        }
        let other = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(other("").starts_with("line 1: not a trace for the page (it is empty)"));
        assert!(other("hello\n").starts_with("line 1: not a trace for the page"));
        assert_eq!(
            other("{\"alfirk_trace\":3}\n"),
            "line 1: version 3 of the format; this alfirk reads version 2"
        );
        assert!(read(&b"\xff\xff\n"[..])
            .unwrap_err()
            .to_string()
            .contains("not UTF-8 text"));
    }
}
