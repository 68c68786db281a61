//! `ingress.datagram_multicast.groups`: multicast groups of unreliable datagrams.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: the group's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramGroupKey {
    /// A multicast address, in 224.0.0.0/4.
    pub group_ip: Ipv4Addr,
}

/// The table of datagram groups. Its only action sets the group's index, from 0.
#[derive(Clone, Debug)]
pub struct DatagramGroups {
    key: KeyIds<1>,
    replicate: ActionIds<1>,
}

impl DatagramGroups {
    pub(super) const NAME: &'static str = "ingress.datagram_multicast.groups";

    pub(super) fn resolve(schema: &Schema) -> Result<DatagramGroups, ProgramError> {
        Ok(DatagramGroups {
            key: schema
                .table(DatagramGroups::NAME)?
                .key([("group_ip", MatchType::Exact, 32)])?,
            replicate: schema.action("ingress.datagram_multicast.replicate", [("index", 16)])?,
        })
    }
}

impl Table for DatagramGroups {
    type Key = DatagramGroupKey;
    type Action = u16;

    fn entry(&self, key: &DatagramGroupKey, index: &u16) -> TableEntry {
        TableEntry {
            action: Some(self.replicate.call([u64::from(*index)])),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &DatagramGroupKey) -> TableEntry {
        self.key.exact([u64::from(u32::from(key.group_ip))])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(DatagramGroupKey, u16)> {
        let [group_ip] = self.key.values(entry)?;
        let [index] = self.replicate.arguments(entry)?;
        let group_ip = Ipv4Addr::from(u32::try_from(group_ip).ok()?);
        Some((DatagramGroupKey { group_ip }, u16::try_from(index).ok()?))
    }
}
