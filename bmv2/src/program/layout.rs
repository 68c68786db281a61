//! Positions of a packet's headers and metadata in its 64-bit words.

use crate::exec::join::{FieldReader, Join};
use crate::exec::ops::Slot;
use crate::exec::words::words_of;
use crate::jit::Compiled;
use std::ops::Range;

/// Positions of headers, metadata, parameters and constants in a packet's 64-bit words.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_stacks: Vec<UnionStack>,
    /// Whether fields keep the values that are written while their header is invalid, as on Tofino, where `setValid` only sets
    /// a bit. Else they become 0.
    pub keeps_invalid_fields: bool,
    /// Word after the metadata, which occupies the words from 0 on.
    pub metadata_end: usize,
    /// Word after the packet's state, which consists of metadata, headers, validity bits and stack counters.
    pub state_end: usize,
    /// Large variable-length fields, in the order of their words. The words beyond a field's current length are zero,
    /// so copying and clearing a packet skips them.
    pub varbits: Vec<Varbit>,
    /// First word of the parameters of the running action.
    pub params: Slot,
    /// Values with which a packet's words start: the constants of the program, and zeros.
    pub initial: Vec<u64>,
    /// Words that a received packet and a copy must have; `None` if that are all words of the state.
    pub live: Option<LiveWords>,
}

/// Words of a packet that are read before they are written; see `load/liveness.rs`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveWords {
    /// Words that must be zero when a packet is received.
    pub cleared: Blocks,
    /// Words that a copy of a packet must have when it enters egress.
    pub copied: Blocks,
    /// Those of `copied` that egress and deparser may write; `None` if that is not known.
    pub restored: Option<RestoredWords>,
}

/// Words of a packet that are restored between its copies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RestoredWords {
    pub words: Blocks,
    /// The large variable-length fields among them.
    pub varbits: Vec<Varbit>,
}

/// Number of words in a block: a line of the cache.
const BLOCK: usize = 8;

/// A set of words, which is covered by blocks of consecutive words. Copying a few of them takes less time than calls of
/// `memcpy`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// First words of the blocks, which may overlap.
    blocks: Vec<Slot>,
    /// The words of the set, in ascending order.
    words: Vec<usize>,
}

/// Returns the first words of ranges of `size` words, among the first `end` ones, that cover words in ascending order.
/// Returns `None` if there are fewer words than in a range.
fn cover(words: &[usize], size: usize, end: usize) -> Option<Vec<Slot>> {
    let last = end.checked_sub(size)?;
    let mut starts: Vec<Slot> = Vec::new();
    for at in words {
        let is_covered = |start: &Slot| usize::from(*start) + size > *at;
        if !starts.last().is_some_and(is_covered) {
            starts.push((*at).min(last) as Slot);
        }
    }
    Some(starts)
}

impl Blocks {
    /// Returns a set of the first `end` words; `None` if there are fewer words than in a block. `words`: in ascending order.
    pub fn cover(words: impl Iterator<Item = usize>, end: usize) -> Option<Blocks> {
        let words: Vec<usize> = words.collect();
        Some(Blocks {
            blocks: cover(&words, BLOCK, end)?,
            words,
        })
    }

    /// Returns the first words of pairs of consecutive words, among the first `end` ones, that cover the set.
    #[cfg(feature = "jit")]
    pub fn pairs(&self, end: usize) -> Vec<Slot> {
        cover(&self.words, 2, end).unwrap_or_default()
    }

    #[inline(always)]
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let start = self.blocks.iter().map(|start| usize::from(*start));
        start.map(|start| start..start + BLOCK)
    }

    /// Sets the words to zero.
    #[inline(always)]
    fn clear(&self, words: &mut [u64]) {
        for range in self.ranges() {
            words[range].copy_from_slice(&[0; BLOCK]);
        }
    }

    /// Copies the words.
    #[inline(always)]
    fn copy(&self, from: &[u64], to: &mut [u64]) {
        for range in self.ranges() {
            to[range.clone()].copy_from_slice(&from[range]);
        }
    }

    /// Returns whether the set contains the word.
    #[cfg(test)]
    pub fn contains(&self, slot: Slot) -> bool {
        self.words.contains(&slot.into())
    }

    /// Returns the number of words in the set.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.words.len()
    }
}

