//! Compilation of expressions in unbounded integers whose values are not negative and fit 127 bits.
//!
//! The loader knows the range of such an expression and of all its parts, so arithmetic in two words is exact.

use super::builder::Code;
use super::machine::at;
use crate::exec::node::{BigDest, BigOp, Binary, Kind, Node, Unary};
use crate::exec::ops::Slot;
use crate::exec::words::words_of;
use crate::externs::register::Register;
use crate::program::LoadedProgram;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Maximum width of a field or register cell in bits.
const MAX_BITS: u32 = 127;

/// A number of two words.
#[derive(Clone, Copy)]
struct Wide {
    low: Value,
    high: Value,
}

/// Returns whether an expression and its destination can be compiled.
pub(super) fn is_compiled(program: &LoadedProgram, op: &BigOp) -> bool {
    let dest = match &op.dest {
        BigDest::Word(slot) => is_within(program, *slot, 64, true),
        BigDest::Field { slot, bits, signed } => {
            let is_narrow = (1..=MAX_BITS).contains(bits);
            !signed && is_narrow && is_within(program, *slot, *bits, true)
        }
        BigDest::Register { array, index } => {
            let bits = program.registers[usize::from(*array)].bits;
            (1..=MAX_BITS).contains(&bits) && is_word(program, index)
        }
        BigDest::Element { .. } => false,
    };
    dest && is_wide(program, &op.node)
}

/// Returns whether a field is within the packet's words, and holds no constant if it is written.
fn is_within(program: &LoadedProgram, slot: Slot, bits: u32, is_written: bool) -> bool {
    let mut words = usize::from(slot)..usize::from(slot) + words_of(bits);
    let is_constant = |slot: usize| program.constants.contains_key(&(slot as Slot));
    words.end <= program.layout.initial.len() && !(is_written && words.any(is_constant))
}

/// Returns whether the values of an expression are unsigned numbers of 64 bits.
fn is_word(program: &LoadedProgram, node: &Node) -> bool {
    let is_in_range = |(low, high)| low >= 0 && high <= i128::from(u64::MAX);
    node.range.is_some_and(is_in_range) && is_wide(program, node)
}

fn is_wide(program: &LoadedProgram, node: &Node) -> bool {
    let parts = match &node.kind {
        Kind::Const(_) => true,
        Kind::Field { slot, bits, signed } => {
            !signed && *bits <= MAX_BITS && is_within(program, *slot, *bits, false)
        }
        Kind::Register { array, bits, index } => {
            let cell = program.registers[usize::from(*array)].bits;
            (1..=MAX_BITS).contains(&cell) && *bits == cell && is_word(program, index)
        }
        Kind::Unary(Unary::LogicNot | Unary::NonZero, a) => is_wide(program, a),
        Kind::Binary(op, a, b) => {
            let is_supported = match op {
                Binary::Shl | Binary::Shr => matches!(b.kind, Kind::Const(_)),
                Binary::Mul | Binary::Div | Binary::Mod => false,
                _ => true,
            };
            is_supported && is_wide(program, a) && is_wide(program, b)
        }
        _ => false,
    };
    parts && node.range.is_some_and(|(low, _)| low >= 0)
}

