//! Counter arrays of the pipeline: cost of each strategy that finds the minimum of acknowledged PSNs, and reasons of drops.

use std::ops::{Add, AddAssign, Sub};

use alfirk_p4runtime::p4::v1::{entity, CounterEntry, Entity, Index};

use super::schema::{optional, ProgramError, Schema};
use crate::strategy::MinPsn;

/// Cells of `ingress.ack_aggregate.work` per strategy.
const WORK_STRIDE: i64 = 8;
/// Cell of the counter array `ingress.drops` for CNPs dropped because another path is more congested.
const CNP_FILTERED: i64 = alfirk_contract::Drop::CnpFiltered as i64;
/// Cell of the counter array `egress.drops` for copies dropped because their path had already acknowledged them.
const ALREADY_ACKED: i64 = alfirk_contract::Drop::AlreadyAcked as i64;

/// P4Info ids of the pipeline's counter arrays.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Array with the cost of each strategy; `None` if the program does not count it.
    work: Option<u32>,
    ingress_drops: u32,
    egress_drops: u32,
    punts_limited: Option<u32>,
}

/// Cost of one strategy that finds the minimum of the PSNs that a group's paths have acknowledged, as numbers of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of ACKs and NAKs received.
    pub feedback: u64,
    /// Number of ACKs and NAKs forwarded to the source, by switches or by the controller.
    pub forwarded: u64,
    /// Number of recirculations: passes of packets through the pipeline after the first one.
    pub recirculations: u64,
    /// Number of packets passed to the controller (punted): ACKs, NAKs, and probes, which report retransmissions.
    pub punts: u64,
}

/// Counters of the switches, since their pipelines were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cost of finding the minimum PSN, by strategy: tree in the pipeline, table walk, computation by the controller
    /// (punt).
    pub work: [Work; 3],
    /// Number of CNPs dropped because another path was more congested, or because they exceeded the rate limit.
    pub cnps_filtered: u64,
    /// Number of copies of retransmissions dropped because their path had acknowledged them.
    pub copies_filtered: u64,
    /// Number of packets dropped instead of passed to the controller, because their port exceeded its rate limit.
    pub punts_limited: u64,
}

impl Counts {
    /// Cost of finding the minimum PSN with one strategy.
    pub fn work(&self, strategy: MinPsn) -> Work {
        self.work[usize::from(strategy.number())]
    }

    /// Difference to an earlier reading; 0 for a counter that has decreased because a switch was restarted.
    pub fn since(&self, earlier: &Counts) -> Counts {
        self.combine(earlier, u64::saturating_sub)
    }

    fn combine(&self, other: &Counts, how: impl Fn(u64, u64) -> u64) -> Counts {
        let work = [0, 1, 2].map(|n: usize| Work {
            feedback: how(self.work[n].feedback, other.work[n].feedback),
            forwarded: how(self.work[n].forwarded, other.work[n].forwarded),
            recirculations: how(self.work[n].recirculations, other.work[n].recirculations),
            punts: how(self.work[n].punts, other.work[n].punts),
        });
        Counts {
            work,
            cnps_filtered: how(self.cnps_filtered, other.cnps_filtered),
            copies_filtered: how(self.copies_filtered, other.copies_filtered),
            punts_limited: how(self.punts_limited, other.punts_limited),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = self.combine(&other, u64::add);
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        self.since(&earlier)
    }
}

impl Counters {
    pub(super) fn resolve(schema: &Schema) -> Result<Counters, ProgramError> {
        Ok(Counters {
            work: optional(schema.counter("ingress.ack_aggregate.work"))?,
            ingress_drops: schema.counter("ingress.drops")?,
            egress_drops: schema.counter("egress.drops")?,
            punts_limited: optional(schema.counter("punt_limit.limited"))?,
        })
    }

    /// Entities of one Read that returns the cells for [`Counters::counts`]: two whole arrays, and one cell of each
    /// array of drops.
    pub fn entities_to_read(&self) -> Vec<entity::Entity> {
        let arrays = [
            (self.work, None),
            (Some(self.ingress_drops), Some(CNP_FILTERED)),
            (Some(self.egress_drops), Some(ALREADY_ACKED)),
            (self.punts_limited, None),
        ];
        let entries = arrays.into_iter().filter_map(|(id, index)| {
            Some(entity::Entity::CounterEntry(CounterEntry {
                counter_id: id?,
                index: index.map(|index| Index { index }),
                ..CounterEntry::default()
            }))
        });
        entries.collect()
    }

    /// Converts read counter entries to [`Counts`]; other entities are ignored.
    pub fn counts<'a>(&self, entities: impl IntoIterator<Item = &'a Entity>) -> Counts {
        let mut counts = Counts::default();
        for entity in entities {
            let Some(entity::Entity::CounterEntry(entry)) = &entity.entity else {
                continue;
            };
            // Servers may omit index 0.
            let index = entry.index.as_ref().map_or(0, |index| index.index);
            let packets = entry.data.as_ref().map_or(0, |data| data.packet_count);
            let Ok(packets) = u64::try_from(packets) else {
                continue;
            };
            if Some(entry.counter_id) == self.work {
                let strategy = usize::try_from(index / WORK_STRIDE).unwrap_or(usize::MAX);
                if let Some(work) = counts.work.get_mut(strategy) {
                    match index % WORK_STRIDE {
                        0 => work.feedback += packets,
                        1 => work.forwarded += packets,
                        2 => work.recirculations += packets,
                        3 => work.punts += packets,
                        _ => {}
                    }
                }
            } else if entry.counter_id == self.ingress_drops && index == CNP_FILTERED {
                counts.cnps_filtered += packets;
            } else if entry.counter_id == self.egress_drops && index == ALREADY_ACKED {
                counts.copies_filtered += packets;
            } else if Some(entry.counter_id) == self.punts_limited {
                counts.punts_limited += packets;
            }
        }
        counts
    }
}
