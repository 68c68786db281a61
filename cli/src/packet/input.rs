//! Packets from the command line: expressions, hexadecimal digits, captures.

use std::io::Read;
use std::path::{Path, PathBuf};

use scapy::capture::{self, Frame};
use scapy::p4::Program;
use scapy::{parse_with, Packet, ProtocolRef};

use crate::exit::Failure;
use crate::program::{self, Target};

/// Flag for the headers of a P4 program.
#[derive(Debug, clap::Args)]
pub struct Headers {
    /// Use the headers and the parser of a P4 program: its source, or its compiled BMv2 JSON (.json)
    #[arg(long, value_name = "PROGRAM")]
    p4: Option<PathBuf>,
}

impl Headers {
    /// Reads the program.
    ///
    /// # Errors
    /// If it cannot be read or compiled.
    pub fn load(&self) -> Result<Input, Failure> {
        let program = self.p4.as_deref().map(load).transpose()?;
        Ok(Input { program })
    }

    /// Whether there is a program.
    pub fn is_program(&self) -> bool {
        self.p4.is_some()
    }
}

fn load(path: &Path) -> Result<Program, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::bad_input(format_args!("--p4 {}: {why}", path.display()))
    };
    let json = if path.extension().is_some_and(|ending| ending == "json") {
        std::fs::read_to_string(path).map_err(|error| refuse(&error))?
    } else {
        let program = program::compile_program(Target::V1model, Some(path))?;
        String::from_utf8(program.device_config).map_err(|error| refuse(&error))?
    };
    Program::from_json(&json).map_err(|error| refuse(&error))
}

/// Reader of packets.
#[derive(Debug)]
pub struct Input {
    program: Option<Program>,
}

impl Input {
    /// Protocols of the program.
    pub fn protocols(&self) -> &[ProtocolRef] {
        self.program.as_ref().map_or(&[], Program::protocols)
    }

    /// The protocol with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn protocol(&self, name: &str) -> Result<ProtocolRef, Failure> {
        let packet = parse_with(name, self.protocols()).map_err(Failure::bad_input)?;
        let own = self.protocols().iter().find(|protocol| {
            let layer = &packet.layers()[0];
            protocol.name == layer.name()
        });
        match (own, scapy::protocols::by_name(name)) {
            (Some(own), _) => Ok(own.clone()),
            (None, Some(known)) => Ok(known.into()),
            (None, None) => Err(Failure::bad_input(format_args!(
                "expected the name of one layer, found `{name}`"
            ))),
        }
    }

    /// Parses an expression.
    ///
    /// # Errors
    /// With the column.
    pub fn parse(&self, expression: &str) -> Result<Packet, Failure> {
        parse_with(expression, self.protocols()).map_err(Failure::bad_input)
    }

    /// Checks `LAYER` or `LAYER.FIELD`, the value of `--ignore`.
    ///
    /// # Errors
    /// If there is no such layer or field.
    pub fn check_field(&self, entry: &str) -> Result<(), Failure> {
        let condition = match entry.contains('.') {
            true => format!("{entry} == \"\""),
            false => entry.to_owned(),
        };
        match scapy::Filter::parse_with(&condition, self.protocols()) {
            // The value does not matter.
            Err(error) if error.column <= entry.chars().count() => Err(Failure::bad_input(
                format_args!("--ignore {entry}: {}", error.problem),
            )),
            _ => Ok(()),
        }
    }

    /// Splits a frame into its layers.
    pub fn dissect(&self, bytes: &[u8]) -> Packet {
        match &self.program {
            Some(program) => program.dissect(bytes),
            None => scapy::dissect(bytes),
        }
    }

    /// Whether packets of this text are Ethernet frames: all but expressions that begin with another layer.
    pub fn begins_with_ethernet(&self, text: &str) -> bool {
        match is_expression(text) {
            true => self
                .parse(text)
                .is_ok_and(|packet| packet.layers()[0].name() == "Ether"),
            false => true,
        }
    }

    /// The packet of an expression, with all fields computed; of another text, the first packet.
    ///
    /// # Errors
    /// As for [`Input::frames`].
    pub fn built(&self, text: &str) -> Result<Packet, Failure> {
        if is_expression(text) {
            return self.parse(text)?.built().map_err(Failure::bad_input);
        }
        let frames = self.frames(text)?;
        let first = frames.first().map_or(&[][..], |frame| &frame.bytes);
        Ok(self.dissect(first))
    }

    /// The packets of a text: the path of a capture, `-`, hexadecimal digits or an expression.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn frames(&self, text: &str) -> Result<Vec<Frame>, Failure> {
        if text == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Failure::bad_input(format_args!("standard input: {error}")))?;
            return match capture::read(&bytes) {
                Ok(frames) => Ok(frames),
                Err(capture::CaptureError::NotCapture) => self.lines(&bytes),
                Err(error) => Err(Failure::bad_input(format_args!("standard input: {error}"))),
            };
        }
        if Path::new(text).is_file() {
            let read = std::fs::read(text);
            let bytes =
                read.map_err(|error| Failure::bad_input(format_args!("{text}: {error}")))?;
            return capture::read(&bytes)
                .map_err(|error| Failure::bad_input(format_args!("{text}: {error}")));
        }
        if is_expression(text) {
            let packet = self.parse(text)?;
            let bytes = packet.build().map_err(Failure::bad_input)?;
            return Ok(vec![frame(bytes)]);
        }
        if looks_like_a_path(text) {
            return Err(Failure::bad_input(format_args!("{text}: no such file")));
        }
        let bytes = scapy::unhex(text);
        let bytes = bytes.map_err(|error| {
            Failure::bad_input(format_args!(
                "`{text}` is neither a file nor hexadecimal digits: {error}"
            ))
        })?;
        Ok(vec![frame(bytes)])
    }

    /// Packets of text, one a line, in hexadecimal digits or as expressions; empty lines and those after `#` are skipped.
    fn lines(&self, bytes: &[u8]) -> Result<Vec<Frame>, Failure> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Failure::bad_input("standard input: neither a capture nor text"))?;
        let mut frames = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = |problem: &dyn std::fmt::Display| {
                let number = number + 1;
                Failure::bad_input(format_args!("standard input, line {number}: {problem}"))
            };
            let bytes = if is_expression(line) {
                let packet = parse_with(line, self.protocols()).map_err(|error| place(&error))?;
                packet.build().map_err(|error| place(&error))?
            } else {
                scapy::unhex(line).map_err(|error| place(&error))?
            };
            frames.push(frame(bytes));
        }
        Ok(frames)
    }
}

/// An expression has the parentheses or the quotes of a layer; hexadecimal digits have neither.
fn is_expression(text: &str) -> bool {
    text.contains(['(', '"', '\''])
}

fn looks_like_a_path(text: &str) -> bool {
    text.contains('/')
        || [".pcap", ".pcapng", ".cap"]
            .iter()
            .any(|end| text.ends_with(end))
}

fn frame(bytes: Vec<u8>) -> Frame {
    Frame {
        at: 0,
        length: bytes.len(),
        bytes,
    }
}
