//! Registers of a group that the controller reads by P4Runtime on Tofino. There, the register ALUs have no free instruction to
//! return a value in a packet. On v1model the pipeline itself replies (`RegisterOp.READ`).

use alfirk_contract::RegisterControl;
use alfirk_p4runtime::p4::v1::{entity, p4_data, Entity, Index, RegisterEntry};

use super::schema::{ProgramError, Schema};
use crate::constants::{
    REGISTER_ACK, REGISTER_AGG, REGISTER_CLAIMED, REGISTER_SENT, REGISTER_SRC_PORT,
};

/// P4Info ids of the register arrays with the state of groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupRegisters {
    /// PSN last acknowledged to the source, in the upper 24 bits of a 32-bit word.
    last_acked: u32,
    /// MSN last acknowledged to the source, in the upper 24 bits.
    last_acked_msns: u32,
    /// Newest PSN sent, and port of the source: a struct of two members.
    sources: u32,
    /// PSN acknowledged by each path, in the upper 24 bits; the path number in the lower 8 bits.
    leaves: u32,
    /// Newest PSN in ACKs and NAKs from each path, not checked against the newest PSN sent; in the upper 24 bits.
    claimed: u32,
    /// Cells per group in `leaves` and `claimed`.
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

    /// Cells to read by P4Runtime for a `RegisterOp.READ`; `None` for a register that the controller does not read.
    pub fn entities_to_read(&self, read: &RegisterControl) -> Option<Vec<entity::Entity>> {
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

    /// Converts read cells to the value that v1model's pipeline would return for the same read. `None` if a cell is missing.
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
                // `sources`: the first member is the PSN in the upper 24 bits, the second one the port.
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
            // An ACK has ones in the lower 8 bits. A NAK has zeros there, and acknowledges the PSN before its own.
            REGISTER_CLAIMED => claimed.map(|word| u64::from(word.wrapping_sub(1) >> 8)),
            REGISTER_ACK => leaf.map(u64::from),
            _ => None,
        }
    }
}

/// Decodes an `int<32>` in two's complement, big-endian, of 0 to 4 bytes (P4Runtime, section 8.4). `None` for more bytes.
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
