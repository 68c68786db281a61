//! Members of a group, and the bridge of each: the header rewrites between the member's addresses and the group's.
//!
//! Constants that keep ICRCs valid despite the rewrites are computed once, when a group is planned. A group for which no
//! such constants exist is refused before anything is written.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::icrc::neutral::{
    ExitPairs, ExitRewrite, NeutralConstants, NeutralPair, Unsolvable,
};
use alfirk_roce::wire::QpNum;

use super::event::MemberSpec;
use crate::constants::{VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::{IcrcMode, Strategies};
use crate::tables::{Delivery, Member};
use crate::topology::{HostIndex, MacAddr};

/// One member of a group, resolved to a host of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupMember {
    pub(super) host: HostIndex,
    pub(super) mac: MacAddr,
    pub(super) spec: MemberSpec,
}

/// Parameters common to all bridges of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) virtual_qpn: QpNum,
    pub(super) icrc: IcrcMode,
}

impl Terms {
    pub(super) fn new(mcst_id: Ipv4Addr, virtual_qpn: QpNum, strategies: Strategies) -> Terms {
        Terms {
            mcst_id,
            virtual_qpn,
            icrc: strategies.icrc,
        }
    }
}

/// Bridge of one member, with ICRC constants for packets from the member (entry half) and to the member (exit half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) member: GroupMember,
    entry: NeutralPair,
    exit: ExitPairs,
    va_xor: u64,
    rkey_xor: u32,
}

impl Bridge {
    fn solve(terms: &Terms, member: GroupMember) -> Result<Bridge, Unsolvable> {
        let MemberSpec {
            ip, qpn, region, ..
        } = member.spec;
        // Without a region, virtual address and key are not rewritten, and the member's queue pair rejects them.
        let (va_xor, rkey_xor) = match region {
            Some(region) => (region.va ^ VIRTUAL_VA, region.rkey ^ VIRTUAL_RKEY),
            None => (0, 0),
        };
        let entry = match terms.icrc {
            // For a punted packet, the controller reverts the changes of the exit half, so the entry half must keep the ICRC valid.
            IcrcMode::Neutral | IcrcMode::Punt => NeutralConstants::entry(ip, terms.mcst_id)?,
            IcrcMode::Recompute => NeutralPair::default(),
        };
        let exit = match terms.icrc {
            IcrcMode::Neutral => NeutralConstants::exit(&ExitRewrite {
                mcst_id: terms.mcst_id,
                host_ip: ip,
                virtual_qpn: terms.virtual_qpn,
                host_qpn: qpn,
                va_xor,
                rkey_xor,
            })?,
            IcrcMode::Recompute | IcrcMode::Punt => ExitPairs::default(),
        };
        Ok(Bridge {
            member,
            entry,
            exit,
            va_xor,
            rkey_xor,
        })
    }

    /// Entry of the `members` table: rewrite of packets from the member.
    pub(super) fn entry(&self) -> Member {
        Member {
            neutral: self.entry,
            may_send: self.member.spec.may_send,
        }
    }

    /// Entry of the `receivers` table: rewrite of packets to the member. `slot`: number of the member among the receivers
    /// of the switch.
    pub(super) fn delivery(&self, slot: u32) -> Delivery {
        let member = &self.member;
        Delivery {
            mac: member.mac,
            ip: member.spec.ip,
            qpn: member.spec.qpn,
            neutral: self.exit,
            va_xor: self.va_xor,
            rkey_xor: self.rkey_xor,
            slot,
        }
    }
}

/// Bridges of a group's members, by host.
pub(super) struct Bridges(BTreeMap<HostIndex, Bridge>);

impl Bridges {
    pub(super) fn solve(terms: &Terms, members: &[GroupMember]) -> Result<Bridges, Unsolvable> {
        let bridges = members
            .iter()
            .map(|member| Ok((member.host, Bridge::solve(terms, *member)?)));
        Ok(Bridges(bridges.collect::<Result<_, Unsolvable>>()?))
    }

    pub(super) fn of(&self, host: HostIndex) -> Option<Bridge> {
        self.0.get(&host).copied()
    }
}
