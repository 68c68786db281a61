use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::*;
use crate::host::{Host, HostConfig, HostEvent};
use crate::wire::mrp::{self, Kind, Node, Refusal, Repr};
use crate::wire::{arp, ethernet, ipv4, udp, MacAddr, Psn, QpNum};

const VIRTUAL_QPN: QpNum = QpNum::new(0xa1f);
const GROUP: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
const FABRIC: MacAddr = MacAddr([2, 0xa1, 0xf1, 0x4c, 0, 1]);
const TIMING: LeaderTiming = LeaderTiming {
    interval: 1_000,
    attempts: 3,
};

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn host(n: u8) -> Host {
    let mac = MacAddr([2, 0, 0, 0, 0, n]);
    Host::new(HostConfig::new(format!("h{n}"), mac, ip(n), 8, 1500, 1)).unwrap()
}

fn node(n: u8) -> Node {
    Node {
        ip: ip(n),
        qpn: QpNum::new(0x100 + u32::from(n)),
        flags: 0,
        region: None,
    }
}

fn group() -> Node {
    Node {
        ip: GROUP,
        qpn: VIRTUAL_QPN,
        flags: mrp::NODE_IS_GROUP,
        region: None,
    }
}

/// The registration packets that a host sends, with their destinations; its ARP requests get replies.
fn sent(host: &mut Host, now: u64) -> Vec<(Ipv4Addr, Repr)> {
    let mut packets = Vec::new();
    if host.poll_timeout().is_some_and(|at| at <= now) {
        host.handle_timeout(now);
    }
    while let Some(frame) = host.poll_transmit(now) {
        let frame = ethernet::View::new_checked(&frame).unwrap();
        if frame.ethertype() == ethernet::ETHERTYPE_ARP {
            let request =
                arp::Repr::parse(&arp::View::new_checked(frame.payload()).unwrap()).unwrap();
            let reply = arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: FABRIC,
                sender_ip: request.target_ip,
                target_mac: request.sender_mac,
                target_ip: request.sender_ip,
            };
            let mut bytes = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
            ethernet::Repr {
                destination: request.sender_mac,
                source: FABRIC,
                ethertype: ethernet::ETHERTYPE_ARP,
            }
            .emit(&mut bytes);
            reply.emit(&mut bytes[ethernet::HEADER_LEN..]);
            host.handle_frame(now, &bytes);
        } else {
            let packet = ipv4::View::new_checked(frame.payload()).unwrap();
            let datagram = udp::View::new_checked(packet.payload()).unwrap();
            let view = mrp::View::new_checked(datagram.payload()).unwrap();
            packets.push((packet.destination(), Repr::parse(&view)));
        }
    }
    packets
}

fn datagram(source: Ipv4Addr, packet: &Repr) -> HostEvent {
    HostEvent::Udp {
        source,
        source_port: mrp::PORT,
        destination_port: mrp::PORT,
        payload: packet.to_bytes(),
    }
}

fn packet(kind: Kind, nodes: Vec<Node>) -> Repr {
    Repr {
        kind,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(7),
        flags: 0,
        nodes,
    }
}

/// A leader that has the queue pairs of members 2 to `last`.
fn leader(host: &mut Host, last: u8) -> Leader {
    let spec = GroupSpec {
        mcst_id: GROUP,
        virtual_qpn: VIRTUAL_QPN,
        initial_psn: Psn::new(7),
        leader: node(1),
        members: (2..=last).map(ip).collect::<BTreeSet<_>>(),
        retry_timeout: RetryTimeout::UNKNOWN,
    };
    let mut leader = Leader::new(host, spec, TIMING);
    for n in 2..=last {
        leader.gather(host, 0, node(n)).unwrap();
    }
    leader
}

#[test]
fn registration_begins_when_the_last_queue_pair_is_known() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    let packets = sent(&mut host, 0);
    assert_eq!(
        packets,
        [(
            GROUP,
            packet(Kind::Register, vec![group(), node(1), node(2), node(3)])
        )]
    );
    // A host that is not a member has no effect.
    leader.gather(&mut host, 0, node(9)).unwrap();
    assert_eq!(sent(&mut host, 0), []);
    assert_eq!(leader.poll(), None);
}

