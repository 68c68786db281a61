use std::collections::{BTreeMap, VecDeque};

use alfirk_roce::wire::{ethernet, ipv4};
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use super::*;
use crate::engine::{Engine, FaultProbabilities, LinkConfig, Node, NodeId};
use crate::network::pfc::PausableQueue;

const LOSSLESS: u8 = Pfc::USUAL_CLASS;

/// A frame of a class, for the hosts whose bits are set in `to`.
fn frame(class: u8, from: u8, to: u8, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    ethernet::Repr {
        destination: MacAddr([2, 0, 0, 0, 0, to]),
        source: MacAddr([2, 0, 0, 0, 0, from]),
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    ipv4::Repr {
        tos: class << 5,
        payload_len: (len - 34) as u16,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 255,
        source: [10, 0, 0, from].into(),
        destination: [10, 0, 0, to].into(),
    }
    .emit(&mut frame[14..]);
    frame[34..38].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Source, destinations and number of a frame.
fn label(frame: &[u8]) -> (u8, u8, u32) {
    let number = frame[34..38].try_into().unwrap();
    (frame[11], frame[5], u32::from_be_bytes(number))
}

/// Output port, input port and frame of a queued copy.
type Copy = (u32, u32, Vec<u8>);

/// Egress of a switch: a copy for the port at which its frame arrived is dropped.
fn egress(ports: &mut Ports<Copy, Vec<u8>>, (to, from, frame): Copy) {
    if to != from {
        ports.finish(to, frame);
    }
}

/// A switch without pipelines, or a host that sends its backlog and records received frames.
enum Station {
    Switch {
        ports: Box<Ports<Copy, Vec<u8>>>,
        /// Port that leads to each host.
        routes: Vec<u32>,
    },
    Host {
        backlog: VecDeque<Vec<u8>>,
        sender: Option<PausableQueue<Vec<u8>>>,
        received: Vec<(u64, Vec<u8>)>,
    },
}

impl Station {
    fn pump(&mut self, ctx: &mut Context<'_, (), Vec<u8>>) {
        match self {
            Station::Switch { ports, .. } => {
                while let Some(next) = ports.next(ctx) {
                    egress(ports, next.packet);
                }
                if let Some(at) = ports.poll_timeout(ctx.now()) {
                    ctx.wake_at(at);
                }
            }
            Station::Host {
                backlog, sender, ..
            } => {
                if let Some(sender) = sender {
                    sender.handle_timeout(0, ctx);
                }
                while ctx.can_transmit(0) {
                    let mut next = || backlog.pop_front();
                    let frame = match sender {
                        None => next(),
                        Some(sender) => sender.next(next, ctx.now()),
                    };
                    let Some(frame) = frame else { break };
                    ctx.transmit(0, frame);
                }
                if !ctx.can_transmit(0) {
                    ctx.await_idle(0);
                }
                let alarm = sender.as_ref().and_then(|s| s.poll_timeout(ctx.now()));
                if let Some(at) = alarm {
                    ctx.wake_at(at);
                }
            }
        }
    }
}

impl Node for Station {
    type Message = ();
    type Frame = Vec<u8>;

    fn on_frame(&mut self, port: u32, frame: Vec<u8>, ctx: &mut Context<'_, (), Vec<u8>>) {
        match self {
            Station::Switch { ports, routes } => {
                if let Some(pending_charge) = ports.receive(port, &frame, ctx) {
                    ports.begin(pending_charge);
                    let (_, to, _) = label(&frame);
                    // As a switch does for a group: one copy per port, also for the port at which the frame arrived.
                    let mut copies = BTreeMap::from([(port, 0)]);
                    for host in (0..8).filter(|host| to >> host & 1 == 1) {
                        *copies.entry(routes[host]).or_default() |= 1 << host;
                    }
                    for (out, hosts) in copies {
                        let mut copy = frame.clone();
                        copy[5] = hosts;
                        let len = copy.len();
                        let queued = ports.enqueue(out, 0, len, (out, port, copy), ctx);
                        if let Err(NotQueued(packet)) = queued {
                            assert_eq!(out, port, "every port has a link");
                            egress(ports, packet);
                        }
                    }
                }
            }
            Station::Host {
                received, sender, ..
            } => {
                let is_pause = sender
                    .as_mut()
                    .is_some_and(|s| s.apply_if_pause(port, &frame, ctx));
                if !is_pause {
                    received.push((ctx.now(), frame));
                }
            }
        }
        self.pump(ctx);
    }

    fn on_idle(&mut self, port: u32, ctx: &mut Context<'_, (), Vec<u8>>) {
        if let Station::Switch { ports, .. } = self {
            ports.idle(port);
        }
        self.pump(ctx);
    }

    fn on_wake(&mut self, ctx: &mut Context<'_, (), Vec<u8>>) {
        if let Station::Switch { ports, .. } = self {
            ports.handle_timeout(ctx);
        }
        self.pump(ctx);
    }

    fn on_message(&mut self, _: NodeId, (): (), _: &mut Context<'_, (), Vec<u8>>) {}
}

fn link() -> LinkAttributes {
    LinkAttributes {
        mtu: 1_500,
        queue_bytes: 64 << 10,
        ..LinkAttributes::default()
    }
}

/// Two connected switches: hosts 0 to 3 are at the first switch, hosts 4 to 7 at the second. Hosts have ports 1 to 4;
/// the other switch is at port 5.
struct TwoSwitches {
    engine: Engine<Station>,
    hosts: Vec<NodeId>,
}

impl TwoSwitches {
    fn new(switching: Switching) -> TwoSwitches {
        TwoSwitches::with_loss(switching, 0.0)
    }

    fn with_loss(switching: Switching, loss: f64) -> TwoSwitches {
        let mut engine = Engine::new(1);
        let obeys = switching.pfc.map(|_| link().rate_bps);
        let hosts: Vec<NodeId> = (0..8)
            .map(|host| {
                let station = Station::Host {
                    backlog: VecDeque::new(),
                    sender: obeys.map(PausableQueue::new),
                    received: Vec::new(),
                };
                engine.add_node(&format!("h{host}"), station)
            })
            .collect();
        let switches = [0u8, 1].map(|side| {
            let links: Vec<_> = (1..=5).map(|port| (port, link())).collect();
            let shared = switching.buffer_of(links.iter().map(|(_, link)| link));
            let mac = MacAddr([2, 0, 0, 0, 1, side]);
            let route = |host: u32| match host / 4 == u32::from(side) {
                true => host % 4 + 1,
                false => 5,
            };
            let station = Station::Switch {
                ports: Box::new(Ports::new(links, switching, shared, mac)),
                routes: (0..8).map(route).collect(),
            };
            engine.add_node(&format!("s{side}"), station)
        });
        let config = LinkConfig {
            rate: link().rate_bps,
            delay: link().delay_ns,
            mtu: link().mtu as usize,
            faults: FaultProbabilities::lossy(loss),
        };
        for (number, host) in hosts.iter().enumerate() {
            let end = (switches[number / 4], number as u32 % 4 + 1);
            engine.connect((*host, 0), end, config.clone()).unwrap();
        }
        let ends = switches.map(|switch| (switch, 5));
        engine.connect(ends[0], ends[1], config).unwrap();
        TwoSwitches { engine, hosts }
    }

    /// Adds frames to the backlog of a host, each for all hosts in `to`.
    fn load(&mut self, from: u8, to: &[u8], class: u8, frames: u32, len: usize) {
        let bits = to.iter().fold(0, |bits, host| bits | 1 << host);
        let id = self.hosts[usize::from(from)];
        self.engine.with_node(id, |station, ctx| {
            if let Station::Host { backlog, .. } = station {
                backlog.extend((0..frames).map(|n| frame(class, from, bits, n, len)));
            }
            station.pump(ctx);
        });
    }

    fn received(&self, host: u8) -> &[(u64, Vec<u8>)] {
        match self.engine.node(self.hosts[usize::from(host)]) {
            Station::Host { received, .. } => received,
            Station::Switch { .. } => unreachable!("every host has a host station"),
        }
    }

    /// Time at which a host received the last frame of `from`.
    fn done(&self, from: u8, to: u8) -> u64 {
        let of = self.received(to).iter();
        of.filter(|(_, frame)| label(frame).0 == from)
            .map(|(at, _)| *at)
            .max()
            .expect("something came")
    }

    /// Numbers of the frames of `from` that a host has received, in order.
    fn numbers(&self, from: u8, to: u8) -> Vec<u32> {
        let all = self.received(to).iter().map(|(_, frame)| label(frame));
        all.filter(|(source, ..)| *source == from)
            .map(|(.., number)| number)
            .collect()
    }

    fn drops(&self) -> u64 {
        self.engine.directions().map(|(_, d)| d.drops.total()).sum()
    }

    /// PAUSE frames, and nanoseconds for which ends were stopped, on links whose name contains `of`.
    fn pauses(&self, of: &str) -> (u64, u64) {
        let all = self
            .engine
            .directions()
            .filter(|(name, _)| name.contains(of));
        all.fold((0, 0), |(pauses, ns), (_, d)| {
            (pauses + d.pauses, ns + d.paused_ns)
        })
    }
}

fn lossless() -> Switching {
    Switching {
        pfc: Some(Pfc::default()),
        ..Switching::default()
    }
}

fn queueing(queueing: Queueing) -> Switching {
    Switching {
        queueing,
        ..Switching::default()
    }
}

#[test]
fn flow_control_prevents_losses_by_full_queues() {
    for (switching, is_lossless) in [
        (Switching::default(), false),
        (lossless(), true),
        (queueing(Queueing::Input { speedup: 1 }), false),
        (
            Switching {
                pfc: Some(Pfc::default()),
                ..queueing(Queueing::Input { speedup: 1 })
            },
            true,
        ),
    ] {
        let mut fabric = TwoSwitches::new(switching);
        for from in [1, 2, 4, 5, 6] {
            fabric.load(from, &[0], LOSSLESS, 400, 1_514);
        }
        fabric.engine.run();
        let got = fabric.received(0).len() as u64;
        assert_eq!(got + fabric.drops(), 5 * 400, "{switching}");
        assert_eq!(fabric.drops() == 0, is_lossless, "{switching}");
        assert_eq!(fabric.pauses("").0 > 0, is_lossless, "{switching}");
        assert_eq!(fabric.pauses("").1 > 0, is_lossless, "{switching}");
    }
}

#[test]
fn pauses_also_delay_flows_that_do_not_use_the_congested_link() {
    // Hosts 1, 2 and 4 fill the link of host 0. Host 5 sends to host 1, and shares only the link between the switches
    // with them.
    let xoff = Switching {
        pfc: Some(Pfc {
            xoff: Some(6_000),
            ..Pfc::default()
        }),
        ..Switching::default()
    };
    let victim = |switching| {
        let mut fabric = TwoSwitches::new(switching);
        for from in [1, 2, 4] {
            fabric.load(from, &[0], LOSSLESS, 400, 1_514);
        }
        fabric.load(5, &[3], LOSSLESS, 100, 1_514);
        fabric.engine.run();
        fabric.done(5, 3)
    };
    let alone = {
        let mut fabric = TwoSwitches::new(lossless());
        fabric.load(5, &[3], LOSSLESS, 100, 1_514);
        fabric.engine.run();
        fabric.done(5, 3)
    };
    let (with, without) = (victim(xoff), victim(Switching::default()));
    // Without flow control, host 5 shares that link with host 4 only.
    assert!(without < 5 * alone / 2, "{without} of {alone}");
    assert!(2 * with > 5 * alone, "{with} of {alone}");
}

#[test]
fn other_classes_are_neither_paused_nor_protected_from_loss() {
    let mut fabric = TwoSwitches::new(lossless());
    for from in [1, 2, 4, 5, 6] {
        fabric.load(from, &[0], 0, 400, 1_514);
    }
    fabric.engine.run();
    assert!(fabric.drops() > 0);
    assert_eq!(fabric.pauses(""), (0, 0));
}

#[test]
fn a_shared_buffer_gives_a_single_busy_queue_more_space() {
    let shared = |alpha: &str| Switching {
        buffer: Some(SharedBuffer {
            bytes: 5 * (64 << 10),
            alpha: alpha.parse().unwrap(),
        }),
        ..Switching::default()
    };
    let drops = |switching| {
        let mut fabric = TwoSwitches::new(switching);
        for from in [1, 2] {
            fabric.load(from, &[0], 0, 100, 1_514);
        }
        fabric.engine.run();
        fabric.drops()
    };
    let private = drops(Switching::default());
    // With alpha = 1 a queue may use half of the free buffer, with 2 two thirds.
    assert!(drops(shared("1/4")) > drops(shared("1")));
    assert!(private > drops(shared("1")));
    assert_eq!(drops(shared("2")), 0);
}

#[test]
fn copies_of_a_packet_are_charged_once_until_the_last_one_has_left() {
    let mut fabric = TwoSwitches::new(lossless());
    fabric.load(1, &[0, 2, 3], LOSSLESS, 300, 1_514);
    fabric.load(2, &[0], LOSSLESS, 300, 1_514);
    fabric.engine.run();
    assert_eq!(fabric.drops(), 0);
    let all: Vec<u32> = (0..300).collect();
    for to in [0, 2, 3] {
        assert_eq!(fabric.numbers(1, to), all);
    }
    assert_eq!(fabric.numbers(2, 0), all);
    for node in fabric.engine.nodes() {
        if let (_, Station::Switch { ports, .. }) = node {
            assert!(!(1..=5).any(|port| ports.buffer.as_ref().unwrap().is_paused(port)));
        }
    }
}

#[test]
fn input_queues_block_packets_that_virtual_output_queues_forward() {
    // Host 1 sends to hosts 0 and 3, alternating; hosts 2 and 4 fill the link of host 0.
    let last = |queueing_of| {
        let mut fabric = TwoSwitches::new(queueing(queueing_of));
        for from in [2, 4] {
            fabric.load(from, &[0], 0, 40, 1_514);
        }
        for _ in 0..20 {
            fabric.load(1, &[0], 0, 1, 1_514);
            fabric.load(1, &[3], 0, 1, 1_514);
        }
        fabric.engine.run();
        assert_eq!(fabric.drops(), 0);
        fabric.done(1, 3)
    };
    let input = last(Queueing::Input { speedup: 1 });
    let voq = last(Queueing::Voq { speedup: 1 });
    assert!(5 * voq < 4 * input, "{voq} and {input}");
}

#[test]
fn lost_pauses_are_repeated_and_pauses_without_a_resume_expire() {
    let mut fabric = TwoSwitches::with_loss(lossless(), 0.2);
    for from in [1, 2, 4, 5, 6] {
        fabric.load(from, &[0], LOSSLESS, 2_000, 1_514);
    }
    fabric.engine.run();
    assert!(fabric.drops() > 0 && fabric.pauses("").0 > 0);
    // Every sender completes: none stays stopped.
    for from in [1, 2, 4, 5, 6] {
        let sent = fabric
            .engine
            .counters(fabric.hosts[from], 0)
            .unwrap()
            .frames;
        assert_eq!(sent, 2_000);
    }
}

#[test]
fn a_pause_expires_while_the_link_is_busy_with_another_class() {
    let mut fabric = TwoSwitches::with_loss(lossless(), 0.2);
    for from in [1, 2, 4, 5, 6] {
        fabric.load(from, &[0], LOSSLESS, 400, 1_514);
        // Longer than the 335 us for which a PAUSE holds.
        fabric.load(from, &[3], 0, 8_000, 1_514);
    }
    let stops = |fabric: &TwoSwitches, now: u64| {
        let hosts = fabric.hosts.iter().map(|host| fabric.engine.node(*host));
        let senders = hosts.filter_map(|station| match station {
            Station::Host { sender, .. } => sender.as_ref(),
            Station::Switch { .. } => None,
        });
        senders.filter(|s| s.poll_timeout(now).is_some()).count()
    };
    fabric.engine.run_until(300_000);
    assert!(stops(&fabric, 300_000) > 0, "an end was lost");
    let events = fabric.engine.events();
    fabric.engine.run_until(2_000_000);
    assert_eq!(stops(&fabric, 2_000_000), 0);
    // A few events for each frame and hop: the engine does not repeat events at the same time.
    assert!(fabric.engine.events() - events < 1_000_000);
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn lossless_packets_are_never_dropped_at_any_load(
        flows in proptest::collection::vec(
            (0..8u8, proptest::collection::btree_set(0..8u8, 1..4), 1..120u32, 60..1_514usize), 1..24),
        choice in 0..4u8,
        alpha in prop_oneof![Just("1/8"), Just("1"), Just("8")],
    ) {
        let pfc = Some(Pfc::default());
        let least = 5 * (Pfc::default().headroom(&link()) + 1_518);
        let switching = match choice {
            0 => lossless(),
            1 => Switching {
                buffer: Some(SharedBuffer { bytes: least, alpha: alpha.parse().unwrap() }),
                pfc,
                ..Switching::default()
            },
            2 => Switching { pfc, ..queueing(Queueing::Input { speedup: 1 }) },
            _ => Switching { pfc, ..queueing(Queueing::Voq { speedup: 2 }) },
        };
        let mut fabric = TwoSwitches::new(switching);
        let mut sent: BTreeMap<(u8, u8), u32> = BTreeMap::new();
        for (from, to, frames, len) in flows {
            let to: Vec<u8> = to.into_iter().filter(|to| *to != from).collect();
            for to in &to {
                *sent.entry((from, *to)).or_default() += frames;
            }
            if !to.is_empty() {
                fabric.load(from, &to, LOSSLESS, frames, len);
            }
        }
        // A second is long for 2 MB; a deadlock would last for ever.
        fabric.engine.run_until(1_000_000_000);
        prop_assert_eq!(fabric.drops(), 0);
        for ((from, to), frames) in sent {
            prop_assert_eq!(fabric.numbers(from, to).len(), frames as usize);
        }
    }
}
