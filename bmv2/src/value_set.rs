//! Parser value sets: their members, as the parser looks for them.

use crate::frame::Frame;
use crate::program::{CaseOn, KeyPart, LoadedProgram};
use rustc_hash::FxHashSet;

/// Members of a parser value set, as byte strings padded like the parser's key, and as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueSetState {
    /// Unpadded members in order of arrival.
    pub members: Vec<Vec<u8>>,
    /// Padded and masked for every use of the set in the parser.
    pub shadows: Vec<Shadow>,
}

#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    /// Widths of the parts of the key.
    pub bits: Vec<u32>,
    pub mask: Option<Vec<u8>>,
    pub values: FxHashSet<Vec<u8>>,
}

/// Empty value sets with a shadow for every way in which the parser uses them.
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
    /// Takes up a member of the set, given without padding between its parts.
    pub(crate) fn insert(&mut self, member: &[u8]) {
        let frame = Frame::copy_of(member);
        let total: usize = self.bits.iter().map(|b| *b as usize).sum();
        // The member's bits stand at the right end of its bytes.
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
