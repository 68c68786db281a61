//! Emission of Cranelift instructions for operations on the packet's words and on the machine.

use super::machine::{at, EARLY_REQUEST};
use crate::exec::ops::Slot;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    types::I64, AliasRegion, Block, FuncRef, InstBuilder, MemFlags, Type, Value,
};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;

/// Words whose values are known to be in SSA values at a point of the code: those that were read or written last, about
/// as many as there are registers. More would have to be spilled, while all words are in memory anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownWords {
    words: [Option<(Slot, Value)>; KnownWords::MAX],
    /// Element that the next word replaces.
    next: usize,
}

impl KnownWords {
    const MAX: usize = 12;

    fn get(&self, slot: Slot) -> Option<Value> {
        let mut words = self.words.iter().flatten();
        words
            .find(|(known, _)| *known == slot)
            .map(|(_, value)| *value)
    }

    fn insert(&mut self, slot: Slot, value: Value) {
        self.remove(slot);
        self.words[self.next] = Some((slot, value));
        self.next = (self.next + 1) % KnownWords::MAX;
    }

    pub fn remove(&mut self, slot: Slot) {
        self.retain(|known| known != slot);
    }

    /// Removes all words for which `keeps` is false.
    pub fn retain(&mut self, keeps: impl Fn(Slot) -> bool) {
        for word in &mut self.words {
            if word.is_some_and(|(slot, _)| !keeps(slot)) {
                *word = None;
            }
        }
    }

    pub fn clear(&mut self) {
        *self = KnownWords::default();
    }
}

/// Functions of the switch that compiled code calls; see [`super::machine`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Imports<T> {
    pub step: T,
    pub apply: T,
    pub apply_word: T,
    pub resume: T,
    pub register_write: T,
    pub register_word: T,
    pub endless: T,
    pub has_fault: T,
    pub whole: T,
    pub parser_step: T,
    pub parser_next: T,
    pub calculate: T,
    pub hash_joined: T,
    pub emit: T,
}

/// Builder of one compiled function.
///
/// Every write of a word is stored at once, so memory always holds the packet. Reads use the SSA value of the last
/// write or read in the same block, or in the blocks before it if they are the only way to it.
pub(super) struct Code<'a> {
    pub b: FunctionBuilder<'a>,
    pub imports: Imports<FuncRef>,
    /// Pointer to the machine.
    pub machine: Value,
    /// Pointer to the packet's words.
    pub words: Value,
    /// Values of the words that hold the program's constants.
    constants: &'a FxHashMap<Slot, u64>,
    pub known: KnownWords,
    /// Block that returns from the function.
    pub end: Block,
    /// Whether jumps that may be part of a loop are counted.
    pub counts_steps: bool,
}

/// Flags of accesses to words.
fn word_flags() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Heap))
}

/// Flags of accesses to the machine and the objects that it refers to.
pub(super) fn machine_flags() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

/// Flags of accesses to bytes of frames and headers, at any alignment.
pub(super) fn byte_flags() -> MemFlags {
    MemFlags::new()
        .with_notrap()
        .with_alias_region(Some(AliasRegion::Table))
}

