//! Output of packet traces: to standard output, to a file, or to a file for each packet as BMv2 does.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use scapy::{p4::Program, Filter, ProtocolRef};
use tracing::{error, info};

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

    /// Whether traces have the start and the end of each block.
    pub fn has_blocks(&self) -> bool {
        self.format == Some(TraceFormat::Txtpb) || self.dir.is_some()
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

/// Writes packet traces.
pub struct TraceWriter {
    out: Option<(BufWriter<Box<dyn Write + Send>>, TraceFormat)>,
    color: bool,
    /// File of the output; `None` for standard output.
    file: Option<PathBuf>,
    dir: Option<PathBuf>,
    /// Packets that are in the switch.
    packets: PacketTraces,
    /// Number of received packets that are still to be traced; `None` for no limit.
    left: Option<u64>,
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
                let stdout = io::stdout();
                color = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
                Some(Box::new(stdout))
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
            packets: PacketTraces::default(),
            left: options.count,
        })
    }

    /// Writes lines of a trace immediately. Called when the switch has no other events.
    pub fn write(&mut self, lines: &[TraceLine]) {
        if lines.is_empty() {
            return;
        }
        let received = lines
            .iter()
            .filter(|line| matches!(line.event, TraceEvent::In { .. }));
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(received.count() as u64);
        }
        let mut complete = self.packets.add(lines);
        complete.extend(self.packets.close_last());
        let text = match &self.out {
            Some((_, TraceFormat::Text)) => lines
                .iter()
                .map(|line| line.text(self.color) + "\n")
                .collect(),
            Some((_, TraceFormat::Json)) => lines.iter().map(|line| line.json() + "\n").collect(),
            Some((_, TraceFormat::Txtpb)) | None => String::new(),
        };
        self.print(&text);
        self.write_complete(&complete);
    }

    fn write_complete(&mut self, complete: &[CopyTrace]) {
        for trace in complete {
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

    /// Whether all packets that are to be traced were received.
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether all packets that are to be traced have left the switch.
    pub fn is_done(&self) -> bool {
        self.is_full() && self.packets.is_empty()
    }

    /// Writes the traces of packets that are in the switch.
    pub fn finish(&mut self) {
        let rest = self.packets.finish();
        self.write_complete(&rest);
        if self.left == Some(0) {
            info!("tracing has ended after the number of packets of --trace-count");
        }
    }
}
