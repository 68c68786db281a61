//! The interface between the compiler and its targets.
//!
//! [`Target`] has everything of the compiler that depends on the architecture: names, properties of tables, match
//! kinds, the blocks of the package, layout of metadata, externs, limits and the back end. Each architecture is
//! implemented in a folder here. No other module names an architecture, except the list of architectures in
//! [`crate::arch`], the options of the driver, and the files that the preprocessor ships.
//!
//! [`v1model`] is p4c's architecture for BMv2. [`tofino`] has the two Tofino Native Architectures, with the report of
//! pipeline stages. A third architecture, similar to PSA, is in `tests`: a minimal example of all parts of an
//! architecture.

pub mod tofino;
pub mod v1model;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;

use alfirk_bf_rt_json::Schema;
use alfirk_bmv2_json::BmV2Json;

use crate::diag::{Diagnostics, Span};
use crate::ir::{FlatProgram, MatchKind, Objects, TableId};
use crate::p4info::IdError;
use crate::passes::builder::data::Data;
use crate::passes::builder::Builder;
use crate::passes::deparsers::DeparserForm;
use crate::passes::elaborate::Elaborator;
use crate::passes::externs::call::{Call, DeclaredObject};
use crate::passes::externs::{LoweredObject, Lowering};
use crate::passes::inlined::InlinedProgram;
use crate::preproc;
use crate::sema::CheckedProgram;
use crate::syntax::ast::{Instantiation, P4Program};

/// An architecture with its target.
///
/// Methods are in the order of the phases that call them. A method with a default implementation is overridden only by
/// targets that need something else.
pub trait Target: Debug + Sync {
    /// Name of the architecture, for `--arch`, messages and P4Info. Unique.
    fn name(&self) -> &'static str;

