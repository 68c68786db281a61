//! Printing of packet traces to standard output.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::ValueEnum;

use alfirk_bmv2::trace::TraceLine;

/// Format in which packet traces are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Indented text, with colours on a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

/// Prints packet traces to standard output.
pub struct TracePrinter {
    out: BufWriter<Stdout>,
    format: TraceFormat,
    color: bool,
}

impl TracePrinter {
    pub fn new(format: TraceFormat) -> TracePrinter {
        let out = io::stdout();
        TracePrinter {
            color: out.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            out: BufWriter::new(out),
            format,
        }
    }

    /// Prints lines of a trace immediately. Ignores errors of standard output.
    pub fn print(&mut self, lines: &[TraceLine]) {
        for line in lines {
            let text = match self.format {
                TraceFormat::Text => line.text(self.color),
                TraceFormat::Json => line.json(),
            };
            let _ = writeln!(self.out, "{text}");
        }
        if !lines.is_empty() {
            let _ = self.out.flush();
        }
    }
}