impl Layout {
    /// Sets the live words of a received packet to zero. All others keep any values.
    pub fn clear_live(&self, compiled: Option<&Compiled>, words: &mut [u64]) {
        if compiled.is_some_and(|compiled| compiled.clear_words(words)) {
            return;
        }
        self.clear_varbits(words);
        if let Some(live) = &self.live {
            live.cleared.clear(words);
        }
    }

    /// Sets the live words of a received packet to zero that machine code does not set to zero: the large fields of variable
    /// length, or all words if it is not known which are live.
    #[inline]
    pub fn clear_varbits(&self, words: &mut [u64]) {
        if self.live.is_none() {
            return self.clear(words);
        }
        for varbit in &self.varbits {
            if words[usize::from(varbit.length)] != 0 {
                let used = varbit.used(words);
                words[used].fill(0);
            }
        }
    }

    /// Copies the words of a packet's state that are live in egress.
    pub fn copy_live(&self, compiled: Option<&Compiled>, from: &[u64], to: &mut [u64]) {
        if compiled.is_some_and(|compiled| compiled.copy_words(from, to)) {
            return;
        }
        let Some(live) = &self.live else {
            return self.copy(from, to);
        };
        copy_varbits(&self.varbits, from, to);
        live.copied.copy(from, to);
    }

    /// Copies the words of a packet's state that egress may read and may have written, from one packet before egress to one
    /// after it or the other way round.
    #[inline]
    pub fn copy_restored(&self, compiled: Option<&Compiled>, from: &[u64], to: &mut [u64]) {
        if compiled.is_some_and(|compiled| compiled.restore_words(from, to)) {
            return;
        }
        let Some(restored) = self.live.as_ref().and_then(|live| live.restored.as_ref()) else {
            return self.copy_live(compiled, from, to);
        };
        copy_varbits(&restored.varbits, from, to);
        restored.words.copy(from, to);
    }

    /// Returns whether two packets have the same words of the state that are live in egress.
    pub fn are_live_words_equal(&self, a: &[u64], b: &[u64]) -> bool {
        match &self.live {
            Some(live) => live.copied.words.iter().all(|at| a[*at] == b[*at]),
            None => true,
        }
    }

    /// Sets the packet's headers, metadata and stack counters to zero.
    pub fn clear(&self, words: &mut [u64]) {
        let mut at = 0;
        for varbit in &self.varbits {
            let used = varbit.used(words);
            words[at..used.end].fill(0);
            at = varbit.words().end;
        }
        words[at..self.state_end].fill(0);
    }

    /// Copies a packet's state to another packet's words.
    pub fn copy(&self, from: &[u64], to: &mut [u64]) {
        let mut at = 0;
        for varbit in &self.varbits {
            let (used, old) = (varbit.used(from).end, varbit.used(to).end);
            to[at..used].copy_from_slice(&from[at..used]);
            if old > used {
                to[used..old].fill(0);
            }
            at = varbit.words().end;
        }
        to[at..self.state_end].copy_from_slice(&from[at..self.state_end]);
    }
}

/// Copies variable-length fields from one packet to another.
fn copy_varbits(varbits: &[Varbit], from: &[u64], to: &mut [u64]) {
    for varbit in varbits {
        let length = usize::from(varbit.length);
        if from[length] | to[length] == 0 {
            continue;
        }
        let (used, old) = (varbit.used(from), varbit.used(to).end);
        to[used.clone()].copy_from_slice(&from[used.clone()]);
        if old > used.end {
            to[used.end..old].fill(0);
        }
    }
}

/// A header instance. Its words are contiguous: validity, then fields.
#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub type_id: usize,
    pub metadata: bool,
    /// Word of the validity bit. Metadata has no such word, since it is always valid.
    pub valid: Slot,
    /// First word of the header's fields.
    pub start: Slot,
    /// Word after the last word of the header's fields.
    pub end: Slot,
    pub fields: Vec<Field>,
    /// Length on the wire in bytes without the variable-length field.
    pub bytes: usize,
    pub varbit: Option<Varbit>,
    pub union: Option<u16>,
    pub plan: Vec<FieldPlan>,
    /// Plan for writing the header to a frame; `None` if it has a variable-length field.
    pub join: Option<Join>,
    /// Plan for reading the header from a frame; `None` if it has a variable-length field, or if a word of a field
    /// spreads over nine bytes.
    pub cut: Option<FieldReader>,
    /// Whether the fields fill whole bytes, so that the header can be extracted and emitted.
    pub whole_bytes: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub slot: Slot,
    /// Width of the field in bits; the maximum width for a varbit.
    pub bits: u32,
    pub signed: bool,
    pub varbit: bool,
}

