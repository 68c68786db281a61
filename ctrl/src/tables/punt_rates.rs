//! `punt_limit.rates`: rate limits of packets to the controller, by port and kind.

use alfirk_p4runtime::p4::v1::{entity, update, Index, MeterConfig, MeterEntry, Update};

use super::entity_update;
use super::schema::{ProgramError, Schema};

/// Number of meter cells per kind of packet: one for each possible port.
const PORTS: u32 = 512;

/// Key of a meter cell: kind of packet and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PuntKey {
    /// Kind of packet: one of the `PACKET_IN_*` constants.
    pub reason: u8,
    /// Ingress port of the packets.
    pub port: u32,
}

/// Rate limit of one meter cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntRate {
    /// Packets per second, 1 or more.
    pub rate: u64,
    /// Maximum burst in packets, 1 or more.
    pub burst: u64,
}

/// The meter array of rate limits.
#[derive(Clone, Copy, Debug)]
pub struct PuntRates {
    meter: u32,
}

impl PuntRates {
    pub(super) fn resolve(schema: &Schema) -> Result<PuntRates, ProgramError> {
        Ok(PuntRates {
            meter: schema.meter("punt_limit.rates", 8 * PORTS)?,
        })
    }

    /// Update that sets the rate of a cell. Meters are only modified, never inserted (P4Runtime, section 9.4).
    pub fn set(&self, key: &PuntKey, rate: &PuntRate) -> Update {
        let PuntRate { rate, burst } = *rate;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let entry = MeterEntry {
            meter_id: self.meter,
            index: Some(Index {
                index: i64::from(u32::from(key.reason) * PORTS + key.port),
            }),
            // Both token buckets are equal, so that a packet is green or red, never yellow.
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

    /// Entity of a Read that returns all cells.
    pub fn entities_to_read(&self) -> entity::Entity {
        entity::Entity::MeterEntry(MeterEntry {
            meter_id: self.meter,
            ..MeterEntry::default()
        })
    }
}
