//! The parser, and the verification of checksums after it.

use super::headers;
use super::run::{self, Context};
use super::words::{words_of, wrap, write_field};
use crate::exec::big::Big;
use crate::frame::{Frame, Rest};
use crate::jit::Compiled;
use crate::numbers::shortest;
use crate::program::{
    self, Case, CaseOn, Header, KeyPart, LoadedProgram, ParseState, ParserStep, Place,
};
use crate::state::State;
use crate::steps::{padded_hex, Step};
use crate::trace::stops::{self, StopKind};
use crate::value_set::ValueSetState;

/// Maximum number of parser states per packet. Beyond it, the parser ends with the error `ParserTimeout`.
pub(crate) const MAX_STATES: u32 = 4096;

/// Runs the parser and the verification of checksums. Returns the offset of the payload; an error is stored in the
/// metadata.
pub(crate) fn parse(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    frame: &Frame,
    ctx: &mut Context,
) -> usize {
    log(state, || Step::ParserStart);
    let parser = (None, &program.parser);
    let (error, cursor) = parse_with(program, parser, state, phv, frame, ctx);
    if error != program.parser.errors.no_error {
        log(state, || Step::ParserError(program.error_name(error)));
    }
    let intrinsic = &program.intrinsic;
    if let Some(field) = intrinsic.parser_error {
        phv[usize::from(field.slot)] = error & field.mask;
    }
    if !program.verify.is_empty() {
        let right = verify(program, state, phv, Rest::new(frame, cursor), ctx);
        if let (false, Some(field)) = (right, intrinsic.checksum_error) {
            phv[usize::from(field.slot)] = 1;
        }
    }
    log(state, || Step::ParserEnd);
    cursor
}

/// Runs a parser on a frame, as machine code if there is some. Returns the number of the parser error, and the offset of the payload in bytes.
pub(crate) fn parse_with(
    program: &LoadedProgram,
    (compiled, parser): (Option<&Compiled>, &program::Parser),
    state: &mut State,
    phv: &mut [u64],
    frame: &Frame,
    ctx: &mut Context,
) -> (u64, usize) {
    let parsed =
        compiled.and_then(|compiled| compiled.parse(program, parser, state, phv, frame, ctx));
    if let Some(parsed) = parsed {
        return parsed;
    }
    let mut run = Parser::new(program, parser, phv, frame, 0);
    let error = run.run(state, ctx);
    (error, run.cursor)
}

#[inline]
pub(crate) fn log(state: &mut State, step: impl FnOnce() -> Step) {
    if let Some(recorder) = &mut state.recorder {
        recorder.log(step);
    }
}

fn verify(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    rest: Rest,
    ctx: &mut Context,
) -> bool {
    let mut right = true;
    for checksum in &program.verify {
        let header = &program.layout.headers[usize::from(checksum.header)];
        let name = || checksum.name.clone();
        if !headers::is_valid(header, phv) {
            let why = "target field invalid";
            log(state, || Step::NotVerified {
                checksum: name(),
                why,
            });
            continue;
        }
        if checksum
            .condition
            .is_some_and(|c| !run::test(program, state, phv, ctx, c))
        {
            let why = "condition not met";
            log(state, || Step::NotVerified {
                checksum: name(),
                why,
            });
            continue;
        }
        let at = usize::from(checksum.calculation);
        let value = program.calculations[at].output(
            &program.layout,
            phv,
            rest,
            &mut state.buffer,
            &mut state.hashes[at],
            &mut state.random,
        );
        let this = value == phv[usize::from(checksum.slot)];
        log(state, || Step::Verified {
            checksum: name(),
            right: this,
        });
        right &= this;
    }
    right
}

/// A parser at a position of a packet.
pub(crate) struct Parser<'a> {
    program: &'a LoadedProgram,
    parser: &'a program::Parser,
    phv: &'a mut [u64],
    frame: &'a Frame,
    cursor: usize,
}

