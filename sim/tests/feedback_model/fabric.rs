//! A small fabric as a state machine: hosts, links, switches and, if need be, their controllers.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{
    Config, Feedback, Flaw, Group, Nak, Notice, PacketIn, PacketOut, Point, Port, Queued, Sender,
    Sent, Space, Strategy, TofinoGroup,
};
use stateright::{Model, Property};

/// Sixteen numbers are enough for a handful of packets in flight.
const SPACE: Space = Space::new(SPACE_BITS);
const SPACE_BITS: u32 = 4;
/// The last number, so that the second packet wraps around.
const FIRST_PSN: u32 = 15;
const SYNDROME_SEQUENCE: u8 = 0x60;
/// Of the clock, in which a walk times out.
const AGE: u64 = 2;
/// Slots of a switch for losses: two, so that packets share them.
const LOSSES: usize = 2;
/// How far a source may be ahead: as far as numbers have an order.
const WINDOW: u32 = (1 << (SPACE_BITS - 1)) - 1;

pub const ONLY_WHAT_ALL_HOLD: &str = "acknowledges only what all hold";
pub const RECOVERS: &str = "recovers from the loss of everything under way";
pub const NEEDS_NO_TIMEOUT: &str = "needs no timeout if nothing is lost";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    Data(u32),
    Ack(u32),
    Nak(u32),
    /// The packet that is lost, and how often its receiver has reported it.
    SelectiveNak(u32, u8),
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Switch(usize, Port),
    Host(usize),
}

/// What may befall packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Loss, duplication, reordering; and senders lose patience at any time.
    Hostile,
    /// Links keep order and lose nothing but [`ModelFabric::losses`]; nobody loses patience.
    Kind,
}

/// What hosts do about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    GoBackN,
    /// Receivers keep what comes early, and report what is missing so many times at most.
    SelectiveRepeat(u8),
}

/// Which data plane the switches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    V1model,
    Tofino,
}

/// A group on a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Rules {
    V1model(Group),
    Tofino(TofinoGroup),
}

impl Rules {
    fn sender(&self) -> &Sender {
        match self {
            Rules::V1model(group) => &group.sender,
            Rules::Tofino(group) => &group.sender,
        }
    }

    /// The group of which packets go round or to a controller.
    fn v1model(&mut self) -> &mut Group {
        match self {
            Rules::V1model(group) => group,
            Rules::Tofino(_) => unreachable!("Tofino's find the minimum at once"),
        }
    }
}

/// A tree of switches, its hosts and the adversary's means.
#[derive(Clone)]
pub struct ModelFabric {
    pub links: Vec<(End, End)>,
    pub switches: usize,
    pub hosts: usize,
    /// Who sends, and how many packets, one after another.
    pub streams: Vec<(usize, u32)>,
    /// A mistake of the members: a source begins when it has what was sent before, though others may not.
    pub begins_too_early: bool,
    pub strategy: Strategy,
    pub target: Target,
    pub flaw: Flaw,
    pub nature: Nature,
    /// In a kind world, how many packets may be lost: of data all but a stream's last packet, of feedback selective NAKs, for
    /// these are the losses that receivers repair.
    pub losses: u32,
    pub recovery: Recovery,
    /// Different packets that may be under way at once on one direction of a link; more are lost.
    pub in_flight: usize,
    /// How often a walk may time out.
    pub ages: u64,
    /// The way to a controller doubles packets, too, as no stream does; it loses them in any case.
    pub control_doubles: bool,
    /// How often a controller may begin anew and know nothing.
    pub restarts: u32,
    /// A receiver that sends what it likes beside what its queue pair sends, and how often.
    pub liar: Option<(usize, u32)>,
    /// Fingerprints of what is known to recover: most states differ only in what is under way, and that is lost then.
    pub recovered: Arc<Mutex<HashSet<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Host {
    expected: u32,
    has_sent_nak: bool,
    /// With selective repeat: what it has beyond a gap, and how often it has reported what it lacks.
    early: BTreeSet<u32>,
    reports: BTreeMap<u32, u8>,
}

/// The sender of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requester {
    /// The oldest PSN without an ACK.
    unacked: u32,
    /// The next one to send, and the next one that it never sent.
    next: u32,
    fresh: u32,
    /// With selective repeat: what to send again, and how often each packet was.
    lost: BTreeSet<u32>,
    repeats: BTreeMap<u32, u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    switches: Vec<Rules>,
    /// What the controller knows of each switch's group, if it has heard of it.
    controllers: Vec<Option<Aggregator>>,
    restarts: u32,
    /// What goes round in each switch.
    rounds: Vec<Vec<Queued>>,
    /// Between each switch and its controller.
    up: Vec<Vec<PacketIn>>,
    down: Vec<Vec<PacketOut>>,
    hosts: Vec<Host>,
    requesters: Vec<Requester>,
    /// Under way, for each direction of each link: even towards the second end, odd towards the first.
    wire: Vec<Vec<Packet>>,
    clock: u64,
    /// What the liar has sent.
    lies: u32,
    /// What has been lost in a kind world.
    losses: u32,
    violation: Option<&'static str>,
}

