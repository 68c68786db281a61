//! Where a packet's headers and metadata are in its words.

use crate::exec::join::{Cut, Join};
use crate::exec::ops::Slot;
use crate::exec::words::words_of;
use std::ops::Range;

/// Where everything is in the packet's words.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_stacks: Vec<UnionStack>,
    /// Metadata is in front: words `0..metadata_end`.
    pub metadata_end: usize,
    /// Headers, validity bits and stack counters follow: all that belongs to a packet.
    pub state_end: usize,
    /// Large variable-length fields, by place. Behind what is in them all their words are zero, so that
    /// packets are copied and cleared without touching those.
    pub varbits: Vec<Varbit>,
    /// Arguments of the running action.
    pub params: Slot,
    /// The words at start: zeros, then the constants at their places.
    pub initial: Vec<u64>,
}

impl Layout {
    /// Makes a packet's state zero.
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

/// A header instance. Its words are contiguous: validity, then the fields.
#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub type_id: usize,
    pub metadata: bool,
    /// Word of the validity bit. Metadata is always valid and has none.
    pub valid: Slot,
    /// First and one past the last word of the fields.
    pub start: Slot,
    pub end: Slot,
    pub fields: Vec<Field>,
    /// Bytes on the wire without the variable-length field.
    pub bytes: usize,
    pub varbit: Option<Varbit>,
    pub union: Option<u16>,
    pub plan: Vec<FieldPlan>,
    /// The same in chunks of eight bytes, for writing and reading. None with a variable-length
    /// field; reading may have none besides.
    pub join: Option<Join>,
    pub cut: Option<Cut>,
    /// Fields fill whole bytes: the header can be extracted and emitted.
    pub whole_bytes: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub slot: Slot,
    /// For a varbit the greatest width.
    pub bits: u32,
    pub signed: bool,
    pub varbit: bool,
}

/// The variable-length field of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Varbit {
    pub slot: Slot,
    pub max_bits: u32,
    /// Word with the present length in bits.
    pub length: Slot,
}

impl Varbit {
    /// All words that it may take.
    pub fn words(&self) -> Range<usize> {
        let start = usize::from(self.slot);
        start..start + words_of(self.max_bits)
    }

    /// The words that it takes in a packet.
    pub fn used(&self, words: &[u64]) -> Range<usize> {
        let all = self.words();
        let bits = words[usize::from(self.length)].min(u64::from(self.max_bits));
        all.start..all.start + words_of(bits as u32)
    }
}

/// How one field lies on the wire. Offsets after a varbit are those with an empty varbit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlan {
    pub slot: Slot,
    pub bits: u32,
    pub signed: bool,
    /// The field is the varbit, or comes after it.
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
    /// Words from one element to the next.
    pub stride: usize,
    /// First word of element 0 (its validity).
    pub start: usize,
    /// Word with the index of the next element.
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

/// A header operation whose operands are elements at indexes known only at run time.
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

/// Candidates, and the word that picks one. A plain header has one candidate and no word.
#[derive(Clone, Debug)]
pub(crate) struct DynRef {
    pub headers: Vec<u16>,
    pub index: Option<Slot>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two varbits of 20 and 10 words between other words, 40 in all.
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
        /// A packet's words, with so much in its varbits, and two words behind its state.
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