impl<'a> Code<'a> {
    /// Begins a function whose only parameter is the machine.
    pub fn new(
        mut b: FunctionBuilder<'a>,
        imports: Imports<FuncRef>,
        constants: &'a FxHashMap<Slot, u64>,
    ) -> Code<'a> {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let machine = b.block_params(entry)[0];
        let words = b
            .ins()
            .load(I64, machine_flags(), machine, at::WORDS as i32);
        let end = b.create_block();
        Code {
            b,
            imports,
            machine,
            words,
            constants,
            known: KnownWords::default(),
            end,
            counts_steps: false,
        }
    }

    /// Ends the function.
    pub fn finish(mut self) {
        self.b.switch_to_block(self.end);
        self.b.ins().return_(&[]);
        self.b.seal_all_blocks();
        self.b.finalize();
    }

    /// Returns a constant of 64 bits.
    pub fn number(&mut self, value: u64) -> Value {
        self.b.ins().iconst(I64, value as i64)
    }

    /// Returns the value of a word that is known when the program is compiled.
    pub fn constant(&self, slot: Slot) -> Option<u64> {
        self.constants.get(&slot).copied()
    }

    /// Reads a word.
    pub fn word(&mut self, slot: Slot) -> Value {
        if let Some(value) = self.constant(slot) {
            return self.number(value);
        }
        if let Some(value) = self.known.get(slot) {
            return value;
        }
        let offset = i32::from(slot) * 8;
        let value = self.b.ins().load(I64, word_flags(), self.words, offset);
        self.known.insert(slot, value);
        value
    }

    /// Writes a word.
    pub fn set_word(&mut self, slot: Slot, value: Value) {
        let offset = i32::from(slot) * 8;
        self.b.ins().store(word_flags(), value, self.words, offset);
        self.known.insert(slot, value);
    }

    /// Reads a field of the machine.
    pub fn load(&mut self, offset: usize) -> Value {
        let machine = self.machine;
        self.load_from(machine, offset, I64)
    }

    /// Reads a field of an object, at an offset in bytes.
    pub fn load_from(&mut self, object: Value, offset: usize, kind: Type) -> Value {
        self.b
            .ins()
            .load(kind, machine_flags(), object, offset as i32)
    }

    /// Writes a field of the machine.
    pub fn store(&mut self, offset: usize, value: Value) {
        let machine = self.machine;
        self.store_to(machine, offset, value);
    }

    /// Writes a field of an object, at an offset in bytes.
    pub fn store_to(&mut self, object: Value, offset: usize, value: Value) {
        self.b
            .ins()
            .store(machine_flags(), value, object, offset as i32);
    }

    /// Records that the pipeline may have made a request: [`EARLY_REQUEST`] or
    /// [`LATE_REQUEST`](super::machine::LATE_REQUEST).
    pub fn mark_request(&mut self, request: u64) {
        let requests = self.load(at::REQUESTS);
        let requests = self.b.ins().bor_imm(requests, request as i64);
        self.store(at::REQUESTS, requests);
    }

    /// Calls a function of the switch, which receives the machine and these arguments. Known words stay known.
    pub fn call(&mut self, function: FuncRef, args: &[u64]) -> Option<Value> {
        let args: Vec<Value> = args.iter().map(|arg| self.number(*arg)).collect();
        self.call_with(function, &args)
    }

    /// Calls a function of the switch, as [`Code::call`] does, with values.
    pub fn call_with(&mut self, function: FuncRef, args: &[Value]) -> Option<Value> {
        let mut all = vec![self.machine];
        all.extend_from_slice(args);
        let call = self.b.ins().call(function, &all);
        self.b.inst_results(call).first().copied()
    }

    /// Continues in a block that several edges lead to.
    pub fn begin_join(&mut self, block: Block) {
        self.known.clear();
        self.b.switch_to_block(block);
    }

    /// Continues in a block that one edge leads to, from a point where these words were known.
    pub fn begin_with(&mut self, block: Block, known: KnownWords) {
        self.known = known;
        self.b.switch_to_block(block);
    }

    pub fn jump(&mut self, to: Block) {
        self.b.ins().jump(to, &[]);
    }

    pub fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.b.ins().brif(condition, then, &[], otherwise, &[]);
    }

    /// Branches to `then` if a word-sized comparison holds, and continues otherwise.
    pub fn leave_if(&mut self, condition: Value, then: Block) {
        let next = self.b.create_block();
        self.branch(condition, then, next);
        self.b.switch_to_block(next);
    }

    /// Compares two words; the result is a Boolean of eight bits.
    pub fn compare(&mut self, test: IntCC, a: Value, b: Value) -> Value {
        self.b.ins().icmp(test, a, b)
    }

    /// Compares a word with a constant; the result is a Boolean of eight bits.
    pub fn compare_to(&mut self, test: IntCC, a: Value, b: u64) -> Value {
        self.b.ins().icmp_imm(test, a, b as i64)
    }

    /// Extends a Boolean to a word.
    pub fn extend(&mut self, boolean: Value) -> Value {
        self.b.ins().uextend(I64, boolean)
    }

    /// Returns bits `low` to `low + bits - 1` of a word.
    pub fn field(&mut self, a: Value, low: u8, bits: u8) -> Value {
        let shifted = match low & 63 {
            0 => a,
            low => self.b.ins().ushr_imm(a, i64::from(low)),
        };
        // The shift has removed all higher bits.
        if u32::from(low & 63) + u32::from(bits) >= 64 {
            return shifted;
        }
        self.low_bits(shifted, bits.into())
    }

    /// Returns the low `bits` bits of a word.
    pub fn low_bits(&mut self, a: Value, bits: u32) -> Value {
        match bits {
            0 => self.number(0),
            1..64 => self.b.ins().band_imm(a, ((1u64 << bits) - 1) as i64),
            _ => a,
        }
    }

    /// Returns the low `bits` bits (1 to 64) of a word, sign-extended if the field is signed.
    pub fn wrapped(&mut self, a: Value, bits: u32, signed: bool) -> Value {
        if !signed || bits >= 64 {
            return self.low_bits(a, bits);
        }
        let unused = i64::from(64 - bits);
        let left = self.b.ins().ishl_imm(a, unused);
        self.b.ins().sshr_imm(left, unused)
    }

    /// Counts a step that may be part of a loop, if the function counts steps. Beyond the limit, the packet is dropped, and
    /// control continues at `halt`.
    pub fn count_step(&mut self, limit: u32, halt: Block) {
        if !self.counts_steps {
            return;
        }
        let steps = self.load(at::STEPS);
        let steps = self.b.ins().iadd_imm(steps, 1);
        self.store(at::STEPS, steps);
        let is_endless = self.compare_to(IntCC::UnsignedGreaterThan, steps, limit.into());
        let (endless, next) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(endless);
        self.branch(is_endless, endless, next);
        self.b.switch_to_block(endless);
        self.call(self.imports.endless, &[]);
        self.mark_request(EARLY_REQUEST);
        self.jump(halt);
        self.b.switch_to_block(next);
    }
}