impl Code<'_> {
    /// Compiles an expression for which [`is_compiled`] is true, and the store to its destination.
    pub fn wide(&mut self, program: &LoadedProgram, op: &BigOp) {
        let value = self.wide_value(program, &op.node);
        match &op.dest {
            BigDest::Word(slot) => self.set_word(*slot, value.low),
            BigDest::Field { slot, bits, .. } => {
                let value = self.truncated(value, *bits);
                self.set_word(*slot, value.low);
                if words_of(*bits) > 1 {
                    self.set_word(slot + 1, value.high);
                }
            }
            BigDest::Register { array, index } => {
                let info = &program.registers[usize::from(*array)];
                let index = self.wide_value(program, index).low;
                let value = self.truncated(value, info.bits);
                let (inside, done) = (self.b.create_block(), self.b.create_block());
                let is_inside = self.compare_to(IntCC::UnsignedLessThan, index, info.size as u64);
                self.branch(is_inside, inside, done);
                self.b.switch_to_block(inside);
                let words = words_of(info.bits);
                let start = self.b.ins().imul_imm(index, words as i64);
                for (at, word) in [value.low, value.high].into_iter().take(words).enumerate() {
                    let place = self.b.ins().iadd_imm(start, at as i64);
                    self.register_word(*array, place, word);
                }
                self.jump(done);
                self.b.switch_to_block(done);
            }
            BigDest::Element { .. } => {}
        }
    }

    fn wide_value(&mut self, program: &LoadedProgram, node: &Node) -> Wide {
        match &node.kind {
            Kind::Const(value) => Wide {
                low: self.number(value.word(0)),
                high: self.number(value.word(1)),
            },
            Kind::Field { slot, bits, .. } => {
                let word = |code: &mut Self, at: u32| match 64 * at < *bits {
                    true => code.word(slot + at as u16),
                    false => code.number(0),
                };
                Wide {
                    low: word(self, 0),
                    high: word(self, 1),
                }
            }
            Kind::Register { array, index, .. } => {
                let index = self.wide_value(program, index).low;
                self.wide_cell(program, *array, index)
            }
            Kind::Unary(op, a) => {
                let a = self.wide_value(program, a);
                let any = self.b.ins().bor(a.low, a.high);
                let test = match op {
                    Unary::LogicNot => IntCC::Equal,
                    _ => IntCC::NotEqual,
                };
                let holds = self.compare_to(test, any, 0);
                self.boolean(holds)
            }
            Kind::Binary(op @ (Binary::Shl | Binary::Shr), a, amount) => {
                let amount = match &amount.kind {
                    Kind::Const(amount) => amount.to_amount(),
                    _ => 0,
                };
                let a = self.wide_value(program, a);
                self.wide_shift(*op == Binary::Shl, a, amount)
            }
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.wide_value(program, a), self.wide_value(program, b));
                self.wide_binary(*op, a, b)
            }
            _ => self.wide_zero(),
        }
    }

    fn wide_zero(&mut self) -> Wide {
        let zero = self.number(0);
        Wide {
            low: zero,
            high: zero,
        }
    }

    /// Converts a Boolean of eight bits.
    fn boolean(&mut self, holds: Value) -> Wide {
        Wide {
            low: self.extend(holds),
            high: self.number(0),
        }
    }

    fn truncated(&mut self, a: Wide, bits: u32) -> Wide {
        Wide {
            low: self.low_bits(a.low, bits.min(64)),
            high: self.low_bits(a.high, bits.saturating_sub(64)),
        }
    }

    fn wide_binary(&mut self, op: Binary, a: Wide, b: Wide) -> Wide {
        let pair = |low, high| Wide { low, high };
        match op {
            Binary::BitAnd => pair(
                self.b.ins().band(a.low, b.low),
                self.b.ins().band(a.high, b.high),
            ),
            Binary::BitOr => pair(
                self.b.ins().bor(a.low, b.low),
                self.b.ins().bor(a.high, b.high),
            ),
            Binary::BitXor => pair(
                self.b.ins().bxor(a.low, b.low),
                self.b.ins().bxor(a.high, b.high),
            ),
            Binary::Add => {
                let low = self.b.ins().iadd(a.low, b.low);
                let carries = self.compare(IntCC::UnsignedLessThan, low, b.low);
                let carry = self.extend(carries);
                let high = self.b.ins().iadd(a.high, b.high);
                pair(low, self.b.ins().iadd(high, carry))
            }
            Binary::Sub => {
                let low = self.b.ins().isub(a.low, b.low);
                let borrows = self.compare(IntCC::UnsignedLessThan, a.low, b.low);
                let borrow = self.extend(borrows);
                let high = self.b.ins().isub(a.high, b.high);
                pair(low, self.b.ins().isub(high, borrow))
            }
            Binary::Eq | Binary::Ne => {
                let low = self.b.ins().bxor(a.low, b.low);
                let high = self.b.ins().bxor(a.high, b.high);
                let any = self.b.ins().bor(low, high);
                let test = match op {
                    Binary::Eq => IntCC::Equal,
                    _ => IntCC::NotEqual,
                };
                let holds = self.compare_to(test, any, 0);
                self.boolean(holds)
            }
            Binary::Lt | Binary::Le => {
                let test = match op {
                    Binary::Lt => IntCC::UnsignedLessThan,
                    _ => IntCC::UnsignedLessThanOrEqual,
                };
                let of_low = self.compare(test, a.low, b.low);
                let of_high = self.compare(IntCC::UnsignedLessThan, a.high, b.high);
                let is_equal = self.compare(IntCC::Equal, a.high, b.high);
                let holds = self.b.ins().select(is_equal, of_low, of_high);
                self.boolean(holds)
            }
            Binary::And | Binary::Or => {
                let any = |code: &mut Self, a: Wide| {
                    let any = code.b.ins().bor(a.low, a.high);
                    code.compare_to(IntCC::NotEqual, any, 0)
                };
                let (a, b) = (any(self, a), any(self, b));
                let holds = match op {
                    Binary::And => self.b.ins().band(a, b),
                    _ => self.b.ins().bor(a, b),
                };
                self.boolean(holds)
            }
            // `is_wide` excludes these, and shifts are compiled by `wide_shift`.
            Binary::Mul | Binary::Div | Binary::Mod | Binary::Shl | Binary::Shr => self.wide_zero(),
        }
    }

    /// Shifts a number. The result of a shift to the left is in range, so no bit is lost.
    fn wide_shift(&mut self, is_left: bool, a: Wide, amount: u64) -> Wide {
        let (low, high) = (a.low, a.high);
        let zero = self.number(0);
        let amount = amount.min(128) as i64;
        match (amount, is_left) {
            (0, _) => a,
            (1..64, true) => {
                let carried = self.b.ins().ushr_imm(low, 64 - amount);
                let high = self.b.ins().ishl_imm(high, amount);
                Wide {
                    low: self.b.ins().ishl_imm(low, amount),
                    high: self.b.ins().bor(high, carried),
                }
            }
            (1..64, false) => {
                let carried = self.b.ins().ishl_imm(high, 64 - amount);
                let low = self.b.ins().ushr_imm(low, amount);
                Wide {
                    low: self.b.ins().bor(low, carried),
                    high: self.b.ins().ushr_imm(high, amount),
                }
            }
            (64..128, true) => Wide {
                low: zero,
                high: self.b.ins().ishl_imm(low, amount - 64),
            },
            (64..128, false) => Wide {
                low: self.b.ins().ushr_imm(high, amount - 64),
                high: zero,
            },
            _ => self.wide_zero(),
        }
    }

    /// Reads a register cell; zero for an index beyond the array.
    fn wide_cell(&mut self, program: &LoadedProgram, array: u16, index: Value) -> Wide {
        let info = &program.registers[usize::from(array)];
        let words = words_of(info.bits);
        let known = self.known;
        let (inside, done) = (self.b.create_block(), self.b.create_block());
        let results = [0, 1].map(|_| self.b.append_block_param(done, I64));
        let zero = self.number(0);
        let is_inside = self.compare_to(IntCC::UnsignedLessThan, index, info.size as u64);
        let outside = [zero.into(), zero.into()];
        self.b.ins().brif(is_inside, inside, &[], done, &outside);
        self.b.switch_to_block(inside);
        let registers = self.load(at::REGISTERS);
        let offset = usize::from(array) * size_of::<Register>() + Register::PAGES;
        let pages = self.load_from(registers, offset, I64);
        let start = self.b.ins().imul_imm(index, words as i64);
        let mut values = [zero; 2];
        for (at, value) in values.iter_mut().take(words).enumerate() {
            let place = self.b.ins().iadd_imm(start, at as i64);
            let page = self.page_of(pages, place);
            let (some, next) = (self.b.create_block(), self.b.create_block());
            *value = self.b.append_block_param(next, I64);
            self.b.ins().brif(page, some, &[], next, &[zero.into()]);
            self.b.switch_to_block(some);
            let cell = self.cell(page, place);
            let read = self.load_from(cell, 0, I64);
            self.b.ins().jump(next, &[read.into()]);
            self.b.switch_to_block(next);
        }
        self.b.ins().jump(done, &values.map(Into::into));
        self.begin_with(done, known);
        Wide {
            low: results[0],
            high: results[1],
        }
    }
}
