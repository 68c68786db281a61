//! A small fabric as a state machine for the model checker: hosts, links, switches and, for some strategies, their
//! controllers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{
    classify, AckClass, Config, Feedback, Flaw, Group, Notice, PacketIn, PacketOut, Point, Port,
    QueuedPacket, Sender, SentPacket, Space, Strategy, TofinoGroup,
};
use stateright::{Model, Property};

use crate::faulty::FaultyMember;
use crate::hosts::{Acknowledgement, Host, Packet, Requester};
use crate::restart::{Knowledge, Restart};

/// Space of PSNs: sixteen numbers are enough for a few packets in flight.
pub const SPACE: Space = Space::new(SPACE_BITS);
pub const SPACE_BITS: u32 = 4;
/// The last number of the space, so that the second packet wraps around.
pub const FIRST_PSN: u32 = 15;
/// Units of the clock after which a walk times out.
const WALK_TIMEOUT: u64 = 2;
/// Largest number of packets that a source may send beyond the last acknowledged one.
const WINDOW: u32 = 5;
/// Number of a switch's slots for losses: two, so that packets share them.
const LOSSES: usize = 2;

pub const ONLY_WHAT_ALL_HOLD: &str = "acknowledges only packets that all members have";
pub const WALKS_END: &str = "a walk ends when no path advances";
pub const WITHIN_WINDOW: &str = "a source stays within its window";
pub const RECOVERS: &str = "recovers from the loss of all packets in flight";
pub const NEEDS_NO_TIMEOUT: &str = "needs no timeout if nothing is lost";

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Switch(usize, Port),
    Host(usize),
}

/// What links and timeouts may do to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Links lose, duplicate and reorder packets, and senders may time out at any time.
    Lossy,
    /// Links keep the order and lose only [`ModelFabric::losses`] packets. Hosts do not time out.
    Ordered,
}

/// How hosts recover from losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    GoBackN,
    /// Receivers keep early packets, and report each missing one at most this number of times.
    SelectiveRepeat(u8),
}

/// Data plane that the switches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    V1model,
    Tofino,
}

/// State of a group on a switch, by data plane.
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

    /// The group, on the data plane that recirculates packets or sends them to a controller.
    fn v1model(&mut self) -> &mut Group {
        match self {
            Rules::V1model(group) => group,
            Rules::Tofino(_) => unreachable!("Tofino's find the minimum at once"),
        }
    }
}

/// A tree of switches with hosts, and the faults that are explored.
#[derive(Clone)]
pub struct ModelFabric {
    pub links: Vec<(End, End)>,
    pub switches: usize,
    pub hosts: usize,
    /// Sender and number of packets of each stream; streams follow each other.
    pub streams: Vec<(usize, u32)>,
    /// A fault of the members: a source starts when it has all earlier packets itself, though other members may lack
    /// some.
    pub starts_too_early: bool,
    pub strategy: Strategy,
    pub target: Target,
    pub flaw: Flaw,
    pub nature: Nature,
    /// With [`Nature::Ordered`], the number of packets that may be lost. Lost packets are data, except for a stream's
    /// first and last packet, and selective NAKs: receivers repair these losses. (After the loss of a first packet a
    /// switch drops the following ones, because their sender is not the source yet.)
    pub losses: u32,
    pub recovery: Recovery,
    /// Number of different packets that may be in flight in one direction of a link. Further ones are lost.
    pub in_flight: usize,
    /// How often a walk may time out.
    pub walk_timeouts: u64,
    /// Whether the connection to a controller may duplicate packets too, which a stream does not. It may lose them in
    /// any case.
    pub control_duplicates: bool,
    /// How often a controller may restart without its state.
    pub restarts: u32,
    /// How often a switch may lose its registers, and with what it restarts.
    pub switch_restarts: u32,
    pub restart: Restart,
    /// A member that sends arbitrary packets besides those of its queue pair.
    pub faulty: Option<FaultyMember>,
    /// Whether acknowledgements have MSNs, with one message per packet. If not, all MSNs are 0.
    pub counts_messages: bool,
    /// Hashes of states that are known to recover. Most states differ only in packets in flight, which are lost in the
    /// check of recovery.
    pub recovered: Arc<Mutex<HashSet<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    switches: Vec<Rules>,
    /// State of each switch's controller, if the controller has received a packet.
    controllers: Vec<Option<Aggregator>>,
    restarts: u32,
    switch_restarts: u32,
    /// Packets that recirculate in each switch.
    pub recirculating: Vec<Vec<QueuedPacket>>,
    /// Packets from each switch to its controller, and back.
    up: Vec<Vec<PacketIn>>,
    down: Vec<Vec<PacketOut>>,
    pub hosts: Vec<Host>,
    pub requesters: Vec<Requester>,
    /// Packets in flight in each direction of each link: at even indexes towards the second end, at odd ones towards
    /// the first.
    wire: Vec<Vec<Packet>>,
    clock: u64,
    /// Number of packets that the faulty member has sent.
    pub false_reports: u32,
    /// Number of packets lost so far, with [`Nature::Ordered`].
    pub losses: u32,
    /// Passes of the walk on each switch since a path has advanced, if a member may prolong walks.
    passes: Vec<u32>,
    pub violation: Option<&'static str>,
}

