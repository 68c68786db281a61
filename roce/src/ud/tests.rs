//! Datagrams between hosts on a shared medium, on which all receive every frame.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::*;
use crate::host::{Host, HostConfig, HostEvent};
use crate::icrc;
use crate::rc::{
    CompletionError, MemoryKey, MemorySlice, PathMtu, Payload, RcConfig, RecvRequest, Remote,
};
use crate::wire::{bth, deth, ethernet, icrc as trailer, ipv4, MacAddr, Opcode, Psn, QpNum};

const QKEY: u32 = 0x1111_2222;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 129, 2, 3);

struct Wire {
    hosts: Vec<Host>,
    qpns: Vec<QpNum>,
    frames: Vec<Vec<u8>>,
}

fn config(qkey: u32) -> UdConfig {
    UdConfig {
        mtu: PathMtu::B1024,
        qkey,
        priority: 0,
    }
}

fn ip(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n as u8 + 1)
}

impl Wire {
    /// Creates hosts with a datagram queue pair each.
    fn new(hosts: usize) -> Wire {
        let host = |n: usize| {
            let mac = MacAddr([2, 0, 0, 0, 0, n as u8 + 1]);
            Host::new(HostConfig::new(format!("h{n}"), mac, ip(n), 24, 1500, 7)).unwrap()
        };
        let mut hosts: Vec<_> = (0..hosts).map(host).collect();
        let qpns = hosts.iter_mut().map(|h| h.create_ud_qp(config(QKEY)));
        Wire {
            qpns: qpns.collect(),
            hosts,
            frames: Vec::new(),
        }
    }

    /// Delivers all frames to all hosts.
    fn run(&mut self) {
        loop {
            let before = self.frames.len();
            for n in 0..self.hosts.len() {
                self.hosts[n].handle_timeout(0);
                while let Some(frame) = self.hosts[n].poll_transmit(0) {
                    for other in (0..self.hosts.len()).filter(|other| *other != n) {
                        self.hosts[other].handle_frame(0, &frame);
                    }
                    self.frames.push(frame);
                }
            }
            if self.frames.len() == before {
                return;
            }
        }
    }

    fn receive(&mut self, n: usize, len: u64) -> MemoryKey {
        let key = self.hosts[n].register_memory(len, false);
        let buffer = MemorySlice {
            key,
            offset: 0,
            len,
        };
        let request = RecvRequest { wr_id: 5, buffer };
        self.hosts[n].post_ud_recv(self.qpns[n], request).unwrap();
        key
    }

    fn send(&mut self, n: usize, to: UdDestination, bytes: &[u8]) -> Result<(), UdPostError> {
        let request = UdSendRequest {
            wr_id: 9,
            to,
            immediate: Some(77),
            payload: Payload::Bytes(Arc::from(bytes)),
            is_signaled: true,
        };
        self.hosts[n].post_ud_send(self.qpns[n], request)
    }

    fn events(&mut self, n: usize) -> Vec<HostEvent> {
        std::iter::from_fn(|| self.hosts[n].poll_event()).collect()
    }

    fn to_host(&self, n: usize) -> UdDestination {
        UdDestination {
            ip: ip(n),
            qpn: self.qpns[n],
            qkey: QKEY,
        }
    }
}

fn to_group() -> UdDestination {
    UdDestination {
        ip: GROUP,
        qpn: MULTICAST_QPN,
        qkey: QKEY,
    }
}

fn received(wire: &Wire, at: usize, from: usize, len: u64, destination: Ipv4Addr) -> HostEvent {
    HostEvent::Datagram(UdCompletion {
        qpn: wire.qpns[at],
        wr_id: 5,
        outcome: Ok(CompletedDatagram::Received {
            bytes: GRH_LEN + len,
            immediate: Some(77),
            source: Remote {
                ip: ip(from),
                qpn: wire.qpns[from],
            },
            destination,
        }),
    })
}

