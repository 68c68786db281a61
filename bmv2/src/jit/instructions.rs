//! Compilation of single instructions that do not jump.

use super::builder::Code;
use super::calculation::calculate;
use super::machine::{at, EARLY_REQUEST, LATE_REQUEST};
use super::wide;
use crate::exec::ops::{Effect, Op, Slot, Test};
use crate::exec::run::Context;
use crate::load::{writes, Writes};
use crate::program::{Header, LoadedProgram};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64, I8};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::offset_of;

/// Maximum number of words of a header that is cleared or copied by inline code.
const MAX_INLINE_WORDS: usize = 16;

impl Code<'_> {
    /// Compiles an instruction at position `pc`, after which the next one follows. If it drops the packet, control
    /// continues at `halt`. Rare instructions are executed by the interpreter's code.
    pub fn instruction(&mut self, program: &LoadedProgram, pc: u32, op: Op, halt: Block) {
        match op {
            Op::Mov { d, a } => self.unary(d, a, |_, a| a),
            Op::Mask { d, a, bits } => self.unary(d, a, |c, a| c.low_bits(a, bits.into())),
            Op::Add { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().iadd(a, b)),
            Op::Sub { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().isub(a, b)),
            Op::Mul { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().imul(a, b)),
            Op::And { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().band(a, b)),
            Op::Or { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().bor(a, b)),
            Op::Xor { d, a, b } => self.binary(d, a, b, |c, a, b| c.b.ins().bxor(a, b)),
            Op::Not { d, a } => self.unary(d, a, |c, a| c.b.ins().bnot(a)),
            Op::Shl { d, a, b } => self.shift(d, a, b, |c, a, b| c.b.ins().ishl(a, b)),
            Op::ShrU { d, a, b } => self.shift(d, a, b, |c, a, b| c.b.ins().ushr(a, b)),
            Op::Sext { d, a, bits } => self.unary(d, a, |c, a| c.wrapped(a, bits.into(), true)),
            Op::Bits { d, a, low, bits } => self.unary(d, a, |c, a| c.field(a, low, bits)),
            Op::AddBits { d, a, b, bits } => self.binary(d, a, b, |c, a, b| {
                let sum = c.b.ins().iadd(a, b);
                c.low_bits(sum, bits.into())
            }),
            Op::SubBits { d, a, b, bits } => self.binary(d, a, b, |c, a, b| {
                let difference = c.b.ins().isub(a, b);
                c.low_bits(difference, bits.into())
            }),
            Op::Join {
                d,
                a,
                shift,
                b,
                low,
                bits,
            } => self.binary(d, a, b, |c, a, b| {
                let high = c.b.ins().ishl_imm(a, i64::from(shift & 63));
                let low = c.field(b, low, bits);
                c.b.ins().bor(high, low)
            }),
            Op::SubBit {
                d,
                a,
                low_a,
                b,
                low_b,
                bit,
            } => self.binary(d, a, b, |c, a, b| c.sub_bit(a, low_a, b, low_b, bit)),
            Op::Eq { d, a, b } => self.comparison(d, None, a, b, Test::Eq),
            Op::Ne { d, a, b } => self.comparison(d, None, a, b, Test::Ne),
            Op::LtU { d, a, b } => self.comparison(d, None, a, b, Test::LtU),
            Op::LeU { d, a, b } => self.comparison(d, None, a, b, Test::LeU),
            Op::LtS { d, a, b } => self.comparison(d, None, a, b, Test::LtS),
            Op::LeS { d, a, b } => self.comparison(d, None, a, b, Test::LeS),
            Op::AndEq { d, x, a, b } => self.comparison(d, Some((x, true)), a, b, Test::Eq),
            Op::AndNe { d, x, a, b } => self.comparison(d, Some((x, true)), a, b, Test::Ne),
            Op::OrEq { d, x, a, b } => self.comparison(d, Some((x, false)), a, b, Test::Eq),
            Op::OrNe { d, x, a, b } => self.comparison(d, Some((x, false)), a, b, Test::Ne),

            // The loader reads and writes wider cells by `Op::Big`.
            Op::RegisterRead { d, array, i } => self.register_read(program, d, array, i),
            Op::RegisterWrite { array, i, a } => self.register_write(program, array, i, a),
            Op::Count { array, i } => self.count(program, array, i),

            Op::AddHeader { h } if is_small(program, h) => self.add_header(program, h),
            Op::RemoveHeader { h } if is_small(program, h) => self.remove_header(program, h),
            Op::AssignHeader { d, s } if is_small(program, d) && is_small(program, s) => {
                self.assign_header(program, pc, d, s);
            }
            Op::MarkToDrop { spec, bits, group } => {
                let machine = self.machine;
                let port = self.load_from(machine, at::DROP_PORT, I32);
                let port = self.b.ins().uextend(I64, port);
                let port = self.low_bits(port, bits.into());
                self.set_word(spec, port);
                if let Some(group) = group {
                    let zero = self.number(0);
                    self.set_word(group, zero);
                }
            }
            Op::Hash {
                d,
                calculation,
                base,
                max,
            } => self.hash(program, d, calculation, base, max),
            Op::Cover { counter } => self.cover(counter),
            // Switches that record traces or the log interpret.
            Op::Note { .. } => {}
            Op::Exit => {
                let (ctx, one) = (self.load(at::CTX), self.b.ins().iconst(I8, 1));
                self.store_to(ctx, offset_of!(Context, exit), one);
            }
            Op::Big { index } if wide::is_compiled(program, &program.bigs[index as usize]) => {
                self.wide(program, &program.bigs[index as usize]);
            }
            Op::Recirculate { list } => {
                let list = self.word(list);
                let list = self.b.ins().ireduce(I32, list);
                self.late_request(offset_of!(Context, recirculate), list);
            }
            Op::Truncate { bytes } => {
                let bytes = self.word(bytes);
                self.late_request(offset_of!(Context, truncate), bytes);
            }
            op => self.step(pc, op, halt),
        }
    }

    /// Requests something that is done with the deparsed frame.
    fn late_request(&mut self, field: usize, value: Value) {
        let ctx = self.load(at::CTX);
        self.store_to(ctx, field, value);
        self.mark_request(LATE_REQUEST);
    }

    /// Compiles a hash that is reduced to `max` values from `base` on.
    fn hash(&mut self, program: &LoadedProgram, d: Slot, calculation: u16, base: Slot, max: Slot) {
        let hash = calculate(self, program, calculation);
        let known = self.constant(max).map(|max| max.max(1));
        let reduced = match known {
            Some(max) if max.is_power_of_two() => self.low_bits(hash, max.trailing_zeros()),
            Some(max) => self.b.ins().urem_imm(hash, max as i64),
            None => {
                let (max, one) = (self.word(max), self.number(1));
                let max = self.b.ins().umax(max, one);
                self.b.ins().urem(hash, max)
            }
        };
        let base = self.word(base);
        let value = self.b.ins().iadd(reduced, base);
        self.set_word(d, value);
    }

    /// Has an instruction executed by the interpreter's code.
    fn step(&mut self, pc: u32, op: Op, halt: Block) {
        let halts = self.call(self.imports.step, &[pc.into()]);
        let is_request =
            |effect: &Effect| matches!(effect, Effect::Packet | Effect::Drop | Effect::Log);
        if op.effects().iter().any(is_request) {
            self.mark_request(EARLY_REQUEST);
        }
        match writes(op) {
            Writes::All => self.known.clear(),
            Writes::Words(words) => {
                self.known.retain(|slot| !words.contains(&slot));
            }
        }
        if let (true, Some(halts)) = (op.effects().contains(&Effect::Drop), halts) {
            self.leave_if(halts, halt);
        }
    }

    fn unary(&mut self, d: Slot, a: Slot, of: impl FnOnce(&mut Self, Value) -> Value) {
        let a = self.word(a);
        let value = of(self, a);
        self.set_word(d, value);
    }

    fn binary(
        &mut self,
        d: Slot,
        a: Slot,
        b: Slot,
        of: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) {
        let (a, b) = (self.word(a), self.word(b));
        let value = of(self, a, b);
        self.set_word(d, value);
    }

    /// Compiles a shift, whose result is 0 for an amount of 64 or more.
    fn shift(
        &mut self,
        d: Slot,
        a: Slot,
        amount: Slot,
        of: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) {
        if self.constant(amount).is_some_and(|amount| amount >= 64) {
            let zero = self.number(0);
            return self.set_word(d, zero);
        }
        let is_known = self.constant(amount).is_some();
        self.binary(d, a, amount, |c, a, b| {
            let shifted = of(c, a, b);
            if is_known {
                return shifted;
            }
            let (fits, zero) = (c.compare_to(IntCC::UnsignedLessThan, b, 64), c.number(0));
            c.b.ins().select(fits, shifted, zero)
        });
    }

    /// Compiles a comparison, and its conjunction (`true`) or disjunction with another word.
    fn comparison(&mut self, d: Slot, with: Option<(Slot, bool)>, a: Slot, b: Slot, test: Test) {
        let holds = self.test(a, b, test);
        let holds = self.extend(holds);
        let value = match with {
            None => holds,
            Some((x, true)) => {
                let x = self.word(x);
                self.b.ins().band(x, holds)
            }
            Some((x, false)) => {
                let x = self.word(x);
                self.b.ins().bor(x, holds)
            }
        };
        self.set_word(d, value);
    }

    /// Compares two words; the result is a Boolean of eight bits.
    pub fn test(&mut self, a: Slot, b: Slot, test: Test) -> Value {
        let (a, b) = (self.word(a), self.word(b));
        let test = match test {
            Test::Eq => IntCC::Equal,
            Test::Ne => IntCC::NotEqual,
            Test::LtU => IntCC::UnsignedLessThan,
            Test::LeU => IntCC::UnsignedLessThanOrEqual,
            Test::LtS => IntCC::SignedLessThan,
            Test::LeS => IntCC::SignedLessThanOrEqual,
        };
        self.compare(test, a, b)
    }

    /// Returns bit `bit` of `(a >> low_a) - (b >> low_b)`.
    pub fn sub_bit(&mut self, a: Value, low_a: u8, b: Value, low_b: u8, bit: u8) -> Value {
        let a = self.field(a, low_a, 64);
        let b = self.field(b, low_b, 64);
        let difference = self.b.ins().isub(a, b);
        self.field(difference, bit, 1)
    }

    /// Compiles `setValid`; see `headers::add`.
    fn add_header(&mut self, program: &LoadedProgram, header: u16) {
        let h = &program.layout.headers[usize::from(header)];
        if h.metadata {
            return;
        }
        let (invalid, next) = (self.b.create_block(), self.b.create_block());
        let valid = self.word(h.valid);
        self.branch(valid, next, invalid);
        self.b.switch_to_block(invalid);
        let before = self.known;
        if !program.layout.keeps_invalid_fields {
            let zero = self.number(0);
            (h.start..h.end).for_each(|slot| self.set_word(slot, zero));
        }
        self.mark_valid(program, h);
        self.change_length(h.bytes as i64);
        self.jump(next);
        self.begin_with(next, before);
        (h.start..h.end).for_each(|slot| self.discard(slot));
        members(program, h).for_each(|member| self.discard(member));
        // Whichever path was taken, the header is valid now; the word itself may differ from 1 before.
        self.discard(h.valid);
    }

    /// Compiles `setInvalid`; see `headers::remove`.
    fn remove_header(&mut self, program: &LoadedProgram, header: u16) {
        let h = &program.layout.headers[usize::from(header)];
        if h.metadata {
            return;
        }
        let (valid_block, next) = (self.b.create_block(), self.b.create_block());
        let valid = self.word(h.valid);
        self.branch(valid, valid_block, next);
        self.b.switch_to_block(valid_block);
        let before = self.known;
        self.change_length(-(h.bytes as i64));
        self.jump(next);
        self.begin_with(next, before);
        let zero = self.number(0);
        self.set_word(h.valid, zero);
    }

    /// Compiles the copy of a header; see `headers::assign`.
    fn assign_header(&mut self, program: &LoadedProgram, pc: u32, dest: u16, source: u16) {
        let header = |header: u16| &program.layout.headers[usize::from(header)];
        let (d, s) = (header(dest), header(source));
        if d.end - d.start != s.end - s.start || s.metadata {
            return self.step(pc, Op::AssignHeader { d: dest, s: source }, self.end);
        }
        let (valid, invalid, next) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let is_valid = self.word(s.valid);
        let before = self.known;
        self.branch(is_valid, valid, invalid);
        self.b.switch_to_block(valid);
        self.mark_valid(program, d);
        for (to, from) in (d.start..d.end).zip(s.start..s.end) {
            let word = self.word(from);
            self.set_word(to, word);
        }
        self.jump(next);
        self.begin_with(invalid, before);
        if !d.metadata {
            let zero = self.number(0);
            self.set_word(d.valid, zero);
        }
        self.jump(next);
        self.begin_with(next, before);
        (d.start..d.end).for_each(|slot| self.discard(slot));
        members(program, d).for_each(|member| self.discard(member));
        self.discard(d.valid);
    }

    /// Makes a header valid, and the other members of its union invalid.
    pub fn mark_valid(&mut self, program: &LoadedProgram, h: &Header) {
        if h.metadata {
            return;
        }
        let zero = self.number(0);
        members(program, h).for_each(|member| self.set_word(member, zero));
        let one = self.number(1);
        self.set_word(h.valid, one);
    }

    /// Adds a number of bytes to the packet's length.
    fn change_length(&mut self, bytes: i64) {
        let ctx = self.load(at::CTX);
        let length = self.load_from(ctx, offset_of!(Context, length), I64);
        let length = self.b.ins().iadd_imm(length, bytes);
        self.store_to(ctx, offset_of!(Context, length), length);
    }

    /// Reads a word from memory when it is used next.
    fn discard(&mut self, slot: Slot) {
        self.known.remove(slot);
    }
}

/// Returns whether a header's operations are compiled inline.
fn is_small(program: &LoadedProgram, header: u16) -> bool {
    let h = &program.layout.headers[usize::from(header)];
    h.varbit.is_none() && usize::from(h.end - h.start) <= MAX_INLINE_WORDS
}

/// Returns the validity words of all members of a header's union.
fn members<'a>(program: &'a LoadedProgram, h: &Header) -> impl Iterator<Item = Slot> + 'a {
    let layout = &program.layout;
    let union = h.union.map(|union| &layout.unions[usize::from(union)]);
    let headers = union.into_iter().flat_map(|union| &union.headers);
    headers.map(|member| layout.headers[usize::from(*member)].valid)
}