impl World {
    /// The group of a switch with the v1model data plane.
    pub fn v1model(&mut self, switch: usize) -> &mut Group {
        self.switches[switch].v1model()
    }

    pub fn sender(&self, switch: usize) -> &Sender {
        self.switches[switch].sender()
    }

    /// Newest PSN that a switch has acknowledged to the source.
    pub fn last_acked(&self, switch: usize) -> u32 {
        match &self.switches[switch] {
            Rules::V1model(group) => group.last_acked.point.psn,
            Rules::Tofino(group) => group.last_acked,
        }
    }

    /// Passes of the walk on a switch since a path has advanced.
    pub fn passes(&self, switch: usize) -> u32 {
        self.passes[switch]
    }

    /// Newest PSN of each path on a switch.
    pub fn words(&self, switch: usize) -> Vec<u32> {
        let leaves = match &self.switches[switch] {
            Rules::V1model(group) => group.leaves.iter(),
            Rules::Tofino(group) => group.leaves.iter(),
        };
        leaves.map(|leaf| leaf.newest.psn).collect()
    }
}

/// A packet in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InFlight {
    OnWire(usize, Packet),
    Recirculation(usize, usize),
    Up(usize, PacketIn),
    Down(usize, PacketOut),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Send(usize),
    Timeout(usize),
    /// A host repeats the report of a missing packet.
    Report(usize, u32),
    Arrive(InFlight),
    ArriveTwice(InFlight),
    Lose(InFlight),
    /// Time passes, so that walks may time out.
    AdvanceClock,
    /// A controller restarts without its state.
    Restart(usize),
    /// A switch restarts without its registers, and the controller writes the state that it has.
    RestartSwitch(usize, Knowledge),
    /// The faulty member sends a packet of its own.
    FalseReport(Packet),
}

/// Kind of a packet for a switch.
enum Arrival {
    Data(u32),
    /// An ACK or NAK. The flag: its headers are malformed, so that a receiver of the merged packet would reject it.
    Feedback(Feedback, bool),
    Notice(Notice),
    /// A syndrome that the specification reserves.
    Reserved,
}

fn arrival(packet: Packet) -> Arrival {
    let (acknowledgement, is_odd) = match packet {
        Packet::Data(psn) => return Arrival::Data(psn),
        Packet::Cnp => return Arrival::Notice(Notice::Cnp),
        Packet::Acknowledgement(acknowledgement) => (acknowledgement, false),
        Packet::MalformedAcknowledgement(acknowledgement) => (acknowledgement, true),
    };
    match classify(acknowledgement.psn, acknowledgement.aeth()) {
        Some(AckClass::Feedback(what)) => Arrival::Feedback(what, is_odd),
        Some(AckClass::Notice(what)) => Arrival::Notice(what),
        None => Arrival::Reserved,
    }
}

impl ModelFabric {
    /// Parameters of the groups on all switches.
    pub fn config(&self) -> Config {
        Config {
            space: SPACE,
            strategy: self.strategy,
            paths_per_pass: 1,
            walk_timeout: WALK_TIMEOUT - 1,
            loss_slots: LOSSES,
            window: WINDOW,
            is_selective: matches!(self.recovery, Recovery::SelectiveRepeat(_)),
            flaw: self.flaw,
        }
    }

