//! Properties of externs that elaboration needs: objects that are visible to the control plane, table properties that name objects, and
//! pure calls, which are folded in place like operators.

use super::call::{Call, Callee};
use super::{tofino, v1model};
use crate::arch::Arch;
use crate::diag::Span;
use crate::ir::{self, Expr, FieldRef, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::Builder;

/// The kind of an extern type's objects for the control plane, if they are visible.
pub fn control_kind(arch: Arch, ty: &str) -> Option<&'static str> {
    match arch.is_tofino() {
        false => v1model::control_kind(ty),
        true => tofino::control_kind(ty),
    }
}

/// Whether a property of tables names an extern object.
pub fn is_object_property(arch: Arch, property: &str) -> bool {
    match property {
        "implementation" | "counters" | "meters" => true,
        "alpm" | "atcam" | "registers" | "filters" => arch.is_tofino(),
        _ => false,
    }
}

/// Whether calls have results. Calls of BMv2, and of externs with `--emit-externs`, store results in arguments instead.
pub fn give_results(arch: Arch) -> bool {
    arch.is_tofino()
}

/// The value of a pure call; `None` for other calls.
pub fn value_of(build: &mut Builder, call: &Call) -> Option<Data> {
    if !build.options.arch.is_tofino() {
        return None;
    }
    match &call.callee {
        Callee::Function(name) => tofino::function_value(build, name, call),
        Callee::Own(method) if &**method == "predicate" => Some(tofino::predicate(build, call)),
        Callee::Own(_) => None,
        Callee::Method(id, _) => {
            let declared = &build.into.externs.instances[id.0];
            match &*declared.ty == "Hash" && tofino::is_identity(build, &declared.args) {
                true => Some(tofino::identity(build, call)),
                false => None,
            }
        }
    }
}

/// `packet_in.length()`.
pub fn packet_length(build: &mut Builder, span: Span) -> Data {
    if build.options.arch.is_tofino() {
        build.target(
            span,
            "the packet's length is not available in a parser on this target",
        );
        return Data::Invalid;
    }
    let header = ir::Storage::STANDARD_METADATA;
    match build
        .program
        .storage
        .header_type(header)
        .position("packet_length")
    {
        Some(field) => Data::Scalar(Expr::field(FieldRef { header, field }, Scalar::Bit(32))),
        None => Data::Invalid,
    }
}