#[test]
fn a_datagram_goes_to_one_queue_pair_once_its_address_is_resolved() {
    let mut wire = Wire::new(3);
    let key = wire.receive(1, 100);
    let to = wire.to_host(1);
    let early = wire.send(0, to, b"flock");
    assert_eq!(early, Err(UdPostError::Unresolved(ip(1))));
    wire.hosts[0].resolve(0, ip(1));
    wire.run();
    let resolved = HostEvent::Resolved {
        ip: ip(1),
        is_known: true,
    };
    assert_eq!(wire.events(0), [resolved]);
    wire.send(0, to, b"flock").unwrap();
    wire.run();
    let expected = received(&wire, 1, 0, 5, ip(1));
    assert_eq!(wire.events(1), [expected]);
    let bytes = wire.hosts[1].memory().region(key).unwrap().bytes();
    assert_eq!(&bytes[40..45], b"flock");
    assert_eq!(bytes[..20], [0; 20], "zeros before the IPv4 header");
    let header = ipv4::View::new_checked(&wire.frames.last().unwrap()[14..]).unwrap();
    assert_eq!(&bytes[20..40], header.header());
    let sent = UdCompletion {
        qpn: wire.qpns[0],
        wr_id: 9,
        outcome: Ok(CompletedDatagram::Sent),
    };
    assert_eq!(wire.events(0), [HostEvent::Datagram(sent)]);
}

#[test]
fn a_datagram_to_a_group_reaches_attached_queue_pairs_but_not_its_sender() {
    let mut wire = Wire::new(4);
    for n in [0, 1, 3] {
        let qpn = wire.qpns[n];
        wire.hosts[n].attach_multicast(qpn, GROUP).unwrap();
    }
    let keys: Vec<_> = (0..4).map(|n| wire.receive(n, 100)).collect();
    wire.send(0, to_group(), b"all of you").unwrap();
    wire.run();
    let view = ethernet::View::new_checked(&wire.frames[0]).unwrap();
    assert_eq!(view.destination().to_string(), "01:00:5e:01:02:03");
    for n in [1, 3] {
        let expected = received(&wire, n, 0, 10, GROUP);
        assert_eq!(wire.events(n), [expected]);
        let bytes = wire.hosts[n].memory().region(keys[n]).unwrap().bytes();
        assert_eq!(&bytes[40..50], b"all of you");
    }
    assert_eq!(wire.events(2), []);
    assert_eq!(wire.hosts[2].stats().drops.not_for_us, 1);
    assert_eq!(wire.events(0).len(), 1);
    let qpn = wire.qpns[1];
    wire.hosts[1].detach_multicast(qpn, GROUP);
    wire.send(0, to_group(), b"again").unwrap();
    wire.run();
    assert_eq!(wire.events(1), []);
    assert_eq!(wire.hosts[1].stats().drops.not_for_us, 1);
}

#[test]
fn a_wrong_qkey_is_dropped_and_counted() {
    let mut wire = Wire::new(2);
    let qpn = wire.qpns[1];
    wire.hosts[1].attach_multicast(qpn, GROUP).unwrap();
    wire.receive(1, 100);
    let other_key = UdDestination {
        qkey: QKEY + 1,
        ..to_group()
    };
    wire.send(0, other_key, b"x").unwrap();
    // The highest bit selects the sender's own key.
    let own_key = UdDestination {
        qkey: 1 << 31,
        ..to_group()
    };
    wire.send(0, own_key, b"y").unwrap();
    wire.run();
    let expected = received(&wire, 1, 0, 1, GROUP);
    assert_eq!(wire.events(1), [expected]);
    let stats = wire.hosts[1].ud_qp(qpn).unwrap().stats();
    assert_eq!((stats.bad_qkey, stats.received), (1, 1));
}

#[test]
fn invalid_datagrams_are_rejected_with_a_remedy() {
    let mut wire = Wire::new(2);
    let long = vec![0; 1025];
    let error = wire.send(0, to_group(), &long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a datagram of 1025 bytes exceeds the path MTU of 1024 bytes; cut the message into segments"
    );
    wire.send(0, to_group(), &long[1..]).unwrap();
    let one_member = UdDestination {
        qpn: wire.qpns[1],
        ..to_group()
    };
    let refused = wire.send(0, one_member, b"");
    assert_eq!(refused, Err(UdPostError::WrongQueuePair(GROUP)));
    let key = wire.hosts[0].register_memory(39, false);
    let buffer = MemorySlice {
        key,
        offset: 0,
        len: 39,
    };
    let request = RecvRequest { wr_id: 0, buffer };
    let qpn = wire.qpns[0];
    let refused = wire.hosts[0].post_ud_recv(qpn, request);
    assert_eq!(refused, Err(UdPostError::NoSpaceForGrh(39)));
    let attached = wire.hosts[0].attach_multicast(qpn, ip(1));
    assert_eq!(attached, Err(UdPostError::WrongQueuePair(ip(1))));
}

