use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use super::super::{
    Context, Engine, FaultProbabilities, FlowPosition, Frame, LinkConfig, Node, NodeId, Step,
    Threads,
};

/// Bits per second at which a frame takes 100 ns, so that many events have the same time.
const RATE: u64 = 8_000_000_000;
/// Nanoseconds that a message to a relay takes.
const MESSAGE: u64 = 450;
/// Number of frames in a stream.
const STREAM: u32 = 60;

/// Content of frames: noise that changes the state of each node on its path, or a frame of a stream.
#[derive(Debug, Clone, Hash)]
enum Cell {
    Noise { id: u64, life: u8 },
    Stream(u64, u32, bool),
}

impl Cell {
    fn of(place: FlowPosition) -> Cell {
        Cell::Stream(place.flow, place.number, place.requests_reply)
    }
}

impl Frame for Cell {
    fn len(&self) -> usize {
        76
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        vec![0; 76].into()
    }

    fn place(&self) -> Option<FlowPosition> {
        match *self {
            Cell::Stream(flow, number, requests_reply) => Some(FlowPosition {
                flow,
                number,
                requests_reply,
            }),
            Cell::Noise { .. } => None,
        }
    }

    fn advance(&mut self, by: u32) {
        if let Cell::Stream(_, number, requests_reply) = self {
            (*number, *requests_reply) = (*number + by, false);
        }
    }
}

type Ctx<'a> = Context<'a, u64, Cell>;

/// A node whose state depends on everything that it has received, in order, and whose actions depend on that state.
#[derive(Default)]
struct TestNode {
    /// Whether the node is a relay, which runs ahead and has several ports. Other nodes have port 0 only.
    is_relay: bool,
    /// Number of ports of a relay: to the next relay, to the previous one, and to hosts.
    ports: u32,
    reception_delay: u64,
    state: u64,
    queues: Vec<VecDeque<Cell>>,
    /// Flow and number of the stream frame that a host expects next.
    expected: Option<(u64, u32)>,
    log: Vec<(u64, u64)>,
    /// Number of frames that were delivered without an event of their own.
    followers: usize,
    wakes: u32,
}

impl TestNode {
    fn see(&mut self, now: u64, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.state, now, what).hash(&mut hasher);
        self.state = hasher.finish();
        self.log.push((now, self.state));
        self.state
    }

    fn put(&mut self, port: u32, cell: Cell, ctx: &mut Ctx<'_>) {
        let queue = &mut self.queues[port as usize];
        let is_follower = |place| ctx.transmit_follower(port, 76, place);
        if queue.is_empty() && cell.place().is_some_and(is_follower) {
            return;
        }
        if queue.len() < 40 {
            self.queues[port as usize].push_back(cell);
        } else {
            ctx.count_drop(port, 76, super::super::DropReason::QueueFull);
        }
        self.pump(port, ctx);
    }

    fn pump(&mut self, port: u32, ctx: &mut Ctx<'_>) {
        let queue = &mut self.queues[port as usize];
        while ctx.can_transmit(port) {
            let Some(cell) = queue.pop_front() else {
                return;
            };
            ctx.transmit(port, cell);
        }
        if !queue.is_empty() {
            ctx.await_idle(port);
        }
    }

    fn relay(&mut self, port: u32, cell: Cell, ctx: &mut Ctx<'_>) {
        match cell {
            // To the first host here, and to that of the next relay.
            Cell::Stream(..) => {
                if port >= 2 {
                    self.put(0, cell.clone(), ctx);
                }
                self.put(2, cell, ctx);
            }
            Cell::Noise { id, life } if life > 0 => {
                let now = ctx.now();
                let dice = self.see(now, (port, id));
                let life = life - 1;
                let out = (dice % u64::from(self.ports)) as u32;
                match dice >> 60 {
                    0 => ctx.send(ctx.node(), id, dice % 700),
                    1 => ctx.wake_at(now + dice % 300),
                    2 => ctx.send(NodeId(0), id, dice % 100),
                    3 => ctx.send(ctx.node(), id, 0),
                    _ => {}
                }
                self.put(out, Cell::Noise { id, life }, ctx);
                if dice >> 8 & 7 == 0 {
                    let id = dice;
                    self.put((out + 1) % self.ports, Cell::Noise { id, life }, ctx);
                }
            }
            Cell::Noise { id, .. } => {
                self.see(ctx.now(), id);
            }
        }
    }

    fn take(&mut self, now: u64, cell: &Cell) -> bool {
        let Cell::Stream(flow, number, requests_reply) = *cell else {
            return false;
        };
        self.log
            .push((now, u64::from(number) << 1 | u64::from(requests_reply)));
        let is_first = self.expected.is_none_or(|(of, _)| of < flow);
        if is_first || self.expected == Some((flow, number)) {
            self.expected = Some((flow, number + 1));
            return !requests_reply && !is_first;
        }
        false
    }
}

