//! The outline of a file: its declarations.

use super::Analysis;
use crate::diag::{FileId, Span};
use crate::syntax::ast::*;
use std::rc::Rc;

/// A declaration in the outline of a file, with its nested declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name of the declaration; `error` or `match_kind` for declarations of their members.
    pub name: String,
    /// Kind of the declaration, for the editor's icon.
    pub kind: SymbolKind,
    /// Span of the whole declaration.
    pub span: Span,
    /// Span of the name within the declaration.
    pub name_span: Span,
    /// Nested declarations, such as fields, actions and tables, in source order.
    pub children: Vec<Symbol>,
}

/// The kind of a declaration in an outline, for the editor's icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// An action.
    Action,
    /// A constant.
    Constant,
    /// A control or control type.
    Control,
    /// An enum, or a declaration of members of `error` or `match_kind`.
    Enum,
    /// A member of an enum, of `error` or of `match_kind`.
    EnumMember,
    /// An extern type.
    Extern,
    /// A field of a struct, header or header union.
    Field,
    /// A function, extern function, method or constructor.
    Function,
    /// A header or header union.
    Header,
    /// An instance or value set.
    Instance,
    /// A package type.
    Package,
    /// A parser or parser type.
    Parser,
    /// A parser state.
    State,
    /// A struct.
    Struct,
    /// A table.
    Table,
    /// A `typedef` or `type`.
    Type,
    /// A variable.
    Variable,
}

impl Analysis {
    /// The outline of a file: its top-level declarations in source order.
    pub fn symbols(&self, file: FileId) -> Vec<Symbol> {
        let decls = self.checked.program.decls.iter();
        decls
            .filter(|decl| decl.span().file == file && self.sources.origin(decl.span()).is_none())
            .map(of_decl)
            .collect()
    }
}

fn of_decl(decl: &Decl) -> Symbol {
    let (kind, children) = match decl {
        Decl::Const(_) => (SymbolKind::Constant, Vec::new()),
        Decl::Var(_) => (SymbolKind::Variable, Vec::new()),
        Decl::Instantiation(d) => (
            SymbolKind::Instance,
            d.body.iter().flatten().map(of_decl).collect(),
        ),
        Decl::Extern(d) => {
            let functions = d.constructors.iter().chain(&d.methods);
            (
                SymbolKind::Extern,
                functions.map(|f| of_function(f)).collect(),
            )
        }
        Decl::ExternFunction(_) | Decl::Function(_) => (SymbolKind::Function, Vec::new()),
        Decl::Action(_) => (SymbolKind::Action, Vec::new()),
        Decl::Parser(d) => {
            let body = d.body.iter();
            let parts = body.flat_map(|b| {
                b.locals
                    .iter()
                    .map(of_decl)
                    .chain(b.states.iter().map(of_state))
            });
            (SymbolKind::Parser, parts.collect())
        }
        Decl::Control(d) => {
            let locals = d.body.iter().flat_map(|b| &b.locals);
            (SymbolKind::Control, locals.map(of_decl).collect())
        }
        Decl::Package(_) => (SymbolKind::Package, Vec::new()),
        Decl::Table(_) => (SymbolKind::Table, Vec::new()),
        Decl::ValueSet(_) => (SymbolKind::Instance, Vec::new()),
        Decl::Struct(d) => (SymbolKind::Struct, fields(d)),
        Decl::Header(d) | Decl::HeaderUnion(d) => (SymbolKind::Header, fields(d)),
        Decl::Enum(d) => (SymbolKind::Enum, members(&d.members)),
        Decl::Error(d) | Decl::MatchKind(d) => (SymbolKind::Enum, members(&d.members)),
        Decl::Typedef(_) | Decl::NewType(_) => (SymbolKind::Type, Vec::new()),
    };
    let span = decl.span();
    let (name, name_span) = match (decl.id(), decl) {
        (Some((_, name)), _) => (name.to_string(), name.span),
        (None, Decl::Error(_)) => ("error".to_owned(), span),
        (None, _) => ("match_kind".to_owned(), span),
    };
    Symbol {
        name,
        kind,
        span,
        name_span,
        children,
    }
}

fn leaf(name: &Ident, kind: SymbolKind, span: Span) -> Symbol {
    Symbol {
        name: name.to_string(),
        kind,
        span,
        name_span: name.span,
        children: Vec::new(),
    }
}

fn of_function(function: &FunctionDecl) -> Symbol {
    leaf(&function.name, SymbolKind::Function, function.span)
}

fn of_state(state: &Rc<State>) -> Symbol {
    leaf(&state.name, SymbolKind::State, state.span)
}

fn fields(d: &StructDecl) -> Vec<Symbol> {
    let fields = d.fields.iter();
    fields
        .map(|f| leaf(&f.name, SymbolKind::Field, f.span))
        .collect()
}

fn members(members: &[Rc<Member>]) -> Vec<Symbol> {
    let members = members.iter();
    members
        .map(|m| leaf(&m.name, SymbolKind::EnumMember, m.name.span))
        .collect()
}
