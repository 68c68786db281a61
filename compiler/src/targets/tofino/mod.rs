//! The Tofino Native Architectures: TNA for Tofino 1, and T2NA for Tofino 2.
//!
//! Programs are checked for the chip, with an estimate of the stages that they need ([`stages`]), and compiled for the software model.

mod aliases;
mod bf_rt;
mod direct_cells;
mod externs;
mod package;
mod register_access;
pub mod stages;

use std::any::Any;
use std::rc::Rc;

use alfirk_bf_rt_json::Schema;
use alfirk_bmv2_json::BmV2Json;

use super::v1model::TABLE_PROPERTIES as COMMON_PROPERTIES;
use super::{KeyUse, PropertyValue, ReportForm, StageReport, Stages, TableProperty, Target};
use crate::arch::Arch;
use crate::bmv2;
use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::ir::{FlatProgram, MatchKind, Objects, TableId};
use crate::p4info::IdError;
use crate::passes::builder::data::Data;
use crate::passes::builder::{Absent, Builder};
use crate::passes::deparsers::DeparserForm;
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::{Call, Callee, DeclaredObject};
use crate::passes::externs::{LoweredObject, Lowering};
use crate::passes::inlined::InlinedProgram;
use crate::preproc::{self, MacroOption};
use crate::sema::CheckedProgram;
use crate::syntax::ast::Instantiation;

/// An architecture of a Tofino chip.
#[derive(Debug)]
pub struct Tofino {
    /// The chip's generation: 1 or 2.
    generation: u8,
}

/// Tofino Native Architecture, for Tofino 1.
pub static TNA: Tofino = Tofino { generation: 1 };
/// Tofino Native Architecture for Tofino 2.
pub static T2NA: Tofino = Tofino { generation: 2 };

/// Table properties: those of v1model, and those that attach direct registers and filters to a table.
const TABLE_PROPERTIES: [TableProperty; 10] = {
    let [a, b, c, d, e, f, g] = COMMON_PROPERTIES;
    let registers = TableProperty {
        name: "registers",
        value: PropertyValue::ObjectNamed("Direct"),
    };
    let filters = TableProperty {
        name: "filters",
        value: PropertyValue::ObjectNamed("Direct"),
    };
    let idle_timeout = TableProperty {
        name: "idle_timeout",
        value: PropertyValue::Flag,
    };
    [a, b, c, d, e, f, g, registers, filters, idle_timeout]
};

impl Tofino {
    fn arch(&self) -> Arch {
        match self.generation {
            1 => Arch::TNA,
            _ => Arch::T2NA,
        }
    }
}

