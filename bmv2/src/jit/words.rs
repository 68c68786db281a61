//! Code that clears or copies words of packets. It only loads and stores, so it takes less time than a loop over ranges.

use super::{CompileError, Compiler};
use crate::exec::ops::Slot;
use crate::program::{Blocks, LiveWords};
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

/// Code that copies words from one packet to another.
type WordFunction = unsafe extern "C" fn(*const u64, *mut u64);

/// A function that copies the words that are restored between copies of a packet.
pub(super) struct Restore {
    function: WordFunction,
    /// Number of words that the function may access.
    end: usize,
}

impl Restore {
    /// Returns the function with this id, which accesses the first `end` words.
    pub fn new(id: FuncId, end: usize, module: &JITModule) -> Restore {
        let address = module.get_finalized_function(id);
        Restore {
            // SAFETY: the function is compiled with this signature and calling convention.
            function: unsafe { std::mem::transmute::<*const u8, WordFunction>(address) },
            end,
        }
    }

    /// Copies the words. Returns false, without effect, if there are too few words.
    #[inline]
    pub fn run(&self, from: &[u64], to: &mut [u64]) -> bool {
        let has_all = from.len() >= self.end && to.len() >= self.end;
        if has_all {
            // SAFETY: the function reads and writes words before `end`.
            unsafe { (self.function)(from.as_ptr(), to.as_mut_ptr()) };
        }
        has_all
    }
}

/// Compiles the function that copies restored words, which are among the first `end` ones.
pub(super) fn compile_restore(
    restored: &Blocks,
    end: usize,
    compiler: &mut Compiler,
) -> Result<FuncId, CompileError> {
    compiler.word_function(|b, [from, to]| {
        for slot in restored.pairs(end) {
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
