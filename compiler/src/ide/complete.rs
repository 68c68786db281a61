//! Completion: names that can follow at a position of an incomplete program.
//!
//! The text at the cursor is incomplete and often does not parse. So a marker is inserted at the cursor, followed by one of several
//! endings, until the syntax tree contains the marker. Its node determines the kinds of names that are proposed.

use super::index::{NamePosition, Occurrence};
use super::Analysis;
use crate::diag::Span;
use crate::driver::CompileOptions;
use crate::preproc::{normalize, SourceLoader};
use crate::sema::{DefKind, Resolution, Type, LANGUAGE_PROPERTIES};
use crate::syntax::ast::*;
use rustc_hash::FxHashSet;
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::time::SystemTime;

/// A proposal to complete the text at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The proposed text: a name or keyword.
    pub name: String,
    /// Kind of the named declaration, for the editor's icon.
    pub kind: CompletionKind,
    /// The declaration in one line; empty for keywords.
    pub detail: String,
}

/// What a completion item names, for the editor's icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// An action.
    Action,
    /// A constant.
    Constant,
    /// A member of an enum, of `error` or of `match_kind`.
    EnumMember,
    /// A field of a struct, header or header union.
    Field,
    /// A function or extern function.
    Function,
    /// An instance or value set.
    Instance,
    /// A keyword.
    Keyword,
    /// A method or constructor.
    Method,
    /// A property of a table, such as `actions`.
    Property,
    /// A parser state.
    State,
    /// A table.
    Table,
    /// A type, including parsers, controls, packages and type parameters.
    Type,
    /// A variable or parameter.
    Variable,
}

/// The marker: an identifier that is unlikely in programs.
const MARKER: &str = "alfirk_cursor_is_here_";

/// Endings that are tried after the marker, in this order, to complete the construct at the cursor.
const ENDINGS: [&str; 6] = ["", ";", "();", " = 0;", ") {}", ": exact; }"];

/// Keywords that begin statements. [`DECLARATIONS`] has those that begin declarations.
const STATEMENTS: [&str; 11] = [
    "apply",
    "bit",
    "bool",
    "const",
    "else",
    "exit",
    "if",
    "int",
    "return",
    "switch",
    "transition",
];
const DECLARATIONS: [&str; 18] = [
    "action",
    "apply",
    "const",
    "control",
    "enum",
    "error",
    "extern",
    "header",
    "header_union",
    "match_kind",
    "package",
    "parser",
    "state",
    "struct",
    "table",
    "type",
    "typedef",
    "value_set",
];
const TYPES: [&str; 8] = [
    "bit", "bool", "error", "int", "list", "string", "tuple", "varbit",
];

/// Completion items at byte `offset` of `file`, the most likely first. `file` is a path as the loader gets it.
///
/// # Errors
/// The main file cannot be read.
pub fn complete(
    options: &CompileOptions,
    loader: &dyn SourceLoader,
    file: &FilePath,
    offset: usize,
) -> io::Result<Vec<Completion>> {
    let mut last = None;
    for end in ENDINGS {
        let marked = MarkedLoader {
            loader,
            file: normalize(file),
            offset,
            inserted: format!("{MARKER}{end}"),
        };
        let analysis = Analysis::of(options.clone(), &marked)?;
        let occurrence = analysis.marked();
        let fits = match occurrence.map(|occurrence| occurrence.position) {
            None | Some(NamePosition::Declared) => false,
            Some(NamePosition::Member(base)) => analysis.has_known_type(base),
            Some(_) => true,
        };
        if let Some(occurrence) = occurrence.copied().filter(|_| fits) {
            return Ok(analysis.candidates(occurrence));
        }
        last = Some(analysis);
    }
    // No ending puts the marker into the tree: the cursor is at the start of a construct, in a comment, or after a syntax error.
    let Some(analysis) = last else {
        return Ok(Vec::new());
    };
    Ok(analysis.candidates_at_start(file, offset))
}

/// A loader that inserts the marker and an ending into one file.
struct MarkedLoader<'a> {
    loader: &'a dyn SourceLoader,
    file: PathBuf,
    offset: usize,
    inserted: String,
}

impl SourceLoader for MarkedLoader<'_> {
    fn load(&self, path: &FilePath) -> io::Result<String> {
        let mut text = self.loader.load(path)?;
        if normalize(path) == self.file && text.is_char_boundary(self.offset) {
            text.insert_str(self.offset, &self.inserted);
        }
        Ok(text)
    }

    fn modified(&self, path: &FilePath) -> Option<SystemTime> {
        self.loader.modified(path)
    }
}

