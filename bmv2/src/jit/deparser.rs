//! Compilation of checksums and deparsers.

use super::builder::Code;
use super::calculation::{calculate, write};
use super::machine::{at, IN_BUFFER, IN_PLACE};
use super::pipeline::Regions;
use crate::exec::ops::Pc;
use crate::program::{Checksum, Deparser, LoadedProgram};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Returns the first instruction of each piece of code that checksums and a deparser execute.
pub(super) fn starts<'a>(
    checksums: &'a [Checksum],
    deparser: Option<&'a Deparser>,
) -> impl Iterator<Item = Pc> + 'a {
    let conditions = checksums
        .iter()
        .filter_map(|checksum| checksum.condition?.0);
    conditions.chain(deparser.and_then(|deparser| deparser.code))
}

/// Compiles the verification of checksums. Returns 1 if all are right, else 0.
pub(super) fn compile_verify(code: &mut Code, regions: &Regions) -> Value {
    let program = regions.program;
    let right = code.b.declare_var(I64);
    let one = code.number(1);
    code.b.def_var(right, one);
    for checksum in &program.verify {
        let skip = code.b.create_block();
        let header = &program.layout.headers[usize::from(checksum.header)];
        if !header.metadata {
            let valid = code.word(header.valid);
            let next = code.b.create_block();
            code.branch(valid, next, skip);
            code.b.switch_to_block(next);
        }
        condition(code, regions, checksum, skip);
        let value = calculate(code, program, checksum.calculation);
        let stated = code.word(checksum.slot);
        let is_equal = code.compare(IntCC::Equal, value, stated);
        let is_equal = code.extend(is_equal);
        let before = code.b.use_var(right);
        let both = code.b.ins().band(before, is_equal);
        code.b.def_var(right, both);
        code.jump(skip);
        code.begin_join(skip);
    }
    code.b.use_var(right)
}

/// Compiles a deparser. The code updates checksums, executes the deparser's statements, writes all valid headers, and
/// stores their length and where they are. It continues at the end of the function.
pub(super) fn compile(code: &mut Code, regions: &Regions, deparser: &Deparser) {
    let program = regions.program;
    for checksum in &program.update {
        let skip = code.b.create_block();
        condition(code, regions, checksum, skip);
        let value = calculate(code, program, checksum.calculation);
        let value = code.wrapped(value, checksum.bits, false);
        code.set_word(checksum.slot, value);
        code.jump(skip);
        code.begin_join(skip);
    }
    if let Some(start) = deparser.code {
        let end = code.b.create_block();
        regions.compile(code, start, end);
        code.begin_join(end);
    }
    let emitted = code.b.declare_var(I64);
    let zero = code.number(0);
    code.b.def_var(emitted, zero);
    let headers = place(code, program, deparser);
    // Headers after one of variable length are written by a function that checks the bounds of the buffer.
    let mut is_fixed = true;
    for &(valid, header) in &deparser.order {
        let h = &program.layout.headers[usize::from(header)];
        let (emit, skip) = (code.b.create_block(), code.b.create_block());
        let before = code.known;
        let is_valid = code.word(valid);
        code.branch(is_valid, emit, skip);
        code.b.switch_to_block(emit);
        let start = code.b.use_var(emitted);
        let end = match &h.join {
            Some(join) if is_fixed && h.bytes <= i32::MAX as usize => {
                let out = code.b.ins().iadd(headers, start);
                write(code, join, out);
                code.b.ins().iadd_imm(start, h.bytes as i64)
            }
            _ => {
                is_fixed = false;
                let number = code.number(header.into());
                let call = code.call_with(code.imports.emit, &[number, start]);
                let length = call.unwrap_or(start);
                code.b.ins().iadd(start, length)
            }
        };
        code.b.def_var(emitted, end);
        code.jump(skip);
        // Nothing writes words here, so what was known before is known after.
        code.begin_with(skip, before);
    }
    let emitted = code.b.use_var(emitted);
    code.store(at::EMITTED, emitted);
    code.jump(code.end);
}

/// Compiles the choice of the memory to which headers are written: the frame itself if it may be changed and the headers are
/// as long as the parsed ones, else the buffer. Stores which one it is, and returns its address.
fn place(code: &mut Code, program: &LoadedProgram, deparser: &Deparser) -> Value {
    if !deparser.is_fixed {
        // The length is known only after the headers are written.
        let buffer = code.number(IN_BUFFER);
        code.store(at::RESULT, buffer);
        return code.load(at::HEADERS);
    }
    let [length_block, frame, buffer, done] = [(); 4].map(|()| code.b.create_block());
    code.b.append_block_param(done, I64);
    let known = code.known;
    let in_place = code.load(at::IN_PLACE);
    code.branch(in_place, length_block, buffer);
    code.b.switch_to_block(length_block);
    let mut length = code.number(0);
    for &(valid, header) in &deparser.order {
        let header = &program.layout.headers[usize::from(header)];
        let is_valid = code.word(valid);
        let is_valid = code.compare_to(IntCC::NotEqual, is_valid, 0);
        let is_valid = code.extend(is_valid);
        let bytes = code.b.ins().imul_imm(is_valid, header.bytes as i64);
        length = code.b.ins().iadd(length, bytes);
    }
    let parsed = code.load(at::REST_AT);
    let is_equal = code.compare(IntCC::Equal, length, parsed);
    code.branch(is_equal, frame, buffer);
    for (block, at, place) in [
        (frame, at::IN_PLACE, IN_PLACE),
        (buffer, at::HEADERS, IN_BUFFER),
    ] {
        code.begin_with(block, known);
        let place = code.number(place);
        code.store(at::RESULT, place);
        let address = code.load(at);
        code.b.ins().jump(done, &[address.into()]);
    }
    code.begin_with(done, known);
    code.b.block_params(done)[0]
}

/// Compiles the condition of a checksum. Control continues at `skip` if it does not hold.
fn condition(
    code: &mut Code,
    regions: &Regions,
    checksum: &Checksum,
    skip: cranelift_codegen::ir::Block,
) {
    let Some((start, slot)) = checksum.condition else {
        return;
    };
    if let Some(start) = start {
        let end = code.b.create_block();
        regions.compile(code, start, end);
        code.begin_join(end);
    }
    let holds = code.word(slot);
    let next = code.b.create_block();
    code.branch(holds, next, skip);
    code.b.switch_to_block(next);
}
