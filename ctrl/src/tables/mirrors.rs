//! `ingress.mirrors`, of Tofino's data plane: the mirror sessions of each port, which lead back to it.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::{TableEntry, Update};

use super::clone_sessions::CloneSession;
use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::{table_update, update};

/// Bits of a session's number: of Tofino, and of Tofino 2.
const SESSION_BITS: [i32; 2] = [10, 8];
/// Bytes of a mirror for an answer: `carried_t`, and a frame up to the end of the BTH with two tags.
const ANSWER_BYTES: i32 = 23 + 62;

/// The table.
#[derive(Clone, Debug)]
pub struct Mirrors {
    key: KeyIds<1>,
    set_sessions: ActionIds<2>,
    /// Sessions for records have the numbers of ports, those for answers begin behind them.
    first_answer: u32,
}

impl Mirrors {
    pub(super) const NAME: &'static str = "ingress.mirrors";

    pub(super) fn resolve(schema: &Schema) -> Result<Mirrors, ProgramError> {
        let [of_tofino, of_tofino_2] = SESSION_BITS.map(|bits| {
            let params = [("record", bits), ("answer", bits)];
            let action = schema.action("ingress.set_sessions", params);
            action.map(|action| (action, 1 << (bits - 1)))
        });
        let (set_sessions, first_answer) = of_tofino_2.or(of_tofino)?;
        Ok(Mirrors {
            key: schema
                .table(Self::NAME)?
                .key([("ingress_port", MatchType::Exact, 9)])?,
            set_sessions,
            first_answer,
        })
    }

    /// Ports from 0 on that sessions have numbers for; the session of the CPU port is behind them.
    pub fn ports(&self) -> u32 {
        self.first_answer - 2
    }

    /// The session to the CPU port: its number is the port's, in as many bits as there are (`SESSION_TO_CPU` in p4src/tna/metadata.p4).
    pub fn to_cpu(&self, port: u32) -> Update {
        CloneSession { port }.insert_as(port % (2 * self.first_answer), 0)
    }

    /// The session for answers to what comes by a port, and the entry that names it.
    pub fn insert(&self, port: u32) -> [Update; 2] {
        let answer = self.first_answer + port;
        let session = CloneSession { port }.insert_as(answer, ANSWER_BYTES);
        let action = self.set_sessions.call([port, answer].map(u64::from));
        let entry = TableEntry {
            action: Some(action),
            ..self.key.exact([u64::from(port)])
        };
        [session, table_update(update::Type::Insert, entry)]
    }

    pub(super) fn id(&self) -> u32 {
        self.key.table()
    }
}
