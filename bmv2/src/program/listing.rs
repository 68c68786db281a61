//! Origin of a program's code, for disassembly.

use crate::exec::ops::{Pc, Slot};
use alfirk_bmv2_json::SourceInfo;

/// Value of a source line's index that means unknown.
const UNKNOWN: u32 = u32::MAX;

/// Origin of each instruction, and the parts of the code.
#[derive(Debug)]
pub(crate) struct Listing {
    /// First instruction of each part, such as an action, and its name, in ascending order.
    pub parts: Vec<(Pc, String)>,
    /// Words of a packet that hold constants of the program.
    pub constants: Vec<Slot>,
    lines: Vec<SourceLine>,
    /// For each instruction, the index of its source line.
    line_of: Vec<u32>,
    /// Index of the source line of the statement that is being compiled.
    current: u32,
}

/// A line of the P4 source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub file: String,
    /// Number of the line in its file, counted from 1.
    pub line: u64,
    pub fragment: String,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing {
            parts: Vec::new(),
            constants: Vec::new(),
            lines: Vec::new(),
            line_of: Vec::new(),
            current: UNKNOWN,
        }
    }
}

impl Listing {
    /// Sets the source line of the instructions that follow; `None` if it is unknown.
    pub fn enter(&mut self, info: Option<&SourceInfo>) {
        let Some(info) = info.filter(|info| info.line > 0) else {
            self.current = UNKNOWN;
            return;
        };
        let line = SourceLine {
            file: info.filename.clone(),
            line: info.line,
            fragment: info.source_fragment.clone(),
        };
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
        self.current = u32::try_from(self.lines.len() - 1).unwrap_or(UNKNOWN);
    }

    /// Records the origin of an instruction that is appended to the code.
    pub fn push(&mut self) {
        self.line_of.push(self.current);
    }

    /// Replaces the instructions from `base` on by instructions that are copies of older ones, whose positions are
    /// `origins`.
    pub fn replace(&mut self, base: Pc, origins: &[Pc]) {
        let old = self.line_of.split_off(base as usize);
        let line = |pc: &Pc| old.get((pc - base) as usize).copied().unwrap_or(UNKNOWN);
        self.line_of.extend(origins.iter().map(line));
    }

    /// Returns the source line of an instruction, if known.
    pub fn line(&self, pc: Pc) -> Option<&SourceLine> {
        self.lines.get(*self.line_of.get(pc as usize)? as usize)
    }
}