    /// First PSN of a stream, and the PSN after its last.
    pub fn range(&self, stream: usize) -> (u32, u32) {
        let before: u32 = self.streams[..stream].iter().map(|stream| stream.1).sum();
        let first = SPACE.add(FIRST_PSN, before);
        (first, SPACE.add(first, self.streams[stream].1))
    }

    pub fn end(&self) -> u32 {
        self.range(self.streams.len() - 1).1
    }

    /// PSN after the last one that a host is to receive: all packets but those that it sends itself at the end.
    pub fn last_expected(&self, host: usize) -> u32 {
        let last = self.streams.len() - 1;
        if last > 0 && self.streams[last].0 == host {
            self.range(last).0
        } else {
            self.end()
        }
    }

    /// Whether the sender of a stream may start: all members have the earlier packets. With `starts_too_early`, the
    /// sender has them.
    pub fn may_send(&self, world: &World, stream: usize) -> bool {
        let first = self.range(stream).0;
        let has_all = |host: &Host| !SPACE.lt(host.expected, first);
        stream == 0
            || match self.starts_too_early {
                true => has_all(&world.hosts[self.streams[stream].0]),
                false => world.hosts.iter().all(has_all),
            }
    }

    fn is_complete(&self, world: &World) -> bool {
        let is_acknowledged =
            |(stream, requester): (usize, &Requester)| requester.unacked == self.range(stream).1;
        let has_all = |(at, host): (usize, &Host)| {
            self.is_faulty(at) || host.expected == self.last_expected(at)
        };
        world.requesters.iter().enumerate().all(is_acknowledged)
            && world.hosts.iter().enumerate().all(has_all)
    }

    /// The other end of the link at a switch's port.
    pub fn far_end(&self, switch: usize, port: Port) -> Option<End> {
        let ends = self.links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut far = ends.filter_map(|(near, far)| match near {
            End::Switch(at, of) if (at, of) == (switch, port) => Some(far),
            _ => None,
        });
        far.next()
    }

    /// Host at a port.
    fn host_at(&self, switch: usize, port: Port) -> Option<usize> {
        match self.far_end(switch, port)? {
            End::Host(host) => Some(host),
            End::Switch(..) => None,
        }
    }

    pub fn leaf_of(&self, host: usize) -> (usize, Port) {
        let ends = self.links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut leaves = ends.filter_map(|ends| match ends {
            (End::Host(at), End::Switch(switch, port)) if at == host => Some((switch, port)),
            _ => None,
        });
        leaves.next().expect("every host has a link")
    }

    fn is_quiet(&self, world: &World) -> bool {
        self.in_flight_packet(world).is_empty()
            && (0..self.streams.len()).all(|stream| !self.can_send(world, stream))
            && self.reports(world).is_empty()
    }

    /// Index of the link direction that leaves `from`.
    pub fn direction_from(&self, from: End) -> usize {
        let link = self
            .links
            .iter()
            .position(|&(a, b)| a == from || b == from)
            .expect("every port has a link");
        2 * link + usize::from(self.links[link].0 != from)
    }

    pub fn emit(&self, world: &mut World, from: End, packet: Packet) {
        let wire = &mut world.wire[self.direction_from(from)];
        self.put(wire, packet);
    }

    /// With [`Nature::Lossy`], the packets in flight are a set without order.
    fn put<T: Ord>(&self, wire: &mut Vec<T>, item: T) {
        if self.nature == Nature::Ordered {
            wire.push(item);
        } else if wire.len() < self.in_flight {
            if let Err(at) = wire.binary_search(&item) {
                wire.insert(at, item);
            }
        }
    }

