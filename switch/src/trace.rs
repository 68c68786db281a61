//! Output of packet traces: to standard output, to a file, or to a file for each packet as BMv2 does.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use scapy::{p4::Program, Filter, ProtocolRef};
use tracing::error;

use alfirk_bmv2::trace::{FrameFilter, TraceEvent, TraceLine};
use alfirk_p4rt::packet_trace::{CopyTrace, PacketTraces};

use super::SwitchError;

/// Format in which packet traces are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Indented text, with colours on a terminal.
    Text,
    /// One JSON object per line.
    Json,
    /// BMv2's PacketTrace in protobuf text format, for each packet and copy.
    Txtpb,
}

/// What is traced, and where traces are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Format of the output; `None` for neither standard output nor a file.
    pub format: Option<TraceFormat>,
    /// File that gets the output instead of standard output.
    pub file: Option<PathBuf>,
    /// Directory for a file of each packet, in the format of BMv2.
    pub dir: Option<PathBuf>,
    /// Condition on received frames, as `alfirk packet sniff --filter` has.
    pub filter: Option<String>,
    /// Maximum number of received packets that are traced.
    pub count: Option<u64>,
}

impl TraceOptions {
    /// Whether anything is traced.
    pub fn is_on(&self) -> bool {
        self.format.is_some() || self.dir.is_some()
    }

    /// Returns the condition on received frames, if there is one. `json`: BMv2 JSON of the program, whose headers the
    /// condition may name.
    ///
    /// # Errors
    /// The condition is not valid.
    pub fn frame_filter(&self, json: Option<&str>) -> Result<Option<FrameFilter>, SwitchError> {
        let Some(text) = &self.filter else {
            return Ok(None);
        };
        let filter = frame_filter(text, json);
        let filter = filter.map_err(|e| SwitchError::BadInput(format!("--trace-filter: {e}")))?;
        Ok(Some(filter))
    }
}

/// Returns a condition on frames. `json`: BMv2 JSON of the program, whose headers the condition may name.
pub fn frame_filter(text: &str, json: Option<&str>) -> Result<FrameFilter, String> {
    // Without headers of the program, those of well-known protocols remain.
    let program = json.and_then(|json| Program::from_json(json).ok());
    let own: &[ProtocolRef] = program.as_ref().map_or(&[], Program::protocols);
    let filter = Filter::parse_with(text, own).map_err(|error| error.to_string())?;
    Ok(FrameFilter::new(move |frame| {
        filter.matches(&scapy::dissect(frame))
            || program
                .as_ref()
                .is_some_and(|program| filter.matches(&program.dissect(frame)))
    }))
}

/// Whether text on standard output has colours: on a terminal, unless the environment has `NO_COLOR`.
pub fn stdout_has_colors() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Receiver of the traces of an observer.
pub trait TraceSink {
    /// Takes lines of a trace. They include the start and the end of each block, which text and JSON leave out.
    fn lines(&mut self, lines: &[&TraceLine]);

    /// Takes the traces of packets and copies that have left the switch.
    fn complete(&mut self, packets: Vec<CopyTrace>);

    /// Whether the receiver takes further traces.
    fn is_open(&self) -> bool;
}

/// An observer of traces: a receiver, and the packets that are traced for it.
pub struct Observer<S> {
    sink: S,
    /// Packets that are in the switch.
    packets: PacketTraces,
    /// Number of received packets that are still to be traced; `None` for no limit.
    left: Option<u64>,
    /// Whether [`Progress::IsFull`] was returned.
    is_full: bool,
}

/// What an observer needs after lines were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Further packets, as before.
    Open,
    /// No further packets: all that are to be traced were received. Returned once.
    IsFull,
    /// Nothing: all packets that are to be traced have left the switch, or the receiver takes no more.
    Done,
}

impl<S: TraceSink> Observer<S> {
    /// Creates an observer. `count`: maximum number of received packets that are traced.
    pub fn new(sink: S, count: Option<u64>) -> Observer<S> {
        Observer {
            sink,
            packets: PacketTraces::default(),
            left: count,
            is_full: false,
        }
    }

