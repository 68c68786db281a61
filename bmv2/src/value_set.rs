//! Parser value sets, in the form that the parser compares with its key.

use crate::frame::Frame;
use crate::program::{CaseOn, KeyPart, LoadedProgram};
use rustc_hash::FxHashSet;

/// Members of a parser value set: as the control plane wrote them, and as the parser compares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueSetState {
    /// Members without padding, in the order of insertion.
    pub members: Vec<Vec<u8>>,
    /// Members padded and masked: one list for each combination of key widths and mask with which a `select` uses the
    /// set.
    pub shadows: Vec<Shadow>,
}

/// Members of a value set, padded and masked for the `select`s that have these key widths and this mask.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    /// Width of each part of the `select` key, in bits.
    pub bits: Vec<u32>,
    pub mask: Option<Vec<u8>>,
    pub values: FxHashSet<Vec<u8>>,
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
                });
            }
        }
    }
    sets
}

impl Shadow {
    /// Adds a member whose fields are concatenated without padding.
    pub(crate) fn insert(&mut self, member: &[u8]) {
        let frame = Frame::copy_of(member);
        let total: usize = self.bits.iter().map(|b| *b as usize).sum();
        // The member's bits are right-aligned in its bytes.
        let Some(mut at) = (member.len() * 8).checked_sub(total) else {
            return;
        };
        let mut padded = Vec::new();
        for &bits in &self.bits {
            let value = frame.big(at, bits);
            at += bits as usize;
            for i in (0..bits.div_ceil(8) as usize).rev() {
                padded.push((value.word(i / 8) >> (8 * (i % 8))) as u8);
            }
        }
        if let Some(mask) = &self.mask {
            padded.iter_mut().zip(mask).for_each(|(p, m)| *p &= m);
        }
        self.values.insert(padded);
    }
}
