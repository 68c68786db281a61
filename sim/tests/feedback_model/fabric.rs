//! A small fabric as a state machine: hosts, links, switches and, if need be, their controllers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{
    classify, AckClass, Config, Feedback, Flaw, Group, Notice, PacketIn, PacketOut, Point, Port,
    Queued, Sender, Sent, Space, Strategy, TofinoGroup,
};
use stateright::{Model, Property};

use crate::faulty::FaultyMember;
use crate::hosts::{Answer, Host, Packet, Requester};
use crate::restart::{Knowledge, Restart};

/// Sixteen numbers are enough for a handful of packets in flight.
pub const SPACE: Space = Space::new(SPACE_BITS);
pub const SPACE_BITS: u32 = 4;
/// The last number, so that the second packet wraps around.
pub const FIRST_PSN: u32 = 15;
/// Of the clock, in which a walk times out.
const AGE: u64 = 2;
/// Packets that a source may be ahead of what was acknowledged to it.
const WINDOW: u32 = 5;
/// Slots of a switch for losses: two, so that packets share them.
const LOSSES: usize = 2;

pub const ONLY_WHAT_ALL_HOLD: &str = "acknowledges only what all hold";
pub const WALKS_END: &str = "a walk ends when no path rises";
pub const WITHIN_WINDOW: &str = "a source is ahead by a window at most";
pub const RECOVERS: &str = "recovers from the loss of everything under way";
pub const NEEDS_NO_TIMEOUT: &str = "needs no timeout if nothing is lost";

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
    /// Links keep order and lose nothing but [`ModelFabric::losses`]; no host times out by itself.
    Kind,
}

/// What hosts do about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    GoBackN,
    /// Receivers keep what comes early, and report what is missing at most this number of times.
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
    /// In a kind world, how many packets may be lost: of data all but a stream's first and last packet, of feedback selective NAKs, for
    /// these are the losses that receivers repair. (A switch drops what follows a first packet that was lost: that makes no member the source.)
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
    /// How often a switch may lose its registers, and what it begins with then.
    pub switch_restarts: u32,
    pub restart: Restart,
    /// A member that sends what it likes beside what its queue pair sends.
    pub faulty: Option<FaultyMember>,
    /// Whether answers have counts of messages, one for each packet; else these are all 0.
    pub counts_messages: bool,
    /// Fingerprints of what is known to recover: most states differ only in what is under way, and that is lost then.
    pub recovered: Arc<Mutex<HashSet<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    switches: Vec<Rules>,
    /// What the controller knows of each switch's group, if it has received a report.
    controllers: Vec<Option<Aggregator>>,
    restarts: u32,
    switch_restarts: u32,
    /// What goes round in each switch.
    pub rounds: Vec<Vec<Queued>>,
    /// Between each switch and its controller.
    up: Vec<Vec<PacketIn>>,
    down: Vec<Vec<PacketOut>>,
    pub hosts: Vec<Host>,
    pub requesters: Vec<Requester>,
    /// Under way, for each direction of each link: even towards the second end, odd towards the first.
    wire: Vec<Vec<Packet>>,
    clock: u64,
    /// What the faulty member has sent.
    pub false_reports: u32,
    /// What has been lost in a kind world.
    pub losses: u32,
    /// Where a walk may be kept going: its passes on each switch since a path has risen.
    passes: Vec<u32>,
    pub violation: Option<&'static str>,
}

impl World {
    /// The group of a switch that finds the minimum as on v1model.
    pub fn v1model(&mut self, switch: usize) -> &mut Group {
        self.switches[switch].v1model()
    }

    pub fn sender(&self, switch: usize) -> &Sender {
        self.switches[switch].sender()
    }

    /// The newest PSN that a switch has acknowledged to the source.
    pub fn last_acked(&self, switch: usize) -> u32 {
        match &self.switches[switch] {
            Rules::V1model(group) => group.last_acked.point.psn,
            Rules::Tofino(group) => group.last_acked,
        }
    }

