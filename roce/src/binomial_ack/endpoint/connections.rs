//! Connections between two members, each of which carries packets in one direction.

use std::collections::VecDeque;

use super::buffers::Buffers;
use super::{ConnectionLifetime, Endpoint, MANAGER};
use crate::binomial_ack::membership::Membership;
use crate::binomial_ack::wire::{ManagementDatagram, HEADER_LEN};
use crate::rc::{Completion, Operation, Payload, Remote, SendOperation, SendRequest};
use crate::verbs::Verbs;
use crate::wire::{Psn, QpNum};

/// A connection over which this member sends packets to another member.
pub(super) struct OutgoingConnection {
    pub(super) qpn: QpNum,
    pub(super) psn: Psn,
    pub(super) state: State,
    /// Packets that wait until the connection is established.
    pub(super) queue: VecDeque<Vec<u8>>,
    /// Number of packets sent and not yet acknowledged.
    pub(super) in_flight: usize,
}

pub(super) enum State {
    /// Requested by a datagram. Holds the time of the next request in nanoseconds.
    Requested(u64),
    Connecting,
    Connected,
}

/// A connection over which another member sends packets to this one.
pub(super) struct IncomingConnection {
    pub(super) from: u32,
    pub(super) remote_qpn: QpNum,
    pub(super) psn: Psn,
    pub(super) buffers: Option<Buffers>,
}

impl Endpoint {
    pub(super) fn send(&mut self, host: &mut dyn Verbs, now: u64, to: u32, packet: Vec<u8>) {
        if let Some(outgoing) = self.connection(host, now, to) {
            outgoing.queue.push_back(packet);
            outgoing.flush(host);
        }
    }

    /// Returns the connection to member `to`. Without one, creates a queue pair and requests the connection. `None` if
    /// the host has no queue pair left. The packet is then lost, and the loss is repaired later.
    pub(super) fn connection(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        to: u32,
    ) -> Option<&mut OutgoingConnection> {
        if !self.outgoing.contains_key(&to) {
            let qpn = host.create_qp(self.config.rc).ok()?;
            let psn = host.view(qpn).map_or(Psn::new(0), |qp| qp.sq_psn);
            let outgoing = OutgoingConnection {
                qpn,
                psn,
                state: State::Requested(now),
                queue: VecDeque::new(),
                in_flight: 0,
            };
            self.outgoing.insert(to, outgoing);
            self.request_connection(host, now, to);
        }
        self.outgoing.get_mut(&to)
    }

    pub(super) fn request_connection(&mut self, host: &mut dyn Verbs, now: u64, member: u32) {
        if let Some(outgoing) = self.outgoing.get_mut(&member) {
            outgoing.state = State::Requested(now + self.config.connect_interval);
            let request = ManagementDatagram::Request {
                qpn: outgoing.qpn,
                psn: outgoing.psn,
            };
            self.send_datagram(host, now, member, request.emit());
        }
    }

    pub(super) fn accept(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        remote_qpn: QpNum,
        rq_psn: Psn,
    ) {
        let known = self
            .incoming
            .iter()
            .find(|(_, i)| i.from == from && i.remote_qpn == remote_qpn);
        let accepted = known.map(|(qpn, incoming)| (*qpn, incoming.psn));
        let accepted = match accepted {
            Some(accepted) => accepted,
            None => {
                // A member has one connection to this one, so a new request replaces the old connection.
                self.drop_incoming(host, from, |_| true);
                let Some(accepted) = self.make_incoming(host, now, from, remote_qpn, rq_psn) else {
                    return;
                };
                accepted
            }
        };
        let (qpn, psn) = accepted;
        let reply = ManagementDatagram::Reply {
            of: remote_qpn,
            qpn,
            psn,
        };
        self.send_datagram(host, now, from, reply.emit());
    }

    pub(super) fn make_incoming(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        from: u32,
        remote_qpn: QpNum,
        rq_psn: Psn,
    ) -> Option<(QpNum, Psn)> {
        let (ip, _) = *self.addresses.get(&from)?;
        let qpn = host.create_qp(self.config.rc).ok()?;
        let psn = host.view(qpn)?.sq_psn;
        let incoming = IncomingConnection {
            from,
            remote_qpn,
            psn,
            buffers: None,
        };
        self.incoming.insert(qpn, incoming);
        let remote = Remote {
            ip,
            qpn: remote_qpn,
        };
        let made = self.post_buffers(host, qpn);
        if made.is_none() || host.connect_qp(now, qpn, remote, rq_psn).is_err() {
            // The member will repeat its request.
            self.drop_incoming(host, from, |_| true);
            return None;
        }
        Some((qpn, psn))
    }

