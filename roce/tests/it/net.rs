//! Hosts, a medium between them, and virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

use alfirk_roce::collective::{Endpoint, Transfer, TransferEvent, TransferSpec};
use alfirk_roce::host::{Host, HostConfig, HostEvent};
use alfirk_roce::wire::{ethernet, MacAddr};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The medium between the hosts: maps a frame to the output ports and frames.
pub trait Medium {
    fn carry(&mut self, from: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)>;
}

/// One Ethernet segment: frames are sent to the port of their destination, or to all other ports.
pub struct Segment {
    pub macs: Vec<MacAddr>,
}

impl Medium for Segment {
    fn carry(&mut self, from: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        let destination = ethernet::View::new_checked(&frame).unwrap().destination();
        let to = |port: &usize| {
            *port != from && (destination.is_multicast() || self.macs[*port] == destination)
        };
        (0..self.macs.len())
            .filter(to)
            .map(|port| (port, frame.clone()))
            .collect()
    }
}

/// Fault rates of the links between hosts and medium, in frames per 1,000 and link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplication: u32,
    /// Frames delayed by up to 20 microseconds.
    pub reordering: u32,
}

pub struct Net<M> {
    pub now: u64,
    pub hosts: Vec<Host>,
    pub medium: M,
    pub faults: Faults,
    /// The frames sent by hosts, with time and sender, if recorded.
    pub trace: Option<Vec<(u64, usize, Vec<u8>)>>,
    rng: ChaCha8Rng,
    /// By host: when its port can send again, and whether it had a frame to send when last polled.
    ports: Vec<(u64, bool)>,
    flying: BinaryHeap<Reverse<(u64, u64, Hop)>>,
    count: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Hop {
    ToMedium(usize, Vec<u8>),
    ToHost(usize, Vec<u8>),
}

const FRAME_TIME: u64 = 100;
const LINK_DELAY: u64 = 1_000;

pub fn ip(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + index as u32)
}

pub fn mac(index: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, index as u8 + 1])
}

pub fn host(index: usize, mtu: u32, seed: u64) -> Host {
    Host::new(HostConfig::new(
        format!("h{}", index + 1),
        mac(index),
        ip(index),
        8,
        mtu,
        seed,
    ))
    .unwrap()
}

/// `n` hosts on one segment.
pub fn segment(n: usize, mtu: u32, seed: u64) -> Net<Segment> {
    let macs = (0..n).map(mac).collect();
    Net::new(
        (0..n).map(|i| host(i, mtu, seed)).collect(),
        Segment { macs },
        seed,
    )
}

impl<M: Medium> Net<M> {
    pub fn new(hosts: Vec<Host>, medium: M, seed: u64) -> Net<M> {
        Net {
            now: 0,
            ports: vec![(0, false); hosts.len()],
            hosts,
            medium,
            faults: Faults::default(),
            trace: None,
            rng: ChaCha8Rng::seed_from_u64(seed),
            flying: BinaryHeap::new(),
            count: 0,
        }
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.next_u32() % 1000 < per_mille
    }

    /// Sends a frame on a link, with its faults.
    fn fly(&mut self, hop: impl Fn() -> Hop) {
        let copies = if self.chance(self.faults.duplication) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.chance(self.faults.loss) {
                continue;
            }
            let held = if self.chance(self.faults.reordering) {
                u64::from(self.rng.next_u32() % 20_000)
            } else {
                0
            };
            self.count += 1;
            self.flying
                .push(Reverse((self.now + LINK_DELAY + held, self.count, hop())));
        }
    }

    /// Processes everything at the present time, then advances the time. Returns false if nothing is pending.
    pub fn step(&mut self) -> bool {
        while self
            .flying
            .peek()
            .is_some_and(|Reverse((at, _, _))| *at <= self.now)
        {
            let Reverse((_, _, hop)) = self.flying.pop().expect("just seen");
            match hop {
                Hop::ToHost(to, frame) => self.hosts[to].handle_frame(self.now, &frame),
                Hop::ToMedium(from, frame) => {
                    for (to, frame) in self.medium.carry(from, frame) {
                        self.fly(|| Hop::ToHost(to, frame.clone()));
                    }
                }
            }
        }
        for i in 0..self.hosts.len() {
            if self.hosts[i]
                .poll_timeout()
                .is_some_and(|at| at <= self.now)
            {
                self.hosts[i].handle_timeout(self.now);
            }
            if self.ports[i].0 > self.now {
                continue;
            }
            let frame = self.hosts[i].poll_transmit(self.now);
            self.ports[i].1 = frame.is_some();
            if let Some(frame) = frame {
                self.ports[i].0 = self.now + FRAME_TIME;
                if let Some(trace) = &mut self.trace {
                    trace.push((self.now, i, frame.clone()));
                }
                self.fly(|| Hop::ToMedium(i, frame.clone()));
            }
        }
        let next = [
            self.flying.peek().map(|Reverse((at, _, _))| *at),
            self.ports
                .iter()
                .filter(|(_, active)| *active)
                .map(|(at, _)| *at)
                .min(),
            self.hosts.iter().filter_map(Host::poll_timeout).min(),
        ];
        match next.into_iter().flatten().min() {
            Some(at) => {
                self.now = at.max(self.now);
                true
            }
            None => false,
        }
    }

    /// Runs until nothing is pending or until `deadline`. Returns the events of all hosts.
    pub fn run(&mut self, deadline: u64) -> Vec<(usize, HostEvent)> {
        let mut events = Vec::new();
        while self.now <= deadline && self.step() {
            events.extend(self.take_events());
        }
        events.extend(self.take_events());
        events
    }

    pub fn take_events(&mut self) -> Vec<(usize, HostEvent)> {
        let mut events = Vec::new();
        for (i, host) in self.hosts.iter_mut().enumerate() {
            while let Some(event) = host.poll_event() {
                events.push((i, event));
            }
        }
        events
    }
}

