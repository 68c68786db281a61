//! The syntax tree of a P4_16 program, with a span on every node.
//!
//! The tree mirrors the grammar of the P4_16 specification 1.2.5 (appendix H): names are not resolved, types not checked, constants not
//! folded. Results of `sema` are in tables, indexed by three kinds of ids that the parser assigns consecutively from 0:
//!
//! - [`ExprId`] for each expression,
//! - [`TypeRefId`] for each written type,
//! - [`DeclId`] for each named thing: declarations, parameters, fields, members of enumerations, type parameters, states,
//!   actions, tables, variables.
//!
//! Declarations are in [`Rc`]s, so that a table of definitions can hold them without a lifetime.

mod decl;
mod expr;
mod stmt;
mod types;

pub use decl::*;
pub use expr::*;
pub use stmt::*;
pub use types::*;

use crate::diag::{Span, Warning};
use std::rc::Rc;

/// An identifier's text; cheap to clone.
pub type Name = Rc<str>;

/// An expression of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// A type written in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeRefId(pub u32);

/// Id of a declaration, which a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclId(pub u32);

/// An occurrence of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// The text.
    pub name: Name,
    /// Source position.
    pub span: Span,
}

impl std::fmt::Display for Ident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A use of a name: `x`, or `.x`, which looks only at the top level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Written with a leading dot.
    pub absolute: bool,
    /// The name.
    pub name: Ident,
}

impl Path {
    /// Source position of the name, without its dot.
    pub fn span(&self) -> Span {
        self.name.span
    }
}

/// A whole program after preprocessing: the user's files with everything they include.
#[derive(Clone, Debug, Default)]
pub struct P4Program {
    /// Top-level declarations in source order.
    pub decls: Vec<Decl>,
    /// Names whose declarations may be missing from the tree because of syntax errors, in order.
    pub lost_names: Vec<Name>,
    /// Positions of the first tokens that were skipped because of syntax errors.
    pub lost: Vec<Span>,
    /// Number of [`ExprId`]s.
    pub expr_count: u32,
    /// Number of [`TypeRefId`]s.
    pub type_ref_count: u32,
    /// Number of [`DeclId`]s.
    pub decl_count: u32,
}

impl P4Program {
    /// The constant that is declared under a name.
    pub fn constant(&self, name: &str) -> Option<&ConstDecl> {
        self.decls.iter().find_map(|decl| match decl {
            Decl::Const(constant) if &*constant.name.name == name => Some(&**constant),
            _ => None,
        })
    }
}

/// `@name`, `@name(...)` or `@name[...]` (spec § 20).
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// Name without the `@`.
    pub name: Ident,
    /// What follows the name.
    pub body: AnnotationBody,
    /// From the `@` to the end of the body.
    pub span: Span,
}

/// Body of an annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationBody {
    /// No body.
    Empty,
    /// `(tokens)`: any tokens with balanced parentheses. Annotations whose meaning is known also carry the expressions that
    /// these tokens spell, when they do spell a list of expressions or of key-value pairs.
    Tokens {
        /// The tokens, comments removed.
        tokens: Vec<AnnotationToken>,
        /// The same tokens, read as a structured body; `None` when they do not have that form.
        parsed: Option<Box<AnnotationBody>>,
    },
    /// `[e1, e2]`.
    List(Vec<Expr>),
    /// `[k1 = e1, k2 = e2]`.
    KeyValues(Vec<NamedExpr>),
}

/// A token in the unstructured body of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationToken {
    /// The text as written, quotes and escapes of strings included.
    pub text: Name,
    /// Set for string literals: the text that the string stands for.
    pub string: Option<Name>,
    /// Whether white space preceded the token.
    pub space_before: bool,
    /// Source position.
    pub span: Span,
}

impl Annotation {
    /// The body's expressions, for both `@a(x, y)` and `@a[x, y]`.
    pub fn exprs(&self) -> Option<&[Expr]> {
        fn of(body: &AnnotationBody) -> Option<&[Expr]> {
            match body {
                AnnotationBody::Empty => Some(&[]),
                AnnotationBody::List(list) => Some(list),
                AnnotationBody::Tokens { parsed, .. } => parsed.as_deref().and_then(of),
                AnnotationBody::KeyValues(_) => None,
            }
        }
        of(&self.body)
    }

    /// The body's key-value pairs, for both `@a(k=x)` and `@a[k=x]`.
    pub fn key_values(&self) -> Option<&[NamedExpr]> {
        match &self.body {
            AnnotationBody::KeyValues(list) => Some(list),
            AnnotationBody::Tokens {
                parsed: Some(parsed),
                ..
            } => match &**parsed {
                AnnotationBody::KeyValues(list) => Some(list),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether this is `@noWarn` of a warning.
    pub fn silences(&self, warning: Warning) -> bool {
        &*self.name.name == "noWarn" && self.string().is_some_and(|name| warning.is_named(name))
    }

    /// The one string of `@a("text")`.
    pub fn string(&self) -> Option<&str> {
        match self.exprs() {
            Some(
                [Expr {
                    kind: ExprKind::String(text),
                    ..
                }],
            ) => Some(text),
            _ => None,
        }
    }

    /// The unstructured body as text, single blanks where the source had white space.
    pub fn body_text(&self) -> String {
        let AnnotationBody::Tokens { tokens, .. } = &self.body else {
            return String::new();
        };
        let mut text = String::new();
        for token in tokens {
            if token.space_before && !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&token.text);
        }
        text
    }
}

/// Looks an annotation up by name.
pub trait Annotated {
    /// The annotations in source order.
    fn annotations(&self) -> &[Annotation];

    /// The first annotation with this name.
    fn annotation(&self, name: &str) -> Option<&Annotation> {
        self.annotations().iter().find(|a| &*a.name.name == name)
    }
}

impl Annotated for [Annotation] {
    fn annotations(&self) -> &[Annotation] {
        self
    }
}

impl Annotated for Vec<Annotation> {
    fn annotations(&self) -> &[Annotation] {
        self
    }
}
