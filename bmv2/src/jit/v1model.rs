//! Compilation of programs for v1model: one function has parser, checksums and ingress, another one egress and deparser.

use super::builder::Code;
use super::machine::{at, DROPPED, EARLY_REQUEST, MULTICAST, UNICAST};
use super::pipeline::Regions;
use super::{deparser, parser, words};
use crate::exec::ops::Pc;
use crate::program::{LoadedProgram, Meta};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// Returns the first instruction of each piece of code that the first function executes.
pub(super) fn ingress_starts(program: &LoadedProgram) -> impl Iterator<Item = Pc> + '_ {
    let checked = deparser::starts(&program.verify, None);
    let parsed = parser::starts(&program.parser);
    parsed.chain(checked).chain([program.ingress])
}

/// Returns the first instruction of each piece of code that the second function executes.
pub(super) fn egress_starts(program: &LoadedProgram) -> impl Iterator<Item = Pc> + '_ {
    let deparsed = deparser::starts(&program.update, Some(&program.deparser));
    deparsed.chain([program.egress])
}

/// Compiles the parser, the verification of checksums, and ingress. If the machine is for a part only, the function
/// ends before ingress; so it does if the packet was dropped. For a received packet, the function begins by clearing the live
/// words and setting metadata.
pub(super) fn compile_ingress(code: &mut Code, regions: &Regions) {
    let program = regions.program;
    let intrinsic = &program.intrinsic;
    code.counts_steps = ingress_starts(program).any(|start| regions.may_be_endless(start));
    let (received, parse) = (code.b.create_block(), code.b.create_block());
    let is_received = code.load(at::IS_RECEIVED);
    code.branch(is_received, received, parse);
    code.b.switch_to_block(received);
    if let Some(live) = &program.layout.live {
        words::clear(&mut code.b, code.words, live, program.layout.state_end);
    }
    set_metadata(code, &intrinsic.ingress_fields());
    code.jump(parse);
    code.begin_join(parse);
    let parsed = code.b.create_block();
    parser::compile(code, regions, &program.parser, parsed);
    code.begin_join(parsed);
    if let Some(field) = intrinsic.parser_error {
        let error = code.load(at::RESULT);
        let error = code.b.ins().band_imm(error, field.mask as i64);
        code.set_word(field.slot, error);
    }
    // Only expressions in the parser run without a payload.
    let (frame, cursor) = (code.load(at::FRAME), code.load(at::CURSOR));
    code.store(at::REST_FRAME, frame);
    code.store(at::REST_AT, cursor);
    if !program.verify.is_empty() {
        let right = deparser::compile_verify(code, regions);
        if let Some(field) = intrinsic.checksum_error {
            let (wrong, next) = (code.b.create_block(), code.b.create_block());
            code.b.set_cold_block(wrong);
            code.branch(right, next, wrong);
            code.b.switch_to_block(wrong);
            let one = code.number(1);
            code.set_word(field.slot, one);
            code.jump(next);
            code.begin_join(next);
        }
    }
    let is_part = code.load(at::IS_PART);
    code.leave_if(is_part, code.end);
    let mut checked = deparser::starts(&program.verify, None);
    let may_drop = checked.any(|start| regions.may_drop(start));
    if may_drop || parser::may_drop(regions, &program.parser) {
        if let Some(fault) = code.call(code.imports.has_fault, &[]) {
            code.leave_if(fault, code.end);
        }
    }
    let machine = code.machine;
    let port = code.load_from(machine, at::SWITCH_DROP_PORT, I32);
    code.store(at::DROP_PORT, port);
    let done = code.b.create_block();
    regions.compile(code, program.ingress, done);
    code.begin_join(done);
    decide(code, program);
}

/// Sets metadata to the values of the machine in the same order.
fn set_metadata(code: &mut Code, fields: &[Option<Meta>]) {
    for (number, field) in fields.iter().enumerate() {
        let Some(field) = field else { continue };
        let value = code.load(at::METADATA + number * size_of::<u64>());
        let value = code.b.ins().band_imm(value, field.mask as i64);
        code.set_word(field.slot, value);
    }
}

/// Compiles what is decided at the end of ingress, and ends the function. Nothing is decided if the pipeline has requested
/// more than to send the packet.
fn decide(code: &mut Code, program: &LoadedProgram) {
    let requests = code.load(at::REQUESTS);
    code.leave_if(requests, code.end);
    let end = |code: &mut Code, verdict: u64, target: Value| {
        let verdict = code.number(verdict);
        code.store(at::VERDICT, verdict);
        code.store(at::TARGET, target);
        code.jump(code.end);
    };
    if let Some(field) = program.intrinsic.mcast_grp {
        let group = code.word(field.slot);
        let (multicast, next) = (code.b.create_block(), code.b.create_block());
        code.branch(group, multicast, next);
        code.b.switch_to_block(multicast);
        end(code, MULTICAST, group);
        code.b.switch_to_block(next);
    }
    let (spec, is_dropped) = egress_spec(code, program);
    let (dropped, unicast) = (code.b.create_block(), code.b.create_block());
    code.branch(is_dropped, dropped, unicast);
    code.b.switch_to_block(dropped);
    end(code, DROPPED, spec);
    code.b.switch_to_block(unicast);
    end(code, UNICAST, spec);
}

/// Returns `egress_spec`, and whether it is the drop port.
fn egress_spec(code: &mut Code, program: &LoadedProgram) -> (Value, Value) {
    let spec = match program.intrinsic.egress_spec {
        Some(field) => code.word(field.slot),
        None => code.number(0),
    };
    let machine = code.machine;
    let port = code.load_from(machine, at::SWITCH_DROP_PORT, I32);
    let port = code.b.ins().uextend(I64, port);
    (spec, code.compare(IntCC::Equal, spec, port))
}

/// Compiles egress, the update of checksums, and the deparser. The function stores whether the deparser has run: it does
/// not if the packet is dropped, or if the pipeline has requested what is done before. If the machine is for a part
/// only, the function begins with the deparser.
pub(super) fn compile_egress(code: &mut Code, regions: &Regions) {
    let program = regions.program;
    code.counts_steps = egress_starts(program).any(|start| regions.may_be_endless(start));
    let (done, deparse) = (code.b.create_block(), code.b.create_block());
    let is_part = code.load(at::IS_PART);
    code.leave_if(is_part, deparse);
    set_metadata(code, &program.intrinsic.egress_fields());
    regions.compile(code, program.egress, done);
    code.begin_join(done);
    let requests = code.load(at::REQUESTS);
    let is_early = code.b.ins().band_imm(requests, EARLY_REQUEST as i64);
    code.leave_if(is_early, code.end);
    let (_, is_dropped) = egress_spec(code, program);
    code.leave_if(is_dropped, code.end);
    code.jump(deparse);
    code.begin_join(deparse);
    let zero = code.b.ins().iconst(I32, 0);
    code.store(at::DROP_PORT, zero);
    deparser::compile(code, regions, &program.deparser);
}