/// Something under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Moving {
    OnWire(usize, Packet),
    Round(usize, usize),
    Up(usize, PacketIn),
    Down(usize, PacketOut),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Send(usize),
    Timeout(usize),
    /// A host reports again what it lacks.
    Report(usize, u32),
    Arrive(Moving),
    ArriveTwice(Moving),
    Lose(Moving),
    /// Time passes, so that walks time out.
    Age,
    /// A controller begins anew.
    Restart(usize),
    /// The liar sends something of its own.
    Lie(Packet),
}

impl ModelFabric {
    /// First PSN of a stream, and the one after its last.
    fn range(&self, stream: usize) -> (u32, u32) {
        let before: u32 = self.streams[..stream].iter().map(|stream| stream.1).sum();
        let first = SPACE.add(FIRST_PSN, before);
        (first, SPACE.add(first, self.streams[stream].1))
    }

    fn end(&self) -> u32 {
        self.range(self.streams.len() - 1).1
    }

    /// The last PSN that a host is to receive, and one more: all but what it sends itself in the end.
    fn last_expected(&self, host: usize) -> u32 {
        let last = self.streams.len() - 1;
        if last > 0 && self.streams[last].0 == host {
            self.range(last).0
        } else {
            self.end()
        }
    }

    /// A sender begins when all have what was sent before; too early, when it has that itself.
    fn may_send(&self, world: &World, stream: usize) -> bool {
        let first = self.range(stream).0;
        let has_all = |host: &Host| !SPACE.lt(host.expected, first);
        stream == 0
            || match self.begins_too_early {
                true => has_all(&world.hosts[self.streams[stream].0]),
                false => world.hosts.iter().all(has_all),
            }
    }

    fn is_complete(&self, world: &World) -> bool {
        let is_acknowledged =
            |(stream, requester): (usize, &Requester)| requester.unacked == self.range(stream).1;
        let has_all = |(at, host): (usize, &Host)| {
            self.is_liar(at) || host.expected == self.last_expected(at)
        };
        world.requesters.iter().enumerate().all(is_acknowledged)
            && world.hosts.iter().enumerate().all(has_all)
    }

    /// What it claims to have is its own affair.
    fn is_liar(&self, host: usize) -> bool {
        self.liar.is_some_and(|(liar, _)| liar == host)
    }

    /// Everything that the liar could say: whatever it likes once there is a source, but for data that follows just
    /// what was sent, by which a member becomes the source.
    fn lies(&self, world: &World) -> Vec<Packet> {
        let Some((liar, limit)) = self.liar else {
            return Vec::new();
        };
        let (switch, _) = self.leaf_of(liar);
        let sender = world.switches[switch].sender();
        if world.lies == limit || sender.source.is_none() {
            return Vec::new();
        }
        let numbers = || 0..1 << SPACE_BITS;
        let data = numbers().filter(|&psn| psn != SPACE.next(sender.sent));
        let selective = match self.recovery {
            Recovery::GoBackN => 0,
            Recovery::SelectiveRepeat(most) => most,
        };
        let feedback = numbers().flat_map(move |psn| {
            let reports = (1..=selective).map(move |times| Packet::SelectiveNak(psn, times));
            [Packet::Ack(psn), Packet::Nak(psn)]
                .into_iter()
                .chain(reports)
        });
        data.map(Packet::Data).chain(feedback).collect()
    }