    pub(super) fn post_buffers(&mut self, host: &mut dyn Verbs, qpn: QpNum) -> Option<()> {
        let (count, len) = (self.config.connection_buffers(), self.packet_len());
        let buffers = Buffers::register(host, count, len).ok()?;
        self.incoming.get_mut(&qpn)?.buffers = Some(buffers);
        for wr_id in 0..count {
            host.post_recv(qpn, buffers.request(wr_id)).ok()?;
        }
        Some(())
    }

    /// Length in bytes of the longest packet that is sent over a connection.
    pub(super) fn packet_len(&self) -> u64 {
        let message = HEADER_LEN as u64 + self.config.node.max_message;
        message.max(Membership::wire_len(self.config.max_members))
    }

    pub(super) fn connected(&mut self, qpn: QpNum) -> bool {
        let found = self.outgoing.values_mut().find(|o| o.qpn == qpn);
        if let Some(outgoing) = found {
            outgoing.state = State::Connected;
            return true;
        }
        self.incoming.contains_key(&qpn)
    }

    pub(super) fn completed(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        completion: &Completion,
    ) -> bool {
        let qpn = completion.qpn;
        if let Some(incoming) = self.incoming.get(&qpn) {
            let (Ok(done), Some(buffers)) = (completion.outcome, incoming.buffers) else {
                return true;
            };
            if completion.operation != Operation::Receive {
                return true;
            }
            let from = incoming.from;
            let packet = buffers.read(host, completion.wr_id, done.bytes).to_vec();
            // Posting fails only if the queue pair has failed since.
            let _ = host.post_recv(qpn, buffers.request(completion.wr_id));
            match (Membership::parse(&packet), &mut self.node) {
                (Some(list), _) if from == MANAGER => self.handle_list(host, now, list),
                // An invalid packet has no effect.
                (None, Some(node)) => drop(node.handle_packet(now, from, &packet)),
                _ => {}
            }
            return true;
        }
        let found = self.outgoing.iter_mut().find(|(_, o)| o.qpn == qpn);
        let Some((member, outgoing)) = found else {
            return false;
        };
        let member = *member;
        outgoing.in_flight = outgoing.in_flight.saturating_sub(1);
        let is_done =
            completion.outcome.is_ok() && outgoing.in_flight == 0 && outgoing.queue.is_empty();
        if is_done && self.config.connections == ConnectionLifetime::PerPacket {
            self.drop_outgoing(host, member);
            let disconnect = ManagementDatagram::Disconnect { qpn };
            self.send_datagram(host, now, member, disconnect.emit());
        }
        true
    }

    pub(super) fn failed(&mut self, host: &mut dyn Verbs, now: u64, qpn: QpNum) -> bool {
        let found = self.outgoing.iter().find(|(_, o)| o.qpn == qpn);
        if let Some((member, _)) = found {
            let member = *member;
            self.drop_outgoing(host, member);
            self.suspect(now, member);
            return true;
        }
        let Some(from) = self.incoming.get(&qpn).map(|incoming| incoming.from) else {
            return false;
        };
        self.drop_incoming(host, from, |_| true);
        true
    }

    pub(super) fn drop_outgoing(&mut self, host: &mut dyn Verbs, member: u32) {
        if let Some(outgoing) = self.outgoing.remove(&member) {
            // The queue pair was created here, so it exists.
            let _ = host.destroy_qp(outgoing.qpn);
        }
    }

    /// Destroys the queue pairs and buffers of the connections from member `from` for which `which` returns true.
    pub(super) fn drop_incoming(
        &mut self,
        host: &mut dyn Verbs,
        from: u32,
        which: impl Fn(&IncomingConnection) -> bool,
    ) {
        let found = self
            .incoming
            .iter()
            .filter(|(_, i)| i.from == from && which(i));
        for qpn in found.map(|(qpn, _)| *qpn).collect::<Vec<_>>() {
            if let Some(incoming) = self.incoming.remove(&qpn) {
                // Queue pair and memory were created here, so they exist.
                let _ = host.destroy_qp(qpn);
                if let Some(buffers) = incoming.buffers {
                    let _ = host.deregister(buffers.key);
                }
            }
        }
    }
}

impl OutgoingConnection {
    /// Posts the queued packets to the queue pair, once the connection is established.
    pub(super) fn flush(&mut self, host: &mut dyn Verbs) {
        if !matches!(self.state, State::Connected) {
            return;
        }
        while let Some(packet) = self.queue.pop_front() {
            let request = SendRequest {
                wr_id: 0,
                operation: SendOperation::Send { immediate: None },
                payload: Payload::Bytes(packet.into()),
            };
            // If the queue pair has just failed, an event reports it.
            if host.post_send(self.qpn, request).is_ok() {
                self.in_flight += 1;
            }
        }
    }
}
