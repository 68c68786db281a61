//! `ingress.bridge_entry.members`: members of groups at each port, with the constants of the entry half of the bridge,
//! which rewrites packets from members.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::icrc::neutral::NeutralPair;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::target::{GroupName, Target};
use super::Table;

/// Key: a member at its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberKey {
    /// The group, by index or address, depending on the target.
    pub group: GroupName,
    /// Port of the switch to which the member is attached.
    pub port: u32,
    /// IPv4 address of the member.
    pub src_ip: Ipv4Addr,
}

/// Entry half of a member's bridge: the rewrite of packets from the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// XOR constants that keep the ICRC valid when the source address is replaced by the McstID.
    pub neutral: NeutralPair,
    /// Whether the member may be the source. Otherwise the switch drops its data, and accepts only its feedback.
    pub may_send: bool,
}

/// Names and widths in bits of the action parameters: XOR constants for the IPv4 identification and the UDP source port.
/// Both actions of the table have the same ones.
const NEUTRAL_PARAMS: [(&str, i32); 2] = [("id_xor", 16), ("sport_xor", 16)];

/// The table of members at each port.
#[derive(Clone, Debug)]
pub struct Members {
    key: KeyIds<3>,
    enter: ActionIds<2>,
    enter_receiver: ActionIds<2>,
    target: Target,
}

impl Members {
    pub(super) const NAME: &'static str = "ingress.bridge_entry.members";

    pub(super) fn resolve(schema: &Schema, target: Target) -> Result<Members, ProgramError> {
        let (group, bits) = target.group_field();
        Ok(Members {
            key: schema.table(Self::NAME)?.key([
                (group, MatchType::Exact, bits),
                ("ingress_port", MatchType::Exact, 9),
                ("src_ip", MatchType::Exact, 32),
            ])?,
            enter: schema.action("ingress.bridge_entry.enter", NEUTRAL_PARAMS)?,
            enter_receiver: schema.action("ingress.bridge_entry.enter_receiver", NEUTRAL_PARAMS)?,
            target,
        })
    }
}

impl Table for Members {
    type Key = MemberKey;
    type Action = Member;

    fn entry(&self, key: &MemberKey, member: &Member) -> TableEntry {
        let NeutralPair {
            ip_id_xor,
            udp_sport_xor,
        } = member.neutral;
        let action = match member.may_send {
            true => &self.enter,
            false => &self.enter_receiver,
        };
        TableEntry {
            action: Some(action.call([ip_id_xor, udp_sport_xor].map(u64::from))),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &MemberKey) -> TableEntry {
        self.key.exact([
            key.group.value(),
            u64::from(key.port),
            u64::from(u32::from(key.src_ip)),
        ])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(MemberKey, Member)> {
        let [group, port, src_ip] = self.key.values(entry)?;
        let sends = self.enter.arguments(entry);
        let [ip_id_xor, udp_sport_xor] = sends.or_else(|| self.enter_receiver.arguments(entry))?;
        let key = MemberKey {
            group: GroupName::from_value(self.target, group)?,
            port: u32::try_from(port).ok()?,
            src_ip: u32::try_from(src_ip).ok()?.into(),
        };
        let neutral = NeutralPair {
            ip_id_xor: u16::try_from(ip_id_xor).ok()?,
            udp_sport_xor: u16::try_from(udp_sport_xor).ok()?,
        };
        let may_send = sends.is_some();
        Some((key, Member { neutral, may_send }))
    }
}