impl Analysis {
    fn marked(&self) -> Option<&Occurrence> {
        self.index
            .all()
            .find(|occurrence| self.sources.text(occurrence.span).contains(MARKER))
    }

    /// Whether the type of the expression before a `.` is known.
    fn has_known_type(&self, base: ExprId) -> bool {
        let info = self.checked.info(base);
        !info.ty.is_invalid() || info.resolution != Resolution::None
    }

    fn candidates(&self, occurrence: Occurrence) -> Vec<Completion> {
        match occurrence.position {
            NamePosition::Member(base) => self.members(base),
            NamePosition::MatchKind => self.of_ids(self.checked.match_kinds().iter().copied()),
            NamePosition::Property => self.properties(),
            NamePosition::State => {
                let mut states: Vec<Completion> = self
                    .in_scope(occurrence.span)
                    .into_iter()
                    .filter(|(_, c)| c.kind == CompletionKind::State)
                    .map(|(_, c)| c)
                    .collect();
                states.extend(["accept", "reject"].map(|name| plain(name, CompletionKind::State)));
                states
            }
            NamePosition::Action => {
                self.in_scope_of(occurrence.span, |kind| kind == CompletionKind::Action)
            }
            NamePosition::Type => {
                let mut types =
                    self.in_scope_of(occurrence.span, |kind| kind == CompletionKind::Type);
                types.extend(keywords(&TYPES));
                types
            }
            NamePosition::Value => {
                let mut values =
                    self.in_scope_of(occurrence.span, |kind| kind != CompletionKind::State);
                values.extend(keywords(&["true", "false"]));
                values.extend(keywords(&STATEMENTS));
                values
            }
            NamePosition::Declared | NamePosition::Label => Vec::new(),
        }
    }

    /// The table properties of the language and of the architecture.
    fn properties(&self) -> Vec<Completion> {
        let properties = self.checked.arch.target().table_properties();
        let suggested = properties.iter().filter(|property| property.is_suggested());
        let names = LANGUAGE_PROPERTIES.into_iter();
        names
            .chain(suggested.map(|property| property.name))
            .map(|name| plain(name, CompletionKind::Property))
            .collect()
    }

    /// Items for the start of a declaration or statement, when the tree has no marker.
    fn candidates_at_start(&self, file: &FilePath, offset: usize) -> Vec<Completion> {
        let Some(file) = self.file(file) else {
            return Vec::new();
        };
        let at = u32::try_from(offset).unwrap_or(u32::MAX);
        let span = Span::new(file, at, at);
        if let Some(table) = self.table_around(span) {
            let inside = table.properties.iter().any(|p| contains(p.span, span));
            if !inside {
                return self.properties();
            }
        }
        let mut all = self.in_scope_of(span, |_| true);
        all.extend(keywords(&STATEMENTS));
        all.extend(keywords(&DECLARATIONS).filter(|c| !STATEMENTS.contains(&&*c.name)));
        all
    }

    fn table_around(&self, at: Span) -> Option<&TableDecl> {
        let mut decls = self.checked.program.decls.iter();
        let control = decls.find_map(|decl| match decl {
            Decl::Control(d) if contains(d.span, at) => d.body.as_ref(),
            _ => None,
        });
        control?.locals.iter().find_map(|decl| match decl {
            Decl::Table(d) if contains(d.span, at) => Some(&**d),
            _ => None,
        })
    }