    fn leaf_of(&self, host: usize) -> (usize, Port) {
        let ends = self.links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut leaves = ends.filter_map(|ends| match ends {
            (End::Host(at), End::Switch(switch, port)) if at == host => Some((switch, port)),
            _ => None,
        });
        leaves.next().expect("every host has a link")
    }

    /// The liar's packet comes to its leaf. Data of a member that is not the source goes to nobody.
    fn lie(&self, world: &mut World, packet: Packet) {
        let (liar, _) = self.liar.expect("somebody lies");
        world.lies += 1;
        let (switch, port) = self.leaf_of(liar);
        let is_source = world.switches[switch].sender().source == Some(port);
        let before: Vec<Vec<Packet>> = world.wire.clone();
        self.arrive(world, self.direction_from(End::Host(liar)), packet);
        let is_copied = world.wire.iter().zip(&before).any(|(after, before)| {
            after
                .iter()
                .any(|p| matches!(p, Packet::Data(_)) && !before.contains(p))
        });
        if is_copied && !is_source {
            world.violation = Some("a member speaks for the source");
        }
    }

    fn is_quiet(&self, world: &World) -> bool {
        self.moving(world).is_empty()
            && (0..self.streams.len()).all(|stream| !self.can_send(world, stream))
            && self.reports(world).is_empty()
    }

    fn can_send(&self, world: &World, stream: usize) -> bool {
        let requester = &world.requesters[stream];
        self.may_send(world, stream)
            && (requester.next != self.range(stream).1 || !requester.lost.is_empty())
    }

    /// What hosts may report again, as their timers have them do: in a kind world only when nothing else happens.
    fn reports(&self, world: &World) -> Vec<(usize, u32)> {
        let Recovery::SelectiveRepeat(most) = self.recovery else {
            return Vec::new();
        };
        let is_busy = || {
            let mut senders = 0..self.streams.len();
            !self.moving(world).is_empty() || senders.any(|at| self.can_send(world, at))
        };
        if self.nature == Nature::Kind && is_busy() {
            return Vec::new();
        }
        let hosts = world.hosts.iter().enumerate();
        hosts
            .flat_map(|(at, host)| {
                let due = host.reports.iter().filter(move |(_, times)| **times < most);
                due.map(move |(psn, _)| (at, *psn))
            })
            .collect()
    }

    /// What in a kind world may be lost.
    fn may_be_lost(&self, world: &World, moving: &Moving) -> bool {
        let is_last = |psn| (0..self.streams.len()).any(|at| SPACE.next(psn) == self.range(at).1);
        world.losses < self.losses
            && match moving {
                Moving::OnWire(_, Packet::Data(psn)) => !is_last(*psn),
                Moving::OnWire(_, Packet::SelectiveNak(..)) => true,
                _ => false,
            }
    }

    fn report(&self, world: &mut World, host: usize, psn: u32) {
        let times = world.hosts[host].reports.entry(psn).or_default();
        *times += 1;
        let packet = Packet::SelectiveNak(psn, *times);
        self.emit(world, End::Host(host), packet);
    }

    fn time_out(&self, world: &mut World, stream: usize) {
        let requester = &mut world.requesters[stream];
        match self.recovery {
            Recovery::GoBackN => requester.next = requester.unacked,
            Recovery::SelectiveRepeat(_) => {
                let newest = SPACE.previous(requester.fresh);
                requester.lost.extend([requester.unacked, newest]);
                requester.repeats.clear();
            }
        }
    }

    /// The direction of a link that leaves `from`.
    fn direction_from(&self, from: End) -> usize {
        let link = self
            .links
            .iter()
            .position(|&(a, b)| a == from || b == from)
            .expect("every port has a link");
        2 * link + usize::from(self.links[link].0 != from)
    }

    fn emit(&self, world: &mut World, from: End, packet: Packet) {
        let wire = &mut world.wire[self.direction_from(from)];
        self.put(wire, packet);
    }

    /// A hostile wire is a set.
    fn put<T: Ord>(&self, wire: &mut Vec<T>, item: T) {
        if self.nature == Nature::Kind {
            wire.push(item);
        } else if wire.len() < self.in_flight {
            if let Err(at) = wire.binary_search(&item) {
                wire.insert(at, item);
            }
        }
    }

