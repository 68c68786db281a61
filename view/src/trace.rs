//! The format of traces: lines of JSON, in the order of time.
//!
//! The first line is a [`Header`], all others are [`Event`]s, told apart by `e`. Nodes are named by their position in the
//! header. Times are nanoseconds on the fabric's clock.

use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// The version that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`]
    pub alfirk_trace: u32,
    /// Who wrote it, such as `alfirk 0.1.0`.
    pub program: String,
    /// What was run, such as `chain`.
    pub title: String,
    /// The topology's name.
    pub topology: String,
    /// Hosts, switches and the controller.
    pub nodes: Vec<Node>,
    /// Links between hosts and switches.
    pub links: Vec<Link>,
    /// Hosts that take part, the source first, by their position in `nodes`.
    pub members: Vec<usize>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in the topology.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// A host's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<Ipv4Addr>,
}

/// What a node is.
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
    /// Node and port of both ends.
    pub ends: [(usize, u32); 2],
    /// Bits per second in each direction.
    pub rate_bps: u64,
    /// Nanoseconds from one end to the other.
    pub delay_ns: u64,
}

/// Any line but the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The first bit of a frame leaves a port. Its last bit arrives at the other end after the time that its bytes on the wire take at
    /// the link's rate, and the link's delay; unless it is lost.
    Tx(FrameEvent),
    /// A frame is lost: at the time of its [`Event::Tx`], on the link; later, because the link went down; without one, before it
    /// could be sent.
    Lost(LostEvent),
    /// A note of a node: hosts what their applications do, the controller what it decides.
    Note(NoteEvent),
    /// What a switch keeps of a group is another now.
    Mft(MftEvent),
    /// The last line.
    End(EndEvent),
}

/// A frame on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameEvent {
    /// When.
    pub t: u64,
    /// The node that sends it.
    pub n: usize,
    /// Its port.
    pub p: u32,
    /// Bytes, from the Ethernet header to the last byte before the FCS.
    pub len: usize,
    /// What it is.
    pub k: FrameKind,
    /// Its PSN, if it has a BTH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<u32>,
    /// All of it for people, such as `10.0.0.1 > 10.255.0.1 SendFirst qp 1 psn 7 4096 B`.
    pub text: String,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    /// A request of a reliable connection.
    Data,
    /// An ACK.
    Ack,
    /// A NAK, RNR NAKs included.
    Nak,
    /// A congestion notification.
    Cnp,
    /// ARP, flow control, registration, and all else.
    Other,
}

/// A frame is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostEvent {
    /// When.
    pub t: u64,
    /// The node that sent it or was to send it, or where it found no room when it came in.
    pub n: usize,
    /// The node's port.
    pub p: u32,
    /// Bytes.
    pub len: usize,
    /// Why: `loss`, `queue-full`, `input-full`, `too-long` or `link-down`.
    pub why: String,
    /// As in [`FrameEvent`]; empty if it was lost before it was put together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A note of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteEvent {
    /// When.
    pub t: u64,
    /// The node.
    pub n: usize,
    /// What.
    pub text: String,
}

/// A switch's row of the Multicast Forwarding Table, and the group's registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MftEvent {
    /// When.
    pub t: u64,
    /// The switch.
    pub n: usize,
    /// The group's address (McstID).
    pub group: Ipv4Addr,
    /// Every path in a group's first line of a switch and whenever paths have come or gone; else those that have changed.
    pub paths: Vec<PathState>,
    /// How many paths there are; none if the group is gone.
    pub count: usize,
    /// The rest, if a switch has been asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<FeedbackState>,
}

/// A path of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathState {
    /// Its number.
    pub path: usize,
    /// The switch's port.
    pub port: u32,
    /// The newest PSN that all behind the port have (AckPSN), or that a sender behind it has sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<u32>,
}

/// What a switch knows of a group's feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedbackState {
    /// The oldest AckPSN.
    pub minimum: u32,
    /// What was last acknowledged to the source.
    pub told: u32,
    /// The newest PSN that the source has sent.
    pub sent: u32,
    /// The port of the source, once it has sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// The PSN of the NAK that waits until everything before it is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nak: Option<u32>,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndEvent {
    /// The last event's time, or later.
    pub t: u64,
    /// Whether all of the run is there: false if the trace has reached its limit.
    pub complete: bool,
}

impl Event {
    /// When it was.
    pub fn time(&self) -> u64 {
        match self {
            Event::Tx(event) => event.t,
            Event::Lost(event) => event.t,
            Event::Note(event) => event.t,
            Event::Mft(event) => event.t,
            Event::End(event) => event.t,
        }
    }