/// The transfers of all members, with the orchestrator's role.
pub struct Collective {
    pub transfers: Vec<Transfer>,

    pub events: Vec<(usize, TransferEvent)>,
}

impl Collective {
    /// `spec` makes the specification of a rank. `register` gets the endpoints before any member connects.
    pub fn prepare<M: Medium>(
        net: &mut Net<M>,
        spec: impl Fn(u32) -> TransferSpec,
        register: impl FnOnce(&mut M, &[Endpoint]),
    ) -> Collective {
        let mut transfers = Vec::new();
        let mut endpoints = Vec::new();
        for (rank, host) in net.hosts.iter_mut().enumerate() {
            let (transfer, ends) = Transfer::prepare(host, spec(rank as u32)).unwrap();
            transfers.push(transfer);
            endpoints.extend(ends);
        }
        register(&mut net.medium, &endpoints);
        for (transfer, host) in transfers.iter_mut().zip(&mut net.hosts) {
            transfer.connect(host, net.now, &endpoints).unwrap();
        }
        Collective {
            transfers,

            events: Vec::new(),
        }
    }

    /// Runs until `done` returns true; panics at the time limit.
    pub fn run_until<M: Medium>(
        &mut self,
        net: &mut Net<M>,
        deadline: u64,
        done: impl Fn(&Collective) -> bool,
    ) {
        while !done(self) {
            let mut alive = net.step();
            self.handle_timeouts(net);
            if !alive {
                alive = self.sleep(net);
            }
            for (i, event) in net.take_events() {
                // Its effects follow in the next step.
                alive = true;
                self.transfers[i].handle_event(&mut net.hosts[i], net.now, &event);
            }
            for (i, transfer) in self.transfers.iter_mut().enumerate() {
                while let Some(event) = transfer.poll() {
                    self.events.push((i, event));
                }
            }
            assert!(
                net.now <= deadline && (alive || done(self)),
                "stuck at {} ns: {:?}",
                net.now,
                self.events
            );
        }
    }

    /// Runs until nothing is pending or until `deadline`.
    pub fn run_until_time<M: Medium>(&mut self, net: &mut Net<M>, deadline: u64) {
        while net.now < deadline && (net.step() || self.sleep(net)) {
            self.handle_timeouts(net);
            for (i, event) in net.take_events() {
                self.transfers[i].handle_event(&mut net.hosts[i], net.now, &event);
            }
            for (i, transfer) in self.transfers.iter_mut().enumerate() {
                while let Some(event) = transfer.poll() {
                    self.events.push((i, event));
                }
            }
        }
    }

    /// Runs expired timers of the members.
    fn handle_timeouts<M: Medium>(&mut self, net: &mut Net<M>) {
        for (transfer, host) in self.transfers.iter_mut().zip(&mut net.hosts) {
            if transfer.poll_timeout().is_some_and(|at| at <= net.now) {
                transfer.handle_timeout(host, net.now);
            }
        }
    }

    /// Advances the time to a member's next timer while the network is idle. Returns whether there is one.
    fn sleep<M: Medium>(&mut self, net: &mut Net<M>) -> bool {
        let due = self.transfers.iter().filter_map(Transfer::poll_timeout);
        let Some(at) = due.min() else {
            return false;
        };
        net.now = net.now.max(at);
        self.handle_timeouts(net);
        true
    }

    /// Whether every member has reported that a part is done; its `source` may be exempt.
    pub fn part_done(&self, part: u32, source: Option<u32>) -> bool {
        let is_done = |rank| {
            self.events.iter().any(|(i, event)| {
                *i == rank
                    && matches!(event, TransferEvent::PartDone { part: of, .. } if *of == part)
            })
        };
        (0..self.transfers.len()).all(|rank| source == Some(rank as u32) || is_done(rank))
    }

    pub fn ready(&self) -> bool {
        self.transfers.iter().all(Transfer::is_ready)
    }

    pub fn finished(&self) -> bool {
        self.transfers
            .iter()
            .all(|t| t.is_finished() || t.has_failed())
    }
}
