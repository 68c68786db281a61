//! Generation of the inlined program: variables of any type, values, storage, assignment, conversion and statements.
//!
//! [`super::elaborate`] builds bodies with a [`Builder`], and [`super::externs`] builds the lowered calls. A builder uses the types of the
//! checked program, but not its declarations: elaboration resolves names.

mod absent;
mod access;
mod assign;
mod claims;
pub mod data;
mod division;
mod equal;
mod growth;
pub mod layout;
mod lookahead;
pub mod ops;
mod values;

pub use absent::Absent;
pub use access::place_of;
pub use values::unnamed;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::diag::{Code, Diagnostic, Diagnostics, ErrorReported, SourceMap, Span, Warning};
use crate::ir::{self, FieldRef, Label, Scalar, Source};
use crate::names::join;
use crate::passes::inlined::{InlinedProgram, Stmt, StmtKind};
use crate::passes::{self, Options};
use crate::sema::{CheckedProgram, Type};

/// Maximum number of header instances, including elements of stacks.
const MAX_HEADERS: usize = 1 << 16;

/// A program under construction.
pub struct Builder<'a> {
    /// The typed program.
    pub checked: &'a CheckedProgram,
    /// The source files, for positions in outputs.
    pub sources: &'a SourceMap,
    /// Receives errors and warnings.
    pub diagnostics: &'a mut Diagnostics,
    /// Options of the lowering.
    pub options: &'a Options,
    /// The declared objects so far.
    pub program: ir::Objects,
    /// The code so far, with data for later passes. Its own `objects` are empty until [`Builder::finish`].
    pub into: InlinedProgram,
    /// Statements of the current body so far.
    pub out: Vec<Stmt>,
    /// Number of parts generated so far: see [`growth`].
    parts_made: usize,
    /// An error if the number of generated parts exceeds [`growth::MAX_PARTS`].
    limit: Result<(), ErrorReported>,
    /// Cached number of parts by type, for the growth limit.
    type_parts: FxHashMap<Type, usize>,
    /// Cached names and types of the fields of structs, headers and unions, by type.
    fields: RefCell<FxHashMap<Type, values::Parts>>,
    /// Header types by P4 type.
    header_types: Vec<(Type, ir::HeaderTypeId)>,
    /// Union types by P4 type.
    union_types: Vec<(Type, ir::UnionTypeId)>,
    /// Used control-plane names by kind of object, with the positions of the declarations.
    claimed: BTreeMap<(&'static str, String), Span>,
    /// Whether a construct was skipped because the program is only checked: see [`Absent`].
    skips: bool,
}

impl<'a> Builder<'a> {
    /// Creates a builder of an empty program.
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
            limit: Ok(()),
            type_parts: FxHashMap::default(),
            fields: RefCell::default(),
            header_types: Vec::new(),
            union_types: Vec::new(),
            claimed: BTreeMap::new(),
            skips: false,
        };
        builder.add_variables_header();
        builder
    }

    /// The finished program.
    pub fn finish(self) -> InlinedProgram {
        InlinedProgram {
            objects: self.program,
            ..self.into
        }
    }

    /// Runs `make` with an empty list of statements and returns the statements that it emits.
    pub fn block(&mut self, make: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.out);
        make(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// Adds a statement to the current body.
    pub fn emit(&mut self, span: Span, kind: impl Into<StmtKind>) {
        if self.count_parts(span, 1).is_err() {
            return;
        }
        let (kind, source) = (kind.into(), self.source(span));
        self.out.push(Stmt { kind, source });
    }

    /// A new label for a block or loop.
    pub fn label(&mut self) -> Label {
        self.into.label()
    }

    /// An unused name for a scalar or header: `wanted`, with a number if it is in use.
    pub fn unique(&mut self, wanted: &str) -> String {
        self.into.unique(wanted)
    }

    /// Creates a variable for a number or boolean, whose name is derived from `scope` and `stem`.
    pub fn temporary(&mut self, scope: &str, stem: &str, ty: Scalar) -> FieldRef {
        let name = self.unique(&join(scope, stem));
        self.program.storage.add_scalar(name, ty)
    }

    /// A source position for the outputs.
    pub fn source(&self, span: Span) -> Source {
        passes::source(self.sources, span)
    }

    /// Reports an error.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> ErrorReported {
        self.diagnostics.error(code, span, message)
    }

    /// Reports an exceeded limit; later diagnostics are ignored.
    pub fn report_last(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
    ) -> ErrorReported {
        let what = Diagnostic::error(code, span, message);
        self.diagnostics.report_last(what)
    }

    /// Reports a warning.
    pub fn warn(&mut self, warning: Warning, span: Span, message: impl Into<String>) {
        self.diagnostics
            .report(Diagnostic::warning(warning, span, message));
    }

    /// Creates the header for variables, the first header.
    fn add_variables_header(&mut self) {
        let (ty, name) = self.options.arch.target().variables_header();
        let storage = &mut self.program.storage;
        storage.header_types.push(ir::HeaderType {
            name: ty.to_owned(),
            fields: Vec::new(),
        });
        storage.headers.push(ir::Header {
            name: name.to_owned(),
            ty: ir::HeaderTypeId(0),
            metadata: true,
        });
        storage.variables = ir::HeaderId(0);
        self.into.names.insert(name.to_owned());
    }
}
