//! Expressions with resolved names, as the program holds them.
//!
//! The loader compiles most of them to 64-bit instructions ([`super::ops`]); [`super::expr`] evaluates the rest.

use super::big::Big;
use super::ops::Slot;

/// An expression, with the range of its values where that is known.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    /// Least and greatest value; none when beyond 128 bits or not known.
    pub range: Option<(i128, i128)>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Const(Big),
    /// A field or an action's argument.
    Field {
        slot: Slot,
        bits: u32,
        signed: bool,
    },
    /// A field of an element of a stack.
    Element {
        element: u16,
        index: Box<Node>,
    },
    /// A field of the last element of a stack.
    Last {
        element: u16,
        next: Slot,
    },
    Register {
        array: u16,
        bits: u32,
        index: Box<Node>,
    },
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Ternary(Box<Node>, Box<Node>, Box<Node>),
    /// Reduce to a width.
    Cast(Cast, u32, Box<Node>),
    HeaderEq(u16, u16),
    UnionEq(u16, u16),
    UnionValid(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Bitwise.
    Not,
    /// Of a boolean.
    LogicNot,
    /// Whether a number is not zero.
    NonZero,
    /// One less, modulo 2^64 (`last_stack_index`).
    Decrement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Wrap to a signed number.
    TwoComp,
    SatUnsigned,
    SatSigned,
}

/// A field of the elements of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// First word of the field in element 0.
    pub start: Slot,
    pub stride: u16,
    pub count: u16,
    pub bits: u32,
    pub signed: bool,
}

impl Element {
    /// Word of the field in element `index`, unless there is none.
    #[inline]
    pub fn slot(&self, index: u64) -> Option<usize> {
        (index < u64::from(self.count))
            .then(|| usize::from(self.start) + usize::from(self.stride) * index as usize)
    }
}

/// An expression computed in unbounded integers, and where the result goes.
#[derive(Clone, Debug)]
pub struct BigOp {
    pub node: Node,
    pub dest: BigDest,
}

#[derive(Clone, Debug)]
pub enum BigDest {
    /// A temporary: the value modulo 2^64.
    Word(Slot),
    /// A field: wrapped to its width.
    Field {
        slot: Slot,
        bits: u32,
        signed: bool,
    },
    Element {
        element: u16,
        index: Node,
    },
    Register {
        array: u16,
        index: Node,
    },
}
