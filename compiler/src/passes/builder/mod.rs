//! Code generation for passes: variables of any type, values, storage, assignment, conversion and statements.
//!
//! [`super::elaborate`] builds bodies with it, and [`super::externs`] the lowered calls. A [`Builder`] uses the types of the checked program,
//! but no declarations: elaboration resolves names.

mod access;
mod assign;
mod claims;
pub mod data;
mod division;
mod equal;
mod growth;
mod layout;
mod lookahead;
pub mod ops;
mod values;

pub use access::place_of;
pub use values::unnamed;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::diag::{Code, Diagnostic, Diagnostics, SourceMap, Span, Warning};
use crate::ir::{self, FieldRef, Label, Scalar, Source};
use crate::names::join;
use crate::passes::inlined::{InlinedProgram, Stmt, StmtKind};
use crate::passes::{self, Options};
use crate::sema::{CheckedProgram, Type};

/// Most header instances, elements of stacks included.
const MAX_HEADERS: usize = 1 << 16;

/// A program being made.
pub struct Builder<'a> {
    /// The typed program.
    pub checked: &'a CheckedProgram,
    /// The texts that it stands in.
    pub sources: &'a SourceMap,
    /// What is reported.
    pub diagnostics: &'a mut Diagnostics,
    /// Choices that change what is accepted.
    pub options: &'a Options,
    /// What the program declares.
    pub program: ir::Objects,
    /// Its code, and what passes must know of it.
    pub into: InlinedProgram,
    /// Statements made so far of the body at hand.
    pub out: Vec<Stmt>,
    /// All that was made so far, whatever became of it: see [`growth`].
    parts_made: usize,
    /// What is known of the parts of types.
    type_parts: FxHashMap<Type, usize>,
    /// Header types by P4 type.
    header_types: Vec<(Type, ir::HeaderTypeId)>,
    /// Union types by P4 type.
    union_types: Vec<(Type, ir::UnionTypeId)>,
    /// Names that the control plane knows, by kind of object, with the declarations that have them.
    claimed: BTreeMap<(&'static str, String), Span>,
}

impl<'a> Builder<'a> {
    /// A program without any code.
    pub fn new(
        checked: &'a CheckedProgram,
        sources: &'a SourceMap,
        diagnostics: &'a mut Diagnostics,
        options: &'a Options,
    ) -> Self {
        let errors = checked
            .errors()
            .iter()
            .map(|id| checked.name(*id).to_string())
            .collect();
        let program = ir::Objects {
            source: options.source.clone(),
            arch: options.arch,
            errors,
            ..ir::Objects::default()
        };
        let mut builder = Builder {
            checked,
            sources,
            diagnostics,
            options,
            program,
            into: InlinedProgram::default(),
            out: Vec::new(),
            parts_made: 0,
            type_parts: FxHashMap::default(),
            header_types: Vec::new(),
            union_types: Vec::new(),
            claimed: BTreeMap::new(),
        };
        builder.add_scalars();
        builder
    }

    /// The program that was made.
    pub fn finish(self) -> InlinedProgram {
        InlinedProgram {
            objects: self.program,
            ..self.into
        }
    }

    /// Runs `make` with an empty list of statements and returns what it put there.
    pub fn block(&mut self, make: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.out);
        make(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// Adds a statement to the body at hand.
    pub fn emit(&mut self, span: Span, kind: impl Into<StmtKind>) {
        if !self.grow(span, 1) {
            return;
        }
        let (kind, source) = (kind.into(), self.source(span));
        self.out.push(Stmt { kind, source });
    }

    /// A label of no block and no loop yet.
    pub fn label(&mut self) -> Label {
        self.into.label()
    }

    /// A name that no scalar and no header has yet.
    pub fn unique(&mut self, wanted: &str) -> String {
        self.into.unique(wanted)
    }

    /// A new variable for a number or truth value.
    pub fn temporary(&mut self, scope: &str, stem: &str, ty: Scalar) -> FieldRef {
        let name = self.unique(&join(scope, stem));
        self.program.storage.add_scalar(name, ty)
    }

    /// A place in the source, as outputs name it.
    pub fn source(&self, span: Span) -> Source {
        passes::source(self.sources, span)
    }

    /// Reports something that our model of Tofino cannot do. A program that is only checked may have it.
    pub fn beyond_model(&mut self, span: Span, message: impl Into<String>) {
        if !self.options.only_check {
            let what = Diagnostic::error(Code::MODEL, span, message);
            let help = "the program can be checked, without -o, and compiled for the chip";
            self.diagnostics.report(what.help(help));
        }
    }

    /// Reports something that the target cannot do.
    pub fn target(&mut self, span: Span, message: impl Into<String>) {
        if self.options.only_check {
            return;
        }
        self.diagnostics
            .report(Diagnostic::error(Code::TARGET, span, message));
    }

    /// Reports an error.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.diagnostics
            .report(Diagnostic::error(code, span, message));
    }

    /// Reports that a limit is exceeded, beyond which nothing is said.
    pub fn report_last(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.diagnostics
            .report_last(Diagnostic::error(code, span, message));
    }

    /// Reports a warning.
    pub fn warn(&mut self, warning: Warning, span: Span, message: impl Into<String>) {
        self.diagnostics
            .report(Diagnostic::warning(warning, span, message));
    }

    /// `scalars` is header 0, always.
    fn add_scalars(&mut self) {
        let ty = ir::HeaderType {
            name: "scalars_0".to_owned(),
            fields: Vec::new(),
        };
        self.program.storage.header_types.push(ty);
        let scalars = ir::Header {
            name: "scalars".to_owned(),
            ty: ir::HeaderTypeId(0),
            metadata: true,
        };
        self.program.storage.headers.push(scalars);
        self.into.names.insert("scalars".to_owned());
    }
}
