//! Frame handling of a host: ARP, and the checks of received packets.

use alfirk_roce::collective::{
    Algorithm, Digest, GroupSpec, Transfer, TransferError, TransferSpec,
};
use alfirk_roce::host::{Host, HostConfig, HostEvent};
use alfirk_roce::rc::{
    MemorySlice, QpFailure, RcConfig, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::rc::{PathMtu, Payload};
use alfirk_roce::wire::{arp, bth, ethernet, ipv4, udp, MacAddr, Psn, QpNum};

use crate::net::{host, ip, mac, segment};
use crate::reliability::Pair;

/// A frame with a SEND of four bytes from host 0, as it arrives at host 1.
fn data_frame(pair: &mut Pair) -> Vec<u8> {
    let key = pair.net.hosts[1].register_memory(4, false);
    pair.post_recv(1, 0, key, 0, 4);
    pair.post_send(0, 0, SendOperation::Send { immediate: None }, b"data");
    pair.net.hosts[0].poll_transmit(pair.net.now).unwrap()
}

fn pair() -> Pair {
    Pair::new(RcConfig::new(PathMtu::B1024), Psn::new(0), 3)
}

const IP: usize = ethernet::HEADER_LEN;
const BTH: usize = IP + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Recomputes IPv4 checksum and ICRC after a change.
fn seal(frame: &mut [u8]) {
    frame[IP + 10..IP + 12].fill(0);
    let sum = ipv4::checksum(&frame[IP..IP + ipv4::HEADER_LEN]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    let end = frame.len() - 4;
    let icrc = alfirk_roce::icrc::compute(&frame[IP..end]).unwrap();
    frame[end..].copy_from_slice(&icrc.to_le_bytes());
}

#[test]
fn frames_look_like_those_of_a_kernel_stack() {
    let mut pair = pair();
    let frame = data_frame(&mut pair);
    let ip = ipv4::Repr::parse(&ipv4::View::new_checked(&frame[IP..]).unwrap()).unwrap();
    assert!(ip.dont_fragment && ip.identification != 0 && ip.ttl == 64);
    let udp = udp::View::new_checked(&frame[IP + ipv4::HEADER_LEN..]).unwrap();
    assert_eq!(
        (udp.destination_port(), udp.checksum()),
        (udp::PORT_ROCE, 0)
    );
    assert!(udp.source_port() >= 0xc000);
    let bth = bth::View::new_checked(udp.payload()).unwrap();
    assert_eq!((bth.pkey(), bth.dest_qp()), (0xffff, pair.qps[1]));
}

#[test]
fn invalid_packets_are_dropped_and_counted() {
    type Change = fn(&mut Vec<u8>);
    type Counter = fn(&alfirk_roce::host::Drops) -> u64;
    let cases: [(&str, Change, Counter); 14] = [
        ("another mac", |f| f[5] = 99, |d| d.not_for_us),
        (
            "another address",
            |f| {
                f[IP + 19] = 77;
                seal(f)
            },
            |d| d.not_for_us,
        ),
        ("ip checksum", |f| f[IP + 10] ^= 1, |d| d.ip_checksum),
        (
            "unknown queue pair",
            |f| {
                f[BTH + 7] ^= 0x40;
                seal(f)
            },
            |d| d.unknown_qp,
        ),
        (
            "wrong source",
            |f| {
                f[IP + 15] = 3;
                seal(f)
            },
            |d| d.wrong_source,
        ),
        (
            "wrong partition",
            |f| {
                f[BTH + 3] = 1;
                seal(f)
            },
            |d| d.wrong_pkey,
        ),
        (
            "icrc",
            |f| {
                let n = f.len();
                f[n - 1] ^= 1
            },
            |d| d.icrc,
        ),
        (
            "payload",
            |f| {
                let n = f.len();
                f[n - 5] ^= 1
            },
            |d| d.icrc,
        ),
        (
            "another port",
            |f| {
                f[IP + 23] = 1;
                seal(f)
            },
            |d| d.no_listener,
        ),
        ("ethertype", |f| f[12] = 0x86, |d| d.no_listener),
        (
            "transport version",
            |f| {
                f[BTH + 1] |= 1;
                seal(f)
            },
            |d| d.malformed,
        ),
        (
            "udp shorter than ip",
            |f| {
                f[IP + 25] -= 4;
                seal(f)
            },
            |d| d.malformed,
        ),
        (
            "payload not a multiple of four bytes",
            |f| {
                let n = f.len();
                f.truncate(n - 1);
                f[IP + 3] -= 1;
                f[IP + 25] -= 1;
                seal(f)
            },
            |d| d.malformed,
        ),
        ("truncated", |f| f.truncate(BTH + 3), |d| d.malformed),
    ];
    for (name, change, counter) in cases {
        let mut pair = pair();
        let mut frame = data_frame(&mut pair);
        change(&mut frame);
        let host = &mut pair.net.hosts[1];
        let before = host.stats().drops.total();
        host.handle_frame(pair.net.now, &frame);
        assert_eq!(
            counter(&host.stats().drops),
            1,
            "{name}: {:?}",
            host.stats().drops
        );
        assert_eq!(host.stats().drops.total(), before + 1, "{name}");
        assert!(
            host.poll_transmit(pair.net.now).is_none(),
            "{name}: sent a reply"
        );
        assert!(host.poll_event().is_none(), "{name}");
    }
}

#[test]
fn fields_that_the_network_may_change_do_not_matter() {
    let mut pair = pair();
    let mut frame = data_frame(&mut pair);
    // Type of service, time to live, FECN.
    frame[IP + 1] = 3;
    frame[IP + 8] = 9;
    frame[BTH + 4] = 0x80;
    frame[IP + 10..IP + 12].fill(0);
    let sum = ipv4::checksum(&frame[IP..IP + ipv4::HEADER_LEN]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    let host = &mut pair.net.hosts[1];
    host.handle_frame(pair.net.now, &frame);
    assert_eq!(host.stats().drops.total(), 0);
    assert!(matches!(host.poll_event(), Some(HostEvent::Completion(_))));
}

#[test]
fn no_frame_makes_a_host_panic() {
    let mut pair = pair();
    let frame = data_frame(&mut pair);
    let host = &mut pair.net.hosts[1];
    for length in 0..frame.len() {
        host.handle_frame(0, &frame[..length]);
    }
    for at in 0..frame.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = frame.clone();
            changed[at] = value;
            host.handle_frame(0, &changed);
            if changed.len() > BTH + 12 {
                seal(&mut changed);
                host.handle_frame(0, &changed);
            }
        }
    }
}

/// An ARP request for host 0 from an arbitrary sender.
fn arp_request(sender: u32) -> Vec<u8> {
    let mut frame = vec![0; IP + arp::PACKET_LEN];
    ethernet::Repr {
        destination: MacAddr::BROADCAST,
        source: mac(9),
        ethertype: ethernet::ETHERTYPE_ARP,
    }
    .emit(&mut frame);
    arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: mac(9),
        sender_ip: sender.into(),
        target_mac: MacAddr([0; 6]),
        target_ip: ip(0),
    }
    .emit(&mut frame[IP..]);
    frame
}