    pub fn arrive(&self, world: &mut World, direction: usize, packet: Packet) {
        let (first, second) = self.links[direction / 2];
        match if direction % 2 == 0 { second } else { first } {
            End::Switch(switch, port) => {
                let now = world.clock;
                let before = self.counts_passes().then(|| world.words(switch));
                match &mut world.switches[switch] {
                    Rules::V1model(group) => {
                        let queued = match arrival(packet) {
                            Arrival::Data(psn) => group.data(port, psn, now),
                            Arrival::Feedback(what, false) => group.feedback(port, what, now),
                            Arrival::Feedback(what, true) => {
                                group.malformed_feedback(port, what, now)
                            }
                            Arrival::Notice(what) => group.notice(port, what, now),
                            Arrival::Reserved => Vec::new(),
                        };
                        self.act(world, switch, queued);
                    }
                    Rules::Tofino(group) => {
                        let queued = match arrival(packet) {
                            Arrival::Data(psn) => group.data(port, psn),
                            Arrival::Feedback(what, _) => group.feedback(port, what),
                            Arrival::Notice(what) => group.notice(port, what, now),
                            Arrival::Reserved => Vec::new(),
                        };
                        let sent = queued.into_iter().map(|queued| group.dequeue(queued));
                        let sent: Vec<SentPacket> = sent.flatten().collect();
                        for sent in sent {
                            self.leave(world, switch, sent);
                        }
                    }
                }
                if before.is_some_and(|before| before != world.words(switch)) {
                    world.passes[switch] = 0;
                }
            }
            End::Host(host) => match packet {
                Packet::Data(psn) => self.respond(world, host, psn),
                Packet::Acknowledgement(acknowledgement) => {
                    self.handle_acknowledgement(world, host, acknowledgement)
                }
                // Switches send no malformed acknowledgements, and hosts ignore CNPs here.
                Packet::MalformedAcknowledgement(_) | Packet::Cnp => {}
            },
        }
    }

    /// Executes queued packets at once, except for those that recirculate.
    fn act(&self, world: &mut World, switch: usize, queued: Vec<QueuedPacket>) {
        for queued in queued {
            if matches!(queued, QueuedPacket::Recirculate { .. }) {
                world.recirculating[switch].push(queued);
                continue;
            }
            let now = world.clock;
            let (sent, _) = world.switches[switch].v1model().dequeue(queued, now);
            if let Some(sent) = sent {
                self.leave(world, switch, sent);
            }
        }
    }

    fn leave(&self, world: &mut World, switch: usize, sent: SentPacket) {
        let (port, packet) = match sent {
            SentPacket::Data { port, psn } => (port, Packet::Data(psn)),
            SentPacket::Feedback { port, feedback } => (
                port,
                Packet::Acknowledgement(Acknowledgement::of(feedback.to_aeth())),
            ),
            SentPacket::ToController(packet) => return self.put(&mut world.up[switch], packet),
            SentPacket::Notice { port, notice } => {
                let is_for_host = self.host_at(switch, port).is_some();
                let last_acked = world.last_acked(switch);
                (port, Packet::of_notice(notice, is_for_host, last_acked))
            }
            SentPacket::Alarm { .. } => return,
        };
        self.emit(world, End::Switch(switch, port), packet);
    }

    /// All packets in flight that may arrive next.
    pub fn in_flight_packet(&self, world: &World) -> Vec<InFlight> {
        let visible = |len: usize| match self.nature {
            Nature::Lossy => len,
            Nature::Ordered => len.min(1),
        };
        let mut in_flight_packet = Vec::new();
        for (direction, wire) in world.wire.iter().enumerate() {
            let packets = &wire[..visible(wire.len())];
            in_flight_packet.extend(packets.iter().map(|&p| InFlight::OnWire(direction, p)));
        }
        for switch in 0..self.switches {
            let recirculating = world.recirculating[switch].len();
            in_flight_packet
                .extend((0..recirculating).map(|at| InFlight::Recirculation(switch, at)));
            let up = &world.up[switch];
            in_flight_packet.extend(
                up[..visible(up.len())]
                    .iter()
                    .map(|&p| InFlight::Up(switch, p)),
            );
            let down = &world.down[switch];
            let down = &down[..visible(down.len())];
            in_flight_packet.extend(down.iter().map(|&p| InFlight::Down(switch, p)));
        }
        in_flight_packet
    }

    /// Removes a packet in flight.
    fn take(world: &mut World, in_flight_packet: &InFlight) -> Option<QueuedPacket> {
        fn remove<T: PartialEq>(wire: &mut Vec<T>, item: &T) {
            if let Some(at) = wire.iter().position(|other| other == item) {
                wire.remove(at);
            }
        }
        match in_flight_packet {
            InFlight::OnWire(direction, packet) => remove(&mut world.wire[*direction], packet),
            InFlight::Recirculation(switch, at) => {
                return Some(world.recirculating[*switch].remove(*at))
            }
            InFlight::Up(switch, packet) => remove(&mut world.up[*switch], packet),
            InFlight::Down(switch, packet) => remove(&mut world.down[*switch], packet),
        }
        None
    }

