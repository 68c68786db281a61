//! How much is made of one program.
//!
//! Calls are inlined, loops unrolled, and values of structured types taken apart, so that a program of a few lines can stand for one that
//! no machine holds: 25 functions of which each calls the one before twice, say. All that is made is counted here, and beyond
//! [`MAX_PARTS`] the compiler reports that once, at the place where it happens, and makes nothing any more.

use super::Builder;
use crate::diag::{Code, Diagnostic, Span};

/// Most parts that may be made of a program: statements, calls, rounds of unrolled loops, variables, values, instances and parser states.
pub const MAX_PARTS: usize = 400_000;

impl Builder<'_> {
    /// Counts `parts` that are made for what stands at `span`; whether they still may be.
    pub fn grow(&mut self, span: Span, parts: usize) -> bool {
        if self.is_full() {
            return false;
        }
        self.parts_made = self.parts_made.saturating_add(parts);
        if self.is_full() {
            let message = format!(
                "the program grows to more than {MAX_PARTS} parts, this being the first beyond"
            );
            self.diagnostics.report_last(
                Diagnostic::error(Code::LIMIT, span, message)
                    .note("the target has no calls, so bodies are repeated for each call, and for each value of a loop; structures are taken apart into their fields")
                    .help("call it in fewer places, or less deeply within others and in loops; make types and loops smaller"),
            );
        }
        !self.is_full()
    }

    /// Whether the program has grown beyond what may be made of it, which has been reported. What was made must not be used.
    pub fn is_full(&self) -> bool {
        self.parts_made > MAX_PARTS
    }
}