#[test]
fn sending_may_start_when_every_member_has_confirmed() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    let confirm = |n| datagram(ip(n), &packet(Kind::Confirm, vec![node(n), group()]));
    assert!(leader.handle_event(0, &mut host, &confirm(3)));
    assert!(leader.handle_event(0, &mut host, &confirm(3)));
    // For another member, with another queue pair, or for another group.
    leader.handle_event(
        0,
        &mut host,
        &datagram(ip(3), &packet(Kind::Confirm, vec![node(2), group()])),
    );
    let wrong = Node {
        qpn: QpNum::new(5),
        ..node(2)
    };
    leader.handle_event(
        0,
        &mut host,
        &datagram(ip(2), &packet(Kind::Confirm, vec![wrong, group()])),
    );
    let other = Node {
        ip: ip(77),
        ..group()
    };
    assert!(!leader.handle_event(
        0,
        &mut host,
        &datagram(ip(2), &packet(Kind::Confirm, vec![node(2), other]))
    ));
    assert_eq!((leader.poll(), leader.ignored()), (None, 3));
    leader.handle_event(0, &mut host, &confirm(2));
    assert_eq!(leader.poll(), Some(LeaderEvent::Registered));
    assert_eq!(leader.poll_timeout(), None);
}

#[test]
fn packets_with_unconfirmed_nodes_are_resent() {
    let mut host = host(1);
    let mut all = leader(&mut host, 250);
    assert_eq!(sent(&mut host, 0).len(), 2);
    // All members named in the first packet confirm.
    for n in 2..=183 {
        all.handle_event(
            0,
            &mut host,
            &datagram(ip(n), &packet(Kind::Confirm, vec![node(n), group()])),
        );
    }
    all.handle_timeout(999, &mut host);
    assert_eq!(sent(&mut host, 999), []);
    all.handle_timeout(1_000, &mut host);
    let again = sent(&mut host, 1_000);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].1.seq, again[0].1.total), (1, 2));
}

#[test]
fn a_leader_that_gives_up_reports_the_missing_members() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    leader.handle_event(
        0,
        &mut host,
        &datagram(ip(2), &packet(Kind::Confirm, vec![node(2), group()])),
    );
    let mut sendings = sent(&mut host, 0).len();
    for at in [1_000, 2_000, 3_000] {
        assert_eq!(leader.poll_timeout(), Some(at));
        leader.handle_timeout(at, &mut host);
        sendings += sent(&mut host, at)
            .iter()
            .filter(|(_, p)| p.kind == Kind::Register)
            .count();
    }
    assert_eq!(sendings, 3);
    assert_eq!(
        leader.poll(),
        Some(LeaderEvent::GaveUp {
            missing: vec![ip(3)]
        })
    );
    // The state in the switches is removed.
    leader.handle_timeout(4_000, &mut host);
    assert_eq!(sent(&mut host, 4_000)[0].1.kind, Kind::Deregister);
    leader.handle_event(
        0,
        &mut host,
        &datagram(GROUP, &packet(Kind::Confirm, vec![group()])),
    );
    assert_eq!(leader.poll(), Some(LeaderEvent::Deregistered));
    assert_eq!(leader.poll_timeout(), None);
}

#[test]
fn a_refusal_ends_registration_with_its_reason() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    let refusal = Repr {
        flags: Refusal::Full.bits(),
        ..packet(Kind::Refuse, vec![group()])
    };
    leader.handle_event(0, &mut host, &datagram(ip(3), &refusal));
    assert_eq!(leader.poll(), None);
    leader.handle_event(0, &mut host, &datagram(GROUP, &refusal));
    assert_eq!(
        leader.poll(),
        Some(LeaderEvent::Refused {
            reason: Refusal::Full
        })
    );
    assert_eq!(leader.poll_timeout(), None);
}

/// The group that member 2 expects.
fn expected() -> ExpectedGroup {
    ExpectedGroup {
        mcst_id: GROUP,
        virtual_qpn: VIRTUAL_QPN,
        leader: ip(1),
    }
}

#[test]
fn a_host_agrees_for_the_queue_pairs_that_it_expects_to_be_registered() {
    let mut host = host(2);
    let mut member = Member::new(&mut host);
    let nodes = vec![node(2), group(), Node::leader(ip(1))];
    let invitation = datagram(GROUP, &packet(Kind::Invite, nodes.clone()));
    assert!(member.handle_event(0, &mut host, &invitation));
    assert_eq!((sent(&mut host, 0), member.ignored()), (vec![], 1));
    member.expect(node(2).qpn, expected());
    for at in [1, 2] {
        assert!(member.handle_event(at, &mut host, &invitation));
        let agreement = packet(Kind::Agree, nodes.clone());
        assert_eq!(sent(&mut host, at), [(GROUP, agreement)]);
    }
    // The member is not in the group yet.
    assert_eq!(member.poll(), None);
}

