//! `ingress.source_guard.hosts`: address of the host at each port.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: a port to which a host is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Port of the switch to which the host is attached.
    pub port: u32,
}

/// The table of attached hosts, against spoofed source addresses. Its only action sets the host's address.
#[derive(Clone, Debug)]
pub struct SourceGuard {
    key: KeyIds<1>,
    attached: ActionIds<1>,
}

impl SourceGuard {
    pub(super) fn resolve(schema: &Schema) -> Result<SourceGuard, ProgramError> {
        Ok(SourceGuard {
            key: schema.table("ingress.source_guard.hosts")?.key([(
                "ingress_port",
                MatchType::Exact,
                9,
            )])?,
            attached: schema.action("ingress.source_guard.attached", [("ip", 32)])?,
        })
    }
}

impl Table for SourceGuard {
    type Key = HostPort;
    type Action = Ipv4Addr;

    fn entry(&self, key: &HostPort, ip: &Ipv4Addr) -> TableEntry {
        TableEntry {
            action: Some(self.attached.call([u64::from(u32::from(*ip))])),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &HostPort) -> TableEntry {
        self.key.exact([u64::from(key.port)])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(HostPort, Ipv4Addr)> {
        let [port] = self.key.values(entry)?;
        let [ip] = self.attached.arguments(entry)?;
        let port = u32::try_from(port).ok()?;
        Some((HostPort { port }, Ipv4Addr::from(u32::try_from(ip).ok()?)))
    }
}
