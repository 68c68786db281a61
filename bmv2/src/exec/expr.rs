//! Evaluation of expressions in unbounded integers.
//!
//! The loader compiles most expressions to 64-bit instructions. This evaluator runs the others, and is the reference
//! for the compiled ones in tests.

use super::big::Big;
use super::headers;
use super::node::{BigDest, BigOp, Binary, Cast, Kind, Node, Unary};
use super::words::{read_field, write_field};
use crate::program::{Layout, LoadedProgram};
use crate::state::State;
use std::cmp::Ordering;

/// Evaluates an expression for a packet with the words `phv`, in unbounded integers.
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

/// Evaluates an expression in unbounded integers, and stores its value in the destination of the operation.
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
