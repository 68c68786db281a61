//! `ingress.ipv4_routing.next_hops`: the ports of an equal-cost group.

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: one member of an ECMP group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHopKey {
    /// Id of the ECMP group, as in [`super::Route::Ecmp`].
    pub group: u16,
    /// Position of the member in the group, from 0; selected by hash.
    pub index: u16,
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Egress port, which leads to another switch.
    pub port: u32,
}

/// The table of next hops of ECMP groups.
#[derive(Clone, Debug)]
pub struct NextHops {
    key: KeyIds<2>,
    to_switch_hop: ActionIds<1>,
}

impl NextHops {
    pub(super) const NAME: &'static str = "ingress.ipv4_routing.next_hops";

    pub(super) fn resolve(schema: &Schema) -> Result<NextHops, ProgramError> {
        Ok(NextHops {
            key: schema.table(Self::NAME)?.key([
                ("ecmp_group", MatchType::Exact, 16),
                ("ecmp_index", MatchType::Exact, 16),
            ])?,
            to_switch_hop: schema.action("ingress.ipv4_routing.to_switch_hop", [("port", 9)])?,
        })
    }
}

impl Table for NextHops {
    type Key = NextHopKey;
    type Action = NextHop;

    fn entry(&self, key: &NextHopKey, action: &NextHop) -> TableEntry {
        TableEntry {
            action: Some(self.to_switch_hop.call([u64::from(action.port)])),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &NextHopKey) -> TableEntry {
        self.key.exact([key.group, key.index].map(u64::from))
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(NextHopKey, NextHop)> {
        let [group, index] = self.key.values(entry)?;
        let [port] = self.to_switch_hop.arguments(entry)?;
        let key = NextHopKey {
            group: u16::try_from(group).ok()?,
            index: u16::try_from(index).ok()?,
        };
        let port = u32::try_from(port).ok()?;
        Some((key, NextHop { port }))
    }
}