    fn arrive(&self, world: &mut World, direction: usize, packet: Packet) {
        let (first, second) = self.links[direction / 2];
        match if direction % 2 == 0 { second } else { first } {
            End::Switch(switch, port) => {
                let now = world.clock;
                let ack = |psn| Feedback::Ack { psn, msn: 0 };
                let nak = |psn| Feedback::Nak {
                    nak: Nak {
                        psn,
                        syndrome: SYNDROME_SEQUENCE,
                    },
                    msn: 0,
                };
                let selective = |psn, reports| Notice::SelectiveNak { psn, reports };
                match &mut world.switches[switch] {
                    Rules::V1model(group) => {
                        let queued = match packet {
                            Packet::Data(psn) => group.data(port, psn, now),
                            Packet::Ack(psn) => group.feedback(port, ack(psn), now),
                            Packet::Nak(psn) => group.feedback(port, nak(psn), now),
                            Packet::SelectiveNak(psn, reports) => {
                                group.notice(port, selective(psn, reports), now)
                            }
                        };
                        self.act(world, switch, queued);
                    }
                    Rules::Tofino(group) => {
                        let queued = match packet {
                            Packet::Data(psn) => group.data(port, psn),
                            Packet::Ack(psn) => group.feedback(port, ack(psn)),
                            Packet::Nak(psn) => group.feedback(port, nak(psn)),
                            Packet::SelectiveNak(psn, reports) => {
                                group.notice(port, selective(psn, reports), now)
                            }
                        };
                        let sent = queued.into_iter().map(|queued| group.dequeue(queued));
                        let sent: Vec<Sent> = sent.flatten().collect();
                        for sent in sent {
                            self.leave(world, switch, sent);
                        }
                    }
                }
            }
            End::Host(host) => match packet {
                Packet::Data(psn) => self.respond(world, host, psn),
                Packet::Ack(psn) => self.complete(world, host, SPACE.next(psn), false),
                Packet::Nak(psn) => self.complete(world, host, psn, true),
                Packet::SelectiveNak(psn, reports) => self.lose(world, host, psn, reports),
            },
        }
    }

    /// All that is queued leaves at once, but for what goes round.
    fn act(&self, world: &mut World, switch: usize, queued: Vec<Queued>) {
        for queued in queued {
            if matches!(queued, Queued::Round { .. }) {
                world.rounds[switch].push(queued);
                continue;
            }
            let now = world.clock;
            let (sent, _) = world.switches[switch].v1model().dequeue(queued, now);
            if let Some(sent) = sent {
                self.leave(world, switch, sent);
            }
        }
    }

    fn leave(&self, world: &mut World, switch: usize, sent: Sent) {
        let (port, packet) = match sent {
            Sent::Data { port, psn } => (port, Packet::Data(psn)),
            Sent::Feedback { port, feedback } => match feedback {
                Feedback::Ack { psn, .. } => (port, Packet::Ack(psn)),
                Feedback::Nak { nak, .. } => (port, Packet::Nak(nak.psn)),
            },
            Sent::ToController(packet) => return self.put(&mut world.up[switch], packet),
            Sent::Notice {
                port,
                notice: Notice::SelectiveNak { psn, reports },
            } => (port, Packet::SelectiveNak(psn, reports)),
            Sent::Notice { .. } | Sent::Alarm { .. } => return,
        };
        self.emit(world, End::Switch(switch, port), packet);
    }

    /// A responder: one NAK for each gap, or one for each packet that is missing; duplicates acknowledged with the newest PSN.
    fn respond(&self, world: &mut World, host: usize, psn: u32) {
        let state = &mut world.hosts[host];
        let reply = if psn == state.expected {
            state.reports.remove(&psn);
            state.expected = SPACE.next(psn);
            while state.early.remove(&state.expected) {
                state.expected = SPACE.next(state.expected);
            }
            state.has_sent_nak = false;
            Packet::Ack(SPACE.previous(state.expected))
        } else if SPACE.lt(psn, state.expected) {
            Packet::Ack(SPACE.previous(state.expected))
        } else if let Recovery::SelectiveRepeat(_) = self.recovery {
            state.reports.remove(&psn);
            state.early.insert(psn);
            let mut missing = state.expected;
            while missing != psn {
                let state = &world.hosts[host];
                if !state.early.contains(&missing) && !state.reports.contains_key(&missing) {
                    self.report(world, host, missing);
                }
                missing = SPACE.next(missing);
            }
            return;
        } else if state.has_sent_nak {
            return;
        } else {
            state.has_sent_nak = true;
            Packet::Nak(state.expected)
        };
        self.emit(world, End::Host(host), reply);
    }

