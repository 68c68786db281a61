//! Compilation of accesses to registers and counters. They are inline, except for the first write to a page of a register.

use super::builder::{machine_flags, Code};
use super::machine::at;
use crate::exec::ops::Slot;
use crate::exec::run::Context;
use crate::externs::cells::Cells;
use crate::externs::counter::Counter;
use crate::externs::register::{Register, PAGE_BITS};
use crate::program::LoadedProgram;
use crate::state::State;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AliasRegion, Block, InstBuilder, MemFlags, Value};
use std::mem::offset_of;

impl Code<'_> {
    /// Reads a register cell to the word `d`, which keeps its value if the index is beyond the array.
    pub fn register_read(&mut self, program: &LoadedProgram, d: Slot, array: u16, i: Slot) {
        let (index, before) = (self.word(i), self.word(d));
        self.count_access();
        let (zero, done) = (self.b.create_block(), self.b.create_block());
        let read = self.b.append_block_param(done, I64);
        let known = self.known;
        let outside = self.b.create_block();
        let page = self.page(program, array, index, outside);
        let inside = self.b.create_block();
        self.branch(page, inside, zero);
        self.b.switch_to_block(outside);
        self.b.ins().jump(done, &[before.into()]);
        self.b.switch_to_block(zero);
        let value = self.number(0);
        self.b.ins().jump(done, &[value.into()]);
        self.b.switch_to_block(inside);
        let cell = self.cell(page, index);
        let value = self.b.ins().load(I64, machine_flags(), cell, 0);
        self.b.ins().jump(done, &[value.into()]);
        self.begin_with(done, known);
        self.set_word(d, read);
    }

    /// Writes a word to a register cell, wrapped to the cell's width. An index beyond the array has no effect.
    pub fn register_write(&mut self, program: &LoadedProgram, array: u16, i: Slot, a: Slot) {
        let (index, value) = (self.word(i), self.word(a));
        self.count_access();
        let (done, missing) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(missing);
        let page = self.page(program, array, index, done);
        let inside = self.b.create_block();
        self.branch(page, inside, missing);
        self.b.switch_to_block(missing);
        let number = self.number(array.into());
        self.call_with(self.imports.register_write, &[number, index, value]);
        self.jump(done);
        self.b.switch_to_block(inside);
        let cell = self.cell(page, index);
        let value = self.low_bits(value, program.registers[usize::from(array)].bits);
        self.b.ins().store(machine_flags(), value, cell, 0);
        self.jump(done);
        self.b.switch_to_block(done);
    }

    /// Counts an execution, for coverage.
    pub fn cover(&mut self, counter: u32) {
        // The pointer is the same for all counters of a function, so that it stays in a register.
        let flags = machine_flags().with_readonly().with_can_move();
        let at = at::COVERAGE as i32;
        let counters = self.b.ins().load(I64, flags, self.machine, at);
        let offset = (counter as usize * size_of::<u64>()) as i32;
        // Words of the machine that were read stay known.
        let flags = MemFlags::trusted().with_alias_region(Some(AliasRegion::Table));
        let count = self.b.ins().load(I64, flags, counters, offset);
        let count = self.b.ins().iadd_imm(count, 1);
        self.b.ins().store(flags, count, counters, offset);
    }

    /// Counts the packet in a cell of a counter. An index beyond the array has no effect.
    pub fn count(&mut self, program: &LoadedProgram, array: u16, i: Slot) {
        let info = &program.counters[usize::from(array)];
        // The cells of a direct counter are in the entries of its table.
        if info.table.is_some() {
            return;
        }
        let index = self.word(i);
        let done = self.b.create_block();
        let is_outside =
            self.compare_to(IntCC::UnsignedGreaterThanOrEqual, index, info.size as u64);
        self.leave_if(is_outside, done);
        let counters = self.load(at::COUNTERS);
        let offset = usize::from(array) * size_of::<Cells<Counter>>() + Cells::<Counter>::START;
        let cells = self.load_from(counters, offset, I64);
        let offset = self.b.ins().imul_imm(index, size_of::<Counter>() as i64);
        let cell = self.b.ins().iadd(cells, offset);
        let ctx = self.load(at::CTX);
        let length = self.load_from(ctx, offset_of!(Context, ingress_length), I64);
        let one = self.number(1);
        for (field, more) in [
            (offset_of!(Counter, packets), one),
            (offset_of!(Counter, bytes), length),
        ] {
            let count = self.load_from(cell, field, I64);
            let count = self.b.ins().iadd(count, more);
            self.store_to(cell, field, count);
        }
        self.jump(done);
        self.b.switch_to_block(done);
    }

    /// Writes a word of a register array of any width, at an index in words.
    pub fn register_word(&mut self, array: u16, at: Value, value: Value) {
        let registers = self.load(at::REGISTERS);
        let offset = usize::from(array) * size_of::<Register>() + Register::PAGES;
        let pages = self.load_from(registers, offset, I64);
        let page = self.page_of(pages, at);
        let (inside, missing, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.set_cold_block(missing);
        self.branch(page, inside, missing);
        self.b.switch_to_block(missing);
        let number = self.number(array.into());
        self.call_with(self.imports.register_word, &[number, at, value]);
        self.jump(done);
        self.b.switch_to_block(inside);
        let cell = self.cell(page, at);
        self.b.ins().store(machine_flags(), value, cell, 0);
        self.jump(done);
        self.b.switch_to_block(done);
    }

    /// Returns the page of a word: a pointer, or null for a page of zeros.
    pub fn page_of(&mut self, pages: Value, at: Value) -> Value {
        let number = self.b.ins().ushr_imm(at, i64::from(PAGE_BITS));
        let offset = self.b.ins().ishl_imm(number, 3);
        let page = self.b.ins().iadd(pages, offset);
        self.load_from(page, 0, I64)
    }

    /// Counts a register access.
    fn count_access(&mut self) {
        let state = self.load(at::STATE);
        let count = self.load_from(state, offset_of!(State, register_accesses), I64);
        let count = self.b.ins().iadd_imm(count, 1);
        self.store_to(state, offset_of!(State, register_accesses), count);
    }

    /// Returns the page of a cell: a pointer, or null for a page of zeros. Control continues at `outside` if the index is
    /// beyond the array.
    fn page(&mut self, program: &LoadedProgram, array: u16, index: Value, outside: Block) -> Value {
        let size = program.registers[usize::from(array)].size as u64;
        let is_outside = self.compare_to(IntCC::UnsignedGreaterThanOrEqual, index, size);
        self.leave_if(is_outside, outside);
        let registers = self.load(at::REGISTERS);
        let offset = usize::from(array) * size_of::<Register>() + Register::PAGES;
        let pages = self.load_from(registers, offset, I64);
        self.page_of(pages, index)
    }

    /// Returns the address of a cell in its page.
    pub fn cell(&mut self, page: Value, index: Value) -> Value {
        let at = self.low_bits(index, PAGE_BITS);
        let offset = self.b.ins().ishl_imm(at, 3);
        self.b.ins().iadd(page, offset)
    }
}