    /// Passes of the walk on a switch since a path has risen.
    pub fn passes(&self, switch: usize) -> u32 {
        self.passes[switch]
    }

    /// The newest PSN of each path on a switch.
    fn words(&self, switch: usize) -> Vec<u32> {
        let leaves = match &self.switches[switch] {
            Rules::V1model(group) => group.leaves.iter(),
            Rules::Tofino(group) => group.leaves.iter(),
        };
        leaves.map(|leaf| leaf.newest.psn).collect()
    }
}

/// Something under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Moving {
    OnWire(usize, Packet),
    Recirculation(usize, usize),
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
    /// A switch does, and the controller writes what it knows.
    RestartSwitch(usize, Knowledge),
    /// The faulty member sends something of its own.
    FalseReport(Packet),
}

/// What a packet is to a switch.
enum Arrival {
    Data(u32),
    /// With a header that the receiver of what is merged would take offence at, or not.
    Feedback(Feedback, bool),
    Notice(Notice),
    /// A syndrome that the specification reserves.
    Reserved,
}

fn arrival(packet: Packet) -> Arrival {
    let (answer, is_odd) = match packet {
        Packet::Data(psn) => return Arrival::Data(psn),
        Packet::Cnp => return Arrival::Notice(Notice::Cnp),
        Packet::Answer(answer) => (answer, false),
        Packet::OddAnswer(answer) => (answer, true),
    };
    match classify(answer.psn, answer.aeth()) {
        Some(AckClass::Feedback(what)) => Arrival::Feedback(what, is_odd),
        Some(AckClass::Notice(what)) => Arrival::Notice(what),
        None => Arrival::Reserved,
    }
}

impl ModelFabric {
    /// Of every group.
    pub fn config(&self) -> Config {
        Config {
            space: SPACE,
            strategy: self.strategy,
            paths_per_pass: 1,
            walk_timeout: AGE - 1,
            losses: LOSSES,
            window: WINDOW,
            is_selective: matches!(self.recovery, Recovery::SelectiveRepeat(_)),
            flaw: self.flaw,
        }
    }

    /// First PSN of a stream, and the one after its last.
    pub fn range(&self, stream: usize) -> (u32, u32) {
        let before: u32 = self.streams[..stream].iter().map(|stream| stream.1).sum();
        let first = SPACE.add(FIRST_PSN, before);
        (first, SPACE.add(first, self.streams[stream].1))
    }

    pub fn end(&self) -> u32 {
        self.range(self.streams.len() - 1).1
    }

    /// The last PSN that a host is to receive, and one more: all but what it sends itself in the end.
    pub fn last_expected(&self, host: usize) -> u32 {
        let last = self.streams.len() - 1;
        if last > 0 && self.streams[last].0 == host {
            self.range(last).0
        } else {
            self.end()
        }
    }