#[test]
fn flood_of_arp_requests_is_limited_in_memory_and_replies() {
    let mut host = host(0, 1500, 1);
    for i in 0..10_000 {
        host.handle_frame(0, &arp_request(0x0a01_0000 + i));
    }
    let replies = std::iter::from_fn(|| host.poll_transmit(0)).count();
    assert_eq!(replies, 64);
    assert_eq!(host.stats().drops.arp_overload, 10_000 - 64);
    assert_eq!(host.stats().implausible(), 0);
    host.handle_frame(0, &arp_request(0x0a02_0000));
    assert!(host.poll_transmit(0).is_some(), "it replies again");
}

#[test]
fn neighbour_in_use_survives_a_flood_of_arp_requests() {
    let mut pair = pair();
    for i in 0..10_000 {
        pair.net.hosts[0].handle_frame(0, &arp_request(0x0a01_0000 + i));
        while pair.net.hosts[0].poll_transmit(0).is_some() {}
    }
    data_frame(&mut pair);
}

#[test]
fn address_without_a_reply_fails_the_queue_pair() {
    let mut net = segment(1, 1500, 1);
    let host = &mut net.hosts[0];
    let config = host.default_rc();
    let qpn = host.create_qp(config);
    let remote = Remote {
        ip: ip(200),
        qpn: QpNum::new(9),
    };
    host.connect_qp(0, qpn, remote, Psn::new(0)).unwrap();
    let events = net.run(10_000_000_000);
    let failure = QpFailure::Unreachable(ip(200));
    assert_eq!(events, [(0, HostEvent::QpFailed { qpn, failure })]);
    assert_eq!(net.hosts[0].stats().tx_frames, 100);
}

#[test]
fn address_off_the_link_needs_a_gateway() {
    let remote = Remote {
        ip: "192.168.0.1".parse().unwrap(),
        qpn: QpNum::new(9),
    };
    let mut alone = host(0, 1500, 1);
    let config = alone.default_rc();
    let qpn = alone.create_qp(config);
    alone.connect_qp(0, qpn, remote, Psn::new(0)).unwrap();
    assert!(matches!(
        alone.poll_event(),
        Some(HostEvent::QpFailed { .. })
    ));

    let mut config = HostConfig::new("h", mac(0), ip(0), 8, 1500, 1);
    config.gateway = Some(ip(1));
    let mut routed = Host::new(config).unwrap();
    let rc = routed.default_rc();
    let qpn = routed.create_qp(rc);
    routed.connect_qp(0, qpn, remote, Psn::new(0)).unwrap();
    assert!(routed.poll_event().is_none());
    assert!(routed.poll_timeout().is_some(), "it resolves the gateway");
}

