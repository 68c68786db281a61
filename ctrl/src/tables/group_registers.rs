//! Registers of a group that the controller reads by P4Runtime: those of Tofino's data plane, whose ALUs have no instruction left to
//! reply to a packet. On v1model the pipeline replies (`RegisterOp.READ`).

use alfirk_contract::RegisterControl;
use alfirk_p4runtime::p4::v1::{entity, p4_data, Entity, Index, RegisterEntry};

use super::schema::{ProgramError, Schema};
use crate::constants::{
    REGISTER_ACK, REGISTER_AGG, REGISTER_CLAIMED, REGISTER_SENT, REGISTER_SRC_PORT,
};

/// Ids of the arrays.
#[derive(Clone, Copy, Debug)]
pub struct GroupRegisters {
    /// What was last acknowledged to the source, as a word: the PSN above 8 bits.
    last_acked: u32,
    /// The MSN that was sent with it, above 8 bits.
    last_acked_msns: u32,
    /// The newest PSN that a source has sent, and the port that it is behind.
    sources: u32,
    /// What each path has acknowledged, as a word: the PSN above the path.
    leaves: u32,
    /// The newest PSN that each path has acknowledged, true or not, above 8 bits.
    claimed: u32,
    /// Cells of a group in `leaves` and `claimed`.
    paths: u32,
}

impl GroupRegisters {
    pub(super) fn resolve(schema: &Schema, paths: u32) -> Result<GroupRegisters, ProgramError> {
        Ok(GroupRegisters {
            last_acked: schema.register("ingress.ack_aggregate.last_acked.agg")?,
            last_acked_msns: schema.register("egress.last_acked_msn.msns")?,
            sources: schema.register("ingress.ack_aggregate.sender.sources")?,
            leaves: schema.register("ingress.ack_aggregate.leaves.leaves")?,
            claimed: schema.register("ingress.admission.path_acknowledged.acked")?,
            paths,
        })
    }

    /// Registers to read for a `RegisterOp.READ`; none for a register that the controller does not read.
    pub fn wanted(&self, read: &RegisterControl) -> Option<Vec<entity::Entity>> {
        let group = u32::from(read.group);
        let cells = match read.reg {
            REGISTER_AGG => vec![(self.last_acked, group), (self.last_acked_msns, group)],
            REGISTER_SRC_PORT | REGISTER_SENT => vec![(self.sources, group)],
            REGISTER_CLAIMED => vec![(self.claimed, group * self.paths + u32::from(read.index))],
            REGISTER_ACK => vec![(self.leaves, group * self.paths + u32::from(read.index))],
            _ => return None,
        };
        let entries = cells.into_iter().map(|(register_id, index)| {
            entity::Entity::RegisterEntry(RegisterEntry {
                register_id,
                index: Some(Index {
                    index: i64::from(index),
                }),
                data: None,
            })
        });
        Some(entries.collect())
    }

    /// What was read, in the form of v1model's answer (`RegisterName` says which); none when something is missing.
    pub fn value<'a>(
        &self,
        read: &RegisterControl,
        entities: impl IntoIterator<Item = &'a Entity>,
    ) -> Option<u64> {
        let (mut last_acked, mut msn, mut leaf, mut source, mut claimed) =
            (None, None, None, None, None);
        let member = usize::from(read.reg == REGISTER_SRC_PORT);
        for entity in entities {
            let Some(entity::Entity::RegisterEntry(entry)) = &entity.entity else {
                continue;
            };
            let value = entry.data.as_ref().and_then(|data| match &data.data {
                Some(p4_data::Data::Bitstring(bytes)) => word(bytes),
                // Of `sources` the first member, the PSN above 8 bits, or the second one, the port.
                Some(p4_data::Data::Struct(parts)) => match &parts.members.get(member)?.data {
                    Some(p4_data::Data::Bitstring(bytes)) => word(bytes),
                    _ => None,
                },
                _ => None,
            });
            match entry.register_id {
                id if id == self.last_acked => last_acked = value,
                id if id == self.last_acked_msns => msn = value,
                id if id == self.leaves => leaf = value,
                id if id == self.sources => source = value,
                id if id == self.claimed => claimed = value,
                _ => {}
            }
        }
        match read.reg {
            REGISTER_AGG => Some(u64::from(last_acked? >> 8) << 24 | u64::from(msn? >> 8)),
            REGISTER_SRC_PORT => source.map(u64::from),
            REGISTER_SENT => source.map(|word| u64::from(word >> 8)),
            // The word of an ACK has ones below its PSN, that of a NAK zeros, which acknowledges the PSN before.
            REGISTER_CLAIMED => claimed.map(|word| u64::from(word.wrapping_sub(1) >> 8)),
            REGISTER_ACK => leaf.map(u64::from),
            _ => None,
        }
    }
}

/// An `int<32>` in two's complement, of as few bytes as hold it (P4Runtime, section 8.4) or of all four.
fn word(bytes: &[u8]) -> Option<u32> {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start = if negative { u32::MAX } else { 0 };
    (bytes.len() <= 4).then(|| {
        let shifted = |word: u32, byte: &u8| word << 8 | u32::from(*byte);
        bytes.iter().fold(start, shifted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_signed_and_may_be_short() {
        assert_eq!(word(&[]), Some(0));
        assert_eq!(word(&[0x7f]), Some(0x7f));
        assert_eq!(word(&[0xff]), Some(u32::MAX));
        assert_eq!(word(&[0, 0xff]), Some(0xff));
        assert_eq!(word(&[0x80, 0, 0, 1]), Some(0x8000_0001));
        assert_eq!(word(&[0, 0, 0, 0, 1]), None);
    }
}
