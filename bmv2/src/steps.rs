//! Steps of packets in the format of simple_switch's log, which scripts and course material parse.
//!
//! More detailed than a [trace](crate::trace), and off by default ([`Switch::set_log`](crate::Switch::set_log)).
//! Conditions and primitives are logged only by programs loaded with notes
//! ([`LoadedProgram::with_notes`](crate::LoadedProgram::with_notes)).

use crate::tables::{EntryTarget, KeyMatch, TableEntry};
use std::fmt::{self, Display, Formatter};

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// A log entry of one or several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Number of the received frame, from 0.
    pub packet: u64,
    /// Number of the copy of the packet.
    pub copy: u32,
    pub step: Step,
}

/// A step of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Received {
        port: u64,
    },
    ParserStart,
    State(String),
    Extract(String),
    ExtractVarbit(String),
    Key {
        state: String,
        key: String,
    },
    NoKey(String),
    Parsed {
        bytes: usize,
    },
    ParserError(String),
    Verified {
        checksum: String,
        right: bool,
    },
    NotVerified {
        checksum: String,
        why: &'static str,
    },
    ParserEnd,
    PipelineStart(&'static str),
    PipelineEnd(&'static str),
    Exit,
    Apply(String),
    LookUp(Vec<(String, String)>),
    Hit {
        table: String,
        handle: u32,
    },
    Entry {
        handle: u32,
        keys: Vec<EntryKey>,
        entry: TableEntry,
    },
    Miss(String),
    Action {
        name: Option<String>,
        args: Vec<String>,
    },
    /// A note of the program.
    Note(String),
    /// `log_msg`.
    Message(String),
    OutOfBounds {
        what: &'static str,
        name: String,
        size: usize,
        index: u64,
    },
    Multicast,
    NoGroup(u32),
    Replicate {
        port: u32,
    },
    Cloning(&'static str),
    CloneTo {
        what: &'static str,
        number: u32,
    },
    Learn {
        list: u32,
    },
    Resubmit,
    EgressPort(u64),
    Priority,
    Dropped(&'static str),
    DeparserStart,
    Updated {
        checksum: String,
        met: bool,
    },
    Deparse(String),
    DeparserEnd,
    Recirculate,
    Sent {
        bytes: usize,
        port: u32,
    },
}

/// A key field, for printing entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryKey {
    pub name: String,
    pub bits: u32,
}

impl Step {
    pub fn level(&self) -> Level {
        match self {
            Step::Parsed { .. }
            | Step::NotVerified { .. }
            | Step::Apply(_)
            | Step::Note(_)
            | Step::Learn { .. }
            | Step::Updated { met: false, .. } => Level::Trace,
            Step::Message(_) => Level::Info,
            Step::NoGroup(_) => Level::Warn,
            Step::ParserError(_) | Step::OutOfBounds { .. } | Step::Priority => Level::Error,
            _ => Level::Debug,
        }
    }

    /// Returns whether BMv2 logs the step without the packet's number.
    fn is_general(&self) -> bool {
        matches!(
            self,
            Step::Message(_) | Step::NoGroup(_) | Step::Learn { .. } | Step::Priority
        )
    }
}

impl Display for LogLine {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if !self.step.is_general() {
            write!(f, "[{}.{}] [cxt 0] ", self.packet, self.copy)?;
        }
        self.step.fmt(f)
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Step::Received { port } => write!(f, "Processing packet received on port {port}"),
            Step::ParserStart => f.write_str("Parser 'parser': start"),
            Step::State(state) => write!(f, "Parser 'parser' entering state '{state}'"),
            Step::Extract(header) => write!(f, "Extracting header '{header}'"),
            Step::ExtractVarbit(header) => write!(f, "Extracting variable-sized header '{header}'"),
            Step::Key { state, key } => write!(f, "Parser state '{state}': key is {key}"),
            Step::NoKey(state) => {
                write!(
                    f,
                    "Parser state '{state}' has no switch, going to default next state"
                )
            }
            Step::Parsed { bytes } => write!(f, "Bytes parsed: {bytes}"),
            Step::ParserError(error) => write!(f, "Exception while parsing: {error}"),
            Step::Verified { checksum, right } => {
                let result = if *right { "passed" } else { "failed" };
                write!(f, "Verified checksum '{checksum}': {result}")
            }
            Step::NotVerified { checksum, why } => {
                write!(
                    f,
                    "Skipping checksum '{checksum}' verification because {why}"
                )
            }
            Step::ParserEnd => f.write_str("Parser 'parser': end"),
            Step::PipelineStart(name) => write!(f, "Pipeline '{name}': start"),
            Step::PipelineEnd(name) => write!(f, "Pipeline '{name}': end"),
            Step::Exit => f.write_str("Packet is marked for exit, interrupting pipeline"),
            Step::Apply(table) => write!(f, "Applying table '{table}'"),
            Step::LookUp(key) => {
                f.write_str("Looking up key:\n")?;
                let names = key.iter().map(|(name, _)| name.as_str());
                let width = name_width(names);
                key.iter()
                    .try_for_each(|(name, value)| writeln!(f, "* {name:width$}: {value}"))
            }
            Step::Hit { table, handle } => write!(f, "Table '{table}': hit with handle {handle}"),
            Step::Entry {
                handle,
                keys,
                entry,
            } => show_entry(f, *handle, keys, entry),
            Step::Miss(table) => write!(f, "Table '{table}': miss"),
            Step::Action { name, args } => {
                f.write_str("Action entry is ")?;
                match name {
                    Some(name) => show_call(f, name, args),
                    None => f.write_str("NULL"),
                }
            }
            Step::Note(text) | Step::Message(text) => f.write_str(text),
            Step::OutOfBounds {
                what,
                name,
                size,
                index,
            } => {
                let way = if *what == "register" {
                    "access"
                } else {
                    "update"
                };
                write!(f, "Attempted to {way} {what} '{name}' with size {size} at out-of-bounds index {index}.")
            }
            Step::Multicast => f.write_str("Multicast requested for packet"),
            Step::NoGroup(group) => {
                write!(
                    f,
                    "Replication requested for mgid {group}, which is not known to the PRE"
                )
            }
            Step::Replicate { port } => write!(f, "Replicating packet on port {port}"),
            Step::Cloning(pipeline) => write!(f, "Cloning packet at {pipeline}"),
            Step::CloneTo { what, number } => write!(f, "Cloning packet to {what} {number}"),
            Step::Learn { list } => write!(f, "Learning sample for list id {list}"),
            Step::Resubmit => f.write_str("Resubmitting packet"),
            Step::EgressPort(port) => write!(f, "Egress port is {port}"),
            Step::Priority => f.write_str("Priority out of range, dropping packet"),
            Step::Dropped(pipeline) => write!(f, "Dropping packet at the end of {pipeline}"),
            Step::DeparserStart => f.write_str("Deparser 'deparser': start"),
            Step::Updated {
                checksum,
                met: true,
            } => write!(f, "Updating checksum '{checksum}'"),
            Step::Updated {
                checksum,
                met: false,
            } => {
                write!(
                    f,
                    "Skipping checksum '{checksum}' update because condition not met"
                )
            }
            Step::Deparse(header) => write!(f, "Deparsing header '{header}'"),
            Step::DeparserEnd => f.write_str("Deparser 'deparser': end"),
            Step::Recirculate => f.write_str("Recirculating packet"),
            Step::Sent { bytes, port } => {
                write!(f, "Transmitting packet of size {bytes} out of port {port}")
            }
        }
    }
}

