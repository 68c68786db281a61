//! The version of v1model that a program requests.

use num_traits::ToPrimitive;

use crate::diag::{Code, Diagnostic, Diagnostics, Severity, Warning};
use crate::syntax::ast::{ExprKind, P4Program};
use crate::targets::VersionedHeader;

/// The header of v1model, which declares the version that the program defined.
pub const HEADER: VersionedHeader = VersionedHeader {
    file: "v1model.p4",
    macro_name: "V1MODEL_VERSION",
    constant: "__v1model_version",
};

/// The versions of v1model that p4c accepts, as dates.
const KNOWN: std::ops::RangeInclusive<u32> = 20_180_101..=20_200_408;

/// Reports an unknown `V1MODEL_VERSION`. As in p4c, it is an error only if the program is written with its version
/// (`--pp`), and otherwise a warning.
pub fn check(program: &P4Program, written: bool, diagnostics: &mut Diagnostics) {
    let Some(version) = program.constant(HEADER.constant) else {
        return;
    };
    let number = match &version.value.kind {
        ExprKind::Int(literal) => literal.value.to_u32(),
        _ => None,
    };
    if number.is_some_and(|number| KNOWN.contains(&number)) {
        return;
    }
    let (first, last) = (KNOWN.start(), KNOWN.end());
    let message = format!("V1MODEL_VERSION must be a number from {first} to {last}");
    // The constant is in v1model.p4, which diagnostics do not refer to.
    let error = Diagnostic::global(Code::TARGET, message);
    diagnostics.report(match written {
        true => error,
        false => Diagnostic {
            severity: Severity::Warning,
            code: None,
            warning: Some(Warning::Unknown),
            ..error
        },
    });
}