/// The variable-length field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Varbit {
    pub slot: Slot,
    pub max_bits: u32,
    /// Word that holds the current length of the field in bits.
    pub length: Slot,
}

impl Varbit {
    /// Returns all words that the field may occupy.
    pub fn words(&self) -> Range<usize> {
        let start = usize::from(self.slot);
        start..start + words_of(self.max_bits)
    }

    /// Returns the words that the field occupies in a packet.
    pub fn used(&self, words: &[u64]) -> Range<usize> {
        let all = self.words();
        let bits = words[usize::from(self.length)].min(u64::from(self.max_bits));
        all.start..all.start + words_of(bits as u32)
    }
}

/// Position of a field in the header's bytes. The offset of a field after a varbit is that for an empty varbit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlan {
    pub slot: Slot,
    pub bits: u32,
    pub signed: bool,
    /// Whether the field precedes the header's varbit, is the varbit, or follows it.
    pub place: Place,
    pub offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Fixed,
    Varbit,
    AfterVarbit,
}

#[derive(Debug)]
pub(crate) struct Stack {
    pub headers: Vec<u16>,
    /// Number of words from one element to the next.
    pub stride: usize,
    /// First word of element 0, which is its validity bit.
    pub start: usize,
    /// Word that holds the index of the next element (`nextIndex`).
    pub next: Slot,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub name: String,
    pub headers: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct UnionStack {
    pub unions: Vec<u16>,
    pub stride: usize,
    pub start: usize,
    pub next: Slot,
}

/// A header operation on elements at indexes known only at run time.
#[derive(Clone, Debug)]
pub(crate) struct DynHeader {
    pub op: DynHeaderOp,
    pub dest: DynRef,
    pub source: Option<DynRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DynHeaderOp {
    Add,
    Remove,
    Assign,
}

/// A header selected at run time: the candidates, and the word with the index of the selected one. A header known
/// at load time has one candidate and no word.
#[derive(Clone, Debug)]
pub(crate) struct DynRef {
    pub headers: Vec<u16>,
    pub index: Option<Slot>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a layout with two varbits of 20 and 10 words between other words, 40 in all.
    fn layout() -> Layout {
        let varbit = |slot, max_bits, length| Varbit {
            slot,
            max_bits,
            length,
        };
        Layout {
            varbits: vec![varbit(2, 1280, 22), varbit(25, 640, 35)],
            state_end: 38,
            ..Layout::default()
        }
    }

    prop_compose! {
        /// Generates a packet's words, with varbits of these lengths, and two words after its state.
        fn packet()(
            words in proptest::collection::vec(1u64.., 40),
            lengths in (0u64..=1280, 0u64..=640),
        ) -> Vec<u64> {
            let mut words = words;
            words[22] = lengths.0 / 8 * 8;
            words[35] = lengths.1 / 8 * 8;
            for varbit in layout().varbits {
                let unused = varbit.used(&words).end..varbit.words().end;
                words[unused].fill(0);
            }
            words
        }
    }

    proptest! {
        #[test]
        fn blocks_cover_words(
            words in proptest::collection::btree_set(0usize..60, 0..30),
            state in proptest::collection::vec(1u64.., 60),
        ) {
            let blocks = Blocks::cover(words.iter().copied(), 60).expect("60 words are enough");
            let mut copy = vec![0; 60];
            blocks.copy(&state, &mut copy);
            prop_assert!(words.iter().all(|at| copy[*at] == state[*at]));
            prop_assert!(blocks.blocks.len() <= words.len());
            blocks.clear(&mut copy);
            prop_assert!(copy.iter().all(|word| *word == 0));
            prop_assert!(Blocks::cover(words.into_iter(), 7).is_none());
        }

        #[test]
        fn packets_are_copied_and_cleared_whole(from in packet(), to in packet()) {
            let (layout, mut words) = (layout(), to.clone());
            layout.copy(&from, &mut words);
            prop_assert_eq!(&words[..38], &from[..38]);
            prop_assert_eq!(&words[38..], &to[38..]);
            layout.clear(&mut words);
            prop_assert!(words[..38].iter().all(|word| *word == 0));
            prop_assert_eq!(&words[38..], &to[38..]);
        }
    }
}