    /// A requester: cumulative ACKs, go-back-N, a NAK acknowledges all before it.
    fn complete(&self, world: &mut World, host: usize, acked_before: u32, is_nak: bool) {
        for (stream, &(sender, _)) in self.streams.iter().enumerate() {
            let requester = &mut world.requesters[stream];
            if sender != host
                || SPACE.lt(acked_before, requester.unacked)
                || SPACE.lt(requester.fresh, acked_before)
                || requester.fresh == self.range(stream).0
            {
                continue;
            }
            let lacks = |(at, state): (usize, &Host)| {
                at != sender && !self.is_liar(at) && SPACE.lt(state.expected, acked_before)
            };
            if world.hosts.iter().enumerate().any(lacks) {
                world.violation = Some(if is_nak {
                    "a NAK covers a loss"
                } else {
                    "an ACK beyond the minimum"
                });
            }
            requester.unacked = acked_before;
            requester.lost.retain(|psn| !SPACE.lt(*psn, acked_before));
            requester
                .repeats
                .retain(|psn, _| !SPACE.lt(*psn, acked_before));
            if is_nak || SPACE.lt(requester.next, acked_before) {
                requester.next = acked_before;
            }
        }
    }

    /// A requester with selective repeat: what was reported as often as it was sent again is on its way.
    fn lose(&self, world: &mut World, host: usize, psn: u32, reports: u8) {
        for (stream, &(sender, _)) in self.streams.iter().enumerate() {
            let requester = &mut world.requesters[stream];
            let is_outstanding =
                !SPACE.lt(psn, requester.unacked) && SPACE.lt(psn, requester.fresh);
            if sender != host || !is_outstanding {
                continue;
            }
            let repeats = requester.repeats.entry(psn).or_default();
            if reports > *repeats && requester.lost.insert(psn) {
                *repeats += 1;
            }
        }
    }

    fn send(&self, world: &mut World, stream: usize) {
        let requester = &mut world.requesters[stream];
        let psn = match requester.lost.pop_first() {
            Some(lost) => lost,
            None => {
                let psn = requester.next;
                requester.next = SPACE.next(psn);
                if SPACE.lt(requester.fresh, requester.next) {
                    requester.fresh = requester.next;
                }
                psn
            }
        };
        self.emit(world, End::Host(self.streams[stream].0), Packet::Data(psn));
    }

    /// Everything that may arrive next.
    fn moving(&self, world: &World) -> Vec<Moving> {
        let visible = |len: usize| match self.nature {
            Nature::Hostile => len,
            Nature::Kind => len.min(1),
        };
        let mut moving = Vec::new();
        for (direction, wire) in world.wire.iter().enumerate() {
            let packets = &wire[..visible(wire.len())];
            moving.extend(packets.iter().map(|&p| Moving::OnWire(direction, p)));
        }
        for switch in 0..self.switches {
            let rounds = world.rounds[switch].len();
            moving.extend((0..rounds).map(|at| Moving::Round(switch, at)));
            let up = &world.up[switch];
            moving.extend(
                up[..visible(up.len())]
                    .iter()
                    .map(|&p| Moving::Up(switch, p)),
            );
            let down = &world.down[switch];
            let down = &down[..visible(down.len())];
            moving.extend(down.iter().map(|&p| Moving::Down(switch, p)));
        }
        moving
    }

    /// It is under way no more.
    fn take(world: &mut World, moving: &Moving) -> Option<Queued> {
        fn remove<T: PartialEq>(wire: &mut Vec<T>, item: &T) {
            if let Some(at) = wire.iter().position(|other| other == item) {
                wire.remove(at);
            }
        }
        match moving {
            Moving::OnWire(direction, packet) => remove(&mut world.wire[*direction], packet),
            Moving::Round(switch, at) => return Some(world.rounds[*switch].remove(*at)),
            Moving::Up(switch, packet) => remove(&mut world.up[*switch], packet),
            Moving::Down(switch, packet) => remove(&mut world.down[*switch], packet),
        }
        None
    }

