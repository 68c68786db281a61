//! `egress.bridge_exit.receivers`: rewrite of a group's packets for the queue pair of the member at a port.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::icrc::neutral::{ExitPairs, NeutralPair};
use alfirk_roce::wire::{MacAddr, QpNum};

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;

/// Key: a group, and the port of one of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReceiverKey {
    /// Index of the group on this switch.
    pub group_index: u16,
    /// Port of the switch to which the member is attached.
    pub port: u32,
}

/// Exit half of a member's bridge: the rewrite of a packet copy for the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverRewrite {
    /// The member's Ethernet address.
    pub mac: MacAddr,
    /// IPv4 address of the member.
    pub ip: Ipv4Addr,
    /// Number of the member's queue pair.
    pub qpn: QpNum,
    /// XOR constants that keep the ICRC valid, for packets without and with a RETH.
    pub neutral: ExitPairs,
    /// XOR of the group's virtual address with that of the member's memory region.
    pub va_xor: u64,
    /// XOR of the group's R_Key with the member's.
    pub rkey_xor: u32,
    /// Slot of the member among all receivers of the switch: index into the registers of announced memory regions.
    pub slot: u32,
}

/// The table of rewrites for receivers.
#[derive(Clone, Debug)]
pub struct Receivers {
    key: KeyIds<2>,
    deliver: ActionIds<10>,
}

impl Receivers {
    pub(super) const NAME: &'static str = "egress.bridge_exit.receivers";

    pub(super) fn resolve(schema: &Schema) -> Result<Receivers, ProgramError> {
        Ok(Receivers {
            key: schema.table(Self::NAME)?.key([
                ("group_index", MatchType::Exact, 16),
                ("egress_port", MatchType::Exact, 9),
            ])?,
            deliver: schema.action(
                "egress.bridge_exit.deliver_with_slot",
                [
                    ("mac", 48),
                    ("ip", 32),
                    ("qpn", 24),
                    ("id_xor", 16),
                    ("sport_xor", 16),
                    ("reth_id_xor", 16),
                    ("reth_sport_xor", 16),
                    ("va_xor", 64),
                    ("rkey_xor", 32),
                    ("slot", 24),
                ],
            )?,
        })
    }
}

impl Table for Receivers {
    type Key = ReceiverKey;
    type Action = ReceiverRewrite;

    fn entry(&self, key: &ReceiverKey, to: &ReceiverRewrite) -> TableEntry {
        let action = self.deliver.call([
            super::mac_bits(to.mac),
            u64::from(u32::from(to.ip)),
            u64::from(to.qpn.get()),
            u64::from(to.neutral.plain.ip_id_xor),
            u64::from(to.neutral.plain.udp_sport_xor),
            u64::from(to.neutral.reth.ip_id_xor),
            u64::from(to.neutral.reth.udp_sport_xor),
            to.va_xor,
            u64::from(to.rkey_xor),
            u64::from(to.slot),
        ]);
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &ReceiverKey) -> TableEntry {
        self.key
            .exact([u64::from(key.group_index), u64::from(key.port)])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(ReceiverKey, ReceiverRewrite)> {
        let [group_index, port] = self.key.values(entry)?;
        let [mac, ip, qpn, id, sport, reth_id, reth_sport, va_xor, rkey_xor, slot] =
            self.deliver.arguments(entry)?;
        let pair = |id: u64, sport: u64| {
            Some(NeutralPair {
                ip_id_xor: u16::try_from(id).ok()?,
                udp_sport_xor: u16::try_from(sport).ok()?,
            })
        };
        let key = ReceiverKey {
            group_index: u16::try_from(group_index).ok()?,
            port: u32::try_from(port).ok()?,
        };
        let delivery = ReceiverRewrite {
            mac: super::mac_from_bits(mac),
            ip: u32::try_from(ip).ok()?.into(),
            qpn: QpNum::try_from(u32::try_from(qpn).ok()?).ok()?,
            neutral: ExitPairs {
                plain: pair(id, sport)?,
                reth: pair(reth_id, reth_sport)?,
            },
            va_xor,
            rkey_xor: u32::try_from(rkey_xor).ok()?,
            slot: u32::try_from(slot).ok()?,
        };
        Some((key, delivery))
    }
}