#[test]
fn a_datagram_without_a_buffer_is_lost_and_a_short_buffer_fails_the_queue_pair() {
    let mut wire = Wire::new(2);
    let qpn = wire.qpns[1];
    wire.hosts[1].attach_multicast(qpn, GROUP).unwrap();
    wire.send(0, to_group(), b"no receiver!").unwrap();
    wire.run();
    assert_eq!(wire.hosts[1].ud_qp(qpn).unwrap().stats().no_buffer, 1);
    wire.receive(1, 44);
    wire.receive(1, 100);
    wire.send(0, to_group(), b"five!").unwrap();
    wire.run();
    let outcome = |event| match event {
        HostEvent::Datagram(completion) => completion.outcome,
        other => panic!("{other:?}"),
    };
    let outcomes: Vec<_> = wire.events(1).into_iter().map(outcome).collect();
    let expected = [
        Err(CompletionError::LocalLength),
        Err(CompletionError::Flushed),
    ];
    assert_eq!(outcomes, expected);
    assert!(wire.hosts[1].ud_qp(qpn).unwrap().has_failed());
}

#[test]
fn a_damaged_datagram_and_one_of_another_service_are_dropped() {
    let mut wire = Wire::new(2);
    let qpn = wire.qpns[1];
    wire.hosts[1].attach_multicast(qpn, GROUP).unwrap();
    wire.receive(1, 100);
    wire.send(0, to_group(), b"four").unwrap();
    let good = wire.hosts[0].poll_transmit(0).unwrap();
    let body = 14 + 20 + 8;
    for at in body..good.len() {
        // The byte that the ICRC masks may change in transit.
        if at == body + bth::CONGESTION {
            continue;
        }
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        wire.hosts[1].handle_frame(0, &bad);
        assert_eq!(wire.events(1), [], "byte {at}");
    }
    // A SEND of a connection to the multicast address matches no queue pair.
    let mut connected = good.clone();
    connected[body] = 0x04;
    let end = connected.len() - trailer::TRAILER_LEN;
    let crc = icrc::compute(&connected[14..end]).unwrap();
    trailer::Repr { icrc: crc }.emit(&mut connected[end..]);
    wire.hosts[1].handle_frame(0, &connected);
    assert_eq!(wire.events(1), []);
    wire.hosts[1].handle_frame(0, &good);
    assert_eq!(wire.events(1).len(), 1);
}

#[test]
fn a_truncated_packet_is_never_read_beyond_its_end() {
    let packet = UdHeaders {
        bth: bth::Repr::new(Opcode::UdSendOnlyImm, MULTICAST_QPN, Psn::new(3)),
        deth: deth::Repr {
            qkey: QKEY,
            src_qp: QpNum::new(4),
        },
        immediate: Some(1),
    };
    let mut bytes = vec![0; packet.len() + 8];
    packet.emit(&mut bytes);
    assert_eq!(UdPacket::parse(&bytes).unwrap().headers, packet);
    for len in 0..packet.len() {
        assert!(UdPacket::parse(&bytes[..len]).is_err(), "{len}");
    }
}

#[test]
fn queue_pairs_of_both_services_have_different_numbers() {
    let mut wire = Wire::new(1);
    let host = &mut wire.hosts[0];
    let mut numbers = BTreeSet::from([wire.qpns[0]]);
    for _ in 0..50 {
        assert!(numbers.insert(host.create_qp(RcConfig::new(PathMtu::B1024))));
        assert!(numbers.insert(host.create_ud_qp(config(QKEY))));
    }
    host.destroy_ud_qp(wire.qpns[0]).unwrap();
    assert!(host.destroy_ud_qp(wire.qpns[0]).is_err());
}

#[test]
fn resolving_an_absent_host_fails() {
    let mut wire = Wire::new(1);
    let host = &mut wire.hosts[0];
    host.resolve(0, ip(9));
    for _ in 0..200 {
        let Some(at) = host.poll_timeout() else { break };
        host.handle_timeout(at);
    }
    let gone = HostEvent::Resolved {
        ip: ip(9),
        is_known: false,
    };
    assert_eq!(host.poll_event(), Some(gone));
}
