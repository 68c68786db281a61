//! Compilation of functions that clear or copy words of packets. They only load and store, so they take less time than a
//! loop over ranges.

use super::{CompileError, Compiler};
use crate::exec::ops::Slot;
use crate::program::LiveWords;
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

/// A compiled function that reads the words of one packet, and writes those of another.
type WordFunction = unsafe extern "C" fn(*const u64, *mut u64);

/// Functions that clear or copy words of packets.
pub(super) struct WordFunctions {
    /// Clears the live words of a received packet; its first argument is not read.
    clear: WordFunction,
    /// Copies the words that are restored between copies of a packet; `None` if they are not known.
    restore: Option<WordFunction>,
    /// Number of words that the functions may access.
    end: usize,
}

/// Ids of [`WordFunctions`].
type Ids = (FuncId, Option<FuncId>);

impl WordFunctions {
    /// Returns the functions with these ids, which access the first `end` words.
    pub fn new((clear, restore): Ids, end: usize, module: &JITModule) -> WordFunctions {
        let function = |id: FuncId| -> WordFunction {
            let address = module.get_finalized_function(id);
            // SAFETY: the functions are compiled with this signature and calling convention.
            unsafe { std::mem::transmute::<*const u8, WordFunction>(address) }
        };
        WordFunctions {
            clear: function(clear),
            restore: restore.map(function),
            end,
        }
    }

    /// Clears the live words of a received packet. Returns false, without effect, if there are too few words.
    #[inline]
    pub fn clear(&self, words: &mut [u64]) -> bool {
        let has_all = words.len() >= self.end;
        if has_all {
            // SAFETY: the function writes words before `end`.
            unsafe { (self.clear)(words.as_ptr(), words.as_mut_ptr()) };
        }
        has_all
    }

    /// Copies the words that are restored between copies of a packet. Returns false, without effect, if they are not known
    /// or there are too few words.
    #[inline]
    pub fn restore(&self, from: &[u64], to: &mut [u64]) -> bool {
        let Some(restore) = self.restore else {
            return false;
        };
        let has_all = from.len() >= self.end && to.len() >= self.end;
        if has_all {
            // SAFETY: the function reads and writes words before `end`.
            unsafe { restore(from.as_ptr(), to.as_mut_ptr()) };
        }
        has_all
    }
}

/// Compiles the functions for these live words, which are among the first `end` ones.
pub(super) fn compile(
    live: &LiveWords,
    end: usize,
    compiler: &mut Compiler,
) -> Result<Ids, CompileError> {
    let clear = compiler.word_function(|b, [_, to]| {
        let zero = b.ins().iconst(I64, 0);
        let zeros = b.ins().splat(I64X2, zero);
        for slot in live.cleared.pairs(end) {
            store(b, zeros, to, slot);
        }
    })?;
    let restored = live.restored.as_ref().map(|restored| {
        compiler.word_function(|b, [from, to]| {
            for slot in restored.pairs(end) {
                let pair = b.ins().load(I64X2, flags(), from, offset(slot));
                store(b, pair, to, slot);
            }
        })
    });
    Ok((clear, restored.transpose()?))
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