    /// Passes the lines of the packets that the observer `number` has chosen to the receiver. Called when the switch has no
    /// other events.
    pub fn write(&mut self, number: u8, lines: &[TraceLine]) -> Progress {
        let own = lines.iter().filter(|line| line.observers.contains(number));
        let own: Vec<&TraceLine> = own.collect();
        if own.is_empty() {
            return Progress::Open;
        }
        let received = own
            .iter()
            .filter(|line| matches!(line.event, TraceEvent::In { .. }));
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(received.count() as u64);
        }
        let mut complete = self.packets.add(own.iter().copied());
        complete.extend(self.packets.close_last());
        self.sink.lines(&own);
        self.sink.complete(complete);
        self.progress()
    }

    fn progress(&mut self) -> Progress {
        let is_full = self.left == Some(0);
        if is_full && self.packets.is_empty() || !self.sink.is_open() {
            return Progress::Done;
        }
        if is_full && !std::mem::replace(&mut self.is_full, true) {
            return Progress::IsFull;
        }
        Progress::Open
    }

    /// Passes the traces of packets that are in the switch to the receiver, since another program was loaded.
    pub fn restart(&mut self) {
        let rest = std::mem::take(&mut self.packets).finish();
        self.sink.complete(rest);
    }

    /// As [`Observer::restart`], at the end of the traces. Returns the receiver.
    pub fn finish(mut self) -> S {
        self.restart();
        self.sink
    }
}

/// Returns the text of each line that is not the start or the end of a block, with its end of line.
pub fn text_of<'a>(
    lines: &'a [&TraceLine],
    text: impl Fn(&TraceLine) -> String + 'a,
) -> impl Iterator<Item = String> + 'a {
    let blocks = |line: &&&TraceLine| matches!(line.event, TraceEvent::Block { .. });
    let lines = lines.iter().filter(move |line| !blocks(line));
    lines.map(move |line| text(line) + "\n")
}

/// Writes packet traces to standard output, to a file or to a directory.
pub struct TraceWriter {
    out: Option<(BufWriter<Box<dyn Write + Send>>, TraceFormat)>,
    color: bool,
    /// File of the output; `None` for standard output.
    file: Option<PathBuf>,
    dir: Option<PathBuf>,
}

impl TraceWriter {
    /// Creates the file, or the directory.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(options: &TraceOptions) -> Result<TraceWriter, SwitchError> {
        let unusable = |option: &str, path: &Path, error: &io::Error| {
            SwitchError::BadInput(format!("{option} {}: {error}", path.display()))
        };
        let mut color = false;
        let out: Option<Box<dyn Write + Send>> = match (&options.file, options.format) {
            (_, None) => None,
            (Some(path), Some(_)) => {
                let file = File::create(path).map_err(|e| unusable("--trace-file", path, &e))?;
                Some(Box::new(file))
            }
            (None, Some(_)) => {
                color = stdout_has_colors();
                Some(Box::new(io::stdout()))
            }
        };
        if let Some(dir) = &options.dir {
            fs::create_dir_all(dir).map_err(|e| unusable("--trace-dir", dir, &e))?;
        }
        Ok(TraceWriter {
            out: out.map(BufWriter::new).zip(options.format),
            color,
            file: options.file.clone(),
            dir: options.dir.clone(),
        })
    }

    /// Writes text immediately. The switch goes on forwarding if its output is closed, or the disk is full.
    fn print(&mut self, text: &str) {
        let Some((out, _)) = &mut self.out else {
            return;
        };
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            if let Some(file) = &self.file {
                error!("--trace-file {}: {error}; the trace ends", file.display());
            }
            self.out = None;
        }
    }
}

impl TraceSink for TraceWriter {
    fn lines(&mut self, lines: &[&TraceLine]) {
        let color = self.color;
        let text: String = match &self.out {
            Some((_, TraceFormat::Text)) => text_of(lines, |line| line.text(color)).collect(),
            Some((_, TraceFormat::Json)) => text_of(lines, TraceLine::json).collect(),
            Some((_, TraceFormat::Txtpb)) | None => return,
        };
        self.print(&text);
    }

    fn complete(&mut self, packets: Vec<CopyTrace>) {
        for trace in packets {
            if matches!(self.out, Some((_, TraceFormat::Txtpb))) {
                self.print(&trace.named_text());
            }
            if let Some(dir) = &self.dir {
                let path = dir.join(trace.file_name());
                if let Err(error) = fs::write(&path, trace.text()) {
                    error!("--trace-dir {}: {error}", path.display());
                }
            }
        }
    }

    /// The switch traces on if the output is closed: the count still ends it.
    fn is_open(&self) -> bool {
        true
    }
}
