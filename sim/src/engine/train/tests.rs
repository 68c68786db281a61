use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::{
    Context, Engine, FaultProbabilities, Frame, LinkConfig, Node, NodeId, Observation, Observer,
    Step,
};
use super::{FlowPosition, Train};

/// A frame of 76 bytes, which takes 100 ns on the wire with preamble, FCS and gap.
#[derive(Debug, Clone)]
struct NumberedFrame(FlowPosition);

impl Frame for NumberedFrame {
    fn len(&self) -> usize {
        76
    }

    fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        vec![0; 76].into()
    }

    fn place(&self) -> Option<FlowPosition> {
        Some(self.0)
    }

    fn advance(&mut self, by: u32) {
        self.0.number += by;
        self.0.requests_reply = false;
    }
}

/// A node at a link. One sends the frames that it is given. The other accepts frames in order, and replies to frames
/// that request it or are out of order.
#[derive(Default)]
struct End {
    waiting: VecDeque<NumberedFrame>,
    expected: Option<(u64, u32)>,
    room: u32,
    /// Everything that has happened at this node, in order.
    log: Vec<String>,
    /// Number of frames that were delivered without an event of their own.
    followers: usize,
}

impl End {
    fn pump(&mut self, ctx: &mut Context<'_, &'static str, NumberedFrame>) {
        while ctx.can_transmit(0) {
            let Some(frame) = self.waiting.pop_front() else {
                return;
            };
            if !ctx.transmit_follower(0, frame.len(), frame.0) {
                ctx.transmit(0, frame);
            }
        }
        ctx.await_idle(0);
    }

    /// Records a frame. Returns whether it has no visible effect.
    fn take(&mut self, at: u64, frame: &NumberedFrame) -> bool {
        let FlowPosition {
            flow,
            number,
            requests_reply,
        } = frame.0;
        self.log
            .push(format!("{at}: frame {flow} {number} {requests_reply}"));
        let is_first = number == 0 && self.expected.is_none_or(|(of, _)| of < flow);
        if is_first || self.expected == Some((flow, number)) {
            self.expected = Some((flow, number + 1));
            return !requests_reply && !is_first;
        }
        false
    }
}

impl Node for End {
    type Message = &'static str;
    type Frame = NumberedFrame;

    fn reception_delay(&self) -> u64 {
        30
    }

    fn expects_followers(&self) -> bool {
        true
    }

    fn on_followers(&mut self, times: impl ExactSizeIterator<Item = u64>, first: &NumberedFrame) {
        let mut frame = first.clone();
        for (number, at) in times.enumerate() {
            frame.advance(u32::from(number > 0));
            let is_silent = self.take(at, &frame);
            assert!(is_silent, "{:?}", self.log);
            self.followers += 1;
        }
    }

    fn on_frame(
        &mut self,
        _: u32,
        frame: NumberedFrame,
        ctx: &mut Context<'_, &'static str, NumberedFrame>,
    ) {
        let is_silent = self.take(ctx.now(), &frame);
        let is_in_order = self.expected == Some((frame.0.flow, frame.0.number + 1));
        if !is_silent {
            ctx.send(NodeId(0), "reply", 5);
        }
        ctx.expect_followers(&frame, if is_in_order { self.room } else { 0 });
    }

    fn on_idle(&mut self, _: u32, ctx: &mut Context<'_, &'static str, NumberedFrame>) {
        self.pump(ctx);
    }

    fn on_wake(&mut self, ctx: &mut Context<'_, &'static str, NumberedFrame>) {
        self.log.push(format!("{}: wakes", ctx.now()));
    }

    fn on_message(
        &mut self,
        _: NodeId,
        message: &'static str,
        ctx: &mut Context<'_, &'static str, NumberedFrame>,
    ) {
        self.log.push(format!("{}: {message}", ctx.now()));
        if message == "reset" {
            self.expected = None;
        }
    }
}

/// Observer that ignores everything.
struct IgnoringObserver;

impl Observer for IgnoringObserver {
    fn observe(&mut self, _: u64, _: &str, _: Observation<'_>) {}
}

#[derive(Debug, Clone)]
enum Act {
    /// Sends `count` frames of the present flow; one in `ask` requests a reply.
    Send {
        count: u32,
        ask: u32,
    },
    /// Begins a new flow for later frames.
    NewFlow,
    /// Leaves out N frames of the flow.
    Skip(u32),
    /// Runs the engine for N times 10 ns.
    Run(u64),
    /// A message arrives at the receiver after N nanoseconds. `ends`: it ends the announcement.
    Announce {
        after: u64,
        ends: bool,
    },
    /// The receiver sets its timer.
    Wake(u64),
    /// The receiver is changed from outside of the engine.
    ChangeReceiver,
    Lose(f64),
    Reorder(f64),
    Link {
        up: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..40u32, 1..20u32).prop_map(|(count, ask)| Act::Send { count, ask }),
        1 => Just(Act::NewFlow),
        1 => (1..3u32).prop_map(Act::Skip),
        6 => (0..400u64).prop_map(Act::Run),
        2 => (0..200u64, any::<bool>()).prop_map(|(after, ends)| Act::Announce { after, ends }),
        1 => (0..200u64).prop_map(Act::Wake),
        1 => Just(Act::ChangeReceiver),
        1 => prop_oneof![Just(0.0), Just(0.1)].prop_map(Act::Lose),
        1 => prop_oneof![3 => Just(0.0), 1 => Just(0.2)].prop_map(Act::Reorder),
    ]
}