    /// Node and port.
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

/// Writes a trace.
pub struct Writer<W> {
    to: W,
    /// Bytes that may still be written, but for the last line.
    left: u64,
    last: u64,
    is_cut: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a trace of at most `limit` bytes and a line.
    ///
    /// # Errors
    /// `to`'s.
    pub fn new(to: W, header: &Header, limit: u64) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            to,
            left: u64::MAX,
            last: 0,
            is_cut: false,
        };
        writer.line(header)?;
        writer.left = limit;
        Ok(writer)
    }

    /// Writes an event, or nothing once the limit is reached.
    ///
    /// # Errors
    /// The writer's.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if !self.is_cut {
            self.last = event.time();
            self.line(event)?;
        }
        Ok(())
    }

    /// Whether the limit is reached, so that further events are not worth making.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(&mut self) -> io::Result<()> {
        let end = Event::End(EndEvent {
            t: self.last,
            complete: !self.is_cut,
        });
        self.left = u64::MAX;
        self.line(&end)?;
        self.to.flush()
    }

    fn line(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        match self.left.checked_sub(line.len() as u64) {
            Some(left) => {
                self.left = left;
                self.to.write_all(&line)
            }
            None => {
                self.is_cut = true;
                Ok(())
            }
        }
    }
}

/// Why something is not a trace. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first line is something else.
    #[error(
        "line 1: this is no trace for the page ({why}); alfirk run --trace FILE.jsonl writes one"
    )]
    NoHeader {
        /// What is wrong.
        why: String,
    },
    /// Of another version.
    #[error("line 1: version {found} of the format; this alfirk reads version {VERSION}")]
    Version {
        /// That version.
        found: u32,
    },
    /// A line is no event.
    #[error("line {line}: {why}")]
    Line {
        /// Which one.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Reads and checks a whole trace. One that does not end with [`Event::End`] is taken as it is: its run was interrupted, or still goes
/// on.
///
/// # Errors
/// The first thing that is wrong.
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
            return Err(bad("an event behind the end".to_owned()));
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

/// An error of reading: bytes that are no text are the file's fault, all else the system's.
fn unreadable(line: usize) -> impl Fn(io::Error) -> TraceError {
    move |error| match error.kind() {
        io::ErrorKind::InvalidData if line == 1 => TraceError::NoHeader {
            why: "it is no text".to_owned(),
        },
        io::ErrorKind::InvalidData => TraceError::Line {
            line,
            why: "it is no text".to_owned(),
        },
        _ => TraceError::Io(error),
    }
}

fn header(line: &str) -> Result<Header, TraceError> {
    /// What of every version can be read.
    #[derive(Deserialize)]
    struct Any {
        alfirk_trace: u32,
    }
    let no_header = |why: serde_json::Error| TraceError::NoHeader {
        why: why.to_string(),
    };
    let any: Any = serde_json::from_str(line).map_err(no_header)?;
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
                "link {number} ends at a node that is not there"
            )));
        }
        if link.rate_bps == 0 {
            return Err(bad(format!("link {number} has no rate")));
        }
    }
    let is_host = |&member: &usize| {
        let node = header.nodes.get(member);
        node.is_some_and(|node| node.kind == NodeKind::Host)
    };
    if let Some(member) = header.members.iter().find(|member| !is_host(member)) {
        return Err(bad(format!("member {member} is no host")));
    }
    Ok(header)
}

fn check_place(header: &Header, event: &Event) -> Result<(), String> {
    let Some((node, port)) = event.place() else {
        return Ok(());
    };
    let Some(known) = header.nodes.get(node) else {
        return Err(format!("there is no node {node}"));
    };
    let is_switch = known.kind == NodeKind::Switch;
    if matches!(event, Event::Mft(_)) && !is_switch {
        return Err(format!("{} is no switch", known.name));
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
        let feedback = feedback.prop_map(|(minimum, told, sent, nak, has_source)| FeedbackState {
            minimum,
            told,
            sent,
            nak,
            source: has_source.then_some(1),
        });
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
    fn a_trace_that_reaches_its_limit_says_so() {
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
    fn what_is_wrong_is_said_with_its_line() {
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
            ("{\"e\":\"note\",\"t\":6,\"n\":2,\"text\":\"\"}", "line 3: there is no node 2"),
            ("{\"e\":\"mft\",\"t\":6,\"n\":0,\"group\":\"10.255.0.1\",\"paths\":[],\"count\":0}", "line 3: h1 is no switch"),
            ("{\"e\":\"tx\",\"t\":6,\"n\":1,\"p\":2,\"len\":1,\"k\":\"ack\",\"text\":\"\"}", "line 3: port 2 of s1 has no link"),
            ("{\"e\":\"end\",\"t\":6,\"complete\":true}\n{\"e\":\"end\",\"t\":6,\"complete\":true}", "line 4: an event behind the end"),
            ("{\"e\":\"note\"", "line 3: EOF while parsing"),
        ];
        for (line, expected) in cases {
            let error = with(line);
            assert!(error.starts_with(expected), "{error}");
        }
        let other = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(other("").starts_with("line 1: this is no trace for the page (it is empty)"));
        assert!(other("hello\n").starts_with("line 1: this is no trace for the page"));
        assert_eq!(
            other("{\"alfirk_trace\":2}\n"),
            "line 1: version 2 of the format; this alfirk reads version 1"
        );
        assert!(read(&b"\xff\xff\n"[..])
            .unwrap_err()
            .to_string()
            .contains("no text"));
    }
}
