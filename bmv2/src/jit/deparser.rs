//! Compilation of checksums and deparsers.

use super::builder::Code;
use super::calculation::{calculate, write};
use super::machine::{at, IN_BUFFER, IN_OUTPUT, IN_PLACE};
use super::pipeline::Regions;
use crate::exec::join::Join;
use crate::exec::ops::{Pc, Slot};
use crate::program::{Checksum, Deparser, Header};
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
    let header = |number: u16| &program.layout.headers[usize::from(number)];
    let fixed = |(valid, number): &(Slot, u16)| Some((*valid, inline(header(*number))?));
    let fixed: Vec<(Slot, (&Header, &Join))> = deparser.order.iter().filter_map(fixed).collect();
    let variable =
        |(valid, number): &(Slot, u16)| inline(header(*number)).is_none().then_some(*valid);
    let mut variable = deparser.order.iter().filter_map(variable);
    if let Some(first) = variable.next() {
        let mut any = code.word(first);
        for valid in variable {
            let valid = code.word(valid);
            any = code.b.ins().bor(any, valid);
        }
        let [some, none] = [(); 2].map(|()| code.b.create_block());
        let known = code.known;
        code.branch(any, some, none);
        code.b.switch_to_block(some);
        let buffer = code.number(IN_BUFFER);
        code.store(at::RESULT, buffer);
        // A function checks the bounds of the buffer.
        write_all(code, &deparser.order, |code, header, start| {
            let number = code.number(header.into());
            let length = code.call_with(code.imports.emit, &[number, start]);
            let length = length.unwrap_or(start);
            code.b.ins().iadd(start, length)
        });
        code.begin_with(none, known);
    }
    let place = place(code, &fixed);
    write_all(code, &fixed, |code, (header, join), start| {
        let out = code.b.ins().iadd(place, start);
        write(code, join, out);
        code.b.ins().iadd_imm(start, header.bytes as i64)
    });
}

/// Returns a header, and the plan by which it is written inline; `None` if it has a variable-length field.
fn inline(header: &Header) -> Option<(&Header, &Join)> {
    let join = header.join.as_ref()?;
    (header.bytes <= i32::MAX as usize).then_some((header, join))
}

/// Compiles the end of a deparser: writes those of `headers` that are valid, stores their total length, and continues at the
/// end of the function. `write` receives a header and its offset in bytes, and returns the offset of its end.
fn write_all<H: Copy>(
    code: &mut Code,
    headers: &[(Slot, H)],
    write: impl Fn(&mut Code, H, Value) -> Value,
) {
    let mut emitted = code.number(0);
    for &(valid, header) in headers {
        let before = code.known;
        let [emit, skip] = [(); 2].map(|()| code.b.create_block());
        let end = code.b.append_block_param(skip, I64);
        let is_valid = code.word(valid);
        code.b
            .ins()
            .brif(is_valid, emit, &[], skip, &[emitted.into()]);
        code.b.switch_to_block(emit);
        let after = write(code, header, emitted);
        code.b.ins().jump(skip, &[after.into()]);
        // Nothing writes words here, so what was known before is known after.
        code.begin_with(skip, before);
        emitted = end;
    }
    code.store(at::EMITTED, emitted);
    code.jump(code.end);
}

/// Compiles the choice of the memory to which headers are written: the frame itself if it may be changed and the headers are
/// as long as the parsed ones, else the output if there is one, else the buffer. Stores which one it is, and returns its address.
/// `headers`: those that may be valid.
fn place(code: &mut Code, headers: &[(Slot, (&Header, &Join))]) -> Value {
    let [length_block, frame, separate, output, buffer, done] =
        [(); 6].map(|()| code.b.create_block());
    code.b.append_block_param(done, I64);
    let known = code.known;
    let in_place = code.load(at::IN_PLACE);
    code.branch(in_place, length_block, separate);
    code.b.switch_to_block(length_block);
    let mut length = code.number(0);
    for &(valid, (header, _)) in headers {
        let is_valid = code.word(valid);
        let is_valid = code.compare_to(IntCC::NotEqual, is_valid, 0);
        let is_valid = code.extend(is_valid);
        let bytes = code.b.ins().imul_imm(is_valid, header.bytes as i64);
        length = code.b.ins().iadd(length, bytes);
    }
    let parsed = code.load(at::REST_AT);
    let is_equal = code.compare(IntCC::Equal, length, parsed);
    code.branch(is_equal, frame, buffer);
    code.begin_with(separate, known);
    let has_output = code.load(at::OUTPUT);
    code.branch(has_output, output, buffer);
    for (block, at, place) in [
        (frame, at::IN_PLACE, IN_PLACE),
        (output, at::OUTPUT, IN_OUTPUT),
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
