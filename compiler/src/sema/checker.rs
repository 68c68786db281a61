//! State of the type checker: scopes, definitions and the current context.

use super::checked::*;
use super::types::Type;
use super::value::Value;
use crate::arch::{self, Arch};
use crate::diag::{closest, Code, Diagnostic, Diagnostics, ErrorReported, Span, Warning};
use crate::syntax::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// The kind of code that is being checked, which determines the allowed calls and statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// At the top level, or among the declarations of a parser or control.
    Declarations,
    /// In a state of a parser.
    State,
    /// In the `apply` block of a control.
    Apply,
    /// In an action.
    Action,
    /// In a function.
    Function,
}

/// One lexical scope: names and their declarations.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub names: FxHashMap<Name, DeclId>,
}

pub(super) struct Checker<'a> {
    pub out: CheckedProgram,
    pub diagnostics: &'a mut Diagnostics,
    pub scopes: Vec<Scope>,
    /// Maps each function to the next overload: the next function of the same name in the same scope.
    pub next_overload: FxHashMap<DeclId, DeclId>,
    pub match_kind_names: FxHashMap<Name, DeclId>,
    pub error_names: FxHashMap<Name, DeclId>,
    /// Source position of each declaration's name, by [`DeclId`].
    pub name_spans: Vec<Span>,
    pub used: FxHashSet<DeclId>,
    /// Names in text that was skipped after a syntax error. They may be declared there, so an unknown name among them is not reported.
    pub skipped_names: FxHashSet<Name>,
    /// First tokens of the text that was skipped after each syntax error.
    pub skipped: Vec<Span>,
    pub body_kind: BodyKind,
    /// Result type of the enclosing function; `None` outside functions.
    pub ret: Option<Type>,
    /// Number of enclosing loops.
    pub loops: u32,
    /// The innermost enclosing declaration; `None` at the top level.
    pub parent: Option<DeclId>,
    /// Type of `this`; set only in implementations of abstract methods.
    pub this: Option<Type>,
    /// The type bound to each inference variable [`Type::Infer`], by its number; `None` while unbound.
    pub inferred: Vec<Option<Type>>,
    /// Numbers of the inference variables that the program writes as `_`.
    pub dont_cares: FxHashSet<u32>,
    /// Names of warnings disabled by `@noWarn` of the enclosing declarations.
    pub silenced: Vec<String>,
    /// States of the enclosing parser, by name; empty outside parsers.
    pub states: FxHashMap<Name, DeclId>,
    /// Field tables of struct-like types, computed once per type.
    pub field_cache: FxHashMap<Type, std::rc::Rc<FieldTable>>,
    /// Specialised types whose type arguments have been checked.
    pub checked_specializations: FxHashSet<Type>,
    /// Whether a type may be part of a header, cached by type.
    pub header_parts: FxHashMap<Type, bool>,
    /// Cached sizes of types; `None` for types without a size.
    pub layouts: FxHashMap<Type, Option<Layout>>,
    /// Sum of the sizes of all constant values so far, in bytes; limited to `MAX_CONSTANT_BYTES`.
    pub constant_bytes: u64,
    /// Remaining number of unknown names for which a similar name is searched.
    suggestions: u32,
}

/// Number of unknown names in a program for which a similar name is searched.
const MAX_SUGGESTIONS: u32 = 100;

/// Sizes of the values of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Minimum size of a value in bits: `varbit` fields are empty.
    pub min: u64,
    /// Maximum size of a value in bits.
    pub max: u64,
    /// Number of fields of variable size.
    pub varbits: u64,
}

/// Fields of a type with their types, and their indices by name.
#[derive(Debug, Default)]
pub(super) struct FieldTable {
    pub list: Vec<(std::rc::Rc<Field>, Type)>,
    pub index: FxHashMap<Name, usize>,
}

