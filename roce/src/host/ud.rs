//! Datagram (UD) queue pairs of a host, and its multicast groups.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use rand_core::Rng;

use super::frame::Envelope;
use super::receive::check_icrc;
use super::stats::DropReason;
use super::{next_hop, next_identification, source_port, Host, HostEvent};
use crate::rc::{ModifyError, RecvRequest};
use crate::ud::{UdConfig, UdPacket, UdPostError, UdQueuePair, UdSendRequest, MULTICAST_QPN};
use crate::wire::{bth, icrc as trailer, ipv4, udp, MacAddr, Psn, QpNum};

#[derive(Default)]
pub(super) struct Datagrams {
    qps: BTreeMap<QpNum, UdQueuePair>,
    /// For each multicast group: the queue pairs attached to it.
    groups: BTreeMap<Ipv4Addr, BTreeSet<QpNum>>,
    /// For each next hop whose MAC address is being resolved: the destinations of datagrams that use it.
    resolving: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
}

impl Datagrams {
    pub(super) fn has(&self, qpn: QpNum) -> bool {
        self.qps.contains_key(&qpn)
    }

    /// Whether the host accepts frames to the MAC address `mac`, because a queue pair is attached to a multicast group
    /// with this address.
    pub(super) fn accepts_mac(&self, mac: MacAddr) -> bool {
        mac.is_multicast()
            && self
                .groups
                .keys()
                .any(|ip| MacAddr::of_multicast(*ip) == mac)
    }

    pub(super) fn is_attached(&self, group: Ipv4Addr) -> bool {
        self.groups.contains_key(&group)
    }
}

impl Host {
    /// Creates a datagram queue pair with a number that the host chooses.
    pub fn create_ud_qp(&mut self, config: UdConfig) -> QpNum {
        let psn = Psn::new(self.rng.next_u32());
        let qpn = self.free_qpn();
        let qp = UdQueuePair::new(qpn, psn, config);
        self.datagrams.qps.insert(qpn, qp);
        qpn
    }

    /// Destroys a datagram queue pair and detaches it from its groups. Its work requests get no completions.
    pub fn destroy_ud_qp(&mut self, qpn: QpNum) -> Result<(), ModifyError> {
        let gone = self.datagrams.qps.remove(&qpn);
        gone.ok_or(ModifyError::NoSuchQueuePair(qpn))?;
        self.datagrams.groups.retain(|_, qps| {
            qps.remove(&qpn);
            !qps.is_empty()
        });
        Ok(())
    }

    /// The datagram queue pair with this number, for its settings and counters; `None` if it does not exist.
    pub fn ud_qp(&self, qpn: QpNum) -> Option<&UdQueuePair> {
        self.datagrams.qps.get(&qpn)
    }

