//! The parser as a state graph.

use num_bigint::BigInt;

use super::{
    Effect, Expr, FieldPlace, HeaderId, Meta, Source, StackId, StateId, Stmt, TypeSpec,
    UnionStackId, ValueSetId,
};

/// What a statement of a parser state does.
#[derive(Clone, Debug, PartialEq)]
pub enum ParserStmtKind {
    /// What controls can do, too.
    Effect(Effect),
    /// What only parsers can do.
    Take(Take),
}

/// What only parsers do: they take bits from the packet, and reject it.
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
    /// The values that it takes.
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

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateRef {
    /// Another state.
    State(StateId),
    /// The end of parsing; v1model goes on to ingress after `reject` too, so both end here.
    End,
}

/// The parser. State 0 is `start`.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The name by which the target finds it.
    pub name: &'static str,
    /// All states.
    pub states: Vec<ParseState>,
    /// Where the parser stands.
    pub source: Source,
}

/// A state: straight-line statements and a transition.
#[derive(Clone, Debug)]
pub struct ParseState {
    /// Name, unique in the parser.
    pub name: String,
    /// What it does before the transition.
    pub body: Vec<Stmt<ParserStmtKind>>,
    /// What comes next.
    pub transition: Transition,
    /// Where the state stands.
    pub source: Source,
}

/// What comes after a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// Always the same.
    Always(StateRef),
    /// By the first case that matches; the last one always does.
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
    /// Bits of it.
    pub width: u32,
}

/// What a case of `select` matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Keyset {
    /// Everything.
    Default,
    /// Per key a value and a mask, both non-negative; a mask of all ones is an exact match.
    Values(Vec<(BigInt, BigInt)>),
    /// Membership in a value set, of all keys at once.
    ValueSet(ValueSetId),
}

/// A parser value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Most members.
    pub size: u64,
    /// Bits of all fields.
    pub width: u32,
    /// Fields of a member as the control plane names them: name, width and match kind.
    pub fields: Vec<ValueSetField>,
    /// Where it stands.
    pub source: Source,
}

/// A field of the members of a value set.
#[derive(Clone, Debug)]
pub struct ValueSetField {
    /// Name; empty when the members are plain numbers.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Width seen by the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` it has.
    pub type_name: Option<String>,
    /// How it matches.
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
