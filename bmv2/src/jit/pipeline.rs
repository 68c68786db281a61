//! Compilation of code: pipelines, and the code of parsers, checksums and deparsers.

use super::builder::{Code, KnownWords};
use super::flow::{op_at, Region};
use super::machine::{at, EARLY_REQUEST, NO_ADDRESS, RUNS_ACTION};
use crate::exec::ops::{Op, Pc, Slot};
use crate::exec::run::{Context, MAX_STEPS};
use crate::program::{LoadedProgram, Table};
use crate::tables::Packing;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I8};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Switch;
use rustc_hash::FxHashMap;
use std::mem::offset_of;

/// Maximum number of instructions of a function, with those of inlined actions. Longer code is interpreted.
const MAX_LEN: usize = 50_000;

/// Regions of a program by their first instruction.
#[derive(Debug)]
pub(super) struct Regions<'a> {
    pub program: &'a LoadedProgram,
    regions: FxHashMap<Pc, Region>,
    /// Whether any action of the program executes `Exit`.
    has_exit: bool,
}

/// The destinations of a region.
#[derive(Clone, Copy)]
enum Return<'a> {
    /// A block: the region is not an action.
    To(Block),
    /// The instruction of the calling region after an action of a table, which a value selects among these.
    Table(&'a [Pc], Value),
    /// An instruction of the calling region.
    Call(Pc),
}

/// A region during its compilation.
struct Body<'a> {
    region: &'a Region,
    blocks: FxHashMap<Pc, Block>,
    /// Blocks that are not compiled yet, with the words that are known at their beginning; `None` if several edges
    /// lead to the block.
    pending: Vec<(Pc, Block, Option<KnownWords>)>,
    /// Block after the packet was dropped, or at the end of the pipeline.
    halt: Block,
}

impl Body<'_> {
    /// Returns the block of an instruction that is the target of a jump from the current point of the code.
    fn block(&mut self, code: &mut Code, pc: Pc) -> Block {
        if let Some(&block) = self.blocks.get(&pc) {
            return block;
        }
        let block = code.b.create_block();
        self.blocks.insert(pc, block);
        let known = (!self.region.is_join(pc)).then_some(code.known);
        self.pending.push((pc, block, known));
        block
    }
}