    fn deliver(&self, world: &mut World, in_flight_packet: &InFlight, round: Option<QueuedPacket>) {
        match in_flight_packet {
            InFlight::OnWire(direction, packet) => self.arrive(world, *direction, *packet),
            InFlight::Recirculation(switch, _) => {
                if let Some(round) = round {
                    if self.counts_passes() {
                        world.passes[*switch] += 1;
                    }
                    let (_, queued) = world.switches[*switch]
                        .v1model()
                        .dequeue(round, world.clock);
                    self.act(world, *switch, queued);
                }
            }
            InFlight::Up(switch, packet) => {
                let group = &*world.switches[*switch].v1model();
                let paths = || group.ports().iter().zip(group.leaves.iter());
                let read = |controller: &mut Aggregator| {
                    paths().for_each(|(port, leaf)| controller.update_path(*port, leaf.newest.psn));
                };
                let controller = world.controllers[*switch].get_or_insert_with(|| {
                    let ports = group.ports().iter().copied();
                    let mut controller = Aggregator::new(SPACE, ports, packet.last_acked);
                    read(&mut controller);
                    controller
                });
                controller.record(packet);
                let mut replies: Vec<PacketOut> = controller.replies().into_iter().collect();
                if !controller.lagging().is_empty() {
                    read(controller);
                    replies.extend(controller.replies());
                    controller.drop_probes();
                }
                for out in replies {
                    self.put(&mut world.down[*switch], out);
                }
            }
            InFlight::Down(switch, command) => {
                let queued = world.switches[*switch].v1model().command(*command);
                self.act(world, *switch, queued);
            }
        }
    }

    /// Whether all messages complete if all packets in flight are lost and there are no further faults.
    fn recovers(&self, world: &World) -> bool {
        let mut world = world.clone();
        world.wire.iter_mut().for_each(Vec::clear);
        world.recirculating.iter_mut().for_each(Vec::clear);
        world.up.iter_mut().for_each(Vec::clear);
        world.down.iter_mut().for_each(Vec::clear);
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        let fingerprint = hasher.finish();
        let recovered = || {
            self.recovered
                .lock()
                .expect("no thread panics while it holds the lock")
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

    /// Whether all messages complete without faults, by the senders' timeouts alone.
    fn completes_from(&self, mut world: World) -> bool {
        let kind = ModelFabric {
            nature: Nature::Ordered,
            ..self.clone()
        };
        let packets: u32 = self.streams.iter().map(|stream| stream.1).sum();
        for _ in 0..4 * packets + 4 {
            if self.is_complete(&world) {
                return true;
            }
            // Timeouts of senders are much longer than those of walks.
            world.clock += WALK_TIMEOUT;
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
                    while let Some(in_flight_packet) = kind.in_flight_packet(&world).first() {
                        let round = Self::take(&mut world, in_flight_packet);
                        kind.deliver(&mut world, in_flight_packet, round);
                    }
                }
            }
        }
        self.is_complete(&world) || self.waits_for_faulty_member(&world)
    }
}

