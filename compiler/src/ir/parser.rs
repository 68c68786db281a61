//! Parsers as graphs of states.

use num_bigint::BigInt;

use super::{
    Effect, Expr, FieldPlace, HeaderId, Meta, Source, StackId, StateId, Stmt, TypeSpec,
    UnionStackId, ValueSetId,
};

/// The kind of a statement in a parser state.
#[derive(Clone, Debug, PartialEq)]
pub enum ParserStmtKind {
    /// A store or a call, as also allowed in controls.
    Effect(Effect),
    /// An operation that is allowed only in parsers.
    Take(Take),
}

/// An operation that is allowed only in parsers: it consumes bits of the packet or rejects the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Take {
    /// `extract` into a header.
    Extract {
        /// The header that is written.
        target: HeaderId,
        /// Width in bits of the header's varbit field; `None` if it has none.
        varbit_bits: Option<Expr>,
    },
    /// `extract` into the next element of a stack.
    ExtractNext {
        /// The stack, whose `nextIndex` is incremented.
        target: StackId,
        /// Width in bits of the element's varbit field; `None` if it has none.
        varbit_bits: Option<Expr>,
    },
    /// `extract` into a member of the next element of a stack of header unions.
    ExtractNextMember {
        /// The stack, whose `nextIndex` is incremented.
        target: UnionStackId,
        /// Position of the member in the union type.
        member: u32,
        /// Width in bits of the member's varbit field; `None` if it has none.
        varbit_bits: Option<Expr>,
    },
    /// `advance`: skips the given number of bits.
    Advance(Expr),
    /// `verify`: rejects the packet unless a condition is true.
    Verify {
        /// The condition.
        cond: Expr,
        /// Value of the parser error that is set if the condition is false.
        error: Expr,
    },
}

impl Take {
    /// The expressions that the operation evaluates.
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
    /// A state of the parser.
    State(StateId),
    /// The end of parsing, by `accept` or `reject`. The next block follows in both cases.
    End,
}

/// A parser. It begins in state 0.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The target's name for the parser.
    pub name: &'static str,
    /// All states, by [`StateId`].
    pub states: Vec<ParseState>,
    /// Source position of the parser.
    pub source: Source,
}

/// A parser state: statements without branches, then a transition.
#[derive(Clone, Debug)]
pub struct ParseState {
    /// Name, unique in the parser.
    pub name: String,
    /// Statements before the transition.
    pub body: Vec<Stmt<ParserStmtKind>>,
    /// The transition at the end of the state.
    pub transition: Transition,
    /// Source position of the state.
    pub source: Source,
}

/// A transition to the next state.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// An unconditional transition.
    Always(StateRef),
    /// A `select`: the first matching case determines the next state.
    Select {
        /// The fields that are matched.
        keys: Vec<SelectKey>,
        /// The cases in order, each with its target. The last one is [`Keyset::Default`].
        cases: Vec<(Keyset, StateRef)>,
        /// Source position of each case; without a line for cases that the program does not have.
        sources: Vec<Source>,
    },
}

/// A key of `select`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectKey {
    /// The field that is matched.
    pub place: FieldPlace,
    /// Width of the field in bits.
    pub width: u32,
}

/// The values of the keys that a case of `select` matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Keyset {
    /// All values: `default`.
    Default,
    /// A value and a mask per key, both non-negative; a mask of all ones is an exact match.
    Values(Vec<(BigInt, BigInt)>),
    /// The members of a value set. The keys are matched as one concatenated value.
    ValueSet(ValueSetId),
}

/// A parser value set, whose members the control plane sets (P4_16 specification, "Parser value sets").
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
    /// Position of the declaration in the source.
    pub source: Source,
}

/// A field of the members of a value set.
#[derive(Clone, Debug)]
pub struct ValueSetField {
    /// Name of the field; empty if the members are numbers or tuples.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` with which the field is declared; `None` for other types.
    pub type_name: Option<String>,
    /// Match kind set by `@match`; `exact` without it.
    pub kind: super::MatchKind,
    /// Unstructured annotations as written, without `@match`.
    pub annotations: Vec<String>,
    /// Text of `@brief`; empty without it.
    pub brief: String,
    /// Text of `@description`; empty without it.
    pub description: String,
    /// The number in `@id`; `None` without that annotation.
    pub id: Option<u32>,
    /// The type for the control plane.
    pub ty: TypeSpec,
}
