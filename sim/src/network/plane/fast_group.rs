//! A multicast group whose state is in the fast data plane.
//!
//! A *path* of a group is a port of the switch that leads to members.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::{CountedGroup, Group, QueuedPacket, Work};
use alfirk_contract as contract;
use alfirk_ctrl::tables::{Member, ReceiverRewrite};
use alfirk_roce::host::RcFrame;
use alfirk_roce::steady::StateVisitor;
use alfirk_roce::wire::QpNum;

use super::{is_between_switches, virtual_mac, visit_frame, Kind};
use crate::engine::PortMap;

/// Table entries of the controller for one group.
pub(super) struct GroupEntries {
    pub(super) mcst_id: Ipv4Addr,
    pub(super) virtual_qpn: QpNum,
    /// Number of packets that a source may send beyond the last acknowledged packet; see
    /// [`Config::window`](alfirk_aggregation::Config::window).
    pub(super) window: u32,
    /// Whether the group's queue pairs use selective repeat; see
    /// [`Config::is_selective`](alfirk_aggregation::Config::is_selective).
    pub(super) is_selective: bool,
    /// Paths of the group, indexed by path number.
    pub(super) paths: Vec<GroupPath>,
}

/// One port through which a switch reaches members of a group, and these members.
pub(super) struct GroupPath {
    pub(super) port: u32,
    pub(super) is_host: bool,
    /// The members that the switch reaches through the port, by IPv4 address.
    pub(super) members: BTreeMap<Ipv4Addr, Member>,
    /// Rewrite of packets for the receiver at the port; `None` if the port leads to a switch, or to a host that does
    /// not receive.
    pub(super) delivery: Option<ReceiverRewrite>,
}

/// Rewrite of a group's packets for the receiver at one port (`bridge_exit.p4`, `memory_regions.p4`).
pub(super) struct BridgeExit {
    pub(super) delivery: ReceiverRewrite,
    /// Memory region of the receiver for the next WRITE, as the sender has announced it.
    pub(super) region: Region,
}

/// Values that are XORed into the header fields of a WRITE, so that it addresses an announced memory region.
/// `identification` and `source_port` compensate for the other changes, so that the ICRC stays valid.
#[derive(Clone, Copy, Default)]
pub(super) struct Region {
    pub(super) va: u64,
    pub(super) rkey: u32,
    pub(super) identification: u16,
    pub(super) source_port: u16,
}

/// State of one group in the fast data plane.
pub(super) struct FastGroup {
    entries: GroupEntries,
    pub(super) model: Group,
    /// Work of the group since it is in the fast data plane.
    work: Work,
    exits: PortMap<BridgeExit, 0>,
    /// Ingress port and headers of the last data packet, before it was rewritten for receivers. They show whether the
    /// next packet continues its flow.
    last: Option<(u32, Arc<RcFrame>)>,
}

impl FastGroup {
    pub(super) fn new(
        entries: GroupEntries,
        model: Group,
        exits: PortMap<BridgeExit, 0>,
    ) -> FastGroup {
        FastGroup {
            entries,
            model,
            work: Work::default(),
            exits,
            last: None,
        }
    }

    /// IPv4 address of the group.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.entries.mcst_id
    }

    /// Visits the state of the group, and the last data packet.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        visitor.enter([self.entries.mcst_id]);
        self.model.visit_state(visitor);
        self.work.visit_state(visitor);
        visitor.same(self.last.is_some().into());
        if let Some((port, frame)) = &mut self.last {
            visitor.same((*port).into());
            visit_frame(frame, visitor);
        }
    }

    pub(super) fn into_parts(self) -> (Group, Work) {
        (self.model, self.work)
    }

    /// The group, with its work counted.
    pub(super) fn counted(&mut self) -> CountedGroup<'_> {
        self.model.counted(&mut self.work)
    }

    fn path(&self, port: u32) -> Option<&GroupPath> {
        self.entries.paths.iter().find(|path| path.port == port)
    }

    /// Whether a port leads to a host that receives.
    pub(super) fn is_to_host(&self, port: u32) -> bool {
        self.path(port).is_some_and(|path| path.delivery.is_some())
    }

    /// Whether the group accepts a packet that arrives at this port (`group_lookup.p4`, `bridge_entry.p4`).
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
            false => is_between_switches(frame, self.entries.mcst_id),
        };
        is_member
            && bth.dest_qp == self.entries.virtual_qpn
            && bth.pkey & contract::DEFAULT_PARTITION == contract::DEFAULT_PARTITION
            && ip.ttl > 1
    }

    /// Rewrites a packet where it enters the fabric (`bridge_entry.p4`). The group must have accepted the packet.
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

    /// Sets the position of a data packet in its flow. The packet continues the flow of the last packet, or begins a
    /// new flow. A packet that cannot be part of a flow gets no position. Switches rewrite all packets of a flow alike.
    pub(super) fn set_flow_position(
        &mut self,
        port: u32,
        frame: &mut Arc<RcFrame>,
        flows: &mut u64,
    ) {
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

    /// Applies the retransmission filter to a queued packet. Returns whether the packet leaves the switch.
    pub(super) fn filter(&mut self, queued: QueuedPacket) -> bool {
        // With the strategy `tree`, the time does not matter after the queue.
        let (sent, _) = self.counted().dequeue(queued, 0);
        sent.is_some()
    }

    /// Rewrites a packet for the receiver at a port, if the port leads to one.
    pub(super) fn exit(&self, port: u32, frame: &mut Arc<RcFrame>) {
        if let Some(exit) = self.exits.get(port) {
            exit.apply(Arc::make_mut(frame));
        }
    }
}

impl BridgeExit {
    /// Applies these changes to the headers of a WRITE.
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
