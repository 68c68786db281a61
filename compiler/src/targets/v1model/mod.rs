//! The architecture v1model, for BMv2.

mod externs;
mod package;
mod version;

use std::rc::Rc;

use alfirk_bmv2_json::BmV2Json;

use super::{PropertyValue, TableProperty, Target, VersionedHeader};
use crate::bmv2;
use crate::diag::{Diagnostics, Span};
use crate::ir::{Expr, FieldRef, FlatProgram, HeaderId, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::Builder;
use crate::passes::deparsers::DeparserForm;
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::{Call, DeclaredObject};
use crate::passes::externs::{LoweredObject, Lowering};
use crate::preproc;
use crate::syntax::ast::{Instantiation, P4Program};

/// The architecture v1model.
#[derive(Debug)]
pub struct V1Model;

/// The architecture v1model.
pub static V1MODEL: V1Model = V1Model;

/// The header that holds `standard_metadata`: the first one after the variables.
const STANDARD_METADATA: HeaderId = HeaderId(1);

/// Table properties of v1model.
pub const TABLE_PROPERTIES: [TableProperty; 7] = [
    TableProperty {
        name: "implementation",
        value: PropertyValue::Object,
    },
    TableProperty {
        name: "counters",
        value: PropertyValue::Object,
    },
    TableProperty {
        name: "meters",
        value: PropertyValue::Object,
    },
    TableProperty {
        name: "support_timeout",
        value: PropertyValue::Any,
    },
    TableProperty {
        name: "size",
        value: PropertyValue::Size,
    },
    TableProperty {
        name: "largest_priority_wins",
        value: PropertyValue::Flag,
    },
    TableProperty {
        name: "priority_delta",
        value: PropertyValue::PositiveNumber,
    },
];

impl Target for V1Model {
    fn name(&self) -> &'static str {
        "v1model"
    }

    fn target_names(&self) -> &'static [&'static str] {
        &["bmv2", "bmv2-ss-p4org"]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["V1Switch"]
    }

    fn define_macros(&self, options: &mut preproc::Options) {
        options.target_macro = Some("__TARGET_BMV2__");
    }

    fn versioned_header(&self) -> Option<VersionedHeader> {
        Some(version::HEADER)
    }

    fn check_tree(&self, program: &P4Program, is_printed: bool, diagnostics: &mut Diagnostics) {
        version::check(program, is_printed, diagnostics);
    }

    fn table_properties(&self) -> &'static [TableProperty] {
        &TABLE_PROPERTIES
    }

    fn object_properties(&self) -> &'static [&'static str] {
        &["implementation", "counters", "meters"]
    }

    fn elaborate(&self, elaborator: &mut Elaborator<'_>, main: &Rc<Instantiation>) {
        elaborator.v1model(main);
    }

    /// Returns an expression that reads the field `packet_length` of `standard_metadata`.
    fn packet_length(&self, build: &mut Builder<'_>, span: Span) -> Data {
        let header = STANDARD_METADATA;
        let ty = build.program.storage.header_type(header);
        match ty.position("packet_length") {
            Some(field) => Data::Scalar(Expr::field(FieldRef { header, field }, Scalar::Bit(32))),
            None => build.no_data(span, "`standard_metadata` has no field `packet_length`"),
        }
    }

    fn control_kind(&self, extern_type: &str) -> Option<&'static str> {
        externs::control_kind(extern_type)
    }

    /// False: extern calls store results in `out` arguments, also with `--emit-externs`.
    fn calls_have_results(&self) -> bool {
        false
    }

    fn lower_object(&self, lowering: &mut Lowering<'_>, declared: DeclaredObject) -> LoweredObject {
        lowering.lower_v1model_object(declared)
    }

    fn lower_call(&self, lowering: &mut Lowering<'_>, call: &mut Call) -> Data {
        lowering.v1model_call(call);
        Data::Nothing
    }

    fn continues_after_reject(&self) -> bool {
        true
    }

    fn deparser_form(&self) -> DeparserForm {
        DeparserForm::Calls
    }

    fn emit(&self, program: &FlatProgram) -> BmV2Json {
        bmv2::emit(program, None)
    }
}
