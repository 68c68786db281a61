//! Clone sessions of the packet replication engine.
//!
//! The pipeline mirrors a forwarded ACK to its ingress port, where it updates the retransmission filter. The session id of
//! a port is the port number.

use alfirk_p4runtime::p4::v1::{
    packet_replication_engine_entry, update, CloneSessionEntry, Update,
};

use super::multicast_groups::{pre_update, replica};

/// A clone session that mirrors packets to one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloneSession {
    /// Port to which packets are mirrored; its number is also the session id.
    pub port: u32,
}

impl CloneSession {
    /// Update that inserts the session; the switch rejects it if the session exists.
    pub fn insert(self) -> Update {
        self.insert_as(self.port, 0)
    }

    /// Update that inserts the session under another session id. `packet_length_bytes`: length to which packets are
    /// truncated, 0 for whole packets.
    pub(super) fn insert_as(self, session_id: u32, packet_length_bytes: i32) -> Update {
        let entry = CloneSessionEntry {
            session_id,
            packet_length_bytes,
            replicas: vec![replica(self.port, 0)],
            ..CloneSessionEntry::default()
        };
        pre_update(
            update::Type::Insert,
            packet_replication_engine_entry::Type::CloneSessionEntry(entry),
        )
    }
}