impl<'a> Checker<'a> {
    pub fn new(program: &P4Program, arch: Arch, diagnostics: &'a mut Diagnostics) -> Checker<'a> {
        let out = CheckedProgram {
            arch,
            defs: vec![None; program.decl_count as usize],
            exprs: vec![ExprInfo::default(); program.expr_count as usize],
            type_refs: vec![Type::Unknown; program.type_ref_count as usize],
            ..CheckedProgram::default()
        };
        Checker {
            out,
            diagnostics,
            scopes: vec![Scope::default()],
            next_overload: FxHashMap::default(),
            match_kind_names: FxHashMap::default(),
            error_names: FxHashMap::default(),
            name_spans: vec![Span::default(); program.decl_count as usize],
            used: FxHashSet::default(),
            skipped_names: program.skipped_names.iter().cloned().collect(),
            skipped: program.skipped_spans.clone(),
            body_kind: BodyKind::Declarations,
            ret: None,
            loops: 0,
            parent: None,
            this: None,
            inferred: Vec::new(),
            dont_cares: FxHashSet::default(),
            silenced: Vec::new(),
            states: FxHashMap::default(),
            field_cache: FxHashMap::default(),
            checked_specializations: FxHashSet::default(),
            layouts: FxHashMap::default(),
            constant_bytes: 0,
            suggestions: MAX_SUGGESTIONS,
            header_parts: FxHashMap::default(),
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.report(diagnostic);
    }

    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> ErrorReported {
        self.diagnostics.error(code, span, message)
    }

    /// The type of a node after a reported error. If no error was reported, reports an internal error.
    pub fn invalid(&mut self) -> Type {
        let what = "a type is missing without an error";
        Type::Invalid(self.diagnostics.follow_up(None, what))
    }

    pub fn warn(&mut self, diagnostic: Diagnostic) {
        let silenced = |warning: Warning| self.silenced.iter().any(|name| warning.is_named(name));
        if !diagnostic.warning.is_some_and(silenced) {
            self.diagnostics.report(diagnostic);
        }
    }

    /// Whether some declarations may be missing because of syntax errors, which have been reported.
    pub fn has_skipped_text(&self) -> bool {
        !self.skipped_names.is_empty()
    }

    /// Whether some text within `span` was skipped after a syntax error, which has been reported.
    pub fn contains_skipped_text(&self, span: Span) -> bool {
        self.skipped.iter().any(|skipped| span.contains(*skipped))
    }

    /// Records the kind of a declaration.
    pub fn define(&mut self, id: DeclId, kind: DefKind, span: Span) {
        self.name_spans[id.0 as usize] = span;
        self.out.defs[id.0 as usize] = Some(Def {
            kind,
            parent: self.parent,
        });
    }

    pub fn name_span(&self, id: DeclId) -> Span {
        self.name_spans[id.0 as usize]
    }

    pub fn def(&self, id: DeclId) -> &DefKind {
        &self.out.def(id).kind
    }

    /// Adds a declaration to the current scope.
    pub fn declare(&mut self, id: DeclId, name: &Ident) {
        let scope = self.scopes.len() - 1;
        let Some(first) = self.scopes[scope].names.get(&name.name).copied() else {
            self.warn_shadow(id, name);
            self.scopes[scope].names.insert(name.name.clone(), id);
            return;
        };
        let mut last = first;
        loop {
            if !self.may_overload(last, id) {
                let span = self.name_span(last);
                self.report(
                    Diagnostic::error(
                        Code::DUPLICATE,
                        name.span,
                        format!("`{name}` is declared twice"),
                    )
                    .label("second declaration")
                    .other(span, "first declaration"),
                );
                return;
            }
            match self.next_overload.get(&last) {
                Some(next) => last = *next,
                None => break,
            }
        }
        self.next_overload.insert(last, id);
    }

    /// Whether two functions of one name may overload each other: they differ in the number or the names of their parameters.
    pub fn may_overload(&self, a: DeclId, b: DeclId) -> bool {
        let function = |id: DeclId| match self.out.opt_def(id).map(|d| &d.kind) {
            Some(DefKind::Function(f) | DefKind::ExternFunction(f)) => Some(f.clone()),
            _ => None,
        };
        match (function(a), function(b)) {
            (Some(a), Some(b)) => !same_parameters(&a.params, &b.params),
            _ => false,
        }
    }

    fn warn_shadow(&mut self, id: DeclId, name: &Ident) {
        if self.scopes.len() < 2 {
            return;
        }
        let outer = self.scopes[..self.scopes.len() - 1]
            .iter()
            .rev()
            .find_map(|s| s.names.get(&name.name).copied());
        let Some(outer) = outer.filter(|outer| *outer != id) else {
            return;
        };
        // Type parameters may have the name of an outer declaration without a warning.
        if matches!(self.def(id), DefKind::TypeParam(..)) {
            return;
        }
        let span = self.name_span(outer);
        self.warn(
            Diagnostic::warning(
                Warning::Shadow,
                name.span,
                format!("`{name}` hides another declaration of that name"),
            )
            .other(span, "the hidden declaration"),
        );
    }

    /// Finds the declaration of a name and marks it as used. An unknown name is reported.
    pub fn lookup(&mut self, path: &Path) -> Option<DeclId> {
        let found = self.find(path);
        match found {
            Some(id) => {
                self.used.insert(id);
                self.check_deprecated(id, path.span());
            }
            None => self.unknown_name(&path.name),
        }
        found
    }

    /// Finds the declaration of a name, from the innermost scope outwards. `None` for an unknown name, which is not reported.
    pub fn find(&self, path: &Path) -> Option<DeclId> {
        let name = &path.name.name;
        if path.absolute {
            return self.scopes[0].names.get(name).copied();
        }
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.names.get(name).copied())
            .or_else(|| self.match_kind_names.get(name).copied())
    }

    /// Finds the declaration of a callee's name. Inside an action or function, its own name refers to an outer declaration of that name
    /// if there is one, as recursion is not allowed.
    pub fn find_callee(&self, path: &Path) -> Option<DeclId> {
        let found = self.find(path)?;
        if self.parent != Some(found) {
            return Some(found);
        }
        let around = self
            .scopes
            .iter()
            .rev()
            .filter_map(|scope| scope.names.get(&path.name.name))
            .find(|id| **id != found);
        Some(around.copied().unwrap_or(found))
    }

    fn unknown_name(&mut self, name: &Ident) {
        if self.skipped_names.contains(&name.name) {
            return;
        }
        let mut d = Diagnostic::error(
            Code::UNKNOWN_NAME,
            name.span,
            format!("`{name}` is not declared"),
        )
        .label("not found in this scope");
        if let Some(near) = self.suggest(name) {
            d = d.did_you_mean(name.span, &near);
        } else if let Some(file) = declared_in(&name.name) {
            let top = Span::new(name.span.file, 0, 0);
            d = match arch::include_help(file) {
                Some(help) => d.help(help),
                None => d
                    .help(format!(
                        "it is declared in `{file}`: add `#include <{file}>`"
                    ))
                    .fix(top, format!("#include <{file}>\n")),
            };
        }
        self.report(d);
    }

    fn suggest(&mut self, name: &Ident) -> Option<String> {
        // A suggestion compares all names in scope, which is slow for the thousands of unknown names that one wrong macro can cause.
        self.suggestions = self.suggestions.checked_sub(1)?;
        let mut names: Vec<&str> = self
            .scopes
            .iter()
            .rev()
            .flat_map(|s| s.names.keys())
            .map(|n| &**n)
            .collect();
        names.sort_unstable();
        closest(&name.name, names).map(str::to_owned)
    }

    /// Warns if the declaration used at `at` has the annotation `@deprecated`.
    pub fn check_deprecated(&mut self, id: DeclId, at: Span) {
        let Some(annotation) = self.annotations(id).annotation("deprecated") else {
            return;
        };
        let text = annotation.string().unwrap_or("").to_owned();
        let name = self.out.name(id);
        let mut d = Diagnostic::warning(Warning::Deprecated, at, format!("`{name}` is deprecated"));
        if !text.is_empty() {
            d = d.note(text);
        }
        self.warn(d);
    }

    /// Annotations of a declaration.
    pub fn annotations(&self, id: DeclId) -> &[Annotation] {
        match self.out.opt_def(id).map(|d| &d.kind) {
            Some(kind) => kind.annotations(),
            None => &[],
        }
    }

    pub fn in_scope<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Scope::default());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Adds a declaration to the current scope, without the warnings that the declaration's own `@noWarn` disables.
    pub fn declare_silenced(&mut self, id: DeclId, name: &Ident, annotations: &[Annotation]) {
        let silenced = self.silenced.len();
        self.silence(annotations);
        self.declare(id, name);
        self.silenced.truncate(silenced);
    }

