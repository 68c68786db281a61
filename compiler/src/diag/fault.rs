//! Internal errors in code without [`Diagnostics`], such as back ends, and panics.
//!
//! [`fault`] unwinds the stack without a message. [`catch_faults`] turns it, and any panic, into an internal error that names the pass. So
//! users read one message about a fault of the compiler, wherever it is.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use super::{Diagnostics, ErrorReported, Span};

/// The payload of the unwinding that [`fault`] begins.
struct Fault {
    span: Option<Span>,
    what: String,
}

/// Ends the current pass with an internal error: the pass has met a case that no program can cause. `what` describes the case.
pub fn fault(span: Option<Span>, what: impl Into<String>) -> ! {
    let what = what.into();
    // This does not run the panic hook, which would print a message.
    resume_unwind(Box::new(Fault { span, what }))
}

/// Runs a pass.
///
/// # Errors
/// The pass ends by [`fault`] or by a panic, which is reported as an internal error of the pass that was entered last.
pub fn catch_faults<C: AsMut<Diagnostics>, T>(
    context: &mut C,
    work: impl FnOnce(&mut C) -> T,
) -> Result<T, ErrorReported> {
    // A pass that ends early leaves data that later code does not use, except for the diagnostics, which are complete at any time.
    let done = catch_unwind(AssertUnwindSafe(|| work(context)));
    done.map_err(|payload| {
        let diagnostics = context.as_mut();
        match payload.downcast::<Fault>() {
            Ok(fault) => diagnostics.internal(fault.span, fault.what),
            Err(payload) => {
                let what = (payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned()))
                .or_else(|| payload.downcast_ref::<String>().cloned());
                diagnostics.internal(None, what.unwrap_or_else(|| "a panic".to_owned()))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl AsMut<Diagnostics> for Diagnostics {
        fn as_mut(&mut self) -> &mut Diagnostics {
            self
        }
    }

    fn message(work: impl FnOnce()) -> String {
        let mut diagnostics = Diagnostics::new();
        diagnostics.enter("exits");
        let done = catch_faults(&mut diagnostics, |_| work());
        assert_eq!(done.err(), diagnostics.error_reported());
        assert!(diagnostics.has_internal_errors());
        let message = diagnostics.iter().map(|d| d.message.clone());
        message.collect()
    }

    #[test]
    fn fault_is_an_internal_error_of_its_pass() {
        let expected = "internal error in pass `exits`: a break leaves no block";
        assert_eq!(message(|| fault(None, "a break leaves no block")), expected);
    }

    #[test]
    fn panic_is_an_internal_error_of_its_pass() {
        let expected = "internal error in pass `exits`: no element";
        assert_eq!(message(|| resume_unwind(Box::new("no element"))), expected);
    }
}