impl Target for Tofino {
    fn name(&self) -> &'static str {
        match self.generation {
            1 => "tna",
            _ => "t2na",
        }
    }

    fn target_names(&self) -> &'static [&'static str] {
        match self.generation {
            1 => &["tofino"],
            _ => &["tofino2"],
        }
    }

    fn packages(&self) -> &'static [&'static str] {
        match self.generation {
            1 => &["Switch", "MultiParserSwitch"],
            _ => &["Switch"],
        }
    }

    fn define_macros(&self, options: &mut preproc::Options) {
        options.target_macro = None;
        let target = format!("__TARGET_TOFINO__={}", self.generation);
        options.macros.insert(0, MacroOption::Define(target));
    }

    fn include_help(&self, file: &str) -> Option<String> {
        (self.generation == 2 && file == "t2na.p4").then(|| {
            format!("it is declared in `{file}`: only Tofino 2 has it; include that file instead of `tna.p4`, and compile with --arch t2na")
        })
    }

    fn table_properties(&self) -> &'static [TableProperty] {
        &TABLE_PROPERTIES
    }

    fn object_properties(&self) -> &'static [&'static str] {
        &[
            "implementation",
            "counters",
            "meters",
            "alpm",
            "atcam",
            "registers",
            "filters",
        ]
    }

    fn check_operations(&self, program: &CheckedProgram, diagnostics: &mut Diagnostics) {
        stages::refuse_operations(program, self.arch(), diagnostics);
    }

    fn elaborate(&self, elaborator: &mut Elaborator<'_>, main: &Rc<Instantiation>) {
        elaborator.tofino(main);
    }

    fn key_use(&self, match_kind: &str) -> Option<KeyUse> {
        match match_kind {
            // The partition of an algorithmic TCAM; the model has one table for all partitions.
            "atcam_partition_index" => Some(KeyUse::Match(MatchKind::Exact)),
            _ => KeyUse::standard(match_kind),
        }
    }

    fn packet_length(&self, build: &mut Builder<'_>, span: Span) -> Data {
        let message = "the packet's length is not available in a parser on this target";
        build.target(span, message).into()
    }

    fn pads_flexible_headers(&self) -> bool {
        true
    }

    fn control_kind(&self, extern_type: &str) -> Option<&'static str> {
        externs::control_kind(extern_type)
    }

    fn calls_have_results(&self) -> bool {
        true
    }

    fn fold_pure_call(&self, build: &mut Builder<'_>, call: &Call) -> Option<Data> {
        match &call.callee {
            Callee::Function(name) => externs::function_value(build, name, call),
            Callee::This(method) if &**method == "predicate" => {
                Some(externs::predicate(build, call))
            }
            Callee::This(_) => None,
            Callee::Method(id, _) => {
                let declared = &build.into.externs.instances[id.0];
                match &*declared.ty == "Hash" && externs::is_identity(build, &declared.args) {
                    true => Some(externs::identity(build, call)),
                    false => None,
                }
            }
        }
    }

    fn lowering_state(&self) -> Box<dyn Any> {
        Box::new(externs::State::default())
    }

    fn lower_object(&self, lowering: &mut Lowering<'_>, declared: DeclaredObject) -> LoweredObject {
        lowering.lower_tofino_object(declared)
    }

    fn lower_call(&self, lowering: &mut Lowering<'_>, call: &mut Call) -> Data {
        lowering.tofino_call(call)
    }

    fn attach(
        &self,
        lowering: &mut Lowering<'_>,
        table: TableId,
        property: &str,
        object: Option<LoweredObject>,
        span: Span,
    ) -> bool {
        lowering.attach_tofino_object(table, property, object, span)
    }

    fn finish_inlined(&self, program: &mut InlinedProgram, diagnostics: &mut Diagnostics) {
        diagnostics.enter("register_access");
        register_access::check(program, diagnostics);
        diagnostics.enter("direct_cells");
        direct_cells::finish(program, diagnostics);
    }

    /// False: the model drops a rejected packet by its parser error, before the control.
    fn continues_after_reject(&self) -> bool {
        false
    }

    fn deparser_form(&self) -> DeparserForm {
        DeparserForm::Statements
    }

    fn finish(&self, program: &mut FlatProgram) {
        aliases::remove_unread(program);
    }

    fn check_limits(&self, program: &FlatProgram, diagnostics: &mut Diagnostics) {
        stages::refuse(program, diagnostics);
        stages::refuse_applies(program, diagnostics);
    }

    fn is_only_checked_without_output(&self) -> bool {
        true
    }

    fn stages(&self) -> Option<&dyn Stages> {
        Some(self)
    }

    fn emit(&self, program: &FlatProgram) -> BmV2Json {
        bmv2::emit(program, Some(self.name()))
    }

    fn bf_rt_schema(&self, program: &Objects) -> Option<Result<Schema, Vec<IdError>>> {
        Some(bf_rt::schema(program))
    }
}

impl Stages for Tofino {
    fn report(&self, programs: &[FlatProgram], form: ReportForm) -> Result<StageReport, String> {
        stages::report(programs, form)
    }
}

impl Builder<'_> {
    /// Reports a construct that the software model does not support, unless the program is only checked.
    fn beyond_model(&mut self, span: Span, message: impl Into<String>) -> Absent {
        if self.options.only_check {
            return self.skip();
        }
        let what = Diagnostic::error(Code::MODEL, span, message);
        let help = "the program can be checked, without -o, and compiled for the chip";
        self.diagnostics.report_error(what.help(help)).into()
    }
}