fn play(acts: &[Act], room: u32, is_seen: bool) -> (Vec<String>, Vec<String>, usize) {
    let mut engine = Engine::new(3);
    let [a, b] = ["a", "b"].map(|name| {
        let end = End {
            room,
            ..End::default()
        };
        engine.add_node(name, end)
    });
    let config = LinkConfig {
        rate: 8_000_000_000,
        delay: 700,
        mtu: 1_000,
        faults: FaultProbabilities::default(),
    };
    engine
        .connect((a, 0), (b, 0), config)
        .expect("they are free");
    if is_seen {
        engine.observe(Box::new(IgnoringObserver));
    }
    let mut next = FlowPosition {
        flow: 1,
        number: 0,
        requests_reply: false,
    };
    let mut faults = FaultProbabilities::default();
    for act in acts {
        match *act {
            Act::Send { count, ask } => {
                engine.with_node(a, |end, ctx| {
                    for _ in 0..count {
                        next.requests_reply = next.number % ask == ask - 1;
                        end.waiting.push_back(NumberedFrame(next));
                        next.number += 1;
                    }
                    end.pump(ctx);
                });
            }
            Act::NewFlow => (next.flow, next.number) = (next.flow + 1, 0),
            Act::Skip(count) => next.number += count,
            Act::Run(tens) => engine.run_until(engine.now() + 10 * tens),
            Act::Announce { after, ends } => {
                let message = if ends { "reset" } else { "hello" };
                engine.with_node(a, |_, ctx| ctx.send(b, message, 10 * after + 3));
            }
            Act::Wake(after) => {
                engine.with_node(b, |_, ctx| ctx.wake_at(ctx.now() + 10 * after + 7))
            }
            Act::ChangeReceiver => engine.with_node(b, |end, ctx| {
                end.log.push(format!("{}: meddled with", ctx.now()));
                end.expected = None;
            }),
            Act::Lose(loss) => faults.loss = loss,
            Act::Reorder(reorder) => {
                faults.reorder = reorder;
                faults.reorder_window = 40;
            }
            Act::Link { up } => engine.set_link_up(0, up),
        }
        engine.set_link_faults(0, faults).expect("probabilities");
    }
    while engine.step(u64::MAX) != Step::Idle {}
    engine.run();
    let counters = format!("{:?} at {}", engine.counters(a, 0), engine.now());
    let log = |id: NodeId| engine.node(id).log.clone();
    let mut seen = log(b);
    seen.push(counters);
    (log(a), seen, engine.node(b).followers)
}

proptest! {
    #[test]
    fn followers_have_the_effects_of_single_frames(
        acts in proptest::collection::vec(act(), 1..30),
        room in prop_oneof![Just(u32::MAX), 0..9u32],
        outage in prop_oneof![3 => Just(None), 1 => (0..30usize, 0..30usize).prop_map(Some)],
    ) {
        let mut acts = acts;
        if let Some((down, up)) = outage {
            acts.insert(down.min(acts.len()), Act::Link { up: false });
            acts.insert(up.min(acts.len()), Act::Link { up: true });
        }
        let (replies, seen, none) = play(&acts, room, true);
        let (single_replies, single_seen, _) = play(&acts, room, false);
        prop_assert_eq!(none, 0);
        prop_assert_eq!(replies, single_replies);
        prop_assert_eq!(seen, single_seen);
    }
}

#[test]
fn most_frames_of_a_long_flow_need_no_event() {
    let acts = [
        Act::Send {
            count: 1_000,
            ask: 66,
        },
        Act::Run(20_000),
    ];
    let (_, seen, followers) = play(&acts, u32::MAX, false);
    assert_eq!(seen.len(), 1_000 + 1);
    assert!(followers > 950, "{followers}");
}

/// A sender that runs ahead uses the announcement of the previous epoch, even if it has ended since.
#[test]
fn follower_of_an_ended_announcement_becomes_an_event() {
    let of = |flow, number| FlowPosition {
        flow,
        number,
        requests_reply: false,
    };
    let mut train = Train::new();
    train.record_announcement(&NumberedFrame(of(1, 5)), of(1, 5), 100);
    assert!(train.push(of(1, 6), 60).is_none());
    let ahead = train.end_train(7);
    assert_eq!((ahead.len(), ahead[0].0, ahead[0].1 .0), (1, 60, of(1, 6)));
    train.record_announcement(&NumberedFrame(of(2, 0)), of(2, 0), 1);
    assert!(train.end_train(7).is_empty());
    assert_eq!(train.push(of(1, 8), 80).unwrap().0, of(1, 8));
    // The node announces one follower of this flow.
    train.record_announcement(&NumberedFrame(of(2, 3)), of(2, 3), 1);
    assert!(train.push(of(2, 4), 90).is_none());
    assert_eq!(train.push(of(2, 5), 95).unwrap().0, of(2, 5));
}