impl Model for ModelFabric {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let config = self.config();
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
        // The first sender exchanges its PSNs afterwards.
        let host = |host| match self.streams[0].0 == host {
            true => Host::new(self.range(0).1),
            false => Host::new(FIRST_PSN),
        };
        let requester = |stream| Requester::new(self.range(stream).0);
        vec![World {
            switches: (0..self.switches).map(group).collect(),
            controllers: (0..self.switches).map(controller).collect(),
            recirculating: vec![Vec::new(); self.switches],
            up: vec![Vec::new(); self.switches],
            down: vec![Vec::new(); self.switches],
            hosts: (0..self.hosts).map(host).collect(),
            requesters: (0..self.streams.len()).map(requester).collect(),
            wire: vec![Vec::new(); 2 * self.links.len()],
            clock: 0,
            restarts: 0,
            switch_restarts: 0,
            false_reports: 0,
            losses: 0,
            passes: vec![0; self.switches],
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
        let in_flight_packet = self.in_flight_packet(world);
        if self.nature == Nature::Ordered {
            let losses = in_flight_packet
                .iter()
                .filter(|in_flight_packet| self.may_be_lost(world, in_flight_packet));
            steps.extend(losses.cloned().map(Step::Lose));
            steps.extend(in_flight_packet.into_iter().map(Step::Arrive));
            steps.extend(self.false_reports(world).into_iter().map(Step::FalseReport));
            return;
        }
        for (stream, requester) in world.requesters.iter().enumerate() {
            if requester.unacked != requester.next {
                steps.push(Step::Timeout(stream));
            }
        }
        for in_flight_packet in in_flight_packet {
            // A packet that arrives once also arrives twice, if the second copy is lost then. A search packet is not
            // duplicated.
            let is_doubled = match in_flight_packet {
                InFlight::OnWire(..) => true,
                InFlight::Recirculation(..) => false,
                InFlight::Up(..) | InFlight::Down(..) => self.control_duplicates,
            };
            steps.push(match is_doubled {
                true => Step::ArriveTwice(in_flight_packet.clone()),
                false => Step::Arrive(in_flight_packet.clone()),
            });
            steps.push(Step::Lose(in_flight_packet));
        }
        steps.extend(self.false_reports(world).into_iter().map(Step::FalseReport));
        if world.restarts < self.restarts {
            let known = (0..self.switches).filter(|at| world.controllers[*at].is_some());
            steps.extend(known.map(Step::Restart));
        }
        if world.switch_restarts < self.switch_restarts {
            let all = (0..self.switches).flat_map(|switch| {
                let knowledge = self.knowledge(world, switch).iter();
                knowledge.map(move |knowledge| Step::RestartSwitch(switch, *knowledge))
            });
            steps.extend(all);
        }
        let is_walking =
            |rules: &Rules| matches!(rules, Rules::V1model(group) if group.walk.running.is_some());
        if world.clock < WALK_TIMEOUT * self.walk_timeouts && world.switches.iter().any(is_walking)
        {
            steps.push(Step::AdvanceClock);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        match step {
            Step::Send(stream) => self.send(&mut world, stream),
            Step::Timeout(stream) => self.time_out(&mut world, stream),
            Step::Report(host, psn) => self.report(&mut world, host, psn),
            Step::Arrive(in_flight_packet) => {
                let round = Self::take(&mut world, &in_flight_packet);
                self.deliver(&mut world, &in_flight_packet, round);
            }
            Step::ArriveTwice(in_flight_packet) => {
                self.deliver(&mut world, &in_flight_packet, None)
            }
            Step::Lose(in_flight_packet) => {
                if self.nature == Nature::Ordered {
                    world.losses += 1;
                }
                Self::take(&mut world, &in_flight_packet);
            }
            Step::AdvanceClock => world.clock += WALK_TIMEOUT,
            Step::Restart(switch) => {
                world.restarts += 1;
                world.controllers[switch] = None;
            }
            Step::RestartSwitch(switch, knowledge) => {
                world.switch_restarts += 1;
                self.restart(&mut world, switch, knowledge);
            }
            Step::FalseReport(packet) => self.false_report(&mut world, packet),
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
        if self.counts_passes() {
            properties.push(Property::always(
                WALKS_END,
                |fabric: &ModelFabric, world: &World| fabric.walks_end(world),
            ));
        }
        properties.push(Property::always(
            WITHIN_WINDOW,
            |fabric: &ModelFabric, world: &World| {
                let ahead = |at| SPACE.distance(world.last_acked(at), world.sender(at).sent);
                (0..fabric.switches).all(|at| ahead(at) <= WINDOW as i32)
            },
        ));
        properties.push(match self.nature {
            Nature::Lossy => Property::always(RECOVERS, |fabric: &ModelFabric, world: &World| {
                world.violation.is_some() || fabric.recovers(world)
            }),
            Nature::Ordered => {
                Property::always(NEEDS_NO_TIMEOUT, |fabric: &ModelFabric, world: &World| {
                    !fabric.is_quiet(world) || fabric.is_complete(world)
                })
            }
        });
        properties
    }
}
