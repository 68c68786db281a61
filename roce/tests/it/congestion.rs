//! Congestion control between hosts: marks cause CNPs, CNPs reduce the rate, and flows share a link.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use alfirk_roce::dcqcn::{DcqcnConfig, Phase};
use alfirk_roce::host::{Host, HostEvent};
use alfirk_roce::rc::{
    MemoryKey, PathMtu, Payload, QpStats, RcConfig, Remote, SendOperation, SendRequest,
};
use alfirk_roce::wire::{arp, bth, ethernet, ipv4, udp, Opcode, Psn, QpNum};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::net::{host, ip};
use crate::reliability::Pair;

const IP: usize = ethernet::HEADER_LEN;
const BTH: usize = IP + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Marks a packet as a switch does.
fn mark(frame: &mut [u8]) {
    frame[IP + 1] |= ipv4::ECN_CE;
    frame[IP + 10..IP + 12].fill(0);
    let sum = ipv4::checksum(&frame[IP..IP + ipv4::HEADER_LEN]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
}

fn opcode(frame: &[u8]) -> Opcode {
    bth::View::new_checked(&frame[BTH..]).unwrap().opcode()
}

fn rc(line_rate: u64) -> RcConfig {
    RcConfig {
        window: 4096,
        congestion: Some(DcqcnConfig::new(line_rate)),
        ..RcConfig::new(PathMtu::B1024)
    }
}

const SEND: SendOperation = SendOperation::Send { immediate: None };

#[test]
fn marked_packets_bring_one_notification_per_interval() {
    let mut pair = Pair::new(rc(10_000_000_000), Psn::new(0), 1);
    let key = pair.net.hosts[1].register_memory(1 << 20, false);
    pair.post_recv(1, 0, key, 0, 1 << 20);
    pair.post_send(0, 0, SEND, &vec![0; 200 * 1024]);
    let start = pair.net.now;
    let mut notified = Vec::new();
    for i in 0..200 {
        let now = start + 1_000 * i;
        let mut frame = pair.net.hosts[0].poll_transmit(now).unwrap();
        assert_eq!(frame[IP + 1], ipv4::ECN_ECT0, "data may be marked");
        mark(&mut frame);
        pair.net.hosts[1].handle_frame(now, &frame);
        while let Some(reply) = pair.net.hosts[1].poll_transmit(now) {
            assert_eq!(reply[IP + 1], 0, "replies are not marked");
            if opcode(&reply) == Opcode::Cnp {
                notified.push(now - start);
            }
        }
    }
    assert_eq!(notified, [0, 50_000, 100_000, 150_000]);
    let stats = pair.net.hosts[1].qp(pair.qps[1]).unwrap().stats();
    assert_eq!((stats.marked_received, stats.cnps_sent), (200, 4));
}

#[test]
fn only_a_cnp_reduces_the_rate() {
    let line = 10_000_000_000;
    let mut pair = Pair::new(rc(line), Psn::new(0), 1);
    let key = pair.net.hosts[1].register_memory(1 << 20, false);
    pair.post_recv(1, 0, key, 0, 1 << 20);
    pair.post_send(0, 0, SEND, &vec![0; 1 << 20]);
    let now = pair.net.now;
    let mut frame = pair.net.hosts[0].poll_transmit(now).unwrap();
    mark(&mut frame);
    pair.net.hosts[1].handle_frame(now, &frame);
    let cnp = pair.net.hosts[1].poll_transmit(now).unwrap();
    assert_eq!(opcode(&cnp), Opcode::Cnp);

    let host = &mut pair.net.hosts[0];
    assert!(host.poll_transmit(now).is_some(), "no pacing before a CNP");
    host.handle_frame(now, &cnp);
    let mut sent = Vec::new();
    let mut clock = now;
    while sent.len() < 30 {
        match host.poll_transmit(clock) {
            Some(frame) => sent.push((clock, frame.len() as u64 + 24)),
            None => {
                clock = host.poll_timeout().unwrap();
                host.handle_timeout(clock);
            }
        }
    }
    // After the burst, packets are sent at half the line rate, which the first increase after 55 us raises.
    let bytes: u64 = sent[10..20].iter().map(|(_, len)| len).sum();
    let ns = sent[20].0 - sent[10].0;
    let rate = bytes as f64 * 8e9 / ns as f64;
    assert!((rate / line as f64 - 0.5).abs() < 0.01, "{rate}");
    let qp = host.qp(pair.qps[0]).unwrap();
    assert_eq!(qp.reaction().unwrap().phase(), Phase::FastRecovery);
    assert_eq!(qp.stats().cnps_received, 1);
    assert_eq!(host.stats().implausible(), 0);
}

#[test]
fn mark_on_a_packet_that_is_not_ecn_capable_is_a_violation() {
    let mut pair = Pair::new(RcConfig::new(PathMtu::B1024), Psn::new(0), 1);
    pair.post_send(0, 0, SEND, b"data");
    let mut frame = pair.net.hosts[0].poll_transmit(pair.net.now).unwrap();
    assert_eq!(frame[IP + 1], 0);
    mark(&mut frame);
    pair.net.hosts[1].handle_frame(pair.net.now, &frame);
    assert_eq!(pair.net.hosts[1].stats().violations.marked_unasked, 1);
}

// ---- Two flows on one link ----

/// Rate of every link in bit/s.
const LINE: u64 = 10_000_000_000;
const DELAY: u64 = 1_000;
/// The marking of the paper's section 5.2: none up to 5 kB of queue, up to 1 % at 200 kB, all packets above.
const K_MIN: u64 = 5_000;
const K_MAX: u64 = 200_000;
const P_MAX: f64 = 0.01;

fn wire_time(frame: &[u8]) -> u64 {
    (frame.len() as u64 + 24) * 8_000_000_000 / LINE
}

/// Two hosts that send to a third through one unbounded output queue, which marks and never drops.
struct Bottleneck {
    now: u64,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    region: (MemoryKey, u64),
    /// By host: the time at which its port is free.
    free: [u64; 3],
    queue: VecDeque<Vec<u8>>,
    queued: u64,
    /// The deepest queue since [`Bottleneck::watch`], in bytes.
    deepest: u64,
    served: u64,
    flying: BinaryHeap<Reverse<Flying>>,
    count: u64,
    rng: ChaCha8Rng,
}

/// A frame in flight: arrival time, a counter that keeps the order, destination, bytes.
type Flying = (u64, u64, usize, Vec<u8>);

struct Flow {
    qpn: QpNum,
    peer: QpNum,
    started: bool,
}

/// The destination of frames in flight to the switch.
const SWITCH: usize = 9;
const MESSAGE: u64 = 1 << 20;

impl Bottleneck {
    fn new(config: RcConfig) -> Bottleneck {
        let mut hosts: Vec<Host> = (0..3).map(|i| host(i, 4200, 1)).collect();
        let key = hosts[2].register_memory(MESSAGE, true);
        let va = hosts[2].memory().region(key).unwrap().virtual_address();
        let flows = (0..2)
            .map(|i| {
                let qpn = hosts[i].create_qp(config);
                let peer = hosts[2].create_qp(config);
                let psn = hosts[i].qp(qpn).unwrap().sq_psn();
                let back = hosts[2].qp(peer).unwrap().sq_psn();
                let to = |i, qpn| Remote { ip: ip(i), qpn };
                hosts[i].connect_qp(0, qpn, to(2, peer), back).unwrap();
                hosts[2].connect_qp(0, peer, to(i, qpn), psn).unwrap();
                Flow {
                    qpn,
                    peer,
                    started: false,
                }
            })
            .collect();
        let mut link = Bottleneck {
            now: 0,
            hosts,
            flows,
            region: (key, va),
            free: [0; 3],
            queue: VecDeque::new(),
            queued: 0,
            deepest: 0,
            served: 0,
            flying: BinaryHeap::new(),
            count: 0,
            rng: ChaCha8Rng::seed_from_u64(7),
        };
        link.run(1_000_000);
        link
    }

    fn start(&mut self, flow: usize) {
        self.flows[flow].started = true;
        for _ in 0..4 {
            self.post(flow);
        }
    }

    fn post(&mut self, flow: usize) {
        let (key, remote_va) = self.region;
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Write {
                remote_va,
                rkey: key.0,
                immediate: None,
            },
            payload: Payload::Bytes(Arc::from(vec![0; MESSAGE as usize])),
        };
        let qpn = self.flows[flow].qpn;
        self.hosts[flow].post_send(qpn, request).unwrap();
    }

    fn fly(&mut self, at: u64, to: usize, frame: Vec<u8>) {
        self.count += 1;
        self.flying.push(Reverse((at, self.count, to, frame)));
    }

    /// Handles a frame at the switch. Only frames to the receiver pass through the queue.
    fn switch(&mut self, mut frame: Vec<u8>) {
        let view = ethernet::View::new_checked(&frame).unwrap();
        let destination = view.destination();
        if view.ethertype() == ethernet::ETHERTYPE_ARP {
            let packet = arp::Repr::parse(&arp::View::new_checked(view.payload()).unwrap());
            let target = packet.unwrap().target_ip;
            let to = (0..3).find(|i| ip(*i) == target).unwrap();
            return self.fly(self.now + DELAY, to, frame);
        }
        let to = (0..3)
            .find(|i| self.hosts[*i].config().mac == destination)
            .unwrap();
        if to < 2 {
            return self.fly(self.now + DELAY, to, frame);
        }
        let chance = match self.queued {
            0..=K_MIN => 0.0,
            depth if depth > K_MAX => 1.0,
            depth => P_MAX * (depth - K_MIN) as f64 / (K_MAX - K_MIN) as f64,
        };
        let capable = frame[IP + 1] & ipv4::ECN_MASK == ipv4::ECN_ECT0;
        if capable && f64::from(self.rng.next_u32()) < chance * f64::from(u32::MAX) {
            mark(&mut frame);
        }
        self.queued += frame.len() as u64;
        self.deepest = self.deepest.max(self.queued);
        self.queue.push_back(frame);
    }

    fn run(&mut self, until: u64) {
        while self.now <= until {
            while self
                .flying
                .peek()
                .is_some_and(|Reverse((at, ..))| *at <= self.now)
            {
                let Reverse((_, _, to, frame)) = self.flying.pop().unwrap();
                if to == SWITCH {
                    self.switch(frame);
                } else {
                    self.hosts[to].handle_frame(self.now, &frame);
                }
            }
            if self.served <= self.now {
                if let Some(frame) = self.queue.pop_front() {
                    self.queued -= frame.len() as u64;
                    self.served = self.now + wire_time(&frame);
                    self.fly(self.served + DELAY, 2, frame);
                }
            }
            for i in 0..3 {
                let due = |host: &Host, now| host.poll_timeout().is_some_and(|at| at <= now);
                if due(&self.hosts[i], self.now) {
                    self.hosts[i].handle_timeout(self.now);
                }
                while let Some(event) = self.hosts[i].poll_event() {
                    if matches!(event, HostEvent::Completion(_)) {
                        self.post(i);
                    }
                }
                if self.free[i] <= self.now {
                    if let Some(frame) = self.hosts[i].poll_transmit(self.now) {
                        self.free[i] = self.now + wire_time(&frame);
                        self.fly(self.free[i] + DELAY, SWITCH, frame);
                    }
                }
            }
            let waiting = (!self.queue.is_empty()).then_some(self.served);
            let next = [
                self.flying.peek().map(|Reverse((at, ..))| *at),
                self.hosts.iter().filter_map(Host::poll_timeout).min(),
                self.free.iter().copied().filter(|at| *at > self.now).min(),
                waiting,
            ];
            let next = next.into_iter().flatten().min().unwrap_or(until + 1);
            self.now = next.max(self.now + 1);
        }
    }

    /// Runs for `ns` nanoseconds. Returns each flow's share of the link, and the deepest queue in bytes.
    fn watch(&mut self, ns: u64) -> ([f64; 2], u64) {
        let before = self.received();
        self.deepest = self.queued;
        self.run(self.now + ns);
        let after = self.received();
        let share = |i: usize| (after[i] - before[i]) as f64 * 8e9 / ns as f64 / LINE as f64;
        ([share(0), share(1)], self.deepest)
    }

    fn stats(&self, flow: usize) -> QpStats {
        self.hosts[2].qp(self.flows[flow].peer).unwrap().stats()
    }

    fn received(&self) -> [u64; 2] {
        [0, 1].map(|flow| self.stats(flow).request_bytes_received)
    }
}

