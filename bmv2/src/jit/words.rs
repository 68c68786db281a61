//! Code that clears or copies words of packets. It only loads and stores, so it takes less time than a loop over ranges.

use super::{CompileError, Compiler};
use crate::exec::ops::Slot;
use crate::program::{Blocks, LiveWords};
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

/// Code that copies words from one packet to another, or sets words of the other to zero.
pub(super) type WordFunction = unsafe extern "C" fn(*const u64, *mut u64);

/// Functions on the live words of packets. `F` is [`FuncId`] while the module is incomplete, [`WordFunction`] afterwards.
pub(super) struct WordFunctions<F> {
    /// Sets the words to zero that a received packet must have.
    clear: F,
    /// Copies the words that are live in egress.
    copy: F,
    /// Copies the words that are restored between copies of a packet; `None` if they are not known.
    restore: Option<F>,
    /// Number of words that the functions may access.
    end: usize,
}

impl WordFunctions<FuncId> {
    /// Compiles the functions for live words, which are among the first `end` ones.
    pub fn compile(
        live: &LiveWords,
        end: usize,
        compiler: &mut Compiler,
    ) -> Result<WordFunctions<FuncId>, CompileError> {
        let restored = live.restored.as_ref();
        let restore = restored.map(|restored| compile_copy(&restored.words, end, compiler));
        Ok(WordFunctions {
            clear: compiler.word_function(|b, [_, to]| clear(b, to, live, end))?,
            copy: compile_copy(&live.copied, end, compiler)?,
            restore: restore.transpose()?,
            end,
        })
    }

    /// Returns the addresses of the functions in a complete module.
    pub fn finish(&self, module: &JITModule) -> WordFunctions<WordFunction> {
        let address = |id: FuncId| {
            let address = module.get_finalized_function(id);
            // SAFETY: the function is compiled with this signature and calling convention.
            unsafe { std::mem::transmute::<*const u8, WordFunction>(address) }
        };
        WordFunctions {
            clear: address(self.clear),
            copy: address(self.copy),
            restore: self.restore.map(address),
            end: self.end,
        }
    }
}

impl WordFunctions<WordFunction> {
    /// Sets the words of a packet to zero that must be zero when it is received. Returns false, without effect, if there are too
    /// few words.
    #[inline]
    pub fn clear(&self, words: &mut [u64]) -> bool {
        self.has_all(words) && {
            // SAFETY: the function writes words before `end`, and reads none.
            unsafe { (self.clear)(words.as_ptr(), words.as_mut_ptr()) };
            true
        }
    }

    /// Copies the words that are live in egress. Returns false, without effect, if there are too few words.
    #[inline]
    pub fn copy(&self, from: &[u64], to: &mut [u64]) -> bool {
        self.run(self.copy, from, to)
    }

    /// Copies the words that are restored between copies of a packet. Returns false, without effect, if they are not known, or
    /// if there are too few words.
    #[inline]
    pub fn restore(&self, from: &[u64], to: &mut [u64]) -> bool {
        self.restore
            .is_some_and(|restore| self.run(restore, from, to))
    }

    #[inline]
    fn has_all(&self, words: &[u64]) -> bool {
        words.len() >= self.end
    }

    #[inline]
    fn run(&self, function: WordFunction, from: &[u64], to: &mut [u64]) -> bool {
        self.has_all(from) && self.has_all(to) && {
            // SAFETY: the function reads and writes words before `end`.
            unsafe { function(from.as_ptr(), to.as_mut_ptr()) };
            true
        }
    }
}

/// Compiles the function that copies a set of words, which are among the first `end` ones.
fn compile_copy(
    words: &Blocks,
    end: usize,
    compiler: &mut Compiler,
) -> Result<FuncId, CompileError> {
    compiler.word_function(|b, [from, to]| {
        for slot in words.pairs(end) {
            let pair = b.ins().load(I64X2, flags(), from, offset(slot));
            store(b, pair, to, slot);
        }
    })
}

/// Sets live words of a packet, which are among the first `end` ones from `words` on, to zero.
pub(super) fn clear(b: &mut FunctionBuilder, words: Value, live: &LiveWords, end: usize) {
    let zero = b.ins().iconst(I64, 0);
    let zeros = b.ins().splat(I64X2, zero);
    for slot in live.cleared.pairs(end) {
        store(b, zeros, words, slot);
    }
}

fn store(b: &mut FunctionBuilder, pair: Value, to: Value, slot: Slot) {
    b.ins().store(flags(), pair, to, offset(slot));
}

fn offset(slot: Slot) -> i32 {
    i32::from(slot) * 8
}

/// Flags of accesses to pairs of words, which are not aligned to their size.
fn flags() -> MemFlags {
    MemFlags::new().with_notrap()
}