impl<'a> Parser<'a> {
    /// Creates a parser at byte `cursor` of a frame.
    pub fn new(
        program: &'a LoadedProgram,
        parser: &'a program::Parser,
        phv: &'a mut [u64],
        frame: &'a Frame,
        cursor: usize,
    ) -> Parser<'a> {
        Parser {
            program,
            parser,
            phv,
            frame,
            cursor,
        }
    }

    /// Returns the offset of the next byte in the frame.
    #[cfg(feature = "jit")]
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Runs parser states, beginning at the start state, until the parser ends. Returns the number of the parser error.
    fn run(&mut self, state: &mut State, ctx: &mut Context) -> u64 {
        let parser = self.parser;
        let mut at = parser.start;
        let mut budget = MAX_STATES;
        while let Some(index) = at {
            if budget == 0 {
                return parser.errors.parser_timeout;
            }
            budget -= 1;
            let parse_state = &parser.states[usize::from(index)];
            if let Some(recorder) = &mut state.recorder {
                recorder.parser_state(&parse_state.name);
                self.stop(state, || StopKind::ParserState(parse_state.name.clone()));
            }
            for (number, step) in parse_state.steps.iter().enumerate() {
                if state.recorder.is_some() {
                    self.log_step(step, state);
                    self.stop(state, || StopKind::ParserStatement(number));
                }
                if let Err(error) = self.step(step, state, ctx) {
                    return error;
                }
            }
            if ctx.fault.is_some() {
                return parser.errors.no_error;
            }
            if state.recorder.is_some() {
                self.stop(state, || StopKind::ParserTransition);
            }
            at = match self.next(parse_state, state) {
                Ok(next) => next,
                Err(error) => return error,
            };
            if state.recorder.is_some() {
                self.log_next(parse_state, state);
            }
        }
        parser.errors.no_error
    }

    /// Records a stop, if a debugger records.
    #[cold]
    fn stop(&mut self, state: &mut State, kind: impl FnOnce() -> StopKind) {
        stops::stop(self.program, state, self.phv, || (kind(), None));
    }

    #[cold]
    fn log_step(&self, step: &ParserStep, state: &mut State) {
        let layout = &self.program.layout;
        let next = |at: u16| usize::try_from(self.phv[usize::from(at)]).unwrap_or(usize::MAX);
        let (header, varbit) = match *step {
            ParserStep::Extract { header } => (Some(header), false),
            ParserStep::ExtractVl { header, .. } | ParserStep::ExtractOwnVl { header, .. } => {
                (Some(header), true)
            }
            ParserStep::ExtractStack { stack } | ParserStep::ExtractStackVl { stack, .. } => {
                let stack = &layout.stacks[usize::from(stack)];
                let varbit = matches!(step, ParserStep::ExtractStackVl { .. });
                (stack.headers.get(next(stack.next)).copied(), varbit)
            }
            ParserStep::ExtractUnionStack { stack, member }
            | ParserStep::ExtractUnionStackVl { stack, member, .. } => {
                let stack = &layout.union_stacks[usize::from(stack)];
                let union = stack.unions.get(next(stack.next));
                let headers = union.map(|union| &layout.unions[usize::from(*union)].headers);
                let varbit = matches!(step, ParserStep::ExtractUnionStackVl { .. });
                let header = headers.and_then(|headers| headers.get(usize::from(member)));
                (header.copied(), varbit)
            }
            _ => (None, false),
        };
        if let Some(header) = header {
            let name = layout.headers[usize::from(header)].name.clone();
            log(state, || match varbit {
                true => Step::ExtractVarbit(name),
                false => Step::Extract(name),
            });
        }
    }

    #[cold]
    fn log_next(&self, parse_state: &ParseState, state: &mut State) {
        let name = || parse_state.name.clone();
        let mut key = String::new();
        for part in &parse_state.key {
            let bits = part.bits();
            let value = self.part(part).unwrap_or_default().truncate(bits);
            let words: Vec<u64> = (0..words_of(bits)).map(|i| value.word(i)).collect();
            key += &padded_hex(&shortest(&words), bits);
        }
        log(state, || match parse_state.key.is_empty() {
            true => Step::NoKey(name()),
            false => Step::Key { state: name(), key },
        });
        let bytes = self.cursor;
        log(state, || Step::Parsed { bytes });
    }

    fn left(&self) -> usize {
        self.frame.len() - self.cursor
    }

    fn eval(&mut self, state: &mut State, ctx: &mut Context, code: super::ops::Pc) {
        run::run(self.program, state, 0, self.phv, Rest::NONE, ctx, code);
    }

    /// Executes a statement of a state. Fails with the number of a parser error.
    pub fn step(
        &mut self,
        step: &ParserStep,
        state: &mut State,
        ctx: &mut Context,
    ) -> Result<(), u64> {
        let layout = &self.program.layout;
        let errors = &self.parser.errors;
        match *step {
            ParserStep::Extract { header } => self.extract(header, 0),
            ParserStep::ExtractVl { header, code, bits } => {
                self.eval(state, ctx, code);
                self.extract(header, self.phv[usize::from(bits)])
            }
            ParserStep::ExtractOwnVl { header, code, bits } => {
                let h = &layout.headers[usize::from(header)];
                if self.left() < h.bytes {
                    return Err(errors.packet_too_short);
                }
                extract_fields(h, self.phv, self.frame, self.cursor, 0);
                self.eval(state, ctx, code);
                self.extract(header, self.phv[usize::from(bits)])
            }
            ParserStep::ExtractStack { stack } => self.extract_next(stack, None),
            ParserStep::ExtractStackVl { stack, code, bits } => {
                self.eval(state, ctx, code);
                self.extract_next(stack, Some(self.phv[usize::from(bits)]))
            }
            ParserStep::ExtractUnionStack { stack, member } => self.extract_union(stack, member, 0),
            ParserStep::ExtractUnionStackVl {
                stack,
                member,
                code,
                bits,
            } => {
                self.eval(state, ctx, code);
                self.extract_union(stack, member, self.phv[usize::from(bits)])
            }
            ParserStep::Code { code } => {
                self.eval(state, ctx, code);
                Ok(())
            }
            ParserStep::Cover { counter } => {
                state.coverage.count(counter);
                Ok(())
            }
            ParserStep::Lookahead {
                offset,
                bits,
                slot,
                field_bits,
                signed,
            } => {
                let bytes = (offset as usize + bits as usize).div_ceil(8);
                if self.left() < bytes {
                    return Err(errors.packet_too_short);
                }
                let value = self.frame.big(self.cursor * 8 + offset as usize, bits);
                write_field(self.phv, usize::from(slot), field_bits, signed, &value);
                Ok(())
            }
            ParserStep::Verify { code, cond, error } => {
                self.eval(state, ctx, code);
                if self.phv[usize::from(cond)] == 0 {
                    return Err(self.phv[usize::from(error)]);
                }
                Ok(())
            }
            ParserStep::Shift { bytes } => self.skip(u64::from(bytes) * 8),
            ParserStep::Advance { code, bits } => {
                self.eval(state, ctx, code);
                self.skip(self.phv[usize::from(bits)])
            }
        }
    }

    fn skip(&mut self, bits: u64) -> Result<(), u64> {
        let errors = &self.parser.errors;
        if bits % 8 != 0 {
            return Err(errors.parser_invalid_argument);
        }
        if bits / 8 > self.left() as u64 {
            return Err(errors.packet_too_short);
        }
        self.cursor += (bits / 8) as usize;
        Ok(())
    }

    fn extract_next(&mut self, stack: u16, bits: Option<u64>) -> Result<(), u64> {
        let stack = &self.program.layout.stacks[usize::from(stack)];
        let next = self.phv[usize::from(stack.next)];
        let Some(&header) = usize::try_from(next)
            .ok()
            .and_then(|i| stack.headers.get(i))
        else {
            return Err(self.parser.errors.stack_out_of_bounds);
        };
        self.extract(header, bits.unwrap_or(0))?;
        self.phv[usize::from(stack.next)] = next + 1;
        Ok(())
    }

    fn extract_union(&mut self, stack: u16, member: u16, bits: u64) -> Result<(), u64> {
        let layout = &self.program.layout;
        let stack = &layout.union_stacks[usize::from(stack)];
        let next = self.phv[usize::from(stack.next)];
        let Some(&union) = usize::try_from(next).ok().and_then(|i| stack.unions.get(i)) else {
            return Err(self.parser.errors.stack_out_of_bounds);
        };
        let header = layout.unions[usize::from(union)].headers[usize::from(member)];
        self.extract(header, bits)?;
        self.phv[usize::from(stack.next)] = next + 1;
        Ok(())
    }

    /// Extracts a header whose variable-length field is `varbit_bits` bits long.
    #[inline]
    fn extract(&mut self, header: u16, varbit_bits: u64) -> Result<(), u64> {
        let layout = &self.program.layout;
        let h = &layout.headers[usize::from(header)];
        let bytes = match h.varbit {
            None => h.bytes,
            Some(varbit) => {
                let errors = &self.parser.errors;
                if varbit_bits % 8 != 0 {
                    return Err(errors.parser_invalid_argument);
                }
                let bytes = u64::try_from(h.bytes)
                    .unwrap_or(u64::MAX)
                    .saturating_add(varbit_bits / 8);
                if bytes > self.left() as u64 {
                    return Err(errors.packet_too_short);
                }
                if varbit_bits > u64::from(varbit.max_bits) {
                    return Err(errors.header_too_short);
                }
                bytes as usize
            }
        };
        if self.left() < bytes {
            return Err(self.parser.errors.packet_too_short);
        }
        extract_fields(h, self.phv, self.frame, self.cursor, varbit_bits as u32);
        headers::mark_valid(layout, self.phv, header);
        self.cursor += bytes;
        Ok(())
    }

    /// Returns the state after `parse_state`; `None` at the end of the parser. Fails with the number of a parser error.
    #[inline]
    pub fn next(&self, parse_state: &ParseState, state: &mut State) -> Result<Option<u16>, u64> {
        let case = self.case(parse_state, state)?;
        let (counter, next) = match case {
            Some(case) => (case.counter, case.next),
            None => (parse_state.default_counter, parse_state.default),
        };
        if let Some(counter) = counter {
            state.coverage.count(counter);
        }
        Ok(next)
    }

    /// Returns the case of the `select` that matches; `None` for the default, and for a state without a `select`. Fails with
    /// the number of a parser error.
    #[inline]
    fn case<'s>(
        &self,
        parse_state: &'s ParseState,
        state: &State,
    ) -> Result<Option<&'s Case>, u64> {
        if parse_state.key.is_empty() {
            return Ok(None);
        }
        if self.left() < parse_state.lookahead_bytes {
            return Err(self.parser.errors.packet_too_short);
        }
        if parse_state.key_bytes <= 8 {
            let mut key = 0;
            for part in &parse_state.key {
                let bits = part.bits();
                let value = match *part {
                    KeyPart::Field { slot, .. } => self.phv[usize::from(slot)],
                    _ => self.part(part)?.low(),
                };
                // A part of 57 to 64 bits fills the key of 8 bytes, so it is the only part.
                key = if bits > 56 {
                    wrap(value, bits, false)
                } else {
                    key << (bits.div_ceil(8) * 8) | wrap(value, bits, false)
                };
            }
            for case in &parse_state.cases {
                let matches = match &case.on {
                    CaseOn::Word { value, mask } => key & mask == *value,
                    CaseOn::Set { set, mask } => {
                        let bytes = &key.to_be_bytes()[8 - parse_state.key_bytes..];
                        contains(
                            &state.vsets[usize::from(*set)],
                            parse_state,
                            mask.as_deref(),
                            bytes,
                        )
                    }
                    CaseOn::Bytes { .. } => false,
                };
                if matches {
                    return Ok(Some(case));
                }
            }
            return Ok(None);
        }
        let mut key = Vec::with_capacity(parse_state.key_bytes);
        for part in &parse_state.key {
            let (bits, value) = (part.bits(), self.part(part)?.truncate(part.bits()));
            for i in (0..bits.div_ceil(8) as usize).rev() {
                key.push((value.word(i / 8) >> (8 * (i % 8))) as u8);
            }
        }
        for case in &parse_state.cases {
            let matches = match &case.on {
                CaseOn::Word { .. } => false,
                CaseOn::Bytes { value, mask } => key
                    .iter()
                    .zip(mask)
                    .zip(value)
                    .all(|((k, m), v)| k & m == *v),
                CaseOn::Set { set, mask } => contains(
                    &state.vsets[usize::from(*set)],
                    parse_state,
                    mask.as_deref(),
                    &key,
                ),
            };
            if matches {
                return Ok(Some(case));
            }
        }
        Ok(None)
    }

    /// Returns a part of the key of a `select` as a number.
    fn part(&self, part: &KeyPart) -> Result<Big, u64> {
        let layout = &self.program.layout;
        let last = |next: u16, start: usize, stride: usize, offset: u16| {
            let index = self.phv[usize::from(next)].checked_sub(1);
            let index = index.ok_or(self.parser.errors.stack_out_of_bounds)?;
            Ok::<usize, u64>(start + index as usize * stride + usize::from(offset))
        };
        let (slot, bits) = match *part {
            KeyPart::Field { slot, bits } => (usize::from(slot), bits),
            KeyPart::StackLast {
                stack,
                offset,
                bits,
            } => {
                let s = &layout.stacks[usize::from(stack)];
                (last(s.next, s.start, s.stride, offset)?, bits)
            }
            KeyPart::UnionStackLast {
                stack,
                offset,
                bits,
            } => {
                let s = &layout.union_stacks[usize::from(stack)];
                (last(s.next, s.start, s.stride, offset)?, bits)
            }
            KeyPart::Lookahead { offset, bits } => {
                return Ok(self.frame.big(self.cursor * 8 + offset as usize, bits));
            }
        };
        Ok(Big::from_unsigned(&self.phv[slot..slot + words_of(bits)]))
    }
}

