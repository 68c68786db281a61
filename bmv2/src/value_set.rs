//! Parser value sets, in the form that the parser compares with its key.

use crate::frame::Frame;
use crate::program::{CaseOn, KeyPart, LoadedProgram};
use rustc_hash::FxHashSet;

/// Members of a parser value set: as the control plane wrote them, and as the parser compares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueSetState {
    /// Members without padding, in the order of insertion.
    pub members: Vec<Member>,
    /// Members padded and masked: one list for each combination of key widths and mask with which a `select` uses the
    /// set.
    pub shadows: Vec<Shadow>,
}

/// A member of a parser value set. Fields are concatenated without padding and right-aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Value of the fields.
    pub value: Vec<u8>,
    /// Mask in which the bits to compare are 1; `None` to compare all.
    pub mask: Option<Vec<u8>>,
}

/// Members of a value set, padded and masked for the `select`s that have these key widths and this mask.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    /// Width of each part of the `select` key, in bits.
    pub bits: Vec<u32>,
    pub mask: Option<Vec<u8>>,
    pub values: FxHashSet<Vec<u8>>,
    /// Members with masks of their own: masked value, and mask.
    pub masked: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Creates empty value sets, with one list of padded members for each form of key with which a `select` uses the set.
pub(crate) fn value_sets(program: &LoadedProgram) -> Vec<ValueSetState> {
    let mut sets = vec![ValueSetState::default(); program.vsets.len()];
    let tofino = (program.tofino.iter()).flat_map(|of| [&of.ingress.parser, &of.egress.parser]);
    let parsers = std::iter::once(&program.parser).chain(tofino);
    for state in parsers.flat_map(|parser| &parser.states) {
        for case in &state.cases {
            let CaseOn::Set { set, mask } = &case.on else {
                continue;
            };
            let bits: Vec<u32> = state.key.iter().map(KeyPart::bits).collect();
            let shadows = &mut sets[usize::from(*set)].shadows;
            if !shadows.iter().any(|s| s.bits == bits && s.mask == *mask) {
                shadows.push(Shadow {
                    bits,
                    mask: mask.clone(),
                    values: Default::default(),
                    masked: Vec::new(),
                });
            }
        }
    }
    sets
}

impl Shadow {
    /// Removes all members.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.masked.clear();
    }

    /// Adds a member.
    pub(crate) fn insert(&mut self, member: &Member) {
        let Some(mut value) = self.padded(&member.value) else {
            return;
        };
        and(&mut value, self.mask.as_deref());
        match &member.mask {
            None => drop(self.values.insert(value)),
            Some(mask) => {
                let Some(mut mask) = self.padded(mask) else {
                    return;
                };
                and(&mut mask, self.mask.as_deref());
                and(&mut value, Some(&mask));
                self.masked.push((value, mask));
            }
        }
    }

    /// Whether a key, to which the mask of the `select` was applied, matches a member.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let matches = |(value, mask): &(Vec<u8>, Vec<u8>)| {
            let bytes = key.iter().zip(mask).map(|(byte, mask)| byte & mask);
            bytes.eq(value.iter().copied())
        };
        self.values.contains(key) || self.masked.iter().any(matches)
    }

    /// Fields, which are concatenated without padding, each in whole bytes.
    fn padded(&self, fields: &[u8]) -> Option<Vec<u8>> {
        let frame = Frame::copy_of(fields);
        let total: usize = self.bits.iter().map(|b| *b as usize).sum();
        // The bits are right-aligned in their bytes.
        let mut at = (fields.len() * 8).checked_sub(total)?;
        let mut padded = Vec::new();
        for &bits in &self.bits {
            let value = frame.big(at, bits);
            at += bits as usize;
            for i in (0..bits.div_ceil(8) as usize).rev() {
                padded.push((value.word(i / 8) >> (8 * (i % 8))) as u8);
            }
        }
        Some(padded)
    }
}

fn and(bytes: &mut [u8], mask: Option<&[u8]>) {
    let mask = mask.into_iter().flatten();
    bytes
        .iter_mut()
        .zip(mask)
        .for_each(|(byte, mask)| *byte &= mask);
}
