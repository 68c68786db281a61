//! Compilation of calculations: hashes and checksums over a packet's fields.

use super::builder::{byte_flags, Code};
use super::machine::at;
use crate::exec::join::Join;
use crate::externs::hash::Algorithm;
use crate::program::LoadedProgram;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Computes a calculation. If the headers of its fields are valid, the fields are concatenated by inline code, and the
/// Internet checksum is computed by it.
pub(super) fn calculate(code: &mut Code, program: &LoadedProgram, number: u16) -> Value {
    let calculation = &program.calculations[usize::from(number)];
    let Some(joined) = calculation.joined_statelessly() else {
        return call(code, number);
    };
    let (slow, done) = (code.b.create_block(), code.b.create_block());
    code.b.set_cold_block(slow);
    code.b.append_block_param(done, I64);
    // What is read on one path only is not known after it.
    let known = code.known;
    for &valid in &joined.valid {
        let valid = code.word(valid);
        let next = code.b.create_block();
        code.branch(valid, next, slow);
        code.b.switch_to_block(next);
    }
    let value = match calculation.algorithm {
        // It has no payload.
        Algorithm::Csum16 => sum(code, &joined.join),
        _ => {
            let inputs = code.load(at::INPUTS);
            write(code, &joined.join, inputs);
            let value = code.call(code.imports.hash_joined, &[number.into()]);
            value.unwrap_or_else(|| code.number(0))
        }
    };
    code.b.ins().jump(done, &[value.into()]);
    code.b.switch_to_block(slow);
    let value = call(code, number);
    code.b.ins().jump(done, &[value.into()]);
    code.begin_with(done, known);
    code.b.block_params(done)[0]
}

fn call(code: &mut Code, number: u16) -> Value {
    let value = code.call(code.imports.calculate, &[number.into()]);
    value.unwrap_or_else(|| code.number(0))
}

/// Computes the Internet checksum of fields; see [`Join::sum`].
fn sum(code: &mut Code, join: &Join) -> Value {
    let mut sum = None;
    each_chunk(code, join, |code, chunk, _| {
        // Two halves of 32 bits cannot carry out of 64 bits in a sum of fewer than 2^31 chunks.
        let high = code.b.ins().ushr_imm(chunk, 32);
        let low = code.low_bits(chunk, 32);
        let both = code.b.ins().iadd(high, low);
        sum = Some(match sum {
            None => both,
            Some(sum) => code.b.ins().iadd(sum, both),
        });
    });
    let mut sum = sum.unwrap_or_else(|| code.number(0));
    // 64 bits to 33, to 18, to 17, to 16 bits.
    for bits in [32, 16, 16, 16] {
        let high = code.b.ins().ushr_imm(sum, i64::from(bits));
        let low = code.low_bits(sum, bits);
        sum = code.b.ins().iadd(high, low);
    }
    let not = code.b.ins().bnot(sum);
    code.low_bits(not, 16)
}

/// Writes the concatenated fields of a header to `out`; see [`Join::write`].
pub(super) fn write(code: &mut Code, join: &Join, out: Value) {
    let mut offset = 0;
    each_chunk(code, join, |code, chunk, bytes| {
        let swapped = code.b.ins().bswap(chunk);
        code.b.ins().store(byte_flags(), swapped, out, offset);
        offset += i32::from(bytes);
    });
}

/// Calls `each` with every chunk of the concatenated fields, left-aligned in a word, and its number of bytes.
fn each_chunk(code: &mut Code, join: &Join, mut each: impl FnMut(&mut Code, Value, u8)) {
    let mut chunk = None;
    for part in join.parts() {
        let bits = part_bits(code, part.slot, part.mask, part.left);
        let all = match chunk {
            None => bits,
            Some(chunk) => code.b.ins().bor(chunk, bits),
        };
        chunk = Some(all);
        if part.bytes > 0 {
            each(code, all, part.bytes);
            chunk = None;
        }
    }
}

/// Returns the bits of a part of a field at their position in a chunk of eight bytes.
fn part_bits(code: &mut Code, slot: u16, mask: u64, left: u8) -> Value {
    let word = code.word(slot);
    let masked = match mask {
        u64::MAX => word,
        mask => code.b.ins().band_imm(word, mask as i64),
    };
    match left {
        0 => masked,
        left => code.b.ins().rotl_imm(masked, i64::from(left)),
    }
}
