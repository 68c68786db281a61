//! Written types (spec § 7).

use super::{Expr, Path, TypeRefId};
use crate::diag::Span;

/// An occurrence of a type in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRef {
    /// Id of the occurrence, assigned by the parser; index of the type checker's results.
    pub id: TypeRefId,
    /// Range of the type in the source.
    pub span: Span,
    /// The kind of type, with its parts.
    pub kind: TypeRefKind,
}

/// Kinds of written types.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeRefKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`
    Void,
    /// `int`: integers of arbitrary precision
    Int,
    /// `bit<W>`; `None` for `bit`, which has one bit
    Bit(Option<Box<Expr>>),
    /// `int<W>`: width
    SignedInt(Box<Expr>),
    /// `varbit<W>`: maximum width
    Varbit(Box<Expr>),
    /// `T` or `.T`: a declared type without type arguments
    Name(Path),
    /// `T<A, B>`: a generic type and its type arguments
    Specialized(Path, Vec<TypeRef>),
    /// `H[n]`: a header stack, element type and size
    Stack(Box<TypeRef>, Box<Expr>),
    /// `tuple<A, B>`: types of the components
    Tuple(Vec<TypeRef>),
    /// `list<T>`: type of the elements
    List(Box<TypeRef>),
    /// `_`: a type argument left to inference
    DontCare,
}