    fn silence(&mut self, annotations: &[Annotation]) {
        let names = annotations.iter().filter(|a| &*a.name.name == "noWarn");
        self.silenced
            .extend(names.filter_map(|a| a.string()).map(str::to_owned));
    }

    /// Runs `f` with `id` as the enclosing declaration: in a new scope, and without the warnings that its `@noWarn` disables.
    pub fn in_declaration<T>(
        &mut self,
        id: DeclId,
        annotations: &[Annotation],
        f: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let silenced = self.silenced.len();
        self.silence(annotations);
        let parent = self.parent.replace(id);
        let result = self.in_scope(f);
        self.parent = parent;
        self.silenced.truncate(silenced);
        result
    }

    pub fn info_mut(&mut self, expr: &Expr) -> &mut ExprInfo {
        &mut self.out.exprs[expr.id.0 as usize]
    }

    /// Type of an expression that has been checked, before implicit casts.
    pub fn type_of(&self, expr: &Expr) -> Type {
        self.out.info(expr.id).ty.clone()
    }

    /// Value of an expression after its implicit cast; `None` if it is not a compile-time constant.
    pub fn value_of(&self, expr: &Expr) -> Option<Value> {
        self.out.value(expr)
    }

    /// Fields of a struct, header or header union, cached per type; empty for other types.
    pub fn field_table(&mut self, ty: &Type) -> std::rc::Rc<FieldTable> {
        if let Some(table) = self.field_cache.get(ty) {
            return table.clone();
        }
        let list = self.out.fields(ty);
        let index = list
            .iter()
            .enumerate()
            .map(|(i, (f, _))| (f.name.name.clone(), i))
            .collect();
        let table = std::rc::Rc::new(FieldTable { list, index });
        self.field_cache.insert(ty.clone(), table.clone());
        table
    }
}