#[test]
fn a_host_replies_only_to_the_fabric_and_the_leader_of_the_expected_group() {
    let mut host = host(2);
    let mut member = Member::new(&mut host);
    member.expect(node(2).qpn, expected());
    let leader = Node::leader(ip(1));
    let other_group = Node {
        ip: ip(200),
        ..group()
    };
    let earlier_group = Node {
        qpn: QpNum::new(VIRTUAL_QPN.get() - 1),
        ..group()
    };
    let invite = |nodes| packet(Kind::Invite, nodes);
    let register = |nodes| packet(Kind::Register, nodes);
    let wrong = [
        // Another group, the previous group with this address, another leader, no leader.
        (ip(200), invite(vec![node(2), other_group, leader])),
        (GROUP, invite(vec![node(2), other_group, leader])),
        (GROUP, invite(vec![node(2), earlier_group, leader])),
        (GROUP, invite(vec![node(2), group(), Node::leader(ip(9))])),
        (GROUP, invite(vec![node(2), group()])),
        // An invitation by a host outside the group.
        (ip(9), invite(vec![node(2), group(), leader])),
        // A registration by another host, of another group, of an unexpected queue pair.
        (ip(9), register(vec![node(2), group()])),
        (GROUP, register(vec![node(2), group()])),
        (ip(1), register(vec![node(2), other_group])),
        (ip(1), register(vec![node(2), earlier_group])),
        (ip(1), register(vec![node(3), group()])),
        (
            ip(1),
            register(vec![
                Node {
                    qpn: QpNum::new(5),
                    ..node(2)
                },
                group(),
            ]),
        ),
    ];
    for (n, (source, packet)) in wrong.iter().enumerate() {
        assert!(member.handle_event(0, &mut host, &datagram(*source, packet)));
        assert_eq!(sent(&mut host, 0), [], "packet {n}");
        assert_eq!(member.ignored(), n as u64 + 1);
    }
    assert_eq!(member.poll(), None);
}

#[test]
fn a_members_memory_does_not_grow_with_packets_of_others() {
    let mut host = host(2);
    let mut member = Member::new(&mut host);
    member.expect(node(2).qpn, expected());
    for psn in 0..10_000 {
        for source in [ip(1), ip(9)] {
            let register = Repr {
                initial_psn: Psn::new(psn),
                ..packet(Kind::Register, vec![node(2), group()])
            };
            member.handle_event(0, &mut host, &datagram(source, &register));
        }
    }
    assert_eq!(member.expected_count(), 1);
    // Only the newest registration is reported.
    let event = member.poll();
    let initial_psn = Psn::new(9_999);
    assert_eq!(
        event,
        Some(MemberEvent::Registered {
            qpn: node(2).qpn,
            mcst_id: GROUP,
            remote_qpn: VIRTUAL_QPN,
            initial_psn,
            leader: ip(1),
        })
    );
    assert_eq!(member.poll(), None);
    // After a change of the expected group, it replies for the new one only.
    let next = ExpectedGroup {
        virtual_qpn: QpNum::new(0xb00),
        ..expected()
    };
    member.expect(node(2).qpn, next);
    sent(&mut host, 0);
    let register = packet(Kind::Register, vec![node(2), group()]);
    member.handle_event(1, &mut host, &datagram(ip(1), &register));
    assert_eq!((sent(&mut host, 1), member.expected_count()), (vec![], 1));
}

#[test]
fn a_leader_reports_the_members_that_did_not_agree() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    let refusal = Repr {
        flags: Refusal::NotAgreed.bits(),
        ..packet(Kind::Refuse, vec![node(3), group()])
    };
    leader.handle_event(5, &mut host, &datagram(GROUP, &refusal));
    let missing = vec![ip(3)];
    assert_eq!(leader.poll(), Some(LeaderEvent::GaveUp { missing }));
    // The state in other switches is removed.
    assert_eq!(sent(&mut host, 5).last().unwrap().1.kind, Kind::Deregister);
    let gone = packet(Kind::Confirm, vec![group()]);
    leader.handle_event(6, &mut host, &datagram(GROUP, &gone));
    assert_eq!(leader.poll(), Some(LeaderEvent::Deregistered));
}