#[inline]
fn extract_fields(h: &Header, phv: &mut [u64], frame: &Frame, cursor: usize, varbit_bits: u32) {
    if let Some(cut) = &h.cut {
        cut.read(frame.padded(cursor, h.bytes), phv);
        return;
    }
    extract_field_by_field(h, phv, frame, cursor, varbit_bits);
}

fn extract_field_by_field(
    h: &Header,
    phv: &mut [u64],
    frame: &Frame,
    cursor: usize,
    varbit_bits: u32,
) {
    for plan in &h.plan {
        let mut offset = cursor * 8 + plan.offset as usize;
        let mut bits = plan.bits;
        match plan.place {
            Place::Fixed => {}
            Place::AfterVarbit => offset += varbit_bits as usize,
            Place::Varbit => {
                let varbit = h.varbit.as_ref().expect("a varbit has its description");
                phv[usize::from(varbit.length)] = u64::from(varbit_bits);
                phv[varbit.words()].fill(0);
                bits = varbit_bits;
            }
        }
        let slot = usize::from(plan.slot);
        if bits <= 64 {
            if bits > 0 {
                let value = frame.bits(offset, bits);
                phv[slot] = if plan.signed {
                    wrap(value, bits, true)
                } else {
                    value
                };
            }
            continue;
        }
        // From the least significant word up.
        let mut left = bits;
        let mut word = slot;
        while left > 0 {
            let n = left.min(64);
            left -= n;
            phv[word] = frame.bits(offset + left as usize, n);
            word += 1;
        }
    }
}

fn contains(set: &ValueSetState, state: &ParseState, mask: Option<&[u8]>, key: &[u8]) -> bool {
    let bits = state.key.iter().map(KeyPart::bits);
    let shadow = set
        .shadows
        .iter()
        .find(|s| s.mask.as_deref() == mask && s.bits.iter().copied().eq(bits.clone()));
    let Some(shadow) = shadow else { return false };
    match mask {
        None => shadow.contains(key),
        Some(mask) => {
            let masked: Vec<u8> = key.iter().zip(mask).map(|(k, m)| k & m).collect();
            shadow.contains(&masked)
        }
    }
}
