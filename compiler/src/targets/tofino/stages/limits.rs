//! Check of each object against the memories of the chip: of all stages for a table, of one stage for an array.
//!
//! Whether a whole program fits depends on all its objects, and is in the stage report. A single object that can never fit is a compile
//! error at its declaration, with the largest size that fits.

use super::arrays;
use super::chip::{self, Budget, Resources};
use super::shape;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{FlatProgram, Meta};

/// Reports tables, registers, counters and meters that need more memory blocks than the chip can provide for one object.
pub fn refuse(program: &FlatProgram, diagnostics: &mut Diagnostics) {
    let objects = &program.objects;
    let Some(budget) = Budget::of(objects.arch) else {
        return;
    };
    let chip = objects.arch.name();
    let all = u64::from(budget.stages);
    let of_tables = Limit {
        sram: all * budget.stage.sram,
        tcam: all * budget.stage.tcam,
        place: format!("all {all} stages of {chip} have"),
    };
    let of_arrays = |kind: &str, blocks| Limit {
        sram: blocks,
        tcam: 0,
        place: format!("{kind} of {chip} is in one stage and has at most"),
    };
    let of_registers = of_arrays("a register", budget.register_blocks);
    let of_arrays = of_arrays("an array", chip::ARRAY_BLOCKS);
    let mut report = |what: Option<Diagnostic>| {
        if let Some(what) = what {
            diagnostics.report(what);
        }
    };
    for table in &objects.tables {
        let takes = |size| shape::table(program, table, size);
        report(of_tables.check("table", &table.meta, table.size, takes));
    }
    // By default, a direct register has as many cells as its table has entries.
    for array in objects.registers.iter().filter(|array| !array.hidden) {
        let takes = |size| arrays::register(array, size);
        report(of_registers.check("register", &array.meta, array.size, takes));
    }
    for array in objects.counters.iter().filter(|array| !array.direct) {
        let takes = |size| arrays::counters(array, size);
        report(of_arrays.check("counter", &array.meta, array.size, takes));
    }
    for array in objects.meters.iter().filter(|array| !array.direct) {
        report(of_arrays.check("meter", &array.meta, array.size, arrays::meters));
    }
}

/// Upper bound of entries or cells: larger than any chip, and small enough to be multiplied by a width without overflow.
const MAX_CELLS: u64 = 1 << 40;

/// Maximum number of memory blocks for an object.
struct Limit {
    /// Blocks of SRAM.
    sram: u64,
    /// Blocks of TCAM.
    tcam: u64,
    /// The part of the chip that has this amount, for messages.
    place: String,
}

impl Limit {
    /// The error for an object that is too large; `None` if it fits. `takes` computes the resources for a number of entries or cells.
    fn check(
        &self,
        kind: &str,
        meta: &Meta,
        size: u64,
        takes: impl Fn(u64) -> Resources,
    ) -> Option<Diagnostic> {
        let size = size.min(MAX_CELLS);
        let now = takes(size);
        if now.sram <= self.sram && now.tcam <= self.tcam {
            return None;
        }
        // Report the memory whose relative excess is larger.
        let (needs, has, memory) = match now.tcam * self.sram > now.sram * self.tcam {
            true => (now.tcam, self.tcam, "TCAM"),
            false => (now.sram, self.sram, "SRAM"),
        };
        let fits = |size: u64| {
            let takes = takes(size);
            takes.sram <= self.sram && takes.tcam <= self.tcam
        };
        let shorter = match kind {
            "table" => "a shorter key",
            _ => "shorter cells",
        };
        let help = match (largest_that_fits(size, fits), memory) {
            (0, _) => format!("give it {shorter}: no size fits"),
            (most, "TCAM") => format!(
                "a size of {most} fits, or {shorter}; with only `exact` keys it would be in SRAM"
            ),
            (most, _) => format!("a size of {most} fits, or {shorter}"),
        };
        let message = format!(
            "{kind} {} takes {needs} blocks of {memory}, and {} {has}",
            meta.name, self.place
        );
        Some(Diagnostic::error(Code::DOES_NOT_FIT, meta.span, message).help(help))
    }
}

/// The largest number below `bad` that satisfies the monotone predicate `does`, by bisection.
fn largest_that_fits(bad: u64, does: impl Fn(u64) -> bool) -> u64 {
    let (mut good, mut bad) = (0, bad);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match does(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    good
}