    /// Names of the target for `--target`; the first is the usual one.
    fn target_names(&self) -> &'static [&'static str];

    /// Names of the packages that `main` may instantiate, at least one.
    fn packages(&self) -> &'static [&'static str];

    /// Defines macros of the target in the options of the preprocessor, and removes the predefined one of another target.
    fn define_macros(&self, options: &mut preproc::Options) {
        options.target_macro = None;
    }

    /// The architecture's header, if the program chooses its version by a macro.
    fn versioned_header(&self) -> Option<VersionedHeader> {
        None
    }

    /// The remedy for an undeclared name that the shipped file `file` of this architecture declares, if an `#include`
    /// of the file is not enough; otherwise `None`.
    fn include_help(&self, _file: &str) -> Option<String> {
        None
    }

    /// Checks the syntax tree, before names are resolved. `is_printed`: whether the tree is an output (`--pp`).
    fn check_tree(&self, _program: &P4Program, _is_printed: bool, _diagnostics: &mut Diagnostics) {}

    /// Properties of tables, besides those of the P4_16 specification.
    fn table_properties(&self) -> &'static [TableProperty];

    /// Names of the table properties whose values are extern objects, which [`Target::attach`] or the compiler attaches to the table.
    fn object_properties(&self) -> &'static [&'static str];

    /// Reports operations of a type-checked program that the target's hardware cannot execute.
    fn check_operations(&self, _program: &CheckedProgram, _diagnostics: &mut Diagnostics) {}

    /// Names of the type and of the instance of the header for variables that are not headers.
    fn variables_header(&self) -> (&'static str, &'static str) {
        ("scalars_0", "scalars")
    }

    /// Elaborates the blocks of the package instance `main`, in the order of processing, with bindings of their parameters.
    fn elaborate(&self, elaborator: &mut Elaborator<'_>, main: &Rc<Instantiation>);

    /// How a table uses key elements with a match kind; `None` if the target does not support the match kind.
    fn key_use(&self, match_kind: &str) -> Option<KeyUse> {
        KeyUse::standard(match_kind)
    }

    /// The value of `packet_in.length()`; `Data::Invalid` after a reported error.
    fn packet_length(&self, build: &mut Builder<'_>, span: Span) -> Data;

    /// Whether the compiler may pad a header with the annotation `@flexible` to whole bytes.
    fn pads_flexible_headers(&self) -> bool {
        false
    }

    /// The control plane's name for the kind of objects of an extern type; `None` if they are not visible to the control plane.
    fn control_kind(&self, extern_type: &str) -> Option<&'static str>;

    /// Whether extern calls may return a result. If not, calls store results in `out` arguments.
    fn calls_have_results(&self) -> bool;

    /// The value of a pure call of an extern, which elaboration evaluates like an operator; `None` for calls with effects.
    fn fold_pure_call(&self, _build: &mut Builder<'_>, _call: &Call) -> Option<Data> {
        None
    }

    /// Creates the state that only this target needs while externs are lowered ([`Lowering::state`]).
    fn lowering_state(&self) -> Box<dyn Any> {
        Box::new(())
    }

    /// Lowers a declared extern object.
    fn lower_object(&self, lowering: &mut Lowering<'_>, declared: DeclaredObject) -> LoweredObject;

    /// Emits the statements of a call of an extern, and returns its result. `Data::Nothing` if the call has no result or has stored it.
    fn lower_call(&self, lowering: &mut Lowering<'_>, call: &mut Call) -> Data;

    /// Attaches an object to the table that names it in a property. `object` is `None` if the value of the property is not an object.
    /// Returns false for a property that the compiler attaches: `implementation`, `counters` and `meters` with objects of its own kinds.
    fn attach(
        &self,
        _lowering: &mut Lowering<'_>,
        _table: TableId,
        _property: &str,
        _object: Option<LoweredObject>,
        _span: Span,
    ) -> bool {
        false
    }

    /// Runs the target's own pass over the inlined program, which checks and completes it.
    fn finish_inlined(&self, _program: &mut InlinedProgram, _diagnostics: &mut Diagnostics) {}

    /// Whether a packet that a parser rejects by `transition reject` continues to the control after the parser.
    fn continues_after_reject(&self) -> bool;

    /// The statements that deparsers may contain, besides `emit`.
    fn deparser_form(&self) -> DeparserForm;

    /// Runs the target's own pass over the finished IR, which completes it.
    fn finish(&self, _program: &mut FlatProgram) {}

    /// Reports objects and statements that exceed the target's hardware.
    fn check_limits(&self, _program: &FlatProgram, _diagnostics: &mut Diagnostics) {}

    /// Whether a program without requested outputs is only checked, as its usual output is made by another compiler.
    fn is_only_checked_without_output(&self) -> bool {
        false
    }

    /// The pipes (`--pipe`) and pipeline stages (`--report`) of the target's chip; `None` if it has neither.
    fn stages(&self) -> Option<&dyn Stages> {
        None
    }

    /// Writes the program for the switch.
    fn emit(&self, program: &FlatProgram) -> BmV2Json;

    /// The BfRuntime schema of a program; `None` for a target without BfRuntime.
    ///
    /// # Errors
    /// Explicit ids (`@id`) are invalid or conflict; all such errors are returned.
    fn bf_rt_schema(&self, _program: &Objects) -> Option<Result<Schema, Vec<IdError>>> {
        None
    }
}

/// A chip with pipes of pipeline stages.
pub trait Stages {
    /// Assigns the program of each pipe to stages, and reports the stages and their resources.
    ///
    /// # Errors
    /// A message for the user: a program has no pipelines.
    fn report(&self, programs: &[FlatProgram], form: ReportForm) -> Result<StageReport, String>;
}

/// The form of a stage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// Text for the terminal.
    Text,
    /// A JSON object, or an array of one object per pipe.
    Json,
}

/// A stage report to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// The report in the requested form, with a line break at its end.
    pub text: String,
    /// Messages for the user, one for each program that needs more stages than the chip has.
    pub excesses: Vec<String>,
}

/// A header file of an architecture, whose version the including program chooses by a macro.
#[derive(Clone, Copy, Debug)]
pub struct VersionedHeader {
    /// Name of the file.
    pub file: &'static str,
    /// The macro that the program defines before the `#include`.
    pub macro_name: &'static str,
    /// The constant that the header declares with the value of the macro.
    pub constant: &'static str,
}

/// A table property of an architecture.
#[derive(Clone, Copy, Debug)]
pub struct TableProperty {
    /// Name of the property.
    pub name: &'static str,
    /// The permitted values.
    pub value: PropertyValue,
}

/// The permitted values of a table property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// Any value; a later phase checks it.
    Any,
    /// A number of entries: a constant that is not negative.
    Size,
    /// `true` or `false`, constant.
    Flag,
    /// A positive constant number.
    PositiveNumber,
    /// An extern object.
    Object,
    /// An extern object whose type has a name with this prefix. With any other value, the compiler treats the property
    /// as unknown.
    ObjectNamed(&'static str),
}

impl TableProperty {
    /// Whether the checker suggests the property for a misspelt one, and editors complete it.
    pub fn is_suggested(&self) -> bool {
        !matches!(self.value, PropertyValue::ObjectNamed(_))
    }
}

/// How a table uses a key element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Entries match the element.
    Match(MatchKind),
    /// The element is an input of the hash of an action selector.
    Selector,
}

impl KeyUse {
    /// How a table uses key elements with a match kind of `core.p4` or v1model; `None` for other match kinds.
    pub fn standard(match_kind: &str) -> Option<KeyUse> {
        Some(match match_kind {
            "exact" => KeyUse::Match(MatchKind::Exact),
            "lpm" => KeyUse::Match(MatchKind::Lpm),
            "ternary" => KeyUse::Match(MatchKind::Ternary),
            "range" => KeyUse::Match(MatchKind::Range),
            "optional" => KeyUse::Match(MatchKind::Optional),
            "selector" => KeyUse::Selector,
            _ => return None,
        })
    }
}
