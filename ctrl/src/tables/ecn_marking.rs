//! `egress.ecn_marking.profiles`: ECN marking probability of a port, by queue length.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::{
    entity, p4_data, update, Index, P4Data, RegisterEntry, TableEntry, Update,
};

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::target::Target;
use super::{entity_update, table_update};

/// Key: a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkingPort {
    /// The port.
    pub port: u32,
}

/// What a port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// No marks while no more packets than this wait; 19 bits.
    pub min: u32,
    /// Queue length from which on every packet is marked; 19 bits.
    pub max: u32,
    /// Added to the chance, in units of 2^-16, for each packet above `min`.
    pub rise: u32,
}

/// The table; its one action gives the profile. On Tofino a `Wred` takes its place, whose thresholds are a register to
/// P4Runtime.
#[derive(Clone, Debug)]
pub enum EcnMarking {
    /// Of v1model.
    #[doc(hidden)]
    Table(ProfileTable),
    /// Of Tofino: the register.
    #[doc(hidden)]
    Wred(u32),
}

/// Ids of the table.
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

    /// Gives a port a profile.
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

    /// The table's id; none of Tofino's.
    pub fn id(&self) -> Option<u32> {
        match self {
            EcnMarking::Table(table) => Some(table.key.table()),
            EcnMarking::Wred(_) => None,
        }
    }

    /// An entry's port, and what the port does.
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

    /// As a `Wred` of our switch has it: where marks begin, where all packets get one, and how many in a hundred just below
    /// that.
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
