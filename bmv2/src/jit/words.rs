//! Code that clears or copies words of packets. It only loads and stores, so it takes less time than a loop over ranges.

use super::{CompileError, Compiler};
use crate::exec::ops::Slot;
use crate::program::{Blocks, Layout, LiveWords, Varbit};
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

/// Code that copies words from one packet to another, or sets words of the other to zero. Returns 1; 0, without effect, if a
/// large variable-length field of one of them is in use.
pub(super) type WordFunction = unsafe extern "C" fn(*const u64, *mut u64) -> u64;

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
    /// Compiles the functions for the live words of a layout.
    pub fn compile(
        live: &LiveWords,
        layout: &Layout,
        compiler: &mut Compiler,
    ) -> Result<WordFunctions<FuncId>, CompileError> {
        let (end, varbits) = (layout.state_end, &layout.varbits);
        let mut copy = |words: &Blocks, varbits: &[Varbit]| {
            compiler.word_function(|b, [from, to]| {
                unless_used(b, varbits, &[from, to], |b| {
                    for slot in words.pairs(end) {
                        let pair = b.ins().load(I64X2, flags(), from, offset(slot));
                        store(b, pair, to, slot);
                    }
                })
            })
        };
        let restored = live.restored.as_ref();
        let restore = restored.map(|restored| copy(&restored.words, &restored.varbits));
        Ok(WordFunctions {
            copy: copy(&live.copied, varbits)?,
            restore: restore.transpose()?,
            clear: compiler.word_function(|b, [_, to]| {
                unless_used(b, varbits, &[to], |b| clear(b, to, live, end))
            })?,
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
    /// Sets the words of a packet to zero that must be zero when it is received. Returns false, without effect, if a large
    /// variable-length field is in use, or if there are too few words.
    #[inline]
    pub fn clear(&self, words: &mut [u64]) -> bool {
        self.has_all(words) && {
            // SAFETY: the function reads and writes words of its second argument before `end`.
            unsafe { (self.clear)(std::ptr::null(), words.as_mut_ptr()) != 0 }
        }
    }

    /// Copies the words that are live in egress. Returns false as [`WordFunctions::clear`] does.
    #[inline]
    pub fn copy(&self, from: &[u64], to: &mut [u64]) -> bool {
        self.run(self.copy, from, to)
    }

    /// Copies the words that are restored between copies of a packet. Returns false as [`WordFunctions::clear`] does, and if
    /// they are not known.
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
            unsafe { function(from.as_ptr(), to.as_mut_ptr()) != 0 }
        }
    }
}

/// Emits code that executes the code of `then` unless a large variable-length field is in use in one of the packets, whose words
/// are given. Returns 1 if it was executed, else 0.
fn unless_used(
    b: &mut FunctionBuilder,
    varbits: &[Varbit],
    packets: &[Value],
    then: impl FnOnce(&mut FunctionBuilder),
) -> Value {
    let mut used = b.ins().iconst(I64, 0);
    for (varbit, words) in varbits
        .iter()
        .flat_map(|v| packets.iter().map(move |p| (v, p)))
    {
        let length = b.ins().load(I64, flags(), *words, offset(varbit.length));
        used = b.ins().bor(used, length);
    }
    let [unused, end] = [(); 2].map(|()| b.create_block());
    let result = b.append_block_param(end, I64);
    let [no, yes] = [0, 1].map(|number| b.ins().iconst(I64, number));
    b.ins().brif(used, end, &[no.into()], unused, &[]);
    b.switch_to_block(unused);
    then(b);
    b.ins().jump(end, &[yes.into()]);
    b.switch_to_block(end);
    result
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