#[test]
fn a_leader_replies_to_the_fabrics_query_for_its_group() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 2);
    sent(&mut host, 0);
    let request = datagram(GROUP, &packet(Kind::Alive, vec![group()]));
    // Before the registration there is no group to keep.
    assert!(leader.handle_event(0, &mut host, &request));
    assert_eq!(sent(&mut host, 0), []);
    let confirm = packet(Kind::Confirm, vec![node(2), group()]);
    leader.handle_event(0, &mut host, &datagram(ip(2), &confirm));
    leader.handle_event(5, &mut host, &request);
    let reply = (GROUP, packet(Kind::Alive, vec![node(1)]));
    assert_eq!(sent(&mut host, 5), [reply]);
    // A query from another host is not from the fabric.
    let other = datagram(ip(2), &packet(Kind::Alive, vec![group()]));
    assert!(!leader.handle_event(6, &mut host, &other));
    assert_eq!(sent(&mut host, 6), []);
}

#[test]
fn a_leader_reports_that_the_fabric_has_removed_its_group() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 2);
    let confirm = packet(Kind::Confirm, vec![node(2), group()]);
    leader.handle_event(0, &mut host, &datagram(ip(2), &confirm));
    assert_eq!(leader.poll(), Some(LeaderEvent::Registered));
    let refusal = |reason: Refusal| Repr {
        flags: reason.bits(),
        ..packet(Kind::Refuse, vec![group()])
    };
    leader.handle_event(1, &mut host, &datagram(GROUP, &refusal(Refusal::Busy)));
    leader.handle_event(
        1,
        &mut host,
        &datagram(ip(2), &refusal(Refusal::NoSuchGroup)),
    );
    assert_eq!((leader.poll(), leader.ignored()), (None, 2));
    leader.handle_event(
        1,
        &mut host,
        &datagram(GROUP, &refusal(Refusal::NoSuchGroup)),
    );
    assert_eq!(leader.poll(), Some(LeaderEvent::Deregistered));
    assert!(!leader.is_registered());
}

#[test]
fn a_leader_reports_the_members_that_the_fabric_has_removed() {
    let mut host = host(1);
    let mut leader = leader(&mut host, 3);
    let lost = packet(Kind::Leave, vec![node(3), group()]);
    assert!(!leader.handle_event(0, &mut host, &datagram(ip(3), &lost)));
    assert!(leader.handle_event(0, &mut host, &datagram(GROUP, &lost)));
    let members = vec![ip(3)];
    assert_eq!(leader.poll(), Some(LeaderEvent::Lost { members }));
}

#[test]
fn a_member_confirms_every_registration_and_reports_it_once() {
    let mut host = host(2);
    let mut member = Member::new(&mut host);
    member.expect(node(2).qpn, expected());
    let request = datagram(ip(1), &packet(Kind::Register, vec![node(2), group()]));
    for at in [0, 10] {
        assert!(member.handle_event(at, &mut host, &request));
        let confirmation = packet(Kind::Confirm, vec![node(2), group()]);
        assert_eq!(sent(&mut host, at), [(ip(1), confirmation)]);
    }
    let event = member.poll();
    assert!(matches!(
        event,
        Some(MemberEvent::Registered { mcst_id: GROUP, .. })
    ));
    assert_eq!(member.poll(), None);
    member.remove(node(2).qpn);
    assert!(member.handle_event(20, &mut host, &request));
    assert_eq!((sent(&mut host, 20), member.ignored()), (vec![], 1));
}

#[test]
fn a_confirmation_contains_the_registered_region() {
    let mut host = host(1);
    let with_region = |va| Node {
        region: mrp::Region::new(va, 7, 4096),
        ..node(2)
    };
    let spec = GroupSpec {
        mcst_id: GROUP,
        virtual_qpn: VIRTUAL_QPN,
        initial_psn: Psn::new(7),
        leader: node(1),
        members: BTreeSet::from([ip(2)]),
        retry_timeout: RetryTimeout::UNKNOWN,
    };
    let mut leader = Leader::new(&mut host, spec, TIMING);
    leader.gather(&mut host, 0, with_region(1 << 20)).unwrap();
    let confirm = |node| datagram(ip(2), &packet(Kind::Confirm, vec![node, group()]));
    for wrong in [node(2), with_region(1 << 21)] {
        leader.handle_event(0, &mut host, &confirm(wrong));
        assert_eq!(leader.poll(), None);
    }
    leader.handle_event(0, &mut host, &confirm(with_region(1 << 20)));
    assert_eq!(leader.poll(), Some(LeaderEvent::Registered));
}
