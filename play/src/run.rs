//! Execution of a test, with the trace and the effects of each packet.

use std::collections::BTreeMap;

use alfirk_bmv2::trace::{trees, PacketTree};
use alfirk_stf::{Command, Line};
use scapy::Mask;
use serde::Serialize;

use crate::compile::{Message, Prepared};
use crate::frame::{describe, dissect, Frame};
use crate::graph::Visit;
use crate::limits;

/// A position in the P4 source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// The results of a test.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The packets of the test, and the commands that failed.
    pub executed: Vec<Executed>,
    /// Whether the test checks something, so that it can pass.
    pub has_checks: bool,
    /// Failed checks: the line of the test, and the reason.
    pub failures: Vec<(Option<usize>, String)>,
    /// Positions of parser states, by name.
    pub states: BTreeMap<String, Place>,
    /// Warnings of the compiler.
    pub messages: Vec<Message>,
}

/// An executed line of the test.
#[derive(Clone, Debug, Serialize)]
pub struct Executed {
    /// Line of the test, from 1.
    pub line: usize,
    /// Time at which the packet was received, in a fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Why the line was not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The packet that the line sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

/// A packet that a test has sent, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// Ingress port.
    pub port: u32,
    /// The frame.
    pub frame: Frame,
    /// Packets that left, by port.
    pub outputs: Vec<Output>,
    /// Ports of the packets that left, in a fabric, where their bytes are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<u32>>,
    /// Number of packets that left and are not in `outputs`, because there are too many.
    pub omitted_outputs: usize,
    /// The trace; `None` if the traces of earlier packets have reached the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PacketTree>,
    /// The way of the packet and its copies through the control-flow graphs.
    pub way: Vec<Visit>,
}

/// A packet that left the switch.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Egress port.
    pub port: u32,
    /// The frame.
    pub frame: Frame,
    /// Fields in which the frame differs from the packet that was sent: name, value before, value after.
    pub changes: Vec<(String, String, String)>,
}

/// Executes a test from the start.
///
/// # Errors
/// The test is not valid, or exceeds a limit.
pub(crate) fn run(prepared: &Prepared, test: &str) -> Result<Run, String> {
    if test.len() > limits::TEST_BYTES {
        let limit = limits::TEST_BYTES >> 10;
        let size = test.len() >> 10;
        return Err(format!("the test has {size} KiB; the limit is {limit} KiB"));
    }
    let lines = alfirk_stf::parse(test).map_err(|error| format!("test, {error}"))?;
    let is_packet = |line: &&Line| matches!(line.command, Command::Packet { .. });
    let packets = lines.iter().filter(is_packet).count();
    if packets > limits::PACKETS {
        let limit = limits::PACKETS;
        return Err(format!(
            "the test has {packets} packets; the limit is {limit}"
        ));
    }
    let mut session = prepared.session.fork();
    let mut executed = Vec::new();
    let mut failures = Vec::new();
    let mut steps_left = limits::TRACE_STEPS;
    // Number of packets that have left by each port.
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    for line in &lines {
        let error = session.step(line).map(|failure| failure.message);
        if let Some(message) = &error {
            failures.push((Some(line.number), message.clone()));
        }
        let trace = session.take_trace();
        let sent = match &line.command {
            Command::Packet { port, data } => {
                let is_kept = trace.len() <= steps_left;
                steps_left = steps_left.saturating_sub(trace.len());
                let mut trace = is_kept.then(|| trees(&trace).into_iter().next()).flatten();
                let way = trace.as_mut().map(|tree| prepared.ways.follow(tree));
                let packet = dissect(data, prepared.program.as_ref());
                let mut outputs = Vec::new();
                let mut omitted_outputs = 0;
                for (port, frames) in session.packets_by_port() {
                    let from = seen.insert(*port, frames.len()).unwrap_or(0);
                    for bytes in frames.iter().skip(from) {
                        if outputs.len() == limits::OUTPUTS {
                            omitted_outputs += 1;
                            continue;
                        }
                        outputs.push(output(*port, bytes, &packet, prepared));
                    }
                }
                Some(Sent {
                    port: *port,
                    frame: describe(data, &packet),
                    outputs,
                    left: None,
                    omitted_outputs,
                    trace,
                    way: way.unwrap_or_default(),
                })
            }
            _ => None,
        };
        if sent.is_some() || error.is_some() {
            executed.push(Executed {
                line: line.number,
                at: None,
                error,
                sent,
            });
        }
    }
    // Without an expected packet, what leaves is only shown.
    if lines.iter().any(expects) {
        let checks = session.failures().into_iter();
        failures.extend(checks.map(|failure| (failure.line, failure.message)));
    }
    failures.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
    Ok(Run {
        executed,
        has_checks: lines.iter().any(|line| expects(line) || checks_state(line)),
        failures,
        states: prepared.states.clone(),
        messages: prepared.messages.clone(),
    })
}

/// Whether a command checks the packets that leave.
fn expects(line: &Line) -> bool {
    matches!(
        line.command,
        Command::Expect { .. } | Command::NoPacket | Command::Or
    )
}

/// Whether a command checks a register or a counter.
fn checks_state(line: &Line) -> bool {
    match &line.command {
        Command::RegisterRead { value, .. } => value.is_some(),
        Command::CheckCounter { .. } => true,
        _ => false,
    }
}

fn output(port: u32, bytes: &[u8], sent: &scapy::Packet, prepared: &Prepared) -> Output {
    let packet = dissect(bytes, prepared.program.as_ref());
    let differences = scapy::diff(sent, &packet, &Mask::default()).into_iter();
    let changes = differences.map(|difference| {
        let name = match difference.field {
            Some(field) => format!("{}.{field}", difference.layer),
            None => difference.layer,
        };
        (name, difference.expected, difference.received)
    });
    Output {
        port,
        changes: changes.collect(),
        frame: describe(bytes, &packet),
    }
}
