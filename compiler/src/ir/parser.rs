//! The parser as a state graph.

use num_bigint::BigInt;

use super::{
    Effect, Expr, FieldPlace, HeaderId, Meta, Source, StackId, StateId, Stmt, TypeSpec,
    UnionStackId, ValueSetId,
};

/// Kinds of statements of a parser state.
#[derive(Clone, Debug, PartialEq)]
pub enum ParserStmtKind {
    /// An effect that controls can have too.
    Effect(Effect),
    /// An operation of parsers only.
    Take(Take),
}

/// Operations of parsers: consuming bits of the packet, and rejecting it.
#[derive(Clone, Debug, PartialEq)]
pub enum Take {
    /// `extract` into a header, with the length in bits of its varbit field if it has one.
    Extract {
        target: HeaderId,
        varbit_bits: Option<Expr>,
    },
    /// `extract` into the next element of a stack.
    ExtractNext {
        target: StackId,
        varbit_bits: Option<Expr>,
    },
    /// `extract` into a member of the next element of a union stack.
    ExtractNextMember {
        target: UnionStackId,
        member: u32,
        varbit_bits: Option<Expr>,
    },
    /// Skips bits.
    Advance(Expr),
    /// Rejects with `error` unless `cond` holds.
    Verify { cond: Expr, error: Expr },
}

impl Take {
    /// The expressions that it reads.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Take::Extract { varbit_bits, .. }
            | Take::ExtractNext { varbit_bits, .. }
            | Take::ExtractNextMember { varbit_bits, .. } => varbit_bits.iter().collect(),
            Take::Advance(bits) => vec![bits],
            Take::Verify { cond, error } => vec![cond, error],
        }
    }
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateRef {
    /// Another state.
    State(StateId),
    /// The end of parsing, by `accept` or `reject`: v1model continues with ingress in both cases.
    End,
}

/// The parser. State 0 is `start`.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// Name of the block for the target.
    pub name: &'static str,
    /// All states.
    pub states: Vec<ParseState>,
    /// Source position of the parser.
    pub source: Source,
}

/// A state: straight-line statements and a transition.
#[derive(Clone, Debug)]
pub struct ParseState {
    /// Name, unique in the parser.
    pub name: String,
    /// Statements before the transition.
    pub body: Vec<Stmt<ParserStmtKind>>,
    /// The transition.
    pub transition: Transition,
    /// Source position of the state.
    pub source: Source,
}

/// A transition of the target.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// Always the same.
    Always(StateRef),
    /// The first case that matches; the last one always does.
    Select {
        keys: Vec<SelectKey>,
        cases: Vec<(Keyset, StateRef)>,
    },
}

/// An operand of `select`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectKey {
    /// A field.
    pub place: FieldPlace,
    /// Width in bits.
    pub width: u32,
}

/// What a case of `select` matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Keyset {
    /// Everything.
    Default,
    /// A value and a mask per key, both non-negative; a mask of all ones is an exact match.
    Values(Vec<(BigInt, BigInt)>),
    /// Membership in a value set, of all keys at once.
    ValueSet(ValueSetId),
}

/// A parser value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Maximum number of members.
    pub size: u64,
    /// Total width of the fields in bits.
    pub width: u32,
    /// Fields of a member for the control plane.
    pub fields: Vec<ValueSetField>,
    /// Source position.
    pub source: Source,
}

/// A field of the members of a value set.
#[derive(Clone, Debug)]
pub struct ValueSetField {
    /// Name; empty when the members are plain numbers.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of its `type`, if it is declared with one.
    pub type_name: Option<String>,
    /// Match kind.
    pub kind: super::MatchKind,
    /// Annotations of the field.
    pub annotations: Vec<String>,
    /// `@brief` of the field.
    pub brief: String,
    /// `@description` of the field.
    pub description: String,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Its type.
    pub ty: TypeSpec,
}
