//! Packets on standard output, and in captures.

use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use scapy::capture::{Format, Writer};
use scapy::{hex, hexdump, Difference, Kind, Packet};
use serde_json::{json, Map, Value};

use crate::exit::{Failure, Outcome};

/// Shape of a printed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Hexadecimal digits, one packet a line.
    Hex,
    /// Lines of 16 bytes.
    Hexdump,
    /// All fields.
    Show,
    /// One line.
    Summary,
    /// One JSON object a line.
    Json,
}

/// Flags for the shape.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct Form {
    /// Print hexadecimal digits, one packet a line
    #[arg(long, help_heading = "Output")]
    hex: bool,

    /// Print lines of 16 bytes, as numbers and text
    #[arg(long, help_heading = "Output")]
    hexdump: bool,

    /// Print all fields
    #[arg(long, help_heading = "Output")]
    show: bool,

    /// Print one line
    #[arg(long, help_heading = "Output")]
    summary: bool,

    /// Print one JSON object a line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Form {
    /// The shape of the given flag; `None` if no flag is given.
    fn given(&self) -> Option<Shape> {
        let flags = [
            (self.hex, Shape::Hex),
            (self.hexdump, Shape::Hexdump),
            (self.show, Shape::Show),
            (self.summary, Shape::Summary),
            (self.json, Shape::Json),
        ];
        let given = flags.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, shape)| shape)
    }

    /// The given shape, and whether it was given; the default otherwise.
    pub fn or(&self, default: Shape) -> (Shape, bool) {
        (self.given().unwrap_or(default), self.given().is_some())
    }
}

/// Writer of packets.
pub struct Output {
    shape: Shape,
    /// Whether packets are printed: without a file, or where a shape was given.
    is_printed: bool,
    file: Option<(String, Writer<BufWriter<File>>)>,
    stdout: BufWriter<StdoutLock<'static>>,
    /// Packets so far.
    count: usize,
}

impl Output {
    /// Creates the capture `file`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new((shape, is_given): (Shape, bool), file: Option<&Path>) -> Result<Output, Failure> {
        let open = |path: &Path| {
            let name = path.display().to_string();
            let format = Format::of_name(&name);
            let writer = File::create(path)
                .and_then(|file| Writer::new(format, BufWriter::new(file), "packet"));
            let failed = |error| Failure::bad_input(format_args!("cannot write {name}: {error}"));
            writer.map(|writer| (name.clone(), writer)).map_err(failed)
        };
        Ok(Output {
            shape,
            is_printed: file.is_none() || is_given,
            file: file.map(open).transpose()?,
            stdout: BufWriter::new(io::stdout().lock()),
            count: 0,
        })
    }

    /// Writes a packet. `at`: nanoseconds since the Unix epoch.
    pub fn packet(&mut self, at: u64, bytes: &[u8], packet: &Packet) -> Outcome {
        self.count += 1;
        if let Some((name, writer)) = &mut self.file {
            let written = writer.write(at, bytes);
            written.map_err(|error| Failure::failed(format_args!("{name}: {error}")))?;
        }
        if !self.is_printed {
            return Ok(());
        }
        let written = match self.shape {
            Shape::Hex => writeln!(self.stdout, "{}", hex(bytes)),
            Shape::Hexdump => write!(self.stdout, "{}", hexdump(bytes)),
            Shape::Show => write!(self.stdout, "{}", packet.show()),
            Shape::Summary => writeln!(self.stdout, "{}", packet.summary()),
            Shape::Json => writeln!(self.stdout, "{}", object(self.count, at, bytes, packet)),
        };
        written.map_err(stdout_failed)
    }

    /// Writes a packet at once, for a reader that waits for it.
    pub fn flush(&mut self) -> Outcome {
        if let Some((name, writer)) = &mut self.file {
            let flushed = writer.flush();
            flushed.map_err(|error| Failure::failed(format_args!("{name}: {error}")))?;
        }
        self.stdout.flush().map_err(stdout_failed)
    }

    /// Writes what is buffered.
    pub fn finish(mut self) -> Outcome {
        self.flush()
    }
}

fn stdout_failed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::failed(format_args!("cannot write to stdout: {error}")),
    }
}

/// A packet as JSON: its number from 1, time, bytes, and layers with their fields. Numbers of up to 64 bits are numbers,
/// wider ones and bytes are hexadecimal digits, addresses and options are text.
fn object(number: usize, at: u64, bytes: &[u8], packet: &Packet) -> Value {
    let layers: Vec<Value> = packet
        .layers()
        .iter()
        .map(|layer| {
            let mut fields = Map::new();
            for field in layer.protocol().fields.iter() {
                let Some(own) = layer.bytes(&field.name) else {
                    continue;
                };
                let value = match field.kind {
                    Kind::Mac | Kind::Ipv4 | Kind::Ipv6 | Kind::Options(_) => {
                        layer.text(&field.name).map(Value::from)
                    }
                    Kind::Bytes => None,
                    _ => {
                        let number = layer.number(&field.name);
                        number.and_then(|n| u64::try_from(n).ok()).map(Value::from)
                    }
                };
                let value = value.unwrap_or_else(|| Value::from(hex(&own)));
                fields.insert(field.name.to_string(), value);
            }
            json!({"layer": layer.name(), "fields": fields})
        })
        .collect();
    json!({"number": number, "time_ns": at, "length": bytes.len(), "bytes": hex(bytes), "layers": layers})
}

/// A difference as JSON.
pub fn difference(packet: usize, difference: &Difference) -> Value {
    json!({
        "packet": packet,
        "layer": difference.layer,
        "field": difference.field,
        "expected": difference.expected,
        "received": difference.received,
    })
}
