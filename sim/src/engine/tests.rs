use std::cell::RefCell;
use std::rc::Rc;

use super::*;

/// A node that sends the frames that messages contain, as fast as its ports allow, and records what it receives.
#[derive(Default)]
struct Station {
    waiting: std::collections::VecDeque<(u32, Vec<u8>)>,
    received: Vec<(u64, u32, Vec<u8>)>,
    messages: Vec<(u64, NodeId, &'static str)>,
    woken: Vec<u64>,
    /// Times of the calls of `on_idle`.
    idle: Vec<u64>,
    reception_delay: u64,
}

impl Station {
    fn pump(&mut self, ctx: &mut Context<'_, &'static str>) {
        while let Some((port, _)) = self.waiting.front() {
            if !ctx.can_transmit(*port) {
                ctx.await_idle(*port);
                return;
            }
            let (port, frame) = self.waiting.pop_front().expect("looked at just now");
            ctx.transmit(port, frame);
        }
    }
}

impl Node for Station {
    type Message = &'static str;
    type Frame = Vec<u8>;

    fn reception_delay(&self) -> u64 {
        self.reception_delay
    }

    fn on_frame(&mut self, port: u32, frame: Vec<u8>, ctx: &mut Context<'_, &'static str>) {
        self.received.push((ctx.now(), port, frame));
    }

    fn on_idle(&mut self, _: u32, ctx: &mut Context<'_, &'static str>) {
        self.idle.push(ctx.now());
        self.pump(ctx);
    }

    fn on_wake(&mut self, ctx: &mut Context<'_, &'static str>) {
        self.woken.push(ctx.now());
    }