#[test]
fn same_seed_makes_the_same_numbers_and_another_makes_others() {
    let numbers = |seed| {
        let mut host = host(0, 1500, seed);
        let config = host.default_rc();
        let qpn = host.create_qp(config);
        (
            qpn,
            host.qp(qpn).unwrap().sq_psn(),
            host.register_memory(1, true),
        )
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}

#[test]
fn datagrams_reach_a_bound_port() {
    let mut net = segment(2, 1500, 1);
    net.hosts[1].bind_udp(4790);
    net.hosts[0].send_udp(0, ip(1), 5000, 4790, b"register".to_vec());
    net.hosts[0].send_udp(0, ip(1), 5000, 4789, b"unread".to_vec());
    let events = net.run(1_000_000_000);
    let expected = HostEvent::Udp {
        source: ip(0),
        source_port: 5000,
        destination_port: 4790,
        payload: b"register".to_vec(),
    };
    assert_eq!(events, [(1, expected)]);
    assert_eq!(net.hosts[1].stats().drops.no_listener, 1);
}

#[test]
fn deregistering_memory_fails_a_pending_send() {
    let mut pair = pair();
    let key = pair.net.hosts[0].register_shared(vec![0; 10].into());
    let payload = Payload::Memory(MemorySlice {
        key,
        offset: 0,
        len: 10,
    });
    let operation = SendOperation::Send { immediate: None };
    let request = SendRequest {
        wr_id: 1,
        operation,
        payload,
    };
    pair.net.hosts[0]
        .post_send(pair.qps[0], request.clone())
        .unwrap();
    pair.net.hosts[0].memory_mut().deregister(key).unwrap();
    pair.run(1_000_000_000);
    let outcome = pair.done[0][0].outcome.unwrap_err().to_string();
    assert_eq!(
        outcome,
        "the memory of the work request is not registered any more"
    );
    let error = pair.net.hosts[0]
        .post_send(pair.qps[0], request)
        .unwrap_err();
    assert!(error.to_string().contains("Error"), "{error}");
}

#[test]
fn posted_buffer_must_be_registered() {
    let mut pair = pair();
    let key = pair.net.hosts[0].register_memory(10, false);
    let buffer = MemorySlice {
        key,
        offset: 5,
        len: 6,
    };
    let request = RecvRequest { wr_id: 0, buffer };
    let error = pair.net.hosts[0]
        .post_recv(pair.qps[0], request)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not contain 6 bytes at 0x5"),
        "{error}"
    );
}

#[test]
fn psns_of_an_idle_pair_can_be_set() {
    let mut pair = pair();
    for _ in 0..2 {
        let psn = Psn::new(0xff_ffff);
        for i in 0..2 {
            pair.net.hosts[i].set_sq_psn(pair.qps[i], psn).unwrap();
            pair.net.hosts[i].set_rq_psn(pair.qps[i], psn).unwrap();
        }
        let key = pair.net.hosts[1].register_memory(4000, false);
        pair.post_recv(1, 0, key, 0, 4000);
        pair.post_send(0, 0, SendOperation::Send { immediate: None }, &[1; 4000]);
        let busy = pair.net.hosts[0].set_sq_psn(pair.qps[0], psn);
        assert!(busy.unwrap_err().to_string().contains("in progress"));
        let deadline = pair.net.now + 1_000_000_000;
        pair.run(deadline);
        assert!(pair.done[1].pop().unwrap().outcome.is_ok());
    }
}

#[test]
fn misuse_of_a_transfer_is_reported() {
    let mut net = segment(2, 1500, 1);
    let spec = TransferSpec {
        group: Some(GroupSpec::new(ip(50), QpNum::new(2), Psn::new(0))),
        ..TransferSpec::new(Algorithm::Chain, 0, vec![ip(0), ip(1)].into(), 5)
    };
    let host = &mut net.hosts[0];
    let (mut transfer, _) = Transfer::prepare(host, spec).unwrap();
    assert!(matches!(
        transfer.connect(host, 0, &[]),
        Err(TransferError::MissingPeer(_))
    ));
    assert_eq!(
        transfer.start(host, 0, vec![0; 5].into()),
        Err(TransferError::NotReady(1))
    );
    transfer.close(host);
    assert_eq!(host.qps().count(), 0);
}

#[test]
fn receiver_that_expects_other_data_fails() {
    let mut net = segment(2, 1500, 1);
    let spec = |rank| TransferSpec {
        expected_sha256: Some(Digest::of(b"HELLO")),
        ..TransferSpec::new(Algorithm::Unicast, rank, vec![ip(0), ip(1)].into(), 5)
    };
    let mut collective = crate::net::Collective::prepare(&mut net, spec, |_, _| {});
    collective.run_until(&mut net, 1_000_000_000, crate::net::Collective::ready);
    let now = net.now;
    collective.transfers[0]
        .start(&mut net.hosts[0], now, b"hello"[..].into())
        .unwrap();
    collective.run_until(&mut net, 1_000_000_000, crate::net::Collective::finished);
    assert!(collective.transfers[1].has_failed());
}
