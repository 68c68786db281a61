//! The syntax tree of a P4_16 program, with a span on every node.
//!
//! The tree mirrors the grammar of the P4_16 specification 1.2.5 (appendix H): names are not resolved, types not checked, constants not
//! folded. Results of the type checker (`sema`) are in tables, indexed by three kinds of ids that the parser assigns consecutively from 0:
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

/// The text of an identifier or string; cheap to clone.
pub type Name = Rc<str>;

/// Id of an expression in the tree, assigned consecutively from 0 by the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// Id of a written type, assigned consecutively from 0 by the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeRefId(pub u32);

/// Id of a declaration that names can refer to, assigned consecutively from 0 by the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclId(pub u32);

/// An identifier with its position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// Text of the identifier.
    pub name: Name,
    /// Range of the identifier in the source.
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
    /// Whether the name has a leading dot, and so is looked up at the top level only.
    pub absolute: bool,
    /// The name, without the dot.
    pub name: Ident,
}

impl Path {
    /// Range of the name in the source, without its dot.
    pub fn span(&self) -> Span {
        self.name.span
    }
}

/// The syntax tree of a preprocessed program: the main file and all files that it includes.
#[derive(Clone, Debug, Default)]
pub struct P4Program {
    /// Top-level declarations in source order.
    pub decls: Vec<Decl>,
    /// Names that may be declared in text that was skipped after a syntax error, sorted. Empty without errors.
    pub skipped_names: Vec<Name>,
    /// First token of each text that was skipped after a syntax error.
    pub skipped_spans: Vec<Span>,
    /// Number of assigned [`ExprId`]s: all ids are less.
    pub expr_count: u32,
    /// Number of assigned [`TypeRefId`]s: all ids are less.
    pub type_ref_count: u32,
    /// Number of assigned [`DeclId`]s: all ids are less.
    pub decl_count: u32,
}

impl P4Program {
    /// The top-level constant with this name; `None` if there is none.
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
    /// Body of the annotation, after its name.
    pub body: AnnotationBody,
    /// From the `@` to the end of the body.
    pub span: Span,
}

/// The part of an annotation after its name.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationBody {
    /// There is no body, as in `@hidden`.
    Empty,
    /// `(tokens)`: an unstructured body, of any tokens with balanced parentheses.
    Tokens {
        /// The tokens between the parentheses, without comments.
        tokens: Vec<AnnotationToken>,
        /// The same tokens parsed as a structured body, a list of expressions or key-value pairs; `None` if they do not have that form.
        parsed: Option<Box<AnnotationBody>>,
    },
    /// `[e1, e2]`: a structured body, a list of expressions.
    List(Vec<Expr>),
    /// `[k1 = e1, k2 = e2]`: a structured body of key-value pairs.
    KeyValues(Vec<NamedExpr>),
}

/// A token in the unstructured body of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationToken {
    /// Source text of the token, with quotes and escapes of strings.
    pub text: Name,
    /// Value of a string literal, without quotes, escapes resolved; `None` for other tokens.
    pub string: Option<Name>,
    /// Whether white space preceded the token.
    pub space_before: bool,
    /// Range of the token in the source.
    pub span: Span,
}

impl Annotation {
    /// Expressions of the body, for `@a(x, y)` and `@a[x, y]`; `None` for bodies of another form.
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

    /// Key-value pairs of the body, for `@a(k=x)` and `@a[k=x]`; `None` for bodies of another form.
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

    /// Whether the annotation is `@noWarn` for `warning`.
    pub fn silences(&self, warning: Warning) -> bool {
        &*self.name.name == "noWarn" && self.string().is_some_and(|name| warning.is_named(name))
    }

    /// The string of `@a("text")`, escapes resolved; `None` for bodies of another form.
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

    /// Text of an unstructured body, with single blanks where the source had white space; empty for other bodies.
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

/// Access to annotations by name.
pub trait Annotated {
    /// The annotations in source order.
    fn annotations(&self) -> &[Annotation];

    /// The first annotation with this name; `None` if there is none.
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
