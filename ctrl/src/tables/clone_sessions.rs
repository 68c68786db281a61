//! Clone sessions of the packet replication engine.
//!
//! The pipeline mirrors a forwarded ACK back to the port it came from, where the retransmission filter learns of it;
//! the session of a port has the port's number.

use alfirk_p4runtime::p4::v1::{
    packet_replication_engine_entry, update, CloneSessionEntry, Update,
};

use super::multicast_groups::{pre_update, replica};

/// The session that mirrors to one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloneSession {
    /// Port and session id.
    pub port: u32,
}

impl CloneSession {
    /// Adds the session; refused by the switch when it is there.
    pub fn insert(self) -> Update {
        let entry = CloneSessionEntry {
            session_id: self.port,
            replicas: vec![replica(self.port, 0)],
            ..CloneSessionEntry::default()
        };
        pre_update(
            update::Type::Insert,
            packet_replication_engine_entry::Type::CloneSessionEntry(entry),
        )
    }
}
