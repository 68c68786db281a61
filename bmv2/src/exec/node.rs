//! Expressions with resolved names.
//!
//! The loader compiles most of them to 64-bit instructions ([`super::ops`]); [`super::expr`] evaluates the others.

use super::big::Big;
use super::ops::Slot;

/// An expression with the range of its values, if known.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    /// Minimum and maximum value of the expression; `None` if they are unknown or beyond 128 bits.
    pub range: Option<(i128, i128)>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Const(Big),
    /// A field or an action parameter.
    Field {
        slot: Slot,
        bits: u32,
        signed: bool,
    },
    /// A field of the stack element at an index that is an expression.
    Element {
        element: u16,
        index: Box<Node>,
    },
    /// A field of the last valid element of a stack (`last` in a parser).
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
    /// Conversion to a width, given in bits.
    Cast(Cast, u32, Box<Node>),
    HeaderEq(u16, u16),
    UnionEq(u16, u16),
    UnionValid(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Bitwise complement.
    Not,
    /// Boolean negation.
    LogicNot,
    /// Tests whether a number is not zero.
    NonZero,
    /// Decrement modulo 2^64 (`last_stack_index`).
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
    /// Wraps to a signed number of this width.
    TwoComp,
    SatUnsigned,
    SatSigned,
}

/// A field that all elements of a stack have.
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
    /// Returns the word of the field in element `index`; `None` beyond the stack.
    #[inline]
    pub fn slot(&self, index: u64) -> Option<usize> {
        (index < u64::from(self.count))
            .then(|| usize::from(self.start) + usize::from(self.stride) * index as usize)
    }
}

/// An expression that is evaluated in unbounded integers, and the destination of its value.
#[derive(Clone, Debug)]
pub struct BigOp {
    pub node: Node,
    pub dest: BigDest,
}

#[derive(Clone, Debug)]
pub enum BigDest {
    /// A temporary, which receives the low 64 bits of the value.
    Word(Slot),
    /// A field, which receives the value wrapped to its width.
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
