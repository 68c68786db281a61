//! The parser as a graph of states.

use num_bigint::BigInt;

use super::{FieldPlace, Meta, Source, StateId, Stmt, ValueSetId};
use crate::p4info::types::TypeSpec;

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
    /// The name by which the target finds it: `parser` in BMv2.
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
    /// No `If`, `Block`, `Loop` or `Apply` among them.
    pub body: Vec<Stmt>,
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
    /// By the first case that matches; when none does, parsing ends with `error.NoMatch`.
    Select {
        keys: Vec<SelectKey>,
        cases: Vec<(Keyset, StateRef)>,
    },
}

/// An operand of `select`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectKey {
    /// A field.
    Field { place: FieldPlace, width: u32 },
    /// Bits ahead in the packet.
    Lookahead { offset: u32, width: u32 },
}

impl SelectKey {
    /// Bits.
    pub fn width(&self) -> u32 {
        match self {
            SelectKey::Field { width, .. } | SelectKey::Lookahead { width, .. } => *width,
        }
    }
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
