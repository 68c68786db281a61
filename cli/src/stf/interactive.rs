//! `alfirk stf --interactive`: commands from standard input, and a JSON object on standard output for each.

use std::io::{self, BufRead, Write};

use alfirk_bmv2::trace::TraceLine;
use alfirk_stf::{hex, Reading, Session};
use serde::Serialize;

use crate::exit::{Failure, Outcome};

/// Result of one command. Fields that do not apply are left out.
#[derive(Serialize)]
struct Answer {
    /// Number of the command's line in the input, from 1.
    line: usize,
    /// Why the command was not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Packets that have left the switch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    packets: Vec<Packet>,
    /// What `register_read` has read: hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// What `counter_read` has read.
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<Counter>,
    /// Steps of the packet through the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trace: Vec<Step>,
}

#[derive(Serialize)]
struct Packet {
    /// Egress port.
    port: u32,
    /// The frame in hexadecimal.
    data: String,
}

#[derive(Serialize)]
struct Counter {
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Step {
    #[serde(flatten)]
    step: TraceLine,
    /// The step as a line of text.
    text: String,
}

/// Executes commands until standard input ends.
pub(super) fn run(session: &mut Session) -> Outcome {
    let mut output = io::stdout().lock();
    for (number, line) in (1..).zip(io::stdin().lock().lines()) {
        let line = line.map_err(|error| {
            Failure::bad_input(format!("standard input, line {number}: {error}"))
        })?;
        let Some(answer) = answer(session, number, &line) else {
            continue;
        };
        let text = serde_json::to_string(&answer).expect("plain data becomes JSON");
        let written = writeln!(output, "{text}").and_then(|()| output.flush());
        if let Err(error) = written {
            return match error.kind() {
                // The reader has all that it wants.
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(Failure::failed(format!("standard output: {error}"))),
            };
        }
    }
    Ok(())
}

/// Executes one line. `None` if it has no command.
fn answer(session: &mut Session, number: usize, line: &str) -> Option<Answer> {
    let result = match alfirk_stf::parse(line) {
        Ok(commands) => session.execute(commands.first()?),
        Err(error) => Err(error.message),
    };
    let (reading, error) = match result {
        Ok(reading) => (reading, None),
        Err(error) => (None, Some(error)),
    };
    let (value, counter) = match reading {
        None => (None, None),
        Some(Reading::Register(value)) => (Some(hex(&value)), None),
        Some(Reading::Counter { packets, bytes }) => (None, Some(Counter { packets, bytes })),
    };
    let packets = session.take_packets().into_iter();
    let trace = session.take_trace().into_iter();
    Some(Answer {
        line: number,
        error,
        packets: packets
            .map(|(port, frame)| Packet {
                port,
                data: hex(&frame),
            })
            .collect(),
        value,
        counter,
        trace: trace
            .map(|step| Step {
                text: step.text(false),
                step,
            })
            .collect(),
    })
}
