//! The externs `Lpf` and `DirectLpf`: low-pass filters of a value or a rate, with time constants that the control plane sets.
//!
//! The configuration is a register with the filter's name and cells of type bit<80>, initially 0:
//!
//! ```text
//! kind (8) ++ time constant of rising values (32, ns) ++ of falling values (32, ns) ++ right shift of the result (8)
//!
//! kind 0: the value itself; 1: the mean of values (a sample); 2: the exponentially decaying sum of values (a rate)
//! ```
//!
//! These are the parameters `$LPF_SPEC_TYPE`, `..._GAIN_TIME_CONSTANT_NS`, `..._DECAY_TIME_CONSTANT_NS` and `..._OUT_SCALE_DOWN_FACTOR` of
//! Tofino's control interface (BfRt). A `DirectLpf` has a configuration for each entry of its table, which is 0 when the entry is added.

use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Filter, Primitive, RegisterId, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::ops;
use crate::passes::externs::call::ExternArg;
use crate::passes::externs::Lowering;
use crate::sema::Type;

/// Width in bits of a configuration.
pub const SPEC_BITS: u32 = 80;
/// Width in bits of a filter's state: time of the last call in nanoseconds, and the mean with 16 fractional bits.
pub const MEMORY_BITS: u32 = 128;
/// Type of a sample and of a filtered value.
const VALUE: Scalar = Scalar::Bit(32);

impl Lowering<'_> {
    /// Lowers `Lpf.execute(val, index)`, and `DirectLpf.execute(val)`, whose state is that of the hit entry (`entry`).
    pub fn lpf_call(
        &mut self,
        (spec, memory, entry): (RegisterId, RegisterId, Option<FieldRef>),
        ret: &Type,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let measured = match self.number_at(args, 0, span) {
            Ok(measured) => measured,
            Err(absent) => return absent.into(),
        };
        let Some(wanted) = self.scalar(ret) else {
            return self.not_a_number(ret, span);
        };
        let index = match entry {
            Some(entry) => Expr::field(entry, Scalar::Bit(super::direct::ENTRY_BITS)),
            None => match self.number_at(args, 1, span) {
                Ok(index) => self.save_value(index, span, scope),
                Err(absent) => return absent.into(),
            },
        };
        let measured = self.save_value(ops::cast(measured, VALUE), span, scope);
        self.mark_access(memory, span);
        let target = self.temporary(scope, "filtered", VALUE);
        let filter = Filter {
            target,
            spec,
            spec_index: index.clone(),
            memory,
            index,
            value: measured,
        };
        self.emit(span, Effect::Primitive(Primitive::Filter(Box::new(filter))));
        Data::Scalar(ops::cast(Expr::field(target, VALUE), wanted))
    }
}
