//! `egress.ecn_marking.profiles`: how likely a packet that leaves by a port is marked, by the length of its queue.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

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
    /// Always a mark when so many wait or more; 19 bits.
    pub max: u32,
    /// Added to the chance, in units of 2^-16, for each packet above `min`.
    pub rise: u32,
}

/// The table; its one action gives the profile.
#[derive(Clone, Debug)]
pub struct EcnMarking {
    key: KeyIds<1>,
    profile: ActionIds<3>,
}

impl EcnMarking {
    pub(super) fn resolve(schema: &Schema) -> Result<EcnMarking, ProgramError> {
        Ok(EcnMarking {
            key: schema.table("egress.ecn_marking.profiles")?.key([(
                "egress_port",
                MatchType::Exact,
                9,
            )])?,
            profile: schema.action(
                "egress.ecn_marking.profile",
                [("min", 19), ("max", 19), ("rise", 32)],
            )?,
        })
    }
}

impl Table for EcnMarking {
    type Key = MarkingPort;
    type Action = Marking;

    fn entry(&self, key: &MarkingPort, marking: &Marking) -> TableEntry {
        let Marking { min, max, rise } = *marking;
        TableEntry {
            action: Some(self.profile.call([min, max, rise].map(u64::from))),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &MarkingPort) -> TableEntry {
        self.key.exact([u64::from(key.port)])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(MarkingPort, Marking)> {
        let [port] = self.key.values(entry)?;
        let [min, max, rise] = self.profile.arguments(entry)?;
        let key = MarkingPort {
            port: u32::try_from(port).ok()?,
        };
        let marking = Marking {
            min: u32::try_from(min).ok()?,
            max: u32::try_from(max).ok()?,
            rise: u32::try_from(rise).ok()?,
        };
        Some((key, marking))
    }
}
