//! Compilation of parsers.

use super::builder::{byte_flags, Code};
use super::machine::{at, PARSER_ERROR};
use super::pipeline::Regions;
use crate::exec::ops::Pc;
use crate::exec::parse::MAX_STATES;
use crate::program::{CaseOn, Header, KeyPart, ParseState, Parser, ParserStep};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};

/// Maximum number of bits of a lookahead that inline code reads. Such a lookahead at any bit is within eight bytes.
const MAX_LOOKAHEAD: u32 = 57;

/// Returns the first instruction of each piece of code that a parser executes.
pub(super) fn starts(parser: &Parser) -> impl Iterator<Item = Pc> + '_ {
    let steps = parser.states.iter().flat_map(|state| &state.steps);
    steps.filter_map(|step| match *step {
        ParserStep::Code { code }
        | ParserStep::Verify { code, .. }
        | ParserStep::Advance { code, .. } => Some(code),
        _ => None,
    })
}

/// A parser during its compilation.
struct Compiler<'a, 'b, 'c> {
    code: &'a mut Code<'c>,
    regions: &'a Regions<'b>,
    parser: &'b Parser,
    /// Offset of the next byte in the frame.
    cursor: Variable,
    /// Bytes of the frame that are contiguous in memory, and their number.
    bytes: Variable,
    contiguous: Variable,
    /// Number of states that may still be entered, if states form a loop.
    budget: Option<Variable>,
    /// Block of each state.
    states: Vec<Block>,
    /// Block that ends the parser with the error in its parameter.
    failed: Block,
    /// Block after the parser.
    done: Block,
}

/// Returns whether the statements of a parser may drop the packet.
pub(super) fn may_drop(regions: &Regions, parser: &Parser) -> bool {
    let steps = parser.states.iter().flat_map(|state| &state.steps);
    let has_length = |step: &ParserStep| {
        matches!(
            step,
            ParserStep::ExtractVl { .. }
                | ParserStep::ExtractOwnVl { .. }
                | ParserStep::ExtractStackVl { .. }
                | ParserStep::ExtractUnionStackVl { .. }
        )
    };
    let is_length = steps.clone().any(has_length);
    is_length || starts(parser).any(|start| regions.may_drop(start))
}

/// Compiles a parser. The code stores the position of the payload and the number of the parser error, and continues at
/// `done`.
pub(super) fn compile(code: &mut Code, regions: &Regions, parser: &Parser, done: Block) {
    let mut variable = || code.b.declare_var(I64);
    let (cursor, bytes, contiguous, budget) = (variable(), variable(), variable(), variable());
    let zero = code.number(0);
    code.b.def_var(cursor, zero);
    let start = code.load(at::BYTES);
    code.b.def_var(bytes, start);
    let length = code.load(at::CONTIGUOUS);
    code.b.def_var(contiguous, length);
    let is_limited = is_cyclic(parser) || parser.states.len() > MAX_STATES as usize;
    let budget = is_limited.then_some(budget);
    if let Some(budget) = budget {
        let states = code.number(MAX_STATES.into());
        code.b.def_var(budget, states);
    }
    let states = parser
        .states
        .iter()
        .map(|_| code.b.create_block())
        .collect();
    let failed = code.b.create_block();
    code.b.append_block_param(failed, I64);
    let mut compiler = Compiler {
        code,
        regions,
        parser,
        cursor,
        bytes,
        contiguous,
        budget,
        states,
        failed,
        done,
    };
    compiler.go(parser.start);
    for (at, state) in parser.states.iter().enumerate() {
        compiler.code.begin_join(compiler.states[at]);
        compiler.state(at, state);
    }
    compiler.code.begin_join(failed);
    let error = compiler.code.b.block_params(failed)[0];
    compiler.end(error);
}

/// Returns whether states may be entered more than once.
fn is_cyclic(parser: &Parser) -> bool {
    // Removes states without successors until none is left.
    let successors = |state: &ParseState| -> Vec<u16> {
        let cases = state.cases.iter().map(|case| case.next);
        cases.chain([state.default]).flatten().collect()
    };
    let mut ends = vec![false; parser.states.len()];
    loop {
        let mut changed = false;
        for (at, state) in parser.states.iter().enumerate() {
            if !ends[at]
                && successors(state)
                    .iter()
                    .all(|next| ends[usize::from(*next)])
            {
                (ends[at], changed) = (true, true);
            }
        }
        if !changed {
            return ends.contains(&false);
        }
    }
}