    /// Items after the `.` of an expression: fields, methods and members of its type.
    fn members(&self, base: ExprId) -> Vec<Completion> {
        let info = self.checked.info(base);
        if let Resolution::Decl(id) = info.resolution {
            if let Some(def) = self.checked.opt_def(id) {
                match &def.kind {
                    DefKind::Enum(d) => return self.of_ids(d.members.iter().map(|m| m.id)),
                    DefKind::Control(_) | DefKind::Parser(_) => {
                        return vec![plain("apply", CompletionKind::Method)]
                    }
                    _ => {}
                }
            }
        }
        let methods = |names: &[&str]| -> Vec<Completion> {
            names
                .iter()
                .map(|name| plain(name, CompletionKind::Method))
                .collect()
        };
        let mut all: Vec<Completion> = self
            .checked
            .fields(&info.ty)
            .into_iter()
            .map(|(field, ty)| Completion {
                name: field.name.to_string(),
                kind: CompletionKind::Field,
                detail: ty.to_string(),
            })
            .collect();
        match &info.ty {
            Type::Header(_) => all.extend(methods(&["isValid", "setValid", "setInvalid"])),
            Type::HeaderUnion(_) => all.extend(methods(&["isValid"])),
            Type::Stack(element, _) => {
                for name in ["next", "last"] {
                    all.push(Completion {
                        name: name.to_owned(),
                        kind: CompletionKind::Field,
                        detail: element.to_string(),
                    });
                }
                all.extend(["lastIndex", "size"].map(|name| plain(name, CompletionKind::Field)));
                all.extend(methods(&["push_front", "pop_front"]));
            }
            Type::Extern(nominal) => {
                if let Some(DefKind::Extern(d)) = self.checked.opt_def(nominal.id).map(|d| &d.kind)
                {
                    let mut listed = self.of_ids(d.methods.iter().map(|m| m.id));
                    let mut seen = FxHashSet::default();
                    listed.retain(|c| seen.insert(c.name.clone()));
                    all.extend(listed);
                }
            }
            Type::Table(_) | Type::Control(_) | Type::Parser(_) => all.extend(methods(&["apply"])),
            Type::ApplyResult(_) => {
                all.extend(
                    ["hit", "miss", "action_run"].map(|name| plain(name, CompletionKind::Field)),
                );
            }
            Type::Error => all.extend(self.of_ids(self.checked.errors().iter().copied())),
            Type::Enum(n) | Type::SerializableEnum(n) => {
                if let Some(DefKind::Enum(d)) = self.checked.opt_def(n.id).map(|d| &d.kind) {
                    all.extend(self.of_ids(d.members.iter().map(|m| m.id)));
                }
            }
            _ => {}
        }
        all
    }

    fn of_ids(&self, ids: impl IntoIterator<Item = DeclId>) -> Vec<Completion> {
        ids.into_iter()
            .filter_map(|id| self.completion(id))
            .collect()
    }

    fn completion(&self, id: DeclId) -> Option<Completion> {
        let kind = &self.checked.opt_def(id)?.kind;
        let declared = self.declaration(id, kind);
        Some(Completion {
            name: kind.name().to_string(),
            kind: kind_of(kind),
            detail: declared
                .lines()
                .next()
                .unwrap_or_default()
                .trim_end_matches('{')
                .trim()
                .to_owned(),
        })
    }

    fn in_scope_of(&self, at: Span, wanted: impl Fn(CompletionKind) -> bool) -> Vec<Completion> {
        let all = self.in_scope(at).into_iter();
        all.map(|(_, c)| c).filter(|c| wanted(c.kind)).collect()
    }

    /// The names in scope at a position: inner scopes first, without hidden names.
    fn in_scope(&self, at: Span) -> Vec<(DeclId, Completion)> {
        let mut scope = Scope {
            at,
            ids: Vec::new(),
        };
        scope.top_level(&self.checked.program.decls);
        let mut seen = FxHashSet::default();
        let ids = scope.ids.into_iter().rev();
        ids.filter_map(|id| Some((id, self.completion(id)?)))
            .filter(|(_, c)| !c.name.contains(MARKER) && seen.insert(c.name.clone()))
            .collect()
    }
}

/// Collects the declarations before a position, from the outermost scope inwards.
struct Scope {
    at: Span,
    ids: Vec<DeclId>,
}

impl Scope {
    fn top_level(&mut self, decls: &[Decl]) {
        for decl in decls {
            let span = decl.span();
            if span.file == self.at.file && span.lo > self.at.lo {
                break;
            }
            self.decl(decl);
            if contains(span, self.at) {
                self.inside(decl);
                break;
            }
        }
    }

    fn decl(&mut self, decl: &Decl) {
        self.ids.extend(decl.id().map(|(id, _)| id));
    }

