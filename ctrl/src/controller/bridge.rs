//! Members of a group, and the bridge of each member: the header rewrites between its addresses and those of the group.
//!
//! Constants that keep ICRCs valid although headers are rewritten are computed once, when a group is planned. A group for
//! which no such constants exist is refused before anything is written.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::icrc::neutral::{
    ExitPairs, ExitRewrite, NeutralConstants, NeutralPair, Unsolvable,
};
use alfirk_roce::wire::QpNum;

use super::event::MemberSpec;
use crate::constants::{VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::{IcrcMode, Strategies};
use crate::tables::{Member, ReceiverRewrite};
use crate::topology::{HostIndex, MacAddr};

/// One member of a group, resolved to a host of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupMember {
    pub(super) host: HostIndex,
    pub(super) mac: MacAddr,
    pub(super) spec: MemberSpec,
}

/// Parameters of a group on which the header rewrites (bridges) of all its members depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct BridgeParameters {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) virtual_qpn: QpNum,
    pub(super) icrc: IcrcMode,
}

impl BridgeParameters {
    pub(super) fn new(
        mcst_id: Ipv4Addr,
        virtual_qpn: QpNum,
        strategies: Strategies,
    ) -> BridgeParameters {
        BridgeParameters {
            mcst_id,
            virtual_qpn,
            icrc: strategies.icrc,
        }
    }
}

/// Header rewrites of one member (its bridge): of packets from the member (entry half) and to the member (exit half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) member: GroupMember,
    entry: NeutralPair,
    exit: ExitPairs,
    va_xor: u64,
    rkey_xor: u32,
}

impl Bridge {
    fn solve(parameters: &BridgeParameters, member: GroupMember) -> Result<Bridge, Unsolvable> {
        let MemberSpec {
            ip, qpn, region, ..
        } = member.spec;
        // Without a region, virtual address and key are not rewritten, and the member's queue pair rejects them.
        let (va_xor, rkey_xor) = match region {
            Some(region) => (region.va ^ VIRTUAL_VA, region.rkey ^ VIRTUAL_RKEY),
            None => (0, 0),
        };
        let entry = match parameters.icrc {
            // For a punted packet, the controller reverts the changes of the exit half, so the entry half must keep the ICRC valid.
            IcrcMode::Neutral | IcrcMode::Punt => NeutralConstants::entry(ip, parameters.mcst_id)?,
            IcrcMode::Recompute => NeutralPair::default(),
        };
        let exit = match parameters.icrc {
            IcrcMode::Neutral => NeutralConstants::exit(&ExitRewrite {
                mcst_id: parameters.mcst_id,
                host_ip: ip,
                virtual_qpn: parameters.virtual_qpn,
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

    /// Entry half, as an entry of the table `members`: the rewrite of packets from the member.
    pub(super) fn entry(&self) -> Member {
        Member {
            neutral: self.entry,
            may_send: self.member.spec.may_send,
        }
    }

    /// Exit half, as an entry of the table `receivers`: the rewrite of packets to the member. `slot`: number of the member
    /// among the receivers of the switch.
    pub(super) fn delivery(&self, slot: u32) -> ReceiverRewrite {
        let member = &self.member;
        ReceiverRewrite {
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

/// Header rewrites (bridges) of a group's members, by host.
pub(super) struct Bridges(BTreeMap<HostIndex, Bridge>);

impl Bridges {
    pub(super) fn solve(
        parameters: &BridgeParameters,
        members: &[GroupMember],
    ) -> Result<Bridges, Unsolvable> {
        let bridges = members
            .iter()
            .map(|member| Ok((member.host, Bridge::solve(parameters, *member)?)));
        Ok(Bridges(bridges.collect::<Result<_, Unsolvable>>()?))
    }

    pub(super) fn for_host(&self, host: HostIndex) -> Option<Bridge> {
        self.0.get(&host).copied()
    }
}
