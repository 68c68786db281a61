//! `ingress.punt_limit.rates`, on Tofino `egress.punt_limit.rates`: rate limits of packets to the
//! controller, by port and kind.

use alfirk_p4runtime::p4::v1::{entity, update, Index, MeterConfig, MeterEntry, Update};

use super::entity_update;
use super::schema::{ProgramError, Schema};
use super::target::Target;

/// Ports that a pipeline can have: the meter's cells of one kind.
const PORTS: u32 = 512;

/// What is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PuntKey {
    /// One of the `PACKET_IN_*` constants.
    pub reason: u8,
    /// The port that packets come by.
    pub port: u32,
}

/// Packets in a second, and at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntRate {
    /// Packets per second, 1 or more.
    pub rate: u64,
    /// Packets that may come together, 1 or more.
    pub burst: u64,
}

/// The meter.
#[derive(Clone, Copy, Debug)]
pub struct PuntRates {
    meter: u32,
}

impl PuntRates {
    pub(super) fn resolve(schema: &Schema, target: Target) -> Result<PuntRates, ProgramError> {
        let name = match target {
            Target::V1model => "ingress.punt_limit.rates",
            Target::Tofino => "egress.punt_limit.rates",
        };
        Ok(PuntRates {
            meter: schema.meter(name, 8 * PORTS)?,
        })
    }

    /// Sets a cell's rate: meters have no insertions (P4Runtime § 9.4).
    pub fn set(&self, key: &PuntKey, rate: &PuntRate) -> Update {
        let PuntRate { rate, burst } = *rate;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let entry = MeterEntry {
            meter_id: self.meter,
            index: Some(Index {
                index: i64::from(u32::from(key.reason) * PORTS + key.port),
            }),
            // Two equal buckets: what is not green is red.
            config: Some(MeterConfig {
                cir: number(rate),
                cburst: number(burst),
                pir: number(rate),
                pburst: number(burst),
                ..MeterConfig::default()
            }),
            ..MeterEntry::default()
        };
        entity_update(update::Type::Modify, entity::Entity::MeterEntry(entry))
    }

    /// What to read for all cells.
    pub fn wanted(&self) -> entity::Entity {
        entity::Entity::MeterEntry(MeterEntry {
            meter_id: self.meter,
            ..MeterEntry::default()
        })
    }
}
