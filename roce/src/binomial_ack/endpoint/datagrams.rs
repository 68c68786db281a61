//! Datagrams: segments of messages, and the management of connections and membership.

use std::net::Ipv4Addr;

use super::connections::State;
use super::group::Role;
use super::{Endpoint, MANAGER};
use crate::binomial_ack::wire::ManagementDatagram;
use crate::rc::{Payload, Remote};
use crate::ud::{
    CompletedDatagram, UdCompletion, UdDestination, UdPostError, UdSendRequest, GRH_LEN,
};
use crate::verbs::Verbs;

impl Endpoint {
    pub(super) fn handle_datagram(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        completion: &UdCompletion,
    ) {
        let Ok(CompletedDatagram::Received { bytes, source, .. }) = completion.outcome else {
            return;
        };
        let Some(buffers) = self.buffers else {
            return;
        };
        let packet = buffers.read(host, completion.wr_id, bytes);
        let packet = packet.get(GRH_LEN as usize..).unwrap_or_default().to_vec();
        // The buffer was valid before; posting fails only if the queue pair has failed since.
        let _ = host.post_ud_recv(self.ud_qpn, buffers.request(completion.wr_id));
        let address = (source.ip, source.qpn);
        let from = self.numbers.get(&address).copied();
        match (ManagementDatagram::parse(&packet), from) {
            (Some(ManagementDatagram::Join), _) => self.admit(host, now, address),
            (Some(manage), Some(from)) => self.handle_management(host, now, from, source, manage),
            (None, Some(from)) => {
                if let Some(node) = &mut self.node {
                    // An invalid packet is treated as lost.
                    let _ = node.handle_datagram(now, from, &packet);
                }
            }
            // From a host that is not a member.
            (_, None) => {}
        }
    }

    pub(super) fn handle_management(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        source: Remote,
        manage: ManagementDatagram,
    ) {
        match manage {
            ManagementDatagram::Request { qpn, psn } => self.accept(host, now, from, qpn, psn),
            ManagementDatagram::Reply { of, qpn, psn } => {
                let Some(outgoing) = self.outgoing.get_mut(&from) else {
                    return;
                };
                if outgoing.qpn != of || !matches!(outgoing.state, State::Requested(_)) {
                    return;
                }
                let remote = Remote { ip: source.ip, qpn };
                outgoing.state = State::Connecting;
                let own = outgoing.qpn;
                let is_made = host.set_sq_psn(own, outgoing.psn).is_ok()
                    && host.connect_qp(now, own, remote, psn).is_ok();
                if !is_made {
                    self.drop_outgoing(host, from);
                }
            }
            ManagementDatagram::Disconnect { qpn } => {
                self.drop_incoming(host, from, |i| i.remote_qpn == qpn)
            }
            ManagementDatagram::Leave => self.dismiss(now, from),
            ManagementDatagram::Suspect { number } => {
                let is_manager = matches!(self.role, Role::Manager(_));
                self.send_datagram(host, now, from, ManagementDatagram::Alive.emit());
                if is_manager && number != MANAGER && self.members().contains(&number) {
                    self.suspects.add(now, number);
                }
            }
            ManagementDatagram::Probe => {
                self.send_datagram(host, now, from, ManagementDatagram::Alive.emit())
            }
            ManagementDatagram::Alive if from == MANAGER => self.suspects.clear_all(),
            ManagementDatagram::Alive => self.suspects.clear(from),
            ManagementDatagram::Join => {}
        }
    }

    pub(super) fn send_datagram(
        &self,
        host: &mut dyn Verbs,
        now: u64,
        member: u32,
        packet: Vec<u8>,
    ) {
        let Some((ip, qpn)) = self.addresses.get(&member).copied() else {
            return;
        };
        let request = UdSendRequest {
            wr_id: 0,
            to: UdDestination {
                ip,
                qpn,
                qkey: self.config.qkey,
            },
            immediate: None,
            payload: Payload::Bytes(packet.into()),
            is_signaled: false,
        };
        // It is repeated when no reply arrives; the address may be resolved by then.
        if host.post_ud_send(self.ud_qpn, request) == Err(UdPostError::Unresolved(ip)) {
            host.resolve(now, ip);
        }
    }

    /// Repeats the pending requests to members at `ip`, whose MAC address is now resolved: for connections and for
    /// membership.
    pub(super) fn resolved(&mut self, host: &mut dyn Verbs, now: u64, ip: Ipv4Addr) {
        let is_there = |member: &u32| self.addresses.get(member).is_some_and(|(of, _)| *of == ip);
        let waiting = self.outgoing.iter().filter(|(member, outgoing)| {
            matches!(outgoing.state, State::Requested(_)) && is_there(member)
        });
        let waiting: Vec<u32> = waiting.map(|(member, _)| *member).collect();
        let is_manager = is_there(&MANAGER);
        for member in waiting {
            self.request_connection(host, now, member);
        }
        if is_manager {
            self.request_from_manager(host, now);
        }
    }
}