impl<'a> Regions<'a> {
    /// Analyses the code that begins at each of `starts`, and the actions that it calls.
    pub fn new(program: &'a LoadedProgram, starts: impl IntoIterator<Item = Pc>) -> Regions<'a> {
        let mut all = Regions {
            program,
            regions: FxHashMap::default(),
            has_exit: program.ops.contains(&Op::Exit),
        };
        let mut pending: Vec<Pc> = starts.into_iter().collect();
        while let Some(start) = pending.pop() {
            if all.regions.contains_key(&start) {
                continue;
            }
            let region = Region::new(program, start);
            let of_tables = region
                .tables
                .iter()
                .flat_map(|table| actions(program, *table));
            let called = region.calls.iter().copied().chain(of_tables);
            pending.extend(called.map(|action| program.actions[usize::from(action)].code));
            all.regions.insert(start, region);
        }
        all
    }

    /// Returns the number of instructions of a region with its inlined actions, and whether it has a loop.
    fn size(&self, start: Pc) -> (usize, bool) {
        let region = &self.regions[&start];
        let of_tables = region
            .tables
            .iter()
            .flat_map(|table| actions(self.program, *table));
        let called = region.calls.iter().copied().chain(of_tables);
        called.fold((region.len, region.is_cyclic), |(len, cyclic), action| {
            let action = &self.regions[&self.program.actions[usize::from(action)].code];
            // An action that calls another one, or applies a table, is not inlined.
            let is_plain = action.tables.is_empty() && action.calls.is_empty();
            let len = len.saturating_add(if is_plain { action.len } else { MAX_LEN });
            (len, cyclic || action.is_cyclic)
        })
    }

    /// Returns whether code is compiled. Code that is too long, and code that compilers do not generate, is interpreted.
    pub fn is_compiled(&self, start: Pc) -> bool {
        self.size(start).0 < MAX_LEN
    }

    /// Returns whether an execution of the code could exceed the limit of steps.
    pub fn may_be_endless(&self, start: Pc) -> bool {
        let (len, is_cyclic) = self.size(start);
        is_cyclic || len >= MAX_STEPS as usize
    }

    /// Returns whether the code, which calls no action, may drop the packet.
    pub fn may_drop(&self, start: Pc) -> bool {
        let is_short = self.is_compiled(start) && !self.may_be_endless(start);
        self.regions[&start].may_drop || !is_short
    }

    /// Compiles the code from `start`. After its end, and after the packet was dropped, control continues at `end`.
    pub fn compile(&self, code: &mut Code, start: Pc, end: Block) {
        if self.is_compiled(start) {
            if code.counts_steps {
                let zero = code.number(0);
                code.store(at::STEPS, zero);
            }
            return self.region(code, start, Return::To(end), end, &mut None);
        }
        self.resume(code, start, None);
        code.known.clear();
        code.jump(end);
    }

    /// Compiles a region at the current point of the code. `caller` is the region that calls the action.
    fn region(
        &self,
        code: &mut Code,
        start: Pc,
        to: Return,
        halt: Block,
        caller: &mut Option<&mut Body>,
    ) {
        let mut body = Body {
            region: &self.regions[&start],
            blocks: FxHashMap::default(),
            pending: Vec::new(),
            halt,
        };
        if body.region.is_join(start) || body.region.is_cyclic {
            let block = code.b.create_block();
            body.blocks.insert(start, block);
            code.jump(block);
            code.begin_join(block);
        }
        self.block(code, start, to, &mut body, caller);
        while let Some((pc, block, known)) = body.pending.pop() {
            match known {
                Some(known) => code.begin_with(block, known),
                None => code.begin_join(block),
            }
            self.block(code, pc, to, &mut body, caller);
        }
    }

    /// Compiles instructions from `pc` on, up to one after which control does not continue at the next.
    fn block(
        &self,
        code: &mut Code,
        mut pc: Pc,
        to: Return,
        body: &mut Body,
        caller: &mut Option<&mut Body>,
    ) {
        loop {
            let op = op_at(self.program, pc);
            match op {
                Op::Jump { to } => {
                    self.count_backward(code, pc, to, body.halt);
                    let block = body.block(code, to);
                    return code.jump(block);
                }
                Op::JumpIfZero { a, to } => {
                    let a = code.word(a);
                    self.conditional(code, a, true, pc, to, body);
                }
                Op::JumpIfNot { a, b, to, test } => {
                    let holds = code.test(a, b, test);
                    self.conditional(code, holds, true, pc, to, body);
                }
                Op::JumpUnlessBits {
                    a,
                    low,
                    bits,
                    b,
                    equal,
                    to,
                } => {
                    let (a, b) = (code.word(a), code.word(b));
                    let field = code.field(a, low, bits);
                    let holds = code.compare(IntCC::Equal, field, b);
                    self.conditional(code, holds, equal, pc, to, body);
                }
                Op::JumpUnlessSubBit {
                    a,
                    low_a,
                    b,
                    low_b,
                    bit,
                    set,
                    to,
                } => {
                    let (a, b) = (code.word(a), code.word(b));
                    let value = code.sub_bit(a, low_a, b, low_b, bit);
                    self.conditional(code, value, set, pc, to, body);
                }
                Op::Apply { table } => return self.apply(code, table, pc, body),
                Op::Call { action } => {
                    code.count_step(MAX_STEPS, body.halt);
                    let start = self.program.actions[usize::from(action)].code;
                    let (halt, after) = (body.halt, Return::Call(pc + 1));
                    return self.region(code, start, after, halt, &mut Some(body));
                }
                Op::EndIfExit => {
                    let exit = self.exit(code);
                    code.leave_if(exit, body.halt);
                }
                Op::Return => return self.returns(code, pc, to, body.halt, caller),
                Op::End => return code.jump(body.halt),
                op => code.instruction(self.program, pc, op, body.halt),
            }
            pc += 1;
            if body.region.is_join(pc) {
                let block = body.block(code, pc);
                return code.jump(block);
            }
        }
    }

    /// Compiles a jump to `to` that is taken unless `condition` has the outcome `falls_through_on`.
    fn conditional(
        &self,
        code: &mut Code,
        condition: Value,
        falls_through_on: bool,
        pc: Pc,
        to: Pc,
        body: &mut Body,
    ) {
        let next = code.b.create_block();
        let taken = match code.counts_steps && to <= pc {
            true => code.b.create_block(),
            false => body.block(code, to),
        };
        match falls_through_on {
            true => code.branch(condition, next, taken),
            false => code.branch(condition, taken, next),
        }
        if code.counts_steps && to <= pc {
            code.b.switch_to_block(taken);
            code.count_step(MAX_STEPS, body.halt);
            let target = body.block(code, to);
            code.jump(target);
        }
        code.b.switch_to_block(next);
    }

    /// Counts a jump, if it leads backward.
    fn count_backward(&self, code: &mut Code, from: Pc, to: Pc, halt: Block) {
        if to <= from {
            code.count_step(MAX_STEPS, halt);
        }
    }

    /// Compiles the application of a table, with the actions that it may run.
    fn apply(&self, code: &mut Code, table: u16, pc: Pc, body: &mut Body) {
        code.count_step(MAX_STEPS, body.halt);
        let program = self.program;
        let info = &program.tables[usize::from(table)];
        let number = code.number(table.into());
        let packing = Packing::new(info);
        let applied = match info.is_plain() && packing.one_word {
            true => {
                let key = key(code, &packing);
                let params = code.number(program.layout.params.into());
                code.call_with(code.imports.apply_word, &[number, key, params])
            }
            false => code.call_with(code.imports.apply, &[number]),
        };
        let Some(applied) = applied else { return };
        let after = code.b.ins().ireduce(I32, applied);
        let (runs, none) = (code.b.create_block(), code.b.create_block());
        let has_action = code.compare_to(IntCC::SignedLessThan, applied, 0);
        code.branch(has_action, runs, none);
        // The lookup has written action parameters and perhaps fields of direct meters and registers.
        code.begin_join(none);
        self.continue_after(code, &nexts_without_action(info), after, pc, body);
        code.begin_join(runs);
        let shifted = code.b.ins().ushr_imm(applied, 32);
        let action_pc = code.low_bits(shifted, RUNS_ACTION - 32);
        let mut switch = Switch::new();
        let mut arms = Vec::new();
        for action in actions(program, table) {
            let start = program.actions[usize::from(action)].code;
            let arm = code.b.create_block();
            switch.set_entry(start.into(), arm);
            arms.push((start, nexts(program, info, start), arm));
        }
        let other = code.b.create_block();
        code.b.set_cold_block(other);
        switch.emit(&mut code.b, action_pc, other);
        // Never reached: the control plane cannot set other actions.
        code.begin_join(other);
        self.resume_value(code, action_pc, after);
        code.jump(body.halt);
        let halt = body.halt;
        for (start, nexts, arm) in arms {
            code.begin_join(arm);
            let to = Return::Table(&nexts, after);
            self.region(code, start, to, halt, &mut Some(body));
        }
    }

    /// Continues at one of `nexts`, `after`. `from` is the last instruction before it.
    fn continue_after(
        &self,
        code: &mut Code,
        nexts: &[Pc],
        after: Value,
        from: Pc,
        body: &mut Body,
    ) {
        let (&last, others) = nexts
            .split_last()
            .expect("a table has an instruction after a miss");
        for &to in others {
            let (here, next) = (code.b.create_block(), code.b.create_block());
            let is_here = code.b.ins().icmp_imm(IntCC::Equal, after, i64::from(to));
            code.branch(is_here, here, next);
            code.b.switch_to_block(here);
            self.count_backward(code, from, to, body.halt);
            let block = body.block(code, to);
            code.jump(block);
            code.b.switch_to_block(next);
        }
        self.count_backward(code, from, last, body.halt);
        let block = body.block(code, last);
        code.jump(block);
    }

    /// Compiles the return from a region.
    fn returns(
        &self,
        code: &mut Code,
        pc: Pc,
        to: Return,
        halt: Block,
        caller: &mut Option<&mut Body>,
    ) {
        let (to, caller) = match (to, caller) {
            (Return::To(block), _) => return code.jump(block),
            (to, Some(caller)) => (to, caller),
            (_, None) => return code.jump(halt),
        };
        if self.has_exit {
            let exit = self.exit(code);
            code.leave_if(exit, halt);
        }
        match to {
            Return::Table(nexts, after) => self.continue_after(code, nexts, after, pc, caller),
            Return::Call(after) => {
                self.count_backward(code, pc, after, halt);
                let block = caller.block(code, after);
                code.jump(block);
            }
            Return::To(block) => code.jump(block),
        }
    }

    /// Returns whether the packet has executed `Exit`.
    fn exit(&self, code: &mut Code) -> Value {
        let ctx = code.load(at::CTX);
        code.load_from(ctx, offset_of!(Context, exit), I8)
    }

    /// Has the interpreter execute the code from `start` to its end.
    fn resume(&self, code: &mut Code, start: Pc, after: Option<Pc>) {
        code.mark_request(EARLY_REQUEST);
        let after = after.map_or(NO_ADDRESS, u64::from);
        code.call(code.imports.resume, &[start.into(), after]);
    }

    /// Has the interpreter execute an action at `start` and the code `after` it, to the end of the pipeline.
    fn resume_value(&self, code: &mut Code, start: Value, after: Value) {
        code.mark_request(EARLY_REQUEST);
        let after = code.extend(after);
        code.call_with(code.imports.resume, &[start, after]);
    }
}

/// Packs the key of a table as [`Packing::word`] does.
fn key(code: &mut Code, packing: &Packing) -> Value {
    let mut key = None;
    for part in &packing.parts {
        let word = code.word(part.slot as Slot);
        let bits = code.b.ins().band_imm(word, part.low_mask as i64);
        let bits = match part.offset & 63 {
            0 => bits,
            offset => code.b.ins().ishl_imm(bits, i64::from(offset)),
        };
        key = Some(match key {
            None => bits,
            Some(key) => code.b.ins().bor(key, bits),
        });
    }
    key.unwrap_or_else(|| code.number(0))
}

/// Returns the instructions that may follow a table if it runs no action, each once.
fn nexts_without_action(table: &Table) -> Vec<Pc> {
    let mut nexts = vec![table.on_miss.unwrap_or(table.after_miss)];
    if table.profile.is_some() {
        nexts.extend([table.after_miss, table.on_hit.unwrap_or(table.after_miss)]);
    }
    nexts.sort_unstable();
    nexts.dedup();
    nexts
}

/// Returns the instructions that may follow a table after an action with the code at `start`, each once.
fn nexts(program: &LoadedProgram, table: &Table, start: Pc) -> Vec<Pc> {
    let mut nexts = Vec::new();
    for action in all_actions(program, table) {
        if program.actions[usize::from(action)].code == start {
            let both = [table.next_on_hit(action), table.next_on_miss(action)];
            nexts.extend(both.map(|next| next.unwrap_or(table.after_miss)));
        }
    }
    nexts.sort_unstable();
    nexts.dedup();
    nexts
}

/// Returns the actions that a table may run: its own, and those of tables with the same action profile.
fn all_actions(program: &LoadedProgram, this: &Table) -> Vec<u16> {
    let shared = |other: &&Table| other.profile.is_some() && other.profile == this.profile;
    let others = program.tables.iter().filter(shared);
    let mut all = Vec::new();
    for table in std::iter::once(this).chain(others) {
        all.extend(table.actions.iter().map(|(action, _)| *action));
        all.extend(table.default.iter().map(|default| default.action));
    }
    all
}

/// Returns the actions that a table may run, one for each code.
fn actions(program: &LoadedProgram, table: u16) -> Vec<u16> {
    let mut all = all_actions(program, &program.tables[usize::from(table)]);
    // Several actions may have the same code.
    all.sort_unstable_by_key(|action| program.actions[usize::from(*action)].code);
    all.dedup_by_key(|action| program.actions[usize::from(*action)].code);
    all
}
