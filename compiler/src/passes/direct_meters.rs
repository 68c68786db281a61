//! Pass: direct meters and action profiles.
//!
//! Input: all declarations, and the positions of reads of direct meters. Output: the same declarations. Invariants: a direct meter of a table
//! has a field for its colour, and a direct meter whose colour is read has a table.

use super::inlined::InlinedProgram;
use crate::diag::{Code, Diagnostic, Diagnostics, Warning};
use crate::ir::Scalar;

/// Width in bits of a colour field that the program does not read.
const COLOUR_BITS: u32 = 8;

/// Assigns colour fields to direct meters, and warns of unused profiles. With `only_check`, limits of the target are not reported.
pub fn finish(program: &mut InlinedProgram, only_check: bool, diagnostics: &mut Diagnostics) {
    for profile in &program.objects.action_profiles {
        if profile.tables.is_empty() && !diagnostics.has_errors() {
            let message = format!("no table uses {}", profile.meta.name);
            diagnostics.report(Diagnostic {
                span: None,
                ..Diagnostic::warning(Warning::Unused, Default::default(), message)
            });
        }
    }
    for (meter, span) in &program.meter_reads {
        let meter = &program.objects.meters[meter.index()];
        if meter.table.is_none() && !only_check {
            let name = &meter.meta.name;
            let what = format!(
                "no table has direct meter {name} as its `meters`, so there is no colour to read"
            );
            diagnostics.report(Diagnostic::error(Code::TARGET, *span, what));
        }
    }
    // The switch stores the colour of a direct meter in a field, even if the program does not read it.
    for meter in &mut program.objects.meters {
        if meter.direct && meter.table.is_some() && meter.result.is_none() {
            let name = (program.names).unique(&format!("{}.color", meter.meta.name));
            let scalar = Scalar::Bit(COLOUR_BITS);
            meter.result = Some(program.objects.storage.add_scalar(name, scalar));
        }
    }
}
