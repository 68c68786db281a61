//! Expressions with resolved names, and their evaluation in unbounded integers.
//!
//! The loader compiles most expressions to 64-bit instructions. This evaluator runs the rest, and
//! is the yardstick for the compiled ones in tests.

use super::big::Big;
use super::ops::Slot;
use crate::exec::headers;
use crate::program::{Layout, LoadedProgram};
use crate::state::State;
use std::cmp::Ordering;

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

/// Words that a field of `bits` bits takes.
pub fn words_of(bits: u32) -> usize {
    (bits as usize).div_ceil(64)
}

/// Words of an action's parameter; one without bits has a word like any other.
pub fn param_words(bits: u32) -> usize {
    words_of(bits).max(1)
}

/// Reads a field as a number.
pub fn read_field(phv: &[u64], slot: usize, bits: u32, signed: bool) -> Big {
    match (bits, signed) {
        (0, _) => Big::default(),
        (1..=64, true) => Big::from_i64(phv[slot] as i64),
        (1..=64, false) => Big::from_u64(phv[slot]),
        _ => Big::from_field(&phv[slot..slot + words_of(bits)], bits, signed),
    }
}

/// Writes a number to a field, wrapped to its width.
pub fn write_field(phv: &mut [u64], slot: usize, bits: u32, signed: bool, value: &Big) {
    if bits <= 64 {
        if bits > 0 {
            phv[slot] = wrap(value.low(), bits, signed);
        }
        return;
    }
    let low = value.truncate(bits);
    for (i, word) in phv[slot..slot + words_of(bits)].iter_mut().enumerate() {
        *word = low.word(i);
    }
}

/// The low `bits` bits (1 to 64), sign-extended when the field is signed.
#[inline]
pub fn wrap(value: u64, bits: u32, signed: bool) -> u64 {
    let unused = 64 - bits;
    if signed {
        ((value << unused) as i64 >> unused) as u64
    } else {
        value << unused >> unused
    }
}

/// Evaluates an expression.
pub fn eval(node: &Node, program: &LoadedProgram, state: &State, phv: &[u64]) -> Big {
    let value = |node: &Node| eval(node, program, state, phv);
    let element = |element: u16, index: u64| {
        let element = &program.elements[usize::from(element)];
        match element.slot(index) {
            Some(slot) => read_field(phv, slot, element.bits, element.signed),
            None => Big::default(),
        }
    };
    match &node.kind {
        Kind::Const(value) => value.clone(),
        Kind::Field { slot, bits, signed } => read_field(phv, usize::from(*slot), *bits, *signed),
        Kind::Element { element: e, index } => element(*e, value(index).to_amount()),
        Kind::Last { element: e, next } => element(*e, phv[usize::from(*next)].wrapping_sub(1)),
        Kind::Register { array, index, .. } => {
            state.registers[usize::from(*array)].read(value(index).to_amount())
        }
        Kind::Unary(op, a) => {
            let a = value(a);
            match op {
                Unary::Not => a.not(),
                Unary::LogicNot => Big::from_bool(a.is_zero()),
                Unary::NonZero => Big::from_bool(!a.is_zero()),
                Unary::Decrement => Big::from_u64(a.low().wrapping_sub(1)),
            }
        }
        Kind::Binary(op, a, b) => {
            let (a, b) = (value(a), value(b));
            match op {
                Binary::Add => a.add(&b),
                Binary::Sub => a.sub(&b),
                Binary::Mul => a.mul(&b),
                Binary::Div => a.div_rem(&b).0,
                Binary::Mod => a.div_rem(&b).1,
                Binary::Shl => a.shl(b.to_amount()),
                Binary::Shr => a.shr(b.to_amount()),
                Binary::BitAnd => a.and(&b),
                Binary::BitOr => a.or(&b),
                Binary::BitXor => a.xor(&b),
                Binary::Eq => Big::from_bool(a.cmp(&b) == Ordering::Equal),
                Binary::Ne => Big::from_bool(a.cmp(&b) != Ordering::Equal),
                Binary::Lt => Big::from_bool(a.cmp(&b) == Ordering::Less),
                Binary::Le => Big::from_bool(a.cmp(&b) != Ordering::Greater),
                Binary::And => Big::from_bool(!a.is_zero() && !b.is_zero()),
                Binary::Or => Big::from_bool(!a.is_zero() || !b.is_zero()),
            }
        }
        Kind::Ternary(cond, a, b) => value(if value(cond).is_zero() { b } else { a }),
        Kind::Cast(cast, bits, a) => {
            let a = value(a);
            match cast {
                Cast::TwoComp => a.sign_extend(*bits),
                Cast::SatUnsigned => a.saturate_unsigned(*bits),
                Cast::SatSigned => a.saturate_signed(*bits),
            }
        }
        Kind::HeaderEq(a, b) => Big::from_bool(headers::equal(layout(program), phv, *a, *b)),
        Kind::UnionEq(a, b) => Big::from_bool(headers::unions_equal(layout(program), phv, *a, *b)),
        Kind::UnionValid(u) => Big::from_bool(headers::union_valid(layout(program), phv, *u)),
    }
}

fn layout(program: &LoadedProgram) -> &Layout {
    &program.layout
}

/// Runs an operation of `LoadedProgram::bigs`.
pub fn run_big(op: &BigOp, program: &LoadedProgram, state: &mut State, phv: &mut [u64]) {
    let value = eval(&op.node, program, state, phv);
    match &op.dest {
        BigDest::Word(slot) => phv[usize::from(*slot)] = value.low(),
        BigDest::Field { slot, bits, signed } => {
            write_field(phv, usize::from(*slot), *bits, *signed, &value);
        }
        BigDest::Element { element, index } => {
            let index = eval(index, program, state, phv).to_amount();
            let element = &program.elements[usize::from(*element)];
            if let Some(slot) = element.slot(index) {
                write_field(phv, slot, element.bits, element.signed, &value);
            }
        }
        BigDest::Register { array, index } => {
            let index = eval(index, program, state, phv).to_amount();
            state.registers[usize::from(*array)].write(index, &value);
        }
    }
}
