//! Properties of externs on which elaboration depends: objects that are visible to the control plane, table properties that name objects, and
//! pure calls, which elaboration evaluates like operators.

use super::call::{Call, Callee};
use super::{tofino, v1model};
use crate::arch::Arch;
use crate::diag::Span;
use crate::ir::{self, Expr, FieldRef, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::Builder;

/// The control plane's name for the kind of objects of an extern type; `None` if they are not visible to the control plane.
pub fn control_kind(arch: Arch, ty: &str) -> Option<&'static str> {
    match arch.is_tofino() {
        false => v1model::control_kind(ty),
        true => tofino::control_kind(ty),
    }
}

/// Whether the value of a table property is an extern object.
pub fn is_object_property(arch: Arch, property: &str) -> bool {
    match property {
        "implementation" | "counters" | "meters" => true,
        "alpm" | "atcam" | "registers" | "filters" => arch.is_tofino(),
        _ => false,
    }
}

/// Whether extern calls may return a result. On v1model, and with `--emit-externs`, calls store results in `out` arguments instead.
pub fn calls_have_results(arch: Arch) -> bool {
    arch.is_tofino()
}

/// The value of a pure call; `None` for calls with effects, which must be recorded.
pub fn fold_pure_call(build: &mut Builder, call: &Call) -> Option<Data> {
    if !build.options.arch.is_tofino() {
        return None;
    }
    match &call.callee {
        Callee::Function(name) => tofino::function_value(build, name, call),
        Callee::This(method) if &**method == "predicate" => Some(tofino::predicate(build, call)),
        Callee::This(_) => None,
        Callee::Method(id, _) => {
            let declared = &build.into.externs.instances[id.0];
            match &*declared.ty == "Hash" && tofino::is_identity(build, &declared.args) {
                true => Some(tofino::identity(build, call)),
                false => None,
            }
        }
    }
}

/// The value of `packet_in.length()`.
pub fn packet_length(build: &mut Builder, span: Span) -> Data {
    if build.options.arch.is_tofino() {
        let message = "the packet's length is not available in a parser on this target";
        return build.target(span, message).into();
    }
    let header = ir::Storage::STANDARD_METADATA;
    match build
        .program
        .storage
        .header_type(header)
        .position("packet_length")
    {
        Some(field) => Data::Scalar(Expr::field(FieldRef { header, field }, Scalar::Bit(32))),
        None => build.no_data(span, "`standard_metadata` has no field `packet_length`"),
    }
}