    fn deliver(&self, world: &mut World, moving: &Moving, round: Option<Queued>) {
        match moving {
            Moving::OnWire(direction, packet) => self.arrive(world, *direction, *packet),
            Moving::Round(switch, _) => {
                if let Some(round) = round {
                    let (_, queued) = world.switches[*switch]
                        .v1model()
                        .dequeue(round, world.clock);
                    self.act(world, *switch, queued);
                }
            }
            Moving::Up(switch, packet) => {
                let group = &*world.switches[*switch].v1model();
                let paths = || group.ports().iter().zip(group.leaves.iter());
                let read = |controller: &mut Aggregator| {
                    paths().for_each(|(port, leaf)| controller.learn(*port, leaf.newest.psn));
                };
                let controller = world.controllers[*switch].get_or_insert_with(|| {
                    let ports = group.ports().iter().copied();
                    let mut controller = Aggregator::new(SPACE, ports, packet.told);
                    read(&mut controller);
                    controller
                });
                controller.take(packet);
                let mut said: Vec<PacketOut> = controller.answers().into_iter().collect();
                if !controller.lagging().is_empty() {
                    read(controller);
                    said.extend(controller.answers());
                    controller.give_up();
                }
                for out in said {
                    self.put(&mut world.down[*switch], out);
                }
            }
            Moving::Down(switch, command) => {
                let queued = world.switches[*switch].v1model().command(*command);
                self.act(world, *switch, queued);
            }
        }
    }

    /// Everything under way is lost and the adversary goes home: do the messages complete?
    fn recovers(&self, world: &World) -> bool {
        let mut world = world.clone();
        world.wire.iter_mut().for_each(Vec::clear);
        world.rounds.iter_mut().for_each(Vec::clear);
        world.up.iter_mut().for_each(Vec::clear);
        world.down.iter_mut().for_each(Vec::clear);
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        let fingerprint = hasher.finish();
        let recovered = || {
            self.recovered
                .lock()
                .expect("nobody fails while he holds it")
        };
        if recovered().contains(&fingerprint) {
            return true;
        }
        let recovers = self.completes_from(world);
        if recovers {
            recovered().insert(fingerprint);
        }
        recovers
    }

    /// In a kind world, by the senders' timeouts alone.
    fn completes_from(&self, mut world: World) -> bool {
        let kind = ModelFabric {
            nature: Nature::Kind,
            ..self.clone()
        };
        let packets: u32 = self.streams.iter().map(|stream| stream.1).sum();
        for _ in 0..4 * packets + 4 {
            if self.is_complete(&world) {
                return true;
            }
            // Senders are far more patient than walks.
            world.clock += AGE;
            for stream in 0..self.streams.len() {
                let end = self.range(stream).1;
                if !self.may_send(&world, stream) || world.requesters[stream].unacked == end {
                    continue;
                }
                if world.requesters[stream].fresh != self.range(stream).0 {
                    self.time_out(&mut world, stream);
                }
                while kind.can_send(&world, stream) {
                    kind.send(&mut world, stream);
                    while let Some(moving) = kind.moving(&world).first() {
                        let round = Self::take(&mut world, moving);
                        kind.deliver(&mut world, moving, round);
                    }
                }
            }
        }
        self.is_complete(&world)
    }
}