    fn inside(&mut self, decl: &Decl) {
        match decl {
            Decl::Parser(d) => {
                self.params(&d.type_params, &d.params);
                let Some(body) = &d.body else { return };
                self.params(&[], &body.ctor_params);
                self.locals(&body.locals);
                self.ids.extend(body.states.iter().map(|s| s.id));
                let at = self.at;
                for state in body.states.iter().filter(|s| contains(s.span, at)) {
                    self.stmts(&state.stmts);
                }
            }
            Decl::Control(d) => {
                self.params(&d.type_params, &d.params);
                let Some(body) = &d.body else { return };
                self.params(&[], &body.ctor_params);
                self.locals(&body.locals);
                if contains(body.apply.span, self.at) {
                    self.stmts(&body.apply.stmts);
                }
            }
            Decl::Action(d) => {
                self.params(&[], &d.params);
                self.stmts(&d.body.stmts);
            }
            Decl::Function(d) | Decl::ExternFunction(d) => {
                self.params(&d.type_params, &d.params);
                d.body.iter().for_each(|body| self.stmts(&body.stmts));
            }
            Decl::Instantiation(d) => d.body.iter().for_each(|body| self.locals(body)),
            Decl::Extern(d) => self.params(&d.type_params, &[]),
            Decl::Struct(d) | Decl::Header(d) | Decl::HeaderUnion(d) => {
                self.params(&d.type_params, &[])
            }
            Decl::Package(d) => self.params(&d.type_params, &d.params),
            _ => {}
        }
    }

    fn params(&mut self, types: &[TypeParam], params: &[std::rc::Rc<Param>]) {
        self.ids.extend(types.iter().map(|p| p.id));
        self.ids.extend(params.iter().map(|p| p.id));
    }

    /// Local declarations are visible after their position only.
    fn locals(&mut self, decls: &[Decl]) {
        for decl in decls {
            if contains(decl.span(), self.at) {
                self.inside(decl);
                break;
            }
            self.decl(decl);
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            if stmt.span.file == self.at.file && stmt.span.lo > self.at.lo {
                break;
            }
            match &stmt.kind {
                StmtKind::Const(d) => self.ids.push(d.id),
                StmtKind::Var(d) => self.ids.push(d.id),
                StmtKind::Instantiation(d) => self.ids.push(d.id),
                _ => {}
            }
            if contains(stmt.span, self.at) {
                self.nested(stmt);
            }
        }
    }

    fn nested(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::If {
                then, otherwise, ..
            } => {
                for part in [Some(then), otherwise.as_ref()].into_iter().flatten() {
                    self.stmts(std::slice::from_ref(part));
                }
            }
            StmtKind::Block(block) => self.stmts(&block.stmts),
            StmtKind::Switch { cases, .. } => {
                let at = self.at;
                let bodies = cases.iter().filter_map(|case| case.body.as_ref());
                for body in bodies.filter(|body| contains(body.span, at)) {
                    self.stmts(&body.stmts);
                }
            }
            StmtKind::For { init, body, .. } => {
                self.stmts(init);
                self.stmts(std::slice::from_ref(body));
            }
            StmtKind::ForIn { variable, body, .. } => {
                self.ids.push(variable.id);
                self.stmts(std::slice::from_ref(body));
            }
            _ => {}
        }
    }
}

fn contains(span: Span, at: Span) -> bool {
    span.file == at.file && span.lo <= at.lo && at.hi <= span.hi
}

fn plain(name: &str, kind: CompletionKind) -> Completion {
    Completion {
        name: name.to_owned(),
        kind,
        detail: String::new(),
    }
}

fn keywords<'a>(words: &'a [&str]) -> impl Iterator<Item = Completion> + 'a {
    words
        .iter()
        .map(|word| plain(word, CompletionKind::Keyword))
}

fn kind_of(kind: &DefKind) -> CompletionKind {
    match kind {
        DefKind::Const(_) => CompletionKind::Constant,
        DefKind::Var(_) | DefKind::Param(_) | DefKind::CtorParam(_) => CompletionKind::Variable,
        DefKind::Instance(_) | DefKind::ValueSet(_) => CompletionKind::Instance,
        DefKind::ExternFunction(_) | DefKind::Function(_) => CompletionKind::Function,
        DefKind::Method(_) | DefKind::Constructor(_) => CompletionKind::Method,
        DefKind::Action(_) => CompletionKind::Action,
        DefKind::State(_) => CompletionKind::State,
        DefKind::Table(_) => CompletionKind::Table,
        DefKind::Field(..) => CompletionKind::Field,
        DefKind::EnumMember(..) | DefKind::ErrorMember(..) | DefKind::MatchKindMember(_) => {
            CompletionKind::EnumMember
        }
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
        | DefKind::TypeParam(..) => CompletionKind::Type,
    }
}
