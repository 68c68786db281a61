//! `egress.ecn_marking.profiles`: ECN marking probability of a port, by queue length.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::{
    entity, p4_data, update, Index, P4Data, RegisterEntry, TableEntry, Update,
};

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::target::Target;
use super::{entity_update, table_update};

/// Key: an egress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkingPort {
    /// Egress port whose queue is marked.
    pub port: u32,
}

/// ECN marking parameters of a port, as the pipeline's action takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Queue length in packets up to which no packet is marked; 19 bits.
    pub min: u32,
    /// Queue length in packets from which on every packet is marked; 19 bits.
    pub max: u32,
    /// Increase of the marking probability per queued packet above `min`, in units of 2^-16.
    pub rise: u32,
}

/// The table of ECN profiles. Tofino has a `Wred` extern instead, whose thresholds P4Runtime accesses as a register.
#[derive(Clone, Debug)]
pub enum EcnMarking {
    /// The table of v1model.
    #[doc(hidden)]
    Table(ProfileTable),
    /// Register id of Tofino's `Wred`.
    #[doc(hidden)]
    Wred(u32),
}

/// P4Info ids of v1model's table.
#[derive(Clone, Debug)]
pub struct ProfileTable {
    key: KeyIds<1>,
    profile: ActionIds<3>,
}

impl EcnMarking {
    const NAME: &'static str = "egress.ecn_marking.profiles";

    pub(super) fn resolve(schema: &Schema, target: Target) -> Result<EcnMarking, ProgramError> {
        if target == Target::Tofino {
            return Ok(EcnMarking::Wred(schema.register(Self::NAME)?));
        }
        Ok(EcnMarking::Table(ProfileTable {
            key: schema
                .table(Self::NAME)?
                .key([("egress_port", MatchType::Exact, 9)])?,
            profile: schema.action(
                "egress.ecn_marking.profile",
                [("min", 19), ("max", 19), ("rise", 32)],
            )?,
        }))
    }

    /// Update that sets the profile of a port.
    pub fn set(&self, key: &MarkingPort, marking: &Marking) -> Update {
        match self {
            EcnMarking::Table(table) => {
                let entry = TableEntry {
                    action: Some(table.profile.call(marking.numbers())),
                    ..table.key.exact([u64::from(key.port)])
                };
                table_update(update::Type::Insert, entry)
            }
            EcnMarking::Wred(register_id) => {
                let entry = RegisterEntry {
                    register_id: *register_id,
                    index: Some(Index {
                        index: i64::from(key.port),
                    }),
                    data: Some(P4Data {
                        data: Some(p4_data::Data::Bitstring(marking.thresholds().to_vec())),
                    }),
                };
                entity_update(update::Type::Modify, entity::Entity::RegisterEntry(entry))
            }
        }
    }

    /// Id of the table; `None` on Tofino, which has no table.
    pub fn id(&self) -> Option<u32> {
        match self {
            EcnMarking::Table(table) => Some(table.key.table()),
            EcnMarking::Wred(_) => None,
        }
    }

    /// Port of a table entry, and its parameters unless it has another action. `None` if it is not an entry of this table.
    pub fn parse(&self, entry: &TableEntry) -> Option<(MarkingPort, Option<Marking>)> {
        let EcnMarking::Table(table) = self else {
            return None;
        };
        let [port] = table.key.values(entry)?;
        let key = MarkingPort {
            port: u32::try_from(port).ok()?,
        };
        let number = |value: u64| u32::try_from(value).ok();
        let marking = table.profile.arguments(entry).and_then(|[min, max, rise]| {
            Some(Marking {
                min: number(min)?,
                max: number(max)?,
                rise: number(rise)?,
            })
        });
        Some((key, marking))
    }
}

impl Marking {
    fn numbers(&self) -> [u64; 3] {
        [self.min, self.max, self.rise].map(u64::from)
    }

    /// Encodes the thresholds for the `Wred` extern of this repository's switch: `min` and `max` as 4 bytes each,
    /// big-endian, then the probability in percent just below `max`.
    fn thresholds(&self) -> [u8; 9] {
        let span = u64::from(self.max.saturating_sub(self.min));
        let share = (u64::from(self.rise) * span * 100)
            .div_ceil(1 << 16)
            .min(100) as u8;
        let mut bytes = [0; 9];
        bytes[..4].copy_from_slice(&self.min.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.max.to_be_bytes());
        bytes[8] = share;
        bytes
    }
}