/// Whether two parameter lists have the same length and names, so that calls cannot tell the overloads apart.
pub(super) fn same_parameters(a: &[std::rc::Rc<Param>], b: &[std::rc::Rc<Param>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name.name == b.name.name)
}

/// The shipped file, such as `core.p4`, that declares `name`, found by text search; `None` if none does.
fn declared_in(name: &str) -> Option<&'static str> {
    crate::preproc::shipped_files()
        .iter()
        .find(|(_, text)| {
            let mut rest = *text;
            while let Some(at) = rest.find(name) {
                let before = rest[..at].chars().next_back();
                let after = rest[at + name.len()..].chars().next();
                let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                if !word(before) && matches!(after, Some('(' | '<' | ' ' | ',')) && name.len() > 1 {
                    let line = rest[..at].rsplit('\n').next().unwrap_or("");
                    let declares = [
                        "extern ", "enum ", "struct ", "parser ", "control ", "package ",
                        "action ", "typedef ",
                    ];
                    let in_comment = line.contains("//") || line.contains("/*");
                    if !in_comment && declares.iter().any(|d| line.contains(d)) {
                        return true;
                    }
                }
                rest = &rest[at + name.len()..];
            }
            false
        })
        .map(|(file, _)| *file)
}

impl DefKind {
    /// Annotations of the declaration.
    pub fn annotations(&self) -> &[Annotation] {
        match self {
            DefKind::Const(d) => &d.annotations,
            DefKind::Var(d) => &d.annotations,
            DefKind::Param(d) | DefKind::CtorParam(d) => &d.annotations,
            DefKind::Instance(d) => &d.annotations,
            DefKind::Extern(d) => &d.annotations,
            DefKind::Constructor(d)
            | DefKind::Method(d)
            | DefKind::ExternFunction(d)
            | DefKind::Function(d) => &d.annotations,
            DefKind::Action(d) => &d.annotations,
            DefKind::Parser(d) => &d.annotations,
            DefKind::State(d) => &d.annotations,
            DefKind::Control(d) => &d.annotations,
            DefKind::Package(d) => &d.annotations,
            DefKind::Table(d) => &d.annotations,
            DefKind::ValueSet(d) => &d.annotations,
            DefKind::Struct(d) | DefKind::Header(d) | DefKind::HeaderUnion(d) => &d.annotations,
            DefKind::Field(d, _) => &d.annotations,
            DefKind::Enum(d) => &d.annotations,
            DefKind::EnumMember(d, _)
            | DefKind::ErrorMember(d, _)
            | DefKind::MatchKindMember(d) => &d.annotations,
            DefKind::Typedef(d) | DefKind::NewType(d) => &d.annotations,
            DefKind::TypeParam(..) => &[],
        }
    }