fn show_entry(
    f: &mut Formatter,
    handle: u32,
    keys: &[EntryKey],
    entry: &TableEntry,
) -> fmt::Result {
    write!(f, "Dumping entry {handle}\nMatch key:\n")?;
    let width = name_width(keys.iter().map(|key| key.name.as_str()));
    let mut ordered = false;
    for (EntryKey { name, bits }, given) in keys.iter().zip(&entry.key) {
        let hex = |bytes: &[u8]| padded_hex(bytes, *bits);
        let (kind, value) = match given {
            KeyMatch::Exact { value } => ("EXACT", hex(value)),
            KeyMatch::Lpm { value, prefix_len } => ("LPM", format!("{}/{prefix_len}", hex(value))),
            KeyMatch::Ternary { value, mask } => {
                ordered = true;
                ("TERNARY", format!("{} &&& {}", hex(value), hex(mask)))
            }
            KeyMatch::Range { low, high } => {
                ordered = true;
                ("RANGE", format!("{} -> {}", hex(low), hex(high)))
            }
            KeyMatch::Valid { value } => ("VALID", hex(&[u8::from(*value)])),
        };
        writeln!(f, "* {name:width$}: {kind:10}{value}")?;
    }
    if ordered {
        writeln!(f, "Priority: {}", entry.priority)?;
    }
    match &entry.target {
        EntryTarget::Action { name, args } => {
            f.write_str("Action entry: ")?;
            let args: Vec<String> = args.iter().map(|arg| short_hex(arg)).collect();
            show_call(f, name, &args)?;
        }
        EntryTarget::Member(member) => write!(f, "Index: member({member})")?,
        EntryTarget::Group(group) => write!(f, "Index: group({group})")?,
    }
    f.write_str("\n")
}

fn show_call(f: &mut Formatter, name: &str, args: &[String]) -> fmt::Result {
    write!(f, "{name} - ")?;
    args.iter().try_for_each(|arg| write!(f, "{arg},"))
}

fn name_width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(str::len).max().unwrap_or(0).max(20)
}

/// Formats as many digits as a field of `bits` bits has bytes for.
pub(crate) fn padded_hex(bytes: &[u8], bits: u32) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let width = 2 * bits.div_ceil(8) as usize;
    let surplus = digits.len().saturating_sub(width);
    format!("{:0>width$}", &digits[surplus..])
}

/// Formats without leading zeros.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        short => short.to_owned(),
    }
}