impl Node for TestNode {
    type Message = u64;
    type Frame = Cell;

    fn reception_delay(&self) -> u64 {
        self.reception_delay
    }

    fn runs_ahead(&self) -> Option<u64> {
        self.is_relay.then_some(MESSAGE)
    }

    fn expects_followers(&self) -> bool {
        !self.is_relay
    }

    fn on_followers(&mut self, times: impl ExactSizeIterator<Item = u64>, first: &Cell) {
        let mut cell = first.clone();
        for (number, at) in times.enumerate() {
            cell.advance(u32::from(number > 0));
            assert!(self.take(at, &cell), "{cell:?}");
            self.followers += 1;
        }
    }

    fn on_frame(&mut self, port: u32, cell: Cell, ctx: &mut Ctx<'_>) {
        if self.is_relay {
            return self.relay(port, cell, ctx);
        }
        let now = ctx.now();
        if cell.place().is_some() {
            let is_silent = self.take(now, &cell);
            let room = match (is_silent, &cell) {
                (true, Cell::Stream(_, number, _)) => 7 + number % 30,
                _ => 0,
            };
            if !is_silent {
                let id = self.see(now, &cell);
                self.put(0, Cell::Noise { id, life: 3 }, ctx);
            }
            return ctx.expect_followers(&cell, room);
        }
        let id = self.see(now, &cell);
        if id % 5 == 0 {
            ctx.notify();
        }
        if id % 3 == 0 {
            self.put(0, Cell::Noise { id, life: 4 }, ctx);
        }
        if id % 7 == 0 {
            ctx.wake_at(now + id % 900);
        }
    }

    fn on_idle(&mut self, port: u32, ctx: &mut Ctx<'_>) {
        self.pump(port, ctx);
    }

    fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        self.wakes += 1;
        let id = self.see(ctx.now(), "wake");
        if self.is_relay {
            let life = 2;
            self.put(
                (id % u64::from(self.ports)) as u32,
                Cell::Noise { id, life },
                ctx,
            );
        }
    }

    fn on_message(&mut self, from: NodeId, message: u64, ctx: &mut Ctx<'_>) {
        let id = self.see(ctx.now(), (from, message));
        match self.is_relay {
            true if message % 2 == 0 => {
                let life = 3;
                self.put(
                    (id % u64::from(self.ports)) as u32,
                    Cell::Noise { id, life },
                    ctx,
                );
            }
            true => {}
            // The controller replies.
            false => {
                if from != ctx.node() && id % 2 == 0 {
                    ctx.send(from, id, MESSAGE + id % 3 * 100);
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Scene {
    seed: u64,
    relays: usize,
    /// Number of hosts at each relay.
    hosts: u32,
    delay: u64,
    reception_delay: u64,
    faults: FaultProbabilities,
    /// Nanoseconds from one limit of the run to the next.
    step: u64,
}

/// Builds a ring of relays with hosts, and a controller.
fn build(scene: &Scene) -> (Engine<TestNode>, Vec<NodeId>, Vec<NodeId>) {
    let mut engine = Engine::new(scene.seed);
    engine.add_node("controller", TestNode::default());
    let ports = 2 + scene.hosts;
    let relays: Vec<NodeId> = (0..scene.relays)
        .map(|number| {
            let relay = TestNode {
                is_relay: true,
                ports,
                reception_delay: scene.reception_delay,
                queues: vec![VecDeque::new(); ports as usize],
                ..TestNode::default()
            };
            engine.add_node(&format!("r{number}"), relay)
        })
        .collect();
    let link = LinkConfig {
        rate: RATE,
        delay: scene.delay,
        mtu: 1_000,
        faults: scene.faults,
    };
    let mut hosts = Vec::new();
    for (number, &relay) in relays.iter().enumerate() {
        let next = relays[(number + 1) % relays.len()];
        engine.connect((relay, 0), (next, 1), link.clone()).unwrap();
        for host in 0..scene.hosts {
            let node = TestNode {
                reception_delay: 30,
                queues: vec![VecDeque::new()],
                ..TestNode::default()
            };
            let id = engine.add_node(&format!("h{number}-{host}"), node);
            engine
                .connect((relay, 2 + host), (id, 0), link.clone())
                .unwrap();
            hosts.push(id);
        }
    }
    (engine, relays, hosts)
}

/// Runs a scene. Returns the logs of all nodes, and whether any node was ahead of the engine.
fn play(scene: &Scene, threads: usize) -> (Vec<String>, bool) {
    let (mut engine, relays, hosts) = build(scene);
    let least_events = 1;
    let count = threads;
    engine
        .set_threads(Threads {
            count,
            least_events,
        })
        .unwrap();
    let mut seen = Vec::new();
    let mut was_ahead = false;
    let counters = |engine: &Engine<TestNode>| {
        let mut hasher = DefaultHasher::new();
        for (name, counters) in engine.directions() {
            (name, format!("{counters:?}")).hash(&mut hasher);
        }
        hasher.finish()
    };
    let send = |engine: &mut Engine<TestNode>, host: NodeId, cell: Cell| {
        engine.with_node(host, |node, ctx| node.put(0, cell, ctx));
    };
    for (number, &host) in hosts.iter().enumerate() {
        let id = scene.seed ^ number as u64;
        send(&mut engine, host, Cell::Noise { id, life: 30 });
    }
    for turn in 0..6u64 {
        let limit = turn * scene.step + 5;
        // A stream begins at a host, and a relay is changed from outside of the engine.
        let (host, relay) = (
            hosts[turn as usize % hosts.len()],
            relays[turn as usize % relays.len()],
        );
        for number in 0..STREAM {
            let (flow, requests_reply) = (turn, number % 11 == 10);
            let cell = Cell::of(FlowPosition {
                flow,
                number,
                requests_reply,
            });
            engine.with_node(host, |node, _| node.queues[0].push_back(cell));
        }
        engine.with_node(host, |node, ctx| node.pump(0, ctx));
        engine.with_node(relay, |node, ctx| {
            node.see(ctx.now(), "from outside");
            ctx.wake_at(ctx.now() + 3);
            ctx.send(ctx.node(), 2, 0);
        });
        loop {
            match engine.step(limit) {
                Step::Done => {}
                Step::Notified => {
                    was_ahead |= engine.is_ahead();
                    let now = engine.now();
                    seen.push(format!("{now}: {:x}", counters(&engine)));
                    let notifying: Vec<NodeId> = engine.take_notifying().collect();
                    for id in notifying {
                        let noise = Cell::Noise { id: now, life: 5 };
                        seen.push(format!("{now}: {}", engine.name(id)));
                        send(&mut engine, id, noise);
                    }
                }
                Step::Idle => break,
            }
        }
        assert!(!engine.is_ahead(), "no node is ahead at the limit");
        engine.run_until(limit);
        if turn == 3 {
            let faults = FaultProbabilities::lossy(0.05);
            engine.set_link_faults(0, faults).unwrap();
        }
    }
    engine.run_until(8 * scene.step);
    seen.push(format!("{} events, {}", engine.events(), engine.now()));
    for (id, node) in engine.nodes() {
        let (name, state) = (engine.name(id), node.state);
        seen.push(format!(
            "{name}: {state:x} {} {:?}",
            node.wakes, node.followers
        ));
        seen.extend(node.log.iter().map(|entry| format!("{name} {entry:?}")));
    }
    for (name, counters) in engine.directions() {
        seen.push(format!("{name} {counters:?}"));
    }
    (seen, was_ahead)
}

fn same(scene: &Scene, threads: usize) -> Result<(), TestCaseError> {
    let (one, _) = play(scene, 1);
    let (several, _) = play(scene, threads);
    let differs = one.iter().zip(&several).position(|(a, b)| a != b);
    if let Some(at) = differs {
        prop_assert_eq!(&one[at], &several[at], "at {} of {}", at, one.len());
    }
    prop_assert_eq!(one.len(), several.len());
    Ok(())
}

prop_compose! {
    fn scene()(
        seed in any::<u64>(),
        relays in 2usize..5,
        hosts in 1u32..4,
        delay in prop_oneof![Just(0u64), Just(1), Just(300), Just(500), 0..2_000u64],
        reception_delay in prop_oneof![Just(0u64), Just(400)],
        loss in prop_oneof![2 => Just(0.0), 1 => Just(0.02)],
        duplicate in prop_oneof![3 => Just(0.0), 1 => Just(0.05)],
        reorder in prop_oneof![3 => Just(0.0), 1 => Just(0.05)],
        step in 100..9_000u64,
    ) -> Scene {
        let faults = FaultProbabilities { loss, duplicate, reorder, reorder_window: 700 };
        Scene { seed, relays, hosts, delay, reception_delay, faults, step }
    }
}

proptest! {
    #[test]
    fn every_node_gets_the_same_events_in_the_same_order_with_any_number_of_threads(
        scene in scene(),
        threads in 2usize..5,
    ) {
        same(&scene, threads)?;
    }
}

fn default_scene() -> Scene {
    Scene {
        seed: 1,
        relays: 4,
        hosts: 3,
        delay: 500,
        reception_delay: 400,
        faults: FaultProbabilities::default(),
        step: 9_000,
    }
}

/// Checks that the property above really runs nodes ahead and delivers frames in trains.
#[test]
fn nodes_run_ahead_and_frames_arrive_in_trains() {
    let (seen, was_ahead) = play(&default_scene(), 2);
    assert!(was_ahead);
    let (alone, is_ahead) = play(&default_scene(), 1);
    assert!(!is_ahead);
    assert_eq!(seen, alone);
    let mut engine_followers = alone.iter().filter(|line| line.starts_with('h'));
    let any = engine_followers.any(|line| line.contains(':') && !line.ends_with(" 0"));
    assert!(any, "some frames came together");
}

/// A relay that counts received frames, or a host that calls `notify`.
struct Counter {
    is_relay: bool,
    seen: Vec<(u64, &'static str)>,
}

impl Node for Counter {
    type Message = &'static str;
    type Frame = Vec<u8>;

    fn runs_ahead(&self) -> Option<u64> {
        self.is_relay.then_some(100)
    }

    fn on_frame(&mut self, _: u32, _: Vec<u8>, ctx: &mut Context<'_, &'static str>) {
        self.seen.push((ctx.now(), "frame"));
    }

    fn on_idle(&mut self, _: u32, ctx: &mut Context<'_, &'static str>) {
        self.seen.push((ctx.now(), "idle"));
    }

    fn on_wake(&mut self, ctx: &mut Context<'_, &'static str>) {
        self.seen.push((ctx.now(), "wake"));
    }

    fn on_message(
        &mut self,
        _: NodeId,
        message: &'static str,
        ctx: &mut Context<'_, &'static str>,
    ) {
        self.seen.push((ctx.now(), message));
        match message {
            "notify" => ctx.notify(),
            "again" => {
                ctx.wake_at(ctx.now());
                ctx.send(ctx.node(), "mine", 0);
                ctx.send(ctx.node(), "later", 30);
                ctx.transmit(0, vec![0; 60]);
                ctx.await_idle(0);
            }
            _ => {}
        }
    }
}

/// Two connected relays and a host. Windows are 100 ns long, and all are divided among threads.
fn counters() -> (Engine<Counter>, [NodeId; 3]) {
    let mut engine = Engine::new(1);
    let [a, b, host] = [("a", true), ("b", true), ("host", false)].map(|(name, is_relay)| {
        let seen = Vec::new();
        engine.add_node(name, Counter { is_relay, seen })
    });
    let config = LinkConfig {
        rate: 100_000_000_000,
        delay: 200,
        mtu: 1_500,
        faults: FaultProbabilities::default(),
    };
    engine.connect((a, 0), (b, 0), config).unwrap();
    let (count, least_events) = (2, 1);
    engine
        .set_threads(Threads {
            count,
            least_events,
        })
        .unwrap();
    (engine, [a, b, host])
}

#[test]
fn events_of_a_node_for_itself_follow_those_of_the_same_time() {
    let (mut engine, [a, b, _]) = counters();
    engine.with_node(a, |_, ctx| {
        ctx.send(a, "again", 110);
        ctx.send(a, "first", 110);
        ctx.send(b, "other", 115);
        ctx.send(a, "second", 110);
    });
    engine.run_until(1_000);
    let expected = [
        (110, "again"),
        (110, "first"),
        (110, "second"),
        (110, "wake"),
        (110, "mine"),
        (116, "idle"),
        (140, "later"),
    ];
    assert_eq!(engine.node(a).seen, expected);
    assert_eq!(engine.node(b).seen, [(115, "other"), (317, "frame")]);
}

#[test]
fn window_ends_at_the_limit_and_events_there_are_not_ahead() {
    let (mut engine, [a, b, host]) = counters();
    engine.with_node(host, |_, ctx| {
        ctx.send(a, "early", 100);
        ctx.send(b, "late", 160);
        ctx.send(a, "later", 180);
    });
    assert_eq!(engine.step(160), Step::Done);
    assert_eq!(engine.node(b).seen, []);
    assert!(!engine.is_ahead());
    // Events at the limit are handled, but not ahead.
    assert_eq!(engine.step(160), Step::Done);
    assert_eq!(engine.step(160), Step::Idle);
    assert_eq!(engine.node(b).seen, [(160, "late")]);
    engine.with_node(a, |node, ctx| node.seen.push((ctx.now(), "act")));
    engine.run_until(1_000);
    assert_eq!(
        engine.node(a).seen,
        [(100, "early"), (160, "act"), (180, "later")]
    );
}

#[test]
fn counters_are_as_of_the_engines_time_while_nodes_are_ahead() {
    let (mut engine, [a, _, host]) = counters();
    engine.with_node(host, |_, ctx| {
        ctx.send(host, "notify", 130);
        ctx.send(a, "again", 150);
        ctx.send(host, "notify", 170);
    });
    let frames = |engine: &Engine<Counter>| engine.counters(a, 0).unwrap().frames;
    assert_eq!(engine.step(u64::MAX), Step::Notified);
    assert!(engine.is_ahead());
    assert_eq!(engine.node(a).seen.first(), Some(&(150, "again")));
    assert_eq!((engine.now(), frames(&engine)), (130, 0));
    while engine.step(u64::MAX) != Step::Notified {}
    assert_eq!((engine.now(), frames(&engine)), (170, 1));
    assert_eq!(engine.directions().next().unwrap().1.bytes, 60);
}

#[test]
#[should_panic(expected = "a node that runs ahead is changed while nodes are ahead")]
fn with_node_panics_for_a_node_that_is_ahead() {
    let (mut engine, [a, b, host]) = counters();
    engine.with_node(host, |_, ctx| {
        ctx.send(host, "notify", 130);
        ctx.send(a, "later", 150);
    });
    engine.step(u64::MAX);
    engine.with_node(b, |_, _| {});
}

#[test]
#[should_panic(expected = "an event reaches a earlier than the delay that the node declares")]
fn message_faster_than_its_declared_delay_panics() {
    let (mut engine, [a, _, host]) = counters();
    engine.with_node(host, |_, ctx| {
        ctx.send(host, "notify", 130);
        ctx.send(a, "later", 150);
    });
    assert_eq!(engine.step(u64::MAX), Step::Notified);
    engine.with_node(host, |_, ctx| ctx.send(a, "too early", 10));
    engine.run_until(1_000);
}