    /// A noun with its article for messages, such as "an action".
    pub fn noun(&self) -> &'static str {
        match self {
            DefKind::Const(_) => "a constant",
            DefKind::Var(_) => "a variable",
            DefKind::Param(_) => "a parameter",
            DefKind::CtorParam(_) => "a constructor parameter",
            DefKind::Instance(_) => "an instance",
            DefKind::Extern(_) => "an extern type",
            DefKind::Constructor(_) => "a constructor",
            DefKind::Method(_) => "a method",
            DefKind::ExternFunction(_) | DefKind::Function(_) => "a function",
            DefKind::Action(_) => "an action",
            DefKind::Parser(_) => "a parser",
            DefKind::State(_) => "a state",
            DefKind::Control(_) => "a control",
            DefKind::Package(_) => "a package",
            DefKind::Table(_) => "a table",
            DefKind::ValueSet(_) => "a value set",
            DefKind::Struct(_) => "a struct type",
            DefKind::Header(_) => "a header type",
            DefKind::HeaderUnion(_) => "a header union type",
            DefKind::Field(..) => "a field",
            DefKind::Enum(_) => "an enum type",
            DefKind::EnumMember(..) => "a member of an enum",
            DefKind::ErrorMember(..) => "an error",
            DefKind::MatchKindMember(_) => "a match kind",
            DefKind::Typedef(_) | DefKind::NewType(_) | DefKind::TypeParam(..) => "a type",
        }
    }

    /// Whether the declaration introduces a type.
    pub fn is_type(&self) -> bool {
        matches!(
            self,
            DefKind::Extern(_)
                | DefKind::Parser(_)
                | DefKind::Control(_)
                | DefKind::Package(_)
                | DefKind::Struct(_)
                | DefKind::Header(_)
                | DefKind::HeaderUnion(_)
                | DefKind::Enum(_)
                | DefKind::Typedef(_)
                | DefKind::NewType(_)
                | DefKind::TypeParam(..)
        )
    }
}

impl Checker<'_> {
    /// Ends the check: replaces inference variables by their types in all results. Returns the typed program and the used declarations.
    pub fn finish(self) -> (CheckedProgram, FxHashSet<DeclId>) {
        let bound = self.inferred;
        fn settle(ty: &mut Type, bound: &[Option<Type>]) {
            if ty.any(&mut |t| matches!(t, Type::Infer(_))) {
                *ty = resolved(ty, bound);
            }
        }
        fn resolved(ty: &Type, bound: &[Option<Type>]) -> Type {
            ty.map(&mut |t| match t {
                Type::Infer(n) => Some(
                    bound[*n as usize]
                        .as_ref()
                        .map_or(Type::Unknown, |t| resolved(t, bound)),
                ),
                _ => None,
            })
        }
        let mut out = self.out;
        for info in &mut out.exprs {
            settle(&mut info.ty, &bound);
            if let Some(cast) = &mut info.cast {
                settle(cast, &bound);
            }
        }
        out.type_refs.iter_mut().for_each(|ty| settle(ty, &bound));
        out.decl_types
            .values_mut()
            .for_each(|ty| settle(ty, &bound));
        for call in out.calls.values_mut() {
            call.type_args.iter_mut().for_each(|ty| settle(ty, &bound));
            call.args
                .iter_mut()
                .for_each(|arg| settle(&mut arg.ty, &bound));
            settle(&mut call.ret, &bound);
        }
        (out, self.used)
    }
}