    /// Attaches a queue pair to a multicast group (224.0.0.0/4). The fabric must deliver the group's datagrams to this host; those
    /// that this host sends itself are not looped back.
    pub fn attach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) -> Result<(), UdPostError> {
        if !self.datagrams.has(qpn) {
            return Err(UdPostError::NoSuchQueuePair(qpn));
        }
        if !group.is_multicast() {
            return Err(UdPostError::WrongQueuePair(group));
        }
        self.datagrams.groups.entry(group).or_default().insert(qpn);
        Ok(())
    }

    /// Detaches a queue pair from a multicast group; no effect if it was not attached.
    pub fn detach_multicast(&mut self, qpn: QpNum, group: Ipv4Addr) {
        if let Some(qps) = self.datagrams.groups.get_mut(&group) {
            qps.remove(&qpn);
            if qps.is_empty() {
                self.datagrams.groups.remove(&group);
            }
        }
    }

    /// Resolves the MAC address of host `ip`, to which datagrams are to be sent. [`HostEvent::Resolved`] reports the
    /// result.
    pub fn resolve(&mut self, now: u64, ip: Ipv4Addr) {
        let event = |is_known| HostEvent::Resolved { ip, is_known };
        match self.next_hop(ip) {
            None => self.events.push_back(event(false)),
            Some(hop) if self.neighbors.pin(hop) => self.events.push_back(event(true)),
            Some(hop) => {
                self.datagrams.resolving.entry(hop).or_default().insert(ip);
                self.neighbors.resolve(now, hop);
            }
        }
    }

    pub(super) fn report_resolved(&mut self, hop: Ipv4Addr, is_known: bool) {
        for ip in self.datagrams.resolving.remove(&hop).unwrap_or_default() {
            if is_known {
                self.neighbors.pin(hop);
            }
            self.events.push_back(HostEvent::Resolved { ip, is_known });
        }
    }

    /// Posts a datagram to send.
    pub fn post_ud_send(&mut self, qpn: QpNum, request: UdSendRequest) -> Result<(), UdPostError> {
        let ip = request.to.ip;
        let is_resolved =
            ip.is_multicast() || self.next_hop(ip).is_some_and(|hop| self.neighbors.pin(hop));
        let qp = self.datagrams.qps.get_mut(&qpn);
        let qp = qp.ok_or(UdPostError::NoSuchQueuePair(qpn))?;
        if !is_resolved {
            return Err(UdPostError::Unresolved(ip));
        }
        qp.post_send(&self.memory, request)?;
        self.settle_datagram_queue_pair(qpn);
        Ok(())
    }

    /// Posts a receive buffer. Its first [`crate::ud::GRH_LEN`] bytes are reserved; the payload follows them.
    pub fn post_ud_recv(&mut self, qpn: QpNum, request: RecvRequest) -> Result<(), UdPostError> {
        let qp = self.datagrams.qps.get_mut(&qpn);
        let qp = qp.ok_or(UdPostError::NoSuchQueuePair(qpn))?;
        qp.post_recv(&self.memory, request)
    }

    /// Checks a received datagram: queue pair, partition key, Q_Key, ICRC, in this order.
    pub(super) fn receive_datagram(
        &mut self,
        ip: &ipv4::View<'_>,
        tail: &trailer::View<'_>,
    ) -> Result<(), DropReason> {
        let packet = UdPacket::parse(tail.covered())?;
        let UdPacket { headers, .. } = &packet;
        let (to, group) = (headers.bth.dest_qp, ip.destination());
        let qpns: Vec<QpNum> = match group.is_multicast() {
            // A datagram to a group address with a queue pair number other than MULTICAST_QPN matches no queue pair.
            true if to != MULTICAST_QPN => Vec::new(),
            true => self
                .datagrams
                .groups
                .get(&group)
                .into_iter()
                .flatten()
                .copied()
                .collect(),
            false => Some(to)
                .filter(|qpn| self.datagrams.has(*qpn))
                .into_iter()
                .collect(),
        };
        if qpns.is_empty() {
            return Err(DropReason::UnknownQp);
        }
        if headers.bth.pkey & 0x7fff != bth::DEFAULT_PKEY & 0x7fff {
            return Err(DropReason::WrongPkey);
        }
        check_icrc(ip, tail)?;
        for qpn in qpns {
            if let Some(qp) = self.datagrams.qps.get_mut(&qpn) {
                if qp.check_qkey(headers.deth.qkey) {
                    let memory = &mut self.memory;
                    qp.handle_packet(&packet, ip.header(), ip.source(), group, memory);
                }
            }
            self.settle_datagram_queue_pair(qpn);
        }
        Ok(())
    }

    pub(super) fn poll_datagram(&mut self, qpn: QpNum) -> Option<Vec<u8>> {
        let outgoing = self.datagrams.qps.get_mut(&qpn)?.poll_transmit()?;
        // A posted datagram has a resolved address.
        let destination_mac = self.mac_of(outgoing.to);
        let qp = self.datagrams.qps.get_mut(&qpn)?;
        let payload = outgoing
            .payload
            .read(&self.memory, 0, outgoing.payload.len());
        let (Some(destination_mac), Ok(payload)) = (destination_mac, payload) else {
            // The memory may have been deregistered since the datagram was posted.
            qp.fail_send(outgoing.wr_id);
            self.settle_datagram_queue_pair(qpn);
            return None;
        };
        qp.sent(outgoing.wr_id, outgoing.is_signaled);
        let envelope = Envelope {
            source_mac: self.config.mac,
            destination_mac,
            source: self.config.ip,
            destination: outgoing.to,
            identification: next_identification(&mut self.next_identification),
            source_port: source_port(qpn),
            destination_port: udp::PORT_ROCE,
            tos: self.config.dscp << ipv4::DSCP_SHIFT,
        };
        let frame = envelope.roce(&outgoing.headers, payload);
        self.settle_datagram_queue_pair(qpn);
        Some(frame)
    }

    fn mac_of(&self, ip: Ipv4Addr) -> Option<MacAddr> {
        match ip.is_multicast() {
            true => Some(MacAddr::of_multicast(ip)),
            false => self.neighbors.lookup(next_hop(&self.config, ip)?),
        }
    }

    fn settle_datagram_queue_pair(&mut self, qpn: QpNum) {
        let Some(qp) = self.datagrams.qps.get_mut(&qpn) else {
            return;
        };
        while let Some(completion) = qp.poll_completion() {
            self.events.push_back(HostEvent::Datagram(completion));
        }
        if qp.wants_transmit() {
            self.arbiter.enqueue(qpn, qp.config().priority);
        }
    }
}