    fn on_message(
        &mut self,
        from: NodeId,
        message: &'static str,
        ctx: &mut Context<'_, &'static str>,
    ) {
        self.messages.push((ctx.now(), from, message));
    }
}

const GBIT: u64 = 1_000_000_000;

fn link() -> LinkConfig {
    LinkConfig {
        rate: 100 * GBIT,
        delay: 500,
        mtu: 4200,
        faults: FaultProbabilities::default(),
    }
}

/// Two stations "a" and "b", connected by port 1 of each.
fn pair(seed: u64, config: LinkConfig) -> (Engine<Station>, NodeId, NodeId) {
    let mut engine = Engine::new(seed);
    let a = engine.add_node("a", Station::default());
    let b = engine.add_node("b", Station::default());
    engine.connect((a, 1), (b, 1), config).unwrap();
    (engine, a, b)
}

fn send(engine: &mut Engine<Station>, from: NodeId, port: u32, frame: Vec<u8>) {
    engine.with_node(from, |node, ctx| {
        node.waiting.push_back((port, frame));
        node.pump(ctx);
    });
}

fn arrivals(engine: &Engine<Station>, node: NodeId) -> Vec<u64> {
    engine.node(node).received.iter().map(|r| r.0).collect()
}

#[test]
fn frame_arrives_after_serialisation_and_propagation() {
    let (mut engine, a, b) = pair(
        1,
        LinkConfig {
            rate: GBIT,
            ..link()
        },
    );
    send(&mut engine, a, 1, vec![0; 101]);
    engine.run();
    // 101 bytes plus 4 of FCS and 20 of preamble and gap are 125 bytes: 1 us at 1 Gbit/s.
    assert_eq!(arrivals(&engine, b), [1_500]);
    assert_eq!(engine.node(b).received[0].2.len(), 101);
}

#[test]
fn short_frame_takes_the_time_of_a_padded_one() {
    let (mut engine, a, b) = pair(
        1,
        LinkConfig {
            rate: GBIT,
            ..link()
        },
    );
    send(&mut engine, a, 1, vec![0; 10]);
    engine.run();
    assert_eq!(arrivals(&engine, b), [84 * 8 + 500]);
}

#[test]
fn rounding_wastes_no_time_on_a_busy_link() {
    let (mut engine, a, b) = pair(1, link());
    for _ in 0..1_000 {
        send(&mut engine, a, 1, vec![0; 60]);
    }
    engine.run();
    // 84 bytes take 6.72 ns at 100 Gbit/s.
    assert_eq!(arrivals(&engine, b).last(), Some(&(6_720 + 500)));
}

#[test]
fn both_directions_send_at_once() {
    let (mut engine, a, b) = pair(1, link());
    send(&mut engine, a, 1, vec![0; 1_000]);
    send(&mut engine, b, 1, vec![0; 1_000]);
    engine.run();
    assert_eq!(arrivals(&engine, a), arrivals(&engine, b));
}

#[test]
fn frame_longer_than_the_mtu_is_dropped_and_counted() {
    let (mut engine, a, b) = pair(
        1,
        LinkConfig {
            mtu: 1_500,
            ..link()
        },
    );
    send(&mut engine, a, 1, vec![0; 1_514]);
    send(&mut engine, a, 1, vec![0; 1_515]);
    engine.run();
    assert_eq!(engine.node(b).received.len(), 1);
    let counters = engine.counters(a, 1).unwrap();
    assert_eq!(counters.frames, 2);
    assert_eq!(counters.bytes, 3_029);
    assert_eq!(counters.drops.get(DropReason::TooLong), 1);
    assert_eq!(counters.drops.total(), 1);
}

fn received_of_1000(seed: u64, faults: FaultProbabilities) -> Vec<u16> {
    let (mut engine, a, b) = pair(seed, LinkConfig { faults, ..link() });
    for i in 0..1_000u16 {
        let mut frame = vec![0; 64];
        frame[..2].copy_from_slice(&i.to_be_bytes());
        send(&mut engine, a, 1, frame);
    }
    engine.run();
    let frames = &engine.node(b).received;
    frames
        .iter()
        .map(|(_, _, f)| u16::from_be_bytes([f[0], f[1]]))
        .collect()
}

#[test]
fn losses_follow_probability_and_seed() {
    let faults = FaultProbabilities::lossy(0.1);
    let one = received_of_1000(1, faults);
    assert!((850..950).contains(&one.len()), "{}", one.len());
    assert_eq!(one, received_of_1000(1, faults));
    assert_ne!(one, received_of_1000(2, faults));
    assert!(received_of_1000(1, FaultProbabilities::lossy(1.0)).is_empty());
}

#[test]
fn duplication_does_not_change_which_frames_are_lost() {
    let lossy = FaultProbabilities::lossy(0.1);
    let both = FaultProbabilities {
        duplicate: 0.1,
        ..lossy
    };
    let mut with_copies = received_of_1000(1, both);
    assert!(with_copies.len() > received_of_1000(1, lossy).len());
    with_copies.dedup();
    assert_eq!(with_copies, received_of_1000(1, lossy));
}

#[test]
fn reordering_delays_but_loses_nothing() {
    let faults = FaultProbabilities {
        reorder: 0.2,
        reorder_window: 1_000,
        ..FaultProbabilities::default()
    };
    let mut got = received_of_1000(1, faults);
    assert!(!got.is_sorted());
    got.sort_unstable();
    assert_eq!(got, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn an_additional_link_does_not_change_the_faults_of_others() {
    let faults = FaultProbabilities::lossy(0.2);
    let run = |with_third: bool| {
        let mut engine = Engine::new(7);
        let a = engine.add_node("a", Station::default());
        let b = engine.add_node("b", Station::default());
        if with_third {
            let c = engine.add_node("c", Station::default());
            let config = LinkConfig { faults, ..link() };
            engine.connect((a, 2), (c, 1), config).unwrap();
            for _ in 0..50 {
                send(&mut engine, c, 1, vec![0; 64]);
            }
        }
        let config = LinkConfig { faults, ..link() };
        engine.connect((a, 1), (b, 1), config).unwrap();
        for _ in 0..500 {
            send(&mut engine, a, 1, vec![0; 64]);
        }
        engine.run();
        arrivals(&engine, b)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn frames_on_a_link_that_goes_down_are_lost() {
    let (mut engine, a, b) = pair(1, link());
    send(&mut engine, a, 1, vec![0; 64]);
    engine.run_until(100);
    engine.set_link_up(0, false);
    engine.set_link_up(0, true);
    send(&mut engine, a, 1, vec![1; 64]);
    engine.run();
    let got: Vec<u8> = engine.node(b).received.iter().map(|r| r.2[0]).collect();
    assert_eq!(got, [1]);
    let drops = engine.counters(a, 1).unwrap().drops;
    assert_eq!(drops.get(DropReason::LinkDown), 1);
    assert_eq!(engine.counters(b, 1).unwrap().drops.total(), 0);
}

/// Observer that records the times at which frames arrive at the end of links.
#[derive(Clone, Default)]
struct Receptions(Rc<RefCell<Vec<u64>>>);

impl Observer for Receptions {
    fn observe(&mut self, now: u64, _: &str, observation: Observation<'_>) {
        if let Observation::Receive { .. } = observation {
            self.0.borrow_mut().push(now);
        }
    }
}

/// A node with a reception delay of 300 ns gets a frame that late. If its link goes down meanwhile, the frame has left
/// the link.
#[test]
fn reception_delay_postpones_the_delivery_of_a_frame() {
    for (down_at, arrives) in [(508, true), (507, true), (506, false)] {
        let seen = Receptions::default();
        let mut engine = Engine::new(1);
        let late = Station {
            reception_delay: 300,
            ..Station::default()
        };
        let a = engine.add_node("a", Station::default());
        let b = engine.add_node("b", late);
        engine.connect((a, 1), (b, 1), link()).unwrap();
        engine.observe(Box::new(seen.clone()));
        send(&mut engine, a, 1, vec![0; 60]);
        engine.run_until(down_at);
        engine.set_link_up(0, false);
        engine.run();
        // 84 bytes take 6.72 ns at 100 Gbit/s; 500 ns of propagation follow.
        let expected = |at| if arrives { vec![at] } else { Vec::new() };
        assert_eq!(arrivals(&engine, b), expected(807));
        assert_eq!(*seen.0.borrow(), expected(507));
        let drops = engine.counters(a, 1).unwrap().drops;
        assert_eq!(drops.get(DropReason::LinkDown), u64::from(!arrives));
    }
}

#[test]
fn idle_transmitters_are_reported_only_on_request() {
    let (mut engine, a, _) = pair(1, link());
    send(&mut engine, a, 1, vec![0; 60]);
    engine.run();
    assert!(engine.node(a).idle.is_empty());
    for _ in 0..3 {
        send(&mut engine, a, 1, vec![0; 60]);
    }
    engine.run();
    // From 507 on, the time of the last event; each frame takes 6.72 ns.
    assert_eq!(engine.node(a).idle, [513, 520]);
}

/// A transmitter that gets a frame in the nanosecond in which it becomes idle is not idle then.
#[test]
fn await_idle_must_be_repeated_after_another_transmission() {
    let (mut engine, a, b) = pair(1, link());
    engine.with_node(a, |_, ctx| {
        ctx.transmit(1, vec![0; 60]);
        ctx.send(ctx.node(), "before", 6);
        ctx.await_idle(1);
    });
    assert_eq!(engine.step(u64::MAX), Step::Done);
    assert_eq!(engine.node(a).messages[0].0, 6);
    engine.with_node(a, |_, ctx| ctx.transmit(1, vec![1; 60]));
    assert_eq!(engine.step(12), Step::Done);
    engine.with_node(a, |_, ctx| {
        ctx.await_idle(1);
        ctx.await_idle(1);
    });
    engine.run();
    assert_eq!(engine.node(a).idle, [13]);
    assert_eq!(arrivals(&engine, b), [507, 514]);
}

#[test]
fn frames_sent_on_a_link_that_is_down_are_lost() {
    let (mut engine, a, b) = pair(1, link());
    engine.set_link_up(0, false);
    send(&mut engine, a, 1, vec![0; 64]);
    engine.run();
    assert!(engine.node(b).received.is_empty());
}

#[test]
fn events_of_the_same_time_keep_their_order() {
    let (mut engine, a, b) = pair(1, link());
    engine.with_node(a, |_, ctx| {
        for text in ["first", "second", "third"] {
            ctx.send(b, text, 10);
        }
        ctx.send(b, "early", 9);
    });
    engine.run();
    let texts: Vec<_> = engine.node(b).messages.iter().map(|m| m.2).collect();
    assert_eq!(texts, ["early", "first", "second", "third"]);
    assert_eq!(engine.node(b).messages[0], (9, a, "early"));
}

#[test]
fn a_node_has_one_timer_and_the_earliest_time_applies() {
    let (mut engine, a, _) = pair(1, link());
    engine.with_node(a, |_, ctx| {
        ctx.wake_at(300);
        ctx.wake_at(100);
        ctx.wake_at(200);
    });
    engine.run();
    assert_eq!(engine.node(a).woken, [100]);
}

#[test]
fn a_wake_time_in_the_past_means_now() {
    let (mut engine, a, _) = pair(1, link());
    engine.run_until(50);
    engine.with_node(a, |_, ctx| ctx.wake_at(10));
    engine.run();
    assert_eq!(engine.node(a).woken, [50]);
}

#[test]
fn run_until_stops_before_later_events_and_advances_the_time() {
    let (mut engine, a, b) = pair(1, link());
    engine.with_node(a, |_, ctx| ctx.send(b, "late", 1_000));
    engine.run_until(999);
    assert_eq!(engine.now(), 999);
    assert!(engine.node(b).messages.is_empty());
    assert_eq!(engine.next_event_at(), Some(1_000));
}

#[test]
fn notify_is_reported_to_the_caller_of_step() {
    let (mut engine, a, b) = pair(1, link());
    engine.with_node(a, |_, ctx| {
        ctx.send(b, "x", 1);
        ctx.notify();
    });
    assert_eq!(engine.step(u64::MAX), Step::Notified);
    assert_eq!(engine.take_notifying().collect::<Vec<_>>(), [a]);
    assert_eq!(engine.step(u64::MAX), Step::Idle);
    assert_eq!(engine.take_notifying().count(), 0);
}

#[test]
fn notifying_nodes_are_returned_once_in_order() {
    let (mut engine, a, b) = pair(1, link());
    for node in [b, a, b] {
        engine.with_node(node, |_, ctx| ctx.notify());
    }
    assert_eq!(engine.take_notifying().collect::<Vec<_>>(), [a, b]);
}

#[test]
fn a_port_accepts_one_link() {
    let (mut engine, a, b) = pair(1, link());
    let error = engine.connect((b, 1), (a, 2), link()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "link b:1 - a:2: port 1 of node b is already connected"
    );
    assert!(engine.connect((a, 3), (a, 3), link()).is_err());
}

#[test]
fn invalid_link_parameters_are_rejected() {
    let (mut engine, a, b) = pair(1, link());
    let no_rate = LinkConfig { rate: 0, ..link() };
    assert!(engine.connect((a, 2), (b, 2), no_rate).is_err());
    let config = LinkConfig {
        faults: FaultProbabilities::lossy(1.5),
        ..link()
    };
    let error = engine.connect((a, 2), (b, 2), config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "link a:2 - b:2: loss is 1.5, not a probability between 0 and 1"
    );
    assert!(engine
        .set_link_faults(0, FaultProbabilities::lossy(f64::NAN))
        .is_err());
}

struct Log(Rc<RefCell<Vec<String>>>);

impl Observer for Log {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        let text = match observation {
            Observation::Transmit { port, frame } => format!("tx {port} {}", frame.len()),
            Observation::Receive { port, frame } => format!("rx {port} {}", frame.len()),
            Observation::Drop { port, reason, .. } => format!("drop {port} {}", reason.as_str()),
            Observation::Note(text) => text.to_string(),
            Observation::Group { mcst_id, .. } => format!("group {mcst_id}"),
        };
        self.0.borrow_mut().push(format!("{now} {name} {text}"));
    }

    fn wants_notes(&self) -> bool {
        true
    }
}

#[test]
fn observer_sees_transmissions_arrivals_drops_and_notes() {
    let (mut engine, a, _) = pair(1, LinkConfig { mtu: 100, ..link() });
    let log = Rc::new(RefCell::new(Vec::new()));
    engine.observe(Box::new(Log(Rc::clone(&log))));
    send(&mut engine, a, 1, vec![0; 101]);
    send(&mut engine, a, 1, vec![0; 226]);
    engine.with_node(a, |_, ctx| ctx.note(|| "hello".to_string()));
    engine.run();
    assert_eq!(
        *log.borrow(),
        [
            "0 a tx 1 101",
            "0 a hello",
            "10 a tx 1 226",
            "10 a drop 1 too-long",
            "510 b rx 1 101",
        ]
    );
}

mod queues {
    use super::super::queue::DequeuedPacket;
    use super::super::{EgressQueues, QueueFull};

    #[test]
    fn higher_priority_is_served_first_and_each_in_order() {
        let mut q = EgressQueues::new(1_000);
        for (priority, packet) in [(0, "a"), (1, "b"), (0, "c"), (7, "d"), (1, "e")] {
            q.push(priority, packet, 100, 0).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| q.pop()).map(|d| d.packet).collect();
        assert_eq!(order, ["d", "b", "e", "a", "c"]);
        assert!(q.is_empty());
        assert_eq!(q.bytes(), 0);
    }

    #[test]
    fn packet_that_does_not_fit_is_dropped() {
        let mut q = EgressQueues::new(250);
        q.push(0, 1, 100, 0).unwrap();
        q.push(0, 2, 150, 0).unwrap();
        assert_eq!(q.push(0, 3, 1, 0), Err(QueueFull));
        q.pop();
        q.push(0, 3, 1, 0).unwrap();
        assert_eq!((q.len(), q.bytes()), (2, 151));
    }

    #[test]
    fn empty_port_accepts_a_packet_larger_than_its_limit() {
        let mut q = EgressQueues::new(10);
        q.push(0, (), 100, 0).unwrap();
        assert_eq!(q.push(0, (), 1, 0), Err(QueueFull));
    }

    #[test]
    fn depths_and_times_are_those_of_the_packets_own_queue() {
        let mut q = EgressQueues::new(1_000);
        q.push(0, "x", 10, 5).unwrap();
        q.push(3, "y", 10, 6).unwrap();
        q.push(0, "z", 10, 7).unwrap();
        q.pop();
        assert_eq!(
            q.pop(),
            Some(DequeuedPacket {
                packet: "x",
                enqueued_at: 5,
                depth_at_enqueue: 0,
                depth_at_dequeue: 1
            })
        );
        assert_eq!(
            q.pop(),
            Some(DequeuedPacket {
                packet: "z",
                enqueued_at: 7,
                depth_at_enqueue: 1,
                depth_at_dequeue: 0
            })
        );
    }
}
