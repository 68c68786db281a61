//! Written types (spec § 7).

use super::{Expr, Path, TypeRefId};
use crate::diag::Span;

/// A type where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRef {
    /// Index into the tables of `sema`.
    pub id: TypeRefId,
    /// Source position.
    pub span: Span,
    /// The form.
    pub kind: TypeRefKind,
}

/// The forms of types.
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
    /// `bit` (one bit) or `bit<W>`
    Bit(Option<Box<Expr>>),
    /// `int<W>`
    SignedInt(Box<Expr>),
    /// `varbit<W>`
    Varbit(Box<Expr>),
    /// `T` or `.T`
    Name(Path),
    /// `T<A, B>`
    Specialized(Path, Vec<TypeRef>),
    /// `H[n]`
    Stack(Box<TypeRef>, Box<Expr>),
    /// `tuple<A, B>`
    Tuple(Vec<TypeRef>),
    /// `list<T>`
    List(Box<TypeRef>),
    /// `_`: a type argument left to inference
    DontCare,
    /// Something that did not parse; already reported.
    Invalid,
}
