//! `ingress.mirrors`, of Tofino's data plane: the mirror sessions of each port, which lead back to it.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::{TableEntry, Update};

use super::clone_sessions::CloneSession;
use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::{table_update, update};

/// Sessions for answers begin behind those for records, which have the numbers of ports.
const FIRST_ANSWER: u32 = 512;
/// Bytes of a mirror for an answer: `carried_t`, and a frame up to the end of the BTH with two tags.
const ANSWER_BYTES: i32 = 23 + 62;

/// The table.
#[derive(Clone, Debug)]
pub struct Mirrors {
    key: KeyIds<1>,
    set_sessions: ActionIds<2>,
}

impl Mirrors {
    pub(super) const NAME: &'static str = "ingress.mirrors";

    pub(super) fn resolve(schema: &Schema) -> Result<Mirrors, ProgramError> {
        Ok(Mirrors {
            key: schema
                .table(Self::NAME)?
                .key([("ingress_port", MatchType::Exact, 9)])?,
            set_sessions: schema
                .action("ingress.set_sessions", [("record", 10), ("answer", 10)])?,
        })
    }

    /// The session for answers to what comes by a port, and the entry that names it.
    pub fn insert(&self, port: u32) -> [Update; 2] {
        let answer = FIRST_ANSWER + port;
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