impl Model for ModelFabric {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let config = Config {
            space: SPACE,
            strategy: self.strategy,
            paths_per_pass: 1,
            walk_timeout: AGE - 1,
            losses: LOSSES,
            window: WINDOW,
            is_selective: self.recovery != Recovery::GoBackN,
            flaw: self.flaw,
        };
        let ports = |switch| {
            let ends = self.links.iter();
            let port = move |end| match end {
                End::Switch(at, port) if at == switch => Some(port),
                _ => None,
            };
            ends.flat_map(|&(a, b)| [a, b])
                .filter_map(port)
                .collect::<Vec<Port>>()
        };
        let group = |switch| match self.target {
            Target::V1model => Rules::V1model(Group::new(config, &ports(switch), FIRST_PSN, 0)),
            Target::Tofino => Rules::Tofino(TofinoGroup::new(SPACE, &ports(switch), FIRST_PSN, 0)),
        };
        let before = Point {
            psn: SPACE.previous(FIRST_PSN),
            msn: 0,
        };
        let controller = |switch| Some(Aggregator::new(SPACE, ports(switch), before));
        let host = |host| Host {
            // Who sends first swaps its numbers afterwards.
            expected: if self.streams[0].0 == host {
                self.range(0).1
            } else {
                FIRST_PSN
            },
            has_sent_nak: false,
            early: BTreeSet::new(),
            reports: BTreeMap::new(),
        };
        let requester = |stream| {
            let first = self.range(stream).0;
            Requester {
                unacked: first,
                next: first,
                fresh: first,
                lost: BTreeSet::new(),
                repeats: BTreeMap::new(),
            }
        };
        vec![World {
            switches: (0..self.switches).map(group).collect(),
            controllers: (0..self.switches).map(controller).collect(),
            rounds: vec![Vec::new(); self.switches],
            up: vec![Vec::new(); self.switches],
            down: vec![Vec::new(); self.switches],
            hosts: (0..self.hosts).map(host).collect(),
            requesters: (0..self.streams.len()).map(requester).collect(),
            wire: vec![Vec::new(); 2 * self.links.len()],
            clock: 0,
            restarts: 0,
            lies: 0,
            losses: 0,
            violation: None,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.violation.is_some() {
            return;
        }
        let senders = 0..self.streams.len();
        steps.extend(
            senders
                .filter(|stream| self.can_send(world, *stream))
                .map(Step::Send),
        );
        let reports = self.reports(world).into_iter();
        steps.extend(reports.map(|(host, psn)| Step::Report(host, psn)));
        let moving = self.moving(world);
        if self.nature == Nature::Kind {
            let losses = moving
                .iter()
                .filter(|moving| self.may_be_lost(world, moving));
            steps.extend(losses.cloned().map(Step::Lose));
            steps.extend(moving.into_iter().map(Step::Arrive));
            return;
        }
        for (stream, requester) in world.requesters.iter().enumerate() {
            if requester.unacked != requester.next {
                steps.push(Step::Timeout(stream));
            }
        }
        for moving in moving {
            // What arrives once arrives twice, but the second time it is lost. A walker cannot double itself.
            let is_doubled = match moving {
                Moving::OnWire(..) => true,
                Moving::Round(..) => false,
                Moving::Up(..) | Moving::Down(..) => self.control_doubles,
            };
            steps.push(match is_doubled {
                true => Step::ArriveTwice(moving.clone()),
                false => Step::Arrive(moving.clone()),
            });
            steps.push(Step::Lose(moving));
        }
        steps.extend(self.lies(world).into_iter().map(Step::Lie));
        if world.restarts < self.restarts {
            let known = (0..self.switches).filter(|at| world.controllers[*at].is_some());
            steps.extend(known.map(Step::Restart));
        }
        let is_walking =
            |rules: &Rules| matches!(rules, Rules::V1model(group) if group.walk.busy.is_some());
        if world.clock < AGE * self.ages && world.switches.iter().any(is_walking) {
            steps.push(Step::Age);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        match step {
            Step::Send(stream) => self.send(&mut world, stream),
            Step::Timeout(stream) => self.time_out(&mut world, stream),
            Step::Report(host, psn) => self.report(&mut world, host, psn),
            Step::Arrive(moving) => {
                let round = Self::take(&mut world, &moving);
                self.deliver(&mut world, &moving, round);
            }
            Step::ArriveTwice(moving) => self.deliver(&mut world, &moving, None),
            Step::Lose(moving) => {
                if self.nature == Nature::Kind {
                    world.losses += 1;
                }
                Self::take(&mut world, &moving);
            }
            Step::Age => world.clock += AGE,
            Step::Restart(switch) => {
                world.restarts += 1;
                world.controllers[switch] = None;
            }
            Step::Lie(packet) => self.lie(&mut world, packet),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONLY_WHAT_ALL_HOLD, |_, world: &World| {
                world.violation.is_none()
            }),
            Property::sometimes("completes", |fabric: &ModelFabric, world: &World| {
                fabric.is_complete(world)
            }),
        ];
        properties.push(match self.nature {
            Nature::Hostile => Property::always(RECOVERS, |fabric: &ModelFabric, world: &World| {
                world.violation.is_some() || fabric.recovers(world)
            }),
            Nature::Kind => {
                Property::always(NEEDS_NO_TIMEOUT, |fabric: &ModelFabric, world: &World| {
                    !fabric.is_quiet(world) || fabric.is_complete(world)
                })
            }
        });
        properties
    }
}