impl Compiler<'_, '_, '_> {
    /// Continues at a state, or ends the parser.
    fn go(&mut self, next: Option<u16>) {
        match next {
            Some(state) => self.enter(state),
            None => {
                let error = self.code.number(self.parser.errors.no_error);
                self.end(error);
            }
        }
    }

    /// Continues at a state, if the limit of states permits it.
    fn enter(&mut self, state: u16) {
        if let Some(budget) = self.budget {
            let left = self.code.b.use_var(budget);
            let is_out = self.code.compare_to(IntCC::Equal, left, 0);
            self.fail_if(is_out, self.parser.errors.parser_timeout);
            let left = self.code.b.ins().iadd_imm(left, -1);
            self.code.b.def_var(budget, left);
        }
        self.code.jump(self.states[usize::from(state)]);
    }

    /// Ends the parser with an error.
    fn end(&mut self, error: Value) {
        self.code.store(at::RESULT, error);
        let cursor = self.code.b.use_var(self.cursor);
        self.code.store(at::CURSOR, cursor);
        self.code.jump(self.done);
    }

    fn fail(&mut self, error: u64) {
        let error = self.code.number(error);
        self.code.b.ins().jump(self.failed, &[error.into()]);
    }

    /// Ends the parser with an error if a condition holds.
    fn fail_if(&mut self, condition: Value, error: u64) {
        let (fail, next) = (self.code.b.create_block(), self.code.b.create_block());
        self.code.b.set_cold_block(fail);
        self.code.branch(condition, fail, next);
        self.code.b.switch_to_block(fail);
        self.fail(error);
        self.code.b.switch_to_block(next);
    }

    /// Makes the next `bytes` bytes readable. Fails if the frame is too short.
    fn need(&mut self, bytes: usize) {
        let bytes = self.code.number(bytes as u64);
        self.need_value(bytes);
    }

    /// Makes a number of bytes readable, as [`Compiler::need`] does.
    fn need_value(&mut self, bytes: Value) {
        // Neither number exceeds 2^63, so the sum does not wrap around.
        let cursor = self.code.b.use_var(self.cursor);
        let end = self.code.b.ins().iadd(cursor, bytes);
        let contiguous = self.code.b.use_var(self.contiguous);
        let missing = self
            .code
            .compare(IntCC::UnsignedGreaterThan, end, contiguous);
        let (more, next) = (self.code.b.create_block(), self.code.b.create_block());
        self.code.b.set_cold_block(more);
        self.code.branch(missing, more, next);
        self.code.b.switch_to_block(more);
        let length = self.code.load(at::LENGTH);
        let is_short = self.code.compare(IntCC::UnsignedGreaterThan, end, length);
        self.fail_if(is_short, self.parser.errors.packet_too_short);
        self.code.call(self.code.imports.whole, &[]);
        let all = self.code.load(at::BYTES);
        self.code.b.def_var(self.bytes, all);
        self.code.b.def_var(self.contiguous, length);
        self.code.jump(next);
        self.code.b.switch_to_block(next);
    }

    /// Moves the position of the parser.
    fn advance(&mut self, bytes: usize) {
        let cursor = self.code.b.use_var(self.cursor);
        let cursor = self.code.b.ins().iadd_imm(cursor, bytes as i64);
        self.code.b.def_var(self.cursor, cursor);
    }

    /// Returns the address of the next byte.
    fn here(&mut self) -> Value {
        let (bytes, cursor) = (
            self.code.b.use_var(self.bytes),
            self.code.b.use_var(self.cursor),
        );
        self.code.b.ins().iadd(bytes, cursor)
    }

    /// Reads the big-endian number in eight bytes at an offset from `address`.
    fn read(&mut self, address: Value, offset: u32) -> Value {
        let word = self
            .code
            .b
            .ins()
            .load(I64, byte_flags(), address, offset as i32);
        self.code.b.ins().bswap(word)
    }

    fn state(&mut self, at: usize, state: &ParseState) {
        let mut may_fault = false;
        for (number, step) in state.steps.iter().enumerate() {
            may_fault |= self.step(at, number, step);
        }
        if may_fault {
            let next = self.code.b.create_block();
            let end = self.code.b.create_block();
            if let Some(fault) = self.code.call(self.code.imports.has_fault, &[]) {
                self.code.branch(fault, end, next);
            }
            self.code.b.switch_to_block(end);
            self.go(None);
            self.code.b.switch_to_block(next);
        }
        self.select(at, state);
    }

    /// Compiles a statement. Returns whether it may drop the packet.
    fn step(&mut self, state: usize, number: usize, step: &ParserStep) -> bool {
        let layout = &self.regions.program.layout;
        match *step {
            ParserStep::Extract { header } => {
                let h = &layout.headers[usize::from(header)];
                if h.varbit.is_none() && h.cut.is_some() && h.bytes <= i32::MAX as usize {
                    self.extract(h);
                } else {
                    self.interpret(state, number);
                }
            }
            ParserStep::Cover { counter } => self.code.cover(counter),
            ParserStep::Code { code } => return self.run(code),
            ParserStep::Lookahead {
                offset,
                bits,
                slot,
                field_bits,
                signed,
            } if bits <= MAX_LOOKAHEAD && field_bits <= 64 => {
                self.need((offset as usize + bits as usize).div_ceil(8));
                let value = self.lookahead(offset, bits);
                let value = self.code.wrapped(value, field_bits, signed);
                self.code.set_word(slot, value);
            }
            ParserStep::Verify { code, cond, error } => {
                let may_fault = self.run(code);
                let (fail, next) = (self.code.b.create_block(), self.code.b.create_block());
                let holds = self.code.word(cond);
                let error = self.code.word(error);
                self.code.branch(holds, next, fail);
                self.code.b.switch_to_block(fail);
                self.code.b.ins().jump(self.failed, &[error.into()]);
                self.code.b.switch_to_block(next);
                return may_fault;
            }
            ParserStep::Shift { bytes } => {
                self.need(bytes as usize);
                self.advance(bytes as usize);
            }
            ParserStep::Advance { code, bits } => {
                let may_fault = self.run(code);
                let bits = self.code.word(bits);
                let odd = self.code.low_bits(bits, 3);
                self.fail_if(odd, self.parser.errors.parser_invalid_argument);
                let bytes = self.code.b.ins().ushr_imm(bits, 3);
                self.need_value(bytes);
                let cursor = self.code.b.use_var(self.cursor);
                let cursor = self.code.b.ins().iadd(cursor, bytes);
                self.code.b.def_var(self.cursor, cursor);
                return may_fault;
            }
            ParserStep::ExtractVl { .. }
            | ParserStep::ExtractOwnVl { .. }
            | ParserStep::ExtractStack { .. }
            | ParserStep::ExtractStackVl { .. }
            | ParserStep::ExtractUnionStack { .. }
            | ParserStep::ExtractUnionStackVl { .. }
            | ParserStep::Lookahead { .. } => {
                self.interpret(state, number);
                // Expressions of lengths drop the packet only if they are endless.
                return true;
            }
        }
        false
    }

    /// Compiles the code of a statement. Returns whether it may drop the packet.
    fn run(&mut self, start: Pc) -> bool {
        let end = self.code.b.create_block();
        self.regions.compile(self.code, start, end);
        self.code.begin_join(end);
        self.regions.may_drop(start)
    }

    /// Has a statement executed by the interpreter's code.
    fn interpret(&mut self, state: usize, number: usize) {
        let cursor = self.code.b.use_var(self.cursor);
        self.code.store(at::CURSOR, cursor);
        let failed = self.code.call(
            self.code.imports.parser_step,
            &[state as u64, number as u64],
        );
        self.code.known.clear();
        let cursor = self.code.load(at::CURSOR);
        self.code.b.def_var(self.cursor, cursor);
        let error = self.code.load(at::RESULT);
        let next = self.code.b.create_block();
        if let Some(is_failed) = failed {
            self.code
                .b
                .ins()
                .brif(is_failed, self.failed, &[error.into()], next, &[]);
        }
        self.code.b.switch_to_block(next);
    }

    /// Compiles the extraction of a header of a fixed length.
    fn extract(&mut self, h: &Header) {
        self.need(h.bytes);
        let address = self.here();
        let fields = h.cut.iter().flat_map(|reader| reader.fields());
        // The eight bytes that were read last, which often have the next fields, too.
        let mut last: Option<(u32, Value)> = None;
        for field in fields {
            let width = 64 - u32::from(field.right);
            let before = |start: u32| 8 * (field.byte - start) + u32::from(field.left);
            let found = last.filter(|(start, _)| {
                *start <= field.byte && field.byte - start < 8 && before(*start) + width <= 64
            });
            let (start, word) = match found {
                Some(found) => found,
                None => (field.byte, self.read(address, field.byte)),
            };
            last = Some((start, word));
            let word = match before(start) {
                0 => word,
                left => self.code.b.ins().ishl_imm(word, i64::from(left)),
            };
            let value = match (field.right, field.signed) {
                (0, _) => word,
                (right, true) => self.code.b.ins().sshr_imm(word, i64::from(right)),
                (right, false) => self.code.b.ins().ushr_imm(word, i64::from(right)),
            };
            self.code.set_word(field.slot, value);
        }
        self.code.mark_valid(self.regions.program, h);
        self.advance(h.bytes);
    }

    /// Reads `bits` bits, at most [`MAX_LOOKAHEAD`], at a bit after the position of the parser. They must be readable.
    fn lookahead(&mut self, offset: u32, bits: u32) -> Value {
        let address = self.here();
        let word = self.read(address, offset / 8);
        let left = self.code.b.ins().ishl_imm(word, i64::from(offset % 8));
        self.code.b.ins().ushr_imm(left, i64::from(64 - bits))
    }

    /// Compiles the selection of the next state.
    fn select(&mut self, at: usize, state: &ParseState) {
        if state.key.is_empty() {
            self.cover(state.default_counter);
            return self.go(state.default);
        }
        let Some(parts) = inline_key(state) else {
            return self.select_by_interpreter(at);
        };
        if state.lookahead_bytes > 0 {
            self.need(state.lookahead_bytes);
        }
        let mut key = None;
        for part in parts {
            let bits = part.bits();
            let value = match *part {
                KeyPart::Lookahead { offset, .. } => self.lookahead(offset, bits),
                KeyPart::Field { slot, .. } => {
                    let word = self.code.word(slot);
                    self.code.low_bits(word, bits)
                }
                _ => continue,
            };
            key = Some(match key {
                None => value,
                Some(key) => {
                    let high = self
                        .code
                        .b
                        .ins()
                        .ishl_imm(key, i64::from(bits.div_ceil(8) * 8));
                    self.code.b.ins().bor(high, value)
                }
            });
        }
        let key = key.unwrap_or_else(|| self.code.number(0));
        for case in &state.cases {
            let CaseOn::Word { value, mask } = &case.on else {
                continue;
            };
            let (here, next) = (self.code.b.create_block(), self.code.b.create_block());
            let masked = match is_full(*mask, state.key_bytes) {
                true => key,
                false => self.code.b.ins().band_imm(key, *mask as i64),
            };
            let matches = self.code.compare_to(IntCC::Equal, masked, *value);
            self.code.branch(matches, here, next);
            self.code.b.switch_to_block(here);
            self.cover(case.counter);
            self.go(case.next);
            self.code.b.switch_to_block(next);
        }
        self.cover(state.default_counter);
        self.go(state.default);
    }

    /// Counts a transition, for coverage.
    fn cover(&mut self, counter: Option<u32>) {
        if let Some(counter) = counter {
            self.code.cover(counter);
        }
    }

    /// Has the interpreter's code select the next state.
    fn select_by_interpreter(&mut self, at: usize) {
        let cursor = self.code.b.use_var(self.cursor);
        self.code.store(at::CURSOR, cursor);
        let Some(next) = self.code.call(self.code.imports.parser_next, &[at as u64]) else {
            return;
        };
        let mut switch = Switch::new();
        let mut arms: Vec<(Option<u16>, Block)> = Vec::new();
        for next in (0..self.states.len() as u16).map(Some).chain([None]) {
            let block = self.code.b.create_block();
            switch.set_entry(next.map_or(0, |next| u128::from(next) + 1), block);
            arms.push((next, block));
        }
        let failed = self.code.b.create_block();
        switch.emit(&mut self.code.b, next, failed);
        for (next, block) in arms {
            self.code.b.switch_to_block(block);
            self.go(next);
        }
        self.code.b.switch_to_block(failed);
        debug_assert!(PARSER_ERROR > self.states.len() as u64);
        let error = self.code.load(at::RESULT);
        self.code.b.ins().jump(self.failed, &[error.into()]);
    }
}

/// Returns the parts of a state's key, if inline code can compute and compare it.
fn inline_key(state: &ParseState) -> Option<&[KeyPart]> {
    let is_inline = |part: &KeyPart| match *part {
        KeyPart::Field { .. } => true,
        KeyPart::Lookahead { bits, .. } => bits <= MAX_LOOKAHEAD,
        KeyPart::StackLast { .. } | KeyPart::UnionStackLast { .. } => false,
    };
    let is_word = |on: &CaseOn| matches!(on, CaseOn::Word { .. });
    let parts = state.key.iter().all(is_inline);
    let cases = state.cases.iter().all(|case| is_word(&case.on));
    (state.key_bytes <= 8 && parts && cases).then_some(&state.key[..])
}

/// Returns whether a mask covers all bytes of a key.
fn is_full(mask: u64, bytes: usize) -> bool {
    bytes >= 8 && mask == u64::MAX || bytes < 8 && mask == (1 << (8 * bytes)) - 1
}
