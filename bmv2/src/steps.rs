//! The packet log: steps of packets in the format of `simple_switch`'s log, which scripts and course material
//! parse.
//!
//! It is more detailed than a [trace](crate::trace), and off by default
//! ([`Switch::set_log`](crate::Switch::set_log)). Conditions and primitives are logged only by programs loaded with
//! notes ([`LoadedProgram::with_notes`](crate::LoadedProgram::with_notes)).

use crate::tables::{EntryTarget, KeyMatch, TableEntry};
use std::fmt::{self, Display, Formatter};

/// Severity of a log line, with BMv2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details that explain a step.
    Trace,
    /// A normal step of a packet.
    Debug,
    /// A text that the P4 program itself logs, by `log_msg`.
    Info,
    /// A step that probably is a mistake in the P4 program or of the control plane.
    Warn,
    /// A step that failed.
    Error,
}

/// A log entry of one or several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Number of the received frame, from 0; copies have the number of the original.
    pub packet: u64,
    /// Number of the copy: 0 for the received packet, counted from 1 for its copies.
    pub copy: u32,
    /// The step of the packet that the line reports.
    pub step: Step,
}

/// A step of a packet. Values of any width are hexadecimal text without `0x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ingress starts on a packet.
    Received {
        /// Ingress port.
        port: u64,
    },
    /// The parser starts.
    ParserStart,
    /// The parser enters the state of this name.
    State(String),
    /// The parser extracts the header of this name, which has a fixed length.
    Extract(String),
    /// The parser extracts the header of this name, which has a varbit field.
    ExtractVarbit(String),
    /// A parser state evaluates the key of its `select`.
    Key {
        /// Name of the state.
        state: String,
        /// Value of the operands, each padded to whole bytes.
        key: String,
    },
    /// The parser state of this name has no `select`.
    NoKey(String),
    /// The parser has finished.
    Parsed {
        /// Number of bytes of the packet that the parser extracted or skipped.
        bytes: usize,
    },
    /// The parser failed with the error constant of this name.
    ParserError(String),
    /// A checksum was verified.
    Verified {
        /// Name of the checksum.
        checksum: String,
        /// Whether the checksum field had the computed value.
        right: bool,
    },
    /// A checksum was not verified.
    NotVerified {
        /// Name of the checksum.
        checksum: String,
        /// Reason why the checksum was not verified, as the end of a sentence.
        why: &'static str,
    },
    /// The parser has ended, and checksums have been verified.
    ParserEnd,
    /// The pipeline of this name, `ingress` or `egress`, starts.
    PipelineStart(&'static str),
    /// The pipeline of this name has ended.
    PipelineEnd(&'static str),
    /// An `exit` statement has ended the pipeline.
    Exit,
    /// The table of this name is applied to the packet.
    Apply(String),
    /// A table looks up a key: name and value of each key field.
    LookUp(Vec<(String, String)>),
    /// An entry of a table matched the packet.
    Hit {
        /// Name of the table.
        table: String,
        /// Handle of the entry, as in BMv2.
        handle: u32,
    },
    /// Contents of the entry that matched, logged after [`Step::Hit`].
    Entry {
        /// Handle of the entry, as in BMv2.
        handle: u32,
        /// Key fields of the table, in the order of the entry's key.
        keys: Vec<EntryKey>,
        /// Key, priority and target of the entry.
        entry: TableEntry,
    },
    /// No entry of the table of this name matched.
    Miss(String),
    /// A table runs an action.
    Action {
        /// Name of the action; `None` on a miss without default action.
        name: Option<String>,
        /// Argument values of the action, in the order of the parameters.
        args: Vec<String>,
    },
    /// The text of a condition or primitive, written by a program that was loaded with notes.
    Note(String),
    /// The text of a `log_msg` call.
    Message(String),
    /// A packet used an index beyond the end of an array; the access had no effect.
    OutOfBounds {
        /// Kind of the array: `register`, `counter` or `meter`.
        what: &'static str,
        /// Name of the array.
        name: String,
        /// Number of cells of the array.
        size: usize,
        /// Index that the packet used.
        index: u64,
    },
    /// The packet is replicated to a multicast group.
    Multicast,
    /// The multicast group of this number does not exist.
    NoGroup(u32),
    /// A copy of the packet is created for a multicast group.
    Replicate {
        /// Egress port of the copy.
        port: u32,
    },
    /// The packet is cloned at the end of this pipeline.
    Cloning(&'static str),
    /// The destination of a clone was determined.
    CloneTo {
        /// Kind of the destination in BMv2's log: `egress port` or `MGID`, the id of a multicast group.
        what: &'static str,
        /// Number of the port or of the multicast group.
        number: u32,
    },
    /// A digest is sent to the control plane.
    Learn {
        /// Id of the learn list, which is the list of fields that the digest contains.
        list: u32,
    },
    /// The packet is resubmitted to ingress.
    Resubmit,
    /// Ingress has ended with this value of `egress_spec`.
    EgressPort(u64),
    /// The packet is dropped, because its priority is not below the number of queues per port.
    Priority,
    /// The packet is dropped at the end of this pipeline.
    Dropped(&'static str),
    /// The deparser starts.
    DeparserStart,
    /// The deparser reaches a checksum to update.
    Updated {
        /// Name of the checksum.
        checksum: String,
        /// Whether the condition of the checksum holds, so that its field is updated.
        met: bool,
    },
    /// The deparser emits the header of this name.
    Deparse(String),
    /// The deparser has ended.
    DeparserEnd,
    /// The packet is recirculated to ingress.
    Recirculate,
    /// The packet leaves the switch.
    Sent {
        /// Length of the frame in bytes.
        bytes: usize,
        /// Egress port.
        port: u32,
    },
}

/// A key field of a table, by which the log prints entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryKey {
    /// Name of the key field.
    pub name: String,
    /// Width of the key field in bits.
    pub bits: u32,
}

impl Step {
    /// Returns the level at which BMv2 logs the step.
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
                let verb = if *what == "register" {
                    "access"
                } else {
                    "update"
                };
                write!(f, "Attempted to {verb} {what} '{name}' with size {size} at out-of-bounds index {index}.")
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
    for (EntryKey { name, bits }, value) in keys.iter().zip(&entry.key) {
        let hex = |bytes: &[u8]| padded_hex(bytes, *bits);
        let (kind, value) = match value {
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

/// Formats a big-endian number with the digits of all bytes of a field of `bits` bits.
pub(crate) fn padded_hex(bytes: &[u8], bits: u32) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let width = 2 * bits.div_ceil(8) as usize;
    let surplus = digits.len().saturating_sub(width);
    format!("{:0>width$}", &digits[surplus..])
}

/// Formats a big-endian number in hexadecimal without leading zeros.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        short => short.to_owned(),
    }
}