#[test]
fn two_flows_share_a_link_with_a_short_queue() {
    let mut link = Bottleneck::new(rc(LINE));
    link.start(0);
    link.run(5_000_000);
    let (alone, _) = link.watch(2_000_000);
    assert!(alone[0] > 0.9, "a single flow uses the link: {alone:?}");
    link.start(1);
    link.run(60_000_000);
    let (shares, deepest) = link.watch(40_000_000);
    let both = shares[0] + shares[1];
    // The payload's share of a packet is 92 %.
    assert!(both > 0.8, "the link is used: {shares:?}");
    let ratio = shares[0] / shares[1];
    assert!((0.7..1.43).contains(&ratio), "fairly: {shares:?}");
    assert!(deepest < 2 * K_MAX, "{deepest} bytes in the queue");
    for flow in 0..2 {
        assert!(link.flows[flow].started);
        let stats = link.stats(flow);
        assert_eq!((stats.duplicates, stats.out_of_order), (0, 0));
        assert!(stats.cnps_sent > 0);
    }
    for host in &link.hosts {
        assert_eq!(host.stats().implausible(), 0, "{:?}", host.stats());
    }
}

#[test]
fn without_congestion_control_the_queue_takes_the_windows() {
    let mut link = Bottleneck::new(RcConfig {
        congestion: None,
        ..rc(LINE)
    });
    link.start(0);
    link.start(1);
    link.run(5_000_000);
    let (_, deepest) = link.watch(5_000_000);
    assert!(deepest > 10 * K_MAX, "{deepest} bytes in the queue");
}