    /// A sender begins when all have what was sent before; too early, when it has that itself.
    pub fn may_send(&self, world: &World, stream: usize) -> bool {
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
            self.is_faulty(at) || host.expected == self.last_expected(at)
        };
        world.requesters.iter().enumerate().all(is_acknowledged)
            && world.hosts.iter().enumerate().all(has_all)
    }

    /// The host behind a port.
    fn host_at(&self, switch: usize, port: Port) -> Option<usize> {
        let ends = self.links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
        let mut hosts = ends.filter_map(|ends| match ends {
            (End::Switch(at, of), End::Host(host)) if (at, of) == (switch, port) => Some(host),
            _ => None,
        });
        hosts.next()
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
        self.moving(world).is_empty()
            && (0..self.streams.len()).all(|stream| !self.can_send(world, stream))
            && self.reports(world).is_empty()
    }

    /// The direction of a link that leaves `from`.
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
                        let sent: Vec<Sent> = sent.flatten().collect();
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
                Packet::Answer(answer) => self.take_answer(world, host, answer),
                // No switch sends odd answers, and no host minds a CNP here.
                Packet::OddAnswer(_) | Packet::Cnp => {}
            },
        }
    }

    /// All that is queued leaves at once, but for what goes round.
    fn act(&self, world: &mut World, switch: usize, queued: Vec<Queued>) {
        for queued in queued {
            if matches!(queued, Queued::Recirculate { .. }) {
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
            Sent::Feedback { port, feedback } => {
                (port, Packet::Answer(Answer::of(feedback.to_aeth())))
            }
            Sent::ToController(packet) => return self.put(&mut world.up[switch], packet),
            Sent::Notice { port, notice } => {
                let is_for_host = self.host_at(switch, port).is_some();
                let last_acked = world.last_acked(switch);
                (port, Packet::of_notice(notice, is_for_host, last_acked))
            }
            Sent::Alarm { .. } => return,
        };
        self.emit(world, End::Switch(switch, port), packet);
    }

    /// Everything that may arrive next.
    pub fn moving(&self, world: &World) -> Vec<Moving> {
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
            moving.extend((0..rounds).map(|at| Moving::Recirculation(switch, at)));
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
            Moving::Recirculation(switch, at) => return Some(world.rounds[*switch].remove(*at)),
            Moving::Up(switch, packet) => remove(&mut world.up[*switch], packet),
            Moving::Down(switch, packet) => remove(&mut world.down[*switch], packet),
        }
        None
    }

    fn deliver(&self, world: &mut World, moving: &Moving, round: Option<Queued>) {
        match moving {
            Moving::OnWire(direction, packet) => self.arrive(world, *direction, *packet),
            Moving::Recirculation(switch, _) => {
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
            Moving::Up(switch, packet) => {
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
                    controller.give_up();
                }
                for out in replies {
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
        // The first sender swaps its numbers afterwards.
        let host = |host| match self.streams[0].0 == host {
            true => Host::new(self.range(0).1),
            false => Host::new(FIRST_PSN),
        };
        let requester = |stream| Requester::new(self.range(stream).0);
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
        let moving = self.moving(world);
        if self.nature == Nature::Kind {
            let losses = moving
                .iter()
                .filter(|moving| self.may_be_lost(world, moving));
            steps.extend(losses.cloned().map(Step::Lose));
            steps.extend(moving.into_iter().map(Step::Arrive));
            steps.extend(self.false_reports(world).into_iter().map(Step::FalseReport));
            return;
        }
        for (stream, requester) in world.requesters.iter().enumerate() {
            if requester.unacked != requester.next {
                steps.push(Step::Timeout(stream));
            }
        }
        for moving in moving {
            // What arrives once arrives twice, but the second time it is lost. A search packet cannot double itself.
            let is_doubled = match moving {
                Moving::OnWire(..) => true,
                Moving::Recirculation(..) => false,
                Moving::Up(..) | Moving::Down(..) => self.control_doubles,
            };
            steps.push(match is_doubled {
                true => Step::ArriveTwice(moving.clone()),
                false => Step::Arrive(moving.clone()),
            });
            steps.push(Step::Lose(moving));
        }
        steps.extend(self.false_reports(world).into_iter().map(Step::FalseReport));
        if world.restarts < self.restarts {
            let known = (0..self.switches).filter(|at| world.controllers[*at].is_some());
            steps.extend(known.map(Step::Restart));
        }
        if world.switch_restarts < self.switch_restarts {
            let all = (0..self.switches).flat_map(|switch| {
                let knowledge = self.knowledge().iter();
                knowledge.map(move |knowledge| Step::RestartSwitch(switch, *knowledge))
            });
            steps.extend(all);
        }
        let is_walking =
            |rules: &Rules| matches!(rules, Rules::V1model(group) if group.walk.running.is_some());
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
