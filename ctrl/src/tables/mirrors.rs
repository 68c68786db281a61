//! `ingress.mirrors` of Tofino's data plane: mirror sessions that return packets to their ingress port, and mirror sessions of
//! the switch as a whole.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::{TableEntry, Update};

use super::clone_sessions::CloneSession;
use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::{table_update, update};

/// Width of a session id in bits, and the recirculation port, of Tofino and Tofino 2 (`p4src/tna/metadata.p4`).
const CHIPS: [(i32, u32); 2] = [(10, 68), (8, 6)];
/// Bytes of the header `carried_t`, which precedes each mirrored packet.
const CARRIED_BYTES: i32 = 20;
/// Bytes of two VLAN tags.
const TAGS_BYTES: i32 = 8;
/// Length in bytes to which the mirror of a request is truncated when a reply is built from it: up to the end of the BTH.
const ANSWER_BYTES: i32 = CARRIED_BYTES + 54 + TAGS_BYTES;
/// Length in bytes of the mirror of an ACK or NAK: the frame up to the end of the ICRC.
const FEEDBACK_BYTES: i32 = CARRIED_BYTES + 62 + TAGS_BYTES;
/// Maximum length in bytes of the mirror of a registration packet: an Ethernet header, and an IPv4 packet of 1,500 bytes.
const REGISTRATION_BYTES: i32 = CARRIED_BYTES + 14 + 1500 + TAGS_BYTES;

/// The table that maps each port to its mirror sessions.
#[derive(Clone, Debug)]
pub struct Mirrors {
    key: KeyIds<1>,
    set_sessions: ActionIds<2>,
    /// First session id for replies. Lower session ids equal port numbers; they are for records, which are mirrors of
    /// ACKs and NAKs that update registers in egress.
    first_answer: u32,
    /// Port that recirculates packets.
    recirculation_port: u32,
}

impl Mirrors {
    pub(super) const NAME: &'static str = "ingress.mirrors";

    pub(super) fn resolve(schema: &Schema) -> Result<Mirrors, ProgramError> {
        let [of_tofino, of_tofino_2] = CHIPS.map(|(bits, recirculation_port)| {
            let params = [("record", bits), ("answer", bits)];
            let action = schema.action("ingress.set_sessions", params);
            action.map(|action| (action, 1 << (bits - 1), recirculation_port))
        });
        let (set_sessions, first_answer, recirculation_port) = of_tofino_2.or(of_tofino)?;
        Ok(Mirrors {
            key: schema
                .table(Self::NAME)?
                .key([("ingress_port", MatchType::Exact, 9)])?,
            set_sessions,
            first_answer,
            recirculation_port,
        })
    }

    /// Number of ports, from 0, that have session ids; the session id of the CPU port follows them.
    pub fn ports(&self) -> u32 {
        self.first_answer - 2
    }

    /// Updates that insert the sessions of the switch as a whole (`p4src/tna/metadata.p4`).
    ///
    /// Fatal NAKs to the controller use the CPU port's number, modulo the number of session ids. Registration packets use the
    /// last session id. Recirculated records of feedback use the number of the recirculation port.
    pub fn of_switch(&self, cpu_port: u32) -> [Update; 3] {
        let sessions = 2 * self.first_answer;
        let to_cpu = CloneSession { port: cpu_port };
        let port = self.recirculation_port;
        [
            to_cpu.insert_as(cpu_port % sessions, FEEDBACK_BYTES),
            to_cpu.insert_as(sessions - 1, REGISTRATION_BYTES),
            CloneSession { port }.insert_as(port, FEEDBACK_BYTES),
        ]
    }

    /// Updates that insert the session for replies to packets from a port, and the table entry of that port.
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
