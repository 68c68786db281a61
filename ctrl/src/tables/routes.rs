//! `ingress.ipv4_routing.routes`: unicast routes.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::wire::MacAddr;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::target::Target;
use super::Table;

/// Key: a destination prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// Any address of the prefix.
    pub network: Ipv4Addr,
    /// Prefix length in bits, 0 to 32.
    pub prefix_len: u8,
}

/// Forwarding decision for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Forward to a host attached to this switch, with the host's Ethernet address as destination.
    ToHost {
        /// Egress port, to which the host is attached.
        port: u32,
        /// The host's Ethernet address.
        mac: MacAddr,
    },
    /// Forward to another switch.
    ToSwitch {
        /// Egress port, which leads to the next switch.
        port: u32,
    },
    /// Forward to one of several equal-cost ports, selected by hash.
    Ecmp {
        /// Group id in `next_hops`.
        group: u16,
        /// Number of members of the ECMP group, 1 or more.
        size: u16,
        /// Hash seed, different for each switch, so that the layers of a fabric choose independently.
        seed: u16,
    },
    /// Drop, as without an entry: excludes a prefix from a shorter prefix that has a route.
    NoRoute,
}

/// The table of unicast routes.
#[derive(Clone, Debug)]
pub struct Routes {
    key: KeyIds<1>,
    to_host: ActionIds<2>,
    to_switch: ActionIds<1>,
    ecmp: ActionIds<3>,
    no_route: ActionIds<0>,
    target: Target,
}

impl Routes {
    pub(super) const NAME: &'static str = "ingress.ipv4_routing.routes";

    pub(super) fn resolve(schema: &Schema, target: Target) -> Result<Routes, ProgramError> {
        Ok(Routes {
            key: schema
                .table(Self::NAME)?
                .key([("dst_ip", MatchType::Lpm, 32)])?,
            to_host: schema.action("ingress.ipv4_routing.to_host", [("port", 9), ("mac", 48)])?,
            to_switch: schema.action("ingress.ipv4_routing.to_switch", [("port", 9)])?,
            ecmp: schema.action(
                "ingress.ipv4_routing.ecmp",
                [
                    ("group", 16),
                    match target {
                        Target::V1model => ("size", 16),
                        Target::Tofino => ("mask", 16),
                    },
                    ("seed", 16),
                ],
            )?,
            no_route: schema.action("ingress.ipv4_routing.no_route", [])?,
            target,
        })
    }
}

impl Table for Routes {
    type Key = RouteKey;
    type Action = Route;

    fn entry(&self, key: &RouteKey, action: &Route) -> TableEntry {
        let action = match *action {
            Route::ToHost { port, mac } => {
                self.to_host.call([u64::from(port), super::mac_bits(mac)])
            }
            Route::ToSwitch { port } => self.to_switch.call([u64::from(port)]),
            Route::Ecmp { group, size, seed } => {
                let hops = match self.target {
                    Target::V1model => size,
                    Target::Tofino => size.next_power_of_two() - 1,
                };
                self.ecmp.call([group, hops, seed].map(u64::from))
            }
            Route::NoRoute => self.no_route.call([]),
        };
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &RouteKey) -> TableEntry {
        self.key.lpm(u32::from(key.network), key.prefix_len)
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(RouteKey, Route)> {
        let (network, prefix_len) = self.key.prefix(entry)?;
        let key = RouteKey {
            network: network.into(),
            prefix_len,
        };
        let port = |port: u64| u32::try_from(port).ok();
        let small = |value: u64| u16::try_from(value).ok();
        let route = if let Some([to, mac]) = self.to_host.arguments(entry) {
            Route::ToHost {
                port: port(to)?,
                mac: super::mac_from_bits(mac),
            }
        } else if let Some([to]) = self.to_switch.arguments(entry) {
            Route::ToSwitch { port: port(to)? }
        } else if self.no_route.arguments(entry).is_some() {
            Route::NoRoute
        } else {
            let [group, size, seed] = self.ecmp.arguments(entry)?;
            Route::Ecmp {
                group: small(group)?,
                size: match self.target {
                    Target::V1model => small(size)?,
                    Target::Tofino => small(size + 1)?,
                },
                seed: small(seed)?,
            }
        };
        Some((key, route))
    }
}
