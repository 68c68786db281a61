//! `ingress.arp_responder.arp_targets`: addresses for which the fabric replies to ARP requests, and the MAC addresses in the replies.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::wire::MacAddr;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: a prefix of addresses for which ARP requests get a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArpTarget {
    /// Any address of the prefix.
    pub network: Ipv4Addr,
    /// Prefix length in bits, 0 to 32.
    pub prefix_len: u8,
}

/// The table of ARP replies. Its only action replies with a [`MacAddr`].
#[derive(Clone, Debug)]
pub struct ArpTargets {
    key: KeyIds<1>,
    reply: ActionIds<1>,
}

impl ArpTargets {
    pub(super) fn resolve(schema: &Schema) -> Result<ArpTargets, ProgramError> {
        Ok(ArpTargets {
            key: schema.table("ingress.arp_responder.arp_targets")?.key([(
                "target_ip",
                MatchType::Lpm,
                32,
            )])?,
            reply: schema.action("ingress.arp_responder.reply", [("mac", 48)])?,
        })
    }
}

impl Table for ArpTargets {
    type Key = ArpTarget;
    type Action = MacAddr;

    fn entry(&self, key: &ArpTarget, mac: &MacAddr) -> TableEntry {
        TableEntry {
            action: Some(self.reply.call([super::mac_bits(*mac)])),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &ArpTarget) -> TableEntry {
        self.key.lpm(u32::from(key.network), key.prefix_len)
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(ArpTarget, MacAddr)> {
        let (network, prefix_len) = self.key.prefix(entry)?;
        let [mac] = self.reply.arguments(entry)?;
        let key = ArpTarget {
            network: network.into(),
            prefix_len,
        };
        Some((key, super::mac_from_bits(mac)))
    }
}
