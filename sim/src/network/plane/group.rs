//! A group whose state is in the fast data plane.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::{Group, Queued};
use alfirk_contract as contract;
use alfirk_ctrl::tables::{Delivery, Member};
use alfirk_roce::host::RcFrame;
use alfirk_roce::wire::QpNum;

use super::{is_between_switches, virtual_mac, Kind};
use crate::engine::PortMap;

/// What the tables say of a group.
pub(super) struct Plan {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) virtual_qpn: QpNum,
    /// See [`Config::window`](alfirk_aggregation::Config::window).
    pub(super) window: u32,
    /// See [`Config::is_selective`](alfirk_aggregation::Config::is_selective).
    pub(super) is_selective: bool,
    /// By path number.
    pub(super) paths: Vec<Path>,
}

pub(super) struct Path {
    pub(super) port: u32,
    pub(super) is_host: bool,
    /// The members behind it, by address.
    pub(super) members: BTreeMap<Ipv4Addr, Member>,
    pub(super) delivery: Option<Delivery>,
}

/// The exit half of the bridge at one port (`bridge_exit.p4`, `memory_regions.p4`).
pub(super) struct Exit {
    pub(super) delivery: Delivery,
    /// The receiver's memory for the next WRITE, as its packet has announced it.
    pub(super) region: Region,
}

/// XOR differences.
#[derive(Clone, Copy, Default)]
pub(super) struct Region {
    pub(super) va: u64,
    pub(super) rkey: u32,
    pub(super) identification: u16,
    pub(super) source_port: u16,
}

pub(super) struct Native {
    plan: Plan,
    pub(super) model: Group,
    exits: PortMap<Exit, 0>,
    /// The data packet that came last, as its copies are before the bridge's exit, and from which port.
    last: Option<(u32, Arc<RcFrame>)>,
}

impl Native {
    pub(super) fn new(plan: Plan, model: Group, exits: PortMap<Exit, 0>) -> Native {
        Native {
            plan,
            model,
            exits,
            last: None,
        }
    }

    pub(super) fn into_model(self) -> Group {
        self.model
    }

    fn path(&self, port: u32) -> Option<&Path> {
        self.plan.paths.iter().find(|path| path.port == port)
    }

    /// Whether a port leads to a member.
    pub(super) fn is_to_host(&self, port: u32) -> bool {
        self.path(port).is_some_and(|path| path.delivery.is_some())
    }

    /// Whether a packet that comes in at a port is one of the group's (`group_lookup.p4`, `bridge_entry.p4`).
    pub(super) fn admits(&self, port: u32, frame: &RcFrame, kind: Kind) -> bool {
        let (bth, ip) = (&frame.headers.bth, &frame.outer.ipv4);
        let Some(path) = self.path(port) else {
            return false;
        };
        let is_member = match path.is_host {
            true => path
                .members
                .get(&ip.source)
                .is_some_and(|member| member.may_send || !matches!(kind, Kind::Data)),
            false => is_between_switches(frame, self.plan.mcst_id),
        };
        is_member
            && bth.dest_qp == self.plan.virtual_qpn
            && bth.pkey & contract::DEFAULT_PARTITION == contract::DEFAULT_PARTITION
            && ip.ttl > 1
    }

    /// The entry half of the bridge (`bridge_entry.p4`); the packet must be admitted.
    pub(super) fn enter(&self, port: u32, frame: &mut RcFrame) {
        let path = self.path(port).filter(|path| path.is_host);
        let ip = &mut frame.outer.ipv4;
        if let Some(member) = path.and_then(|path| path.members.get(&ip.source)) {
            ip.source = ip.destination;
            ip.identification ^= member.neutral.ip_id_xor;
            frame.outer.udp.source_port ^= member.neutral.udp_sport_xor;
        }
        ip.ttl -= 1;
    }

    /// Puts a data packet in its flow, if it can have one: behind the last one, or at the head of a new one. All copies of a flow are made
    /// alike.
    pub(super) fn place(&mut self, port: u32, frame: &mut Arc<RcFrame>, flows: &mut u64) {
        let placed = Arc::make_mut(frame);
        let last = self.last.take().filter(|(from, _)| *from == port);
        let behind = last.filter(|(_, last)| last.is_followed_by(placed));
        placed.place = match behind.and_then(|(_, last)| last.place) {
            _ if !placed.may_follow() => None,
            Some((flow, number)) => Some((flow, number + 1)),
            None => {
                *flows += 1;
                Some((*flows, 0))
            }
        };
        if placed.place.is_some() {
            self.last = Some((port, Arc::clone(frame)));
        }
    }

    /// The retransmission filter: whether what was queued leaves.
    pub(super) fn filter(&mut self, queued: Queued) -> bool {
        // With a tree no time matters behind the queue.
        let (sent, _) = self.model.dequeue(queued, 0);
        sent.is_some()
    }

    /// The exit half of the bridge.
    pub(super) fn exit(&self, port: u32, frame: &mut Arc<RcFrame>) {
        if let Some(exit) = self.exits.get(port) {
            exit.apply(Arc::make_mut(frame));
        }
    }
}

impl Exit {
    pub(super) fn apply(&self, frame: &mut RcFrame) {
        let to = &self.delivery;
        let outer = &mut frame.outer;
        outer.ethernet.source = virtual_mac();
        outer.ethernet.destination = to.mac;
        outer.ipv4.destination = to.ip;
        frame.headers.bth.dest_qp = to.qpn;
        let pair = match &mut frame.headers.reth {
            Some(reth) => {
                let region = &self.region;
                reth.virtual_address ^= to.va_xor ^ region.va;
                reth.rkey ^= to.rkey_xor ^ region.rkey;
                outer.ipv4.identification ^= region.identification;
                outer.udp.source_port ^= region.source_port;
                to.neutral.reth
            }
            None => to.neutral.plain,
        };
        outer.ipv4.identification ^= pair.ip_id_xor;
        outer.udp.source_port ^= pair.udp_sport_xor;
    }
}
