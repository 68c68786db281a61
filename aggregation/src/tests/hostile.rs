//! Tests with a hostile member: whatever it sends, the source never gets an ACK of packets that an honest receiver
//! lacks.

use alfirk_roce::wire::aeth;
use proptest::prelude::*;
use proptest::strategy::Strategy as Generate;

use crate::punt::Aggregator;
use crate::{
    classify, AckClass, CnpDrop, Config, Feedback, Flaw, Group, Notice, Point, Port, QueuedPacket,
    SentPacket, Space, Strategy, WaitingNak,
};

/// Ports of the source, the hostile member and the honest receivers.
const SOURCE: Port = 1;
const HOSTILE: Port = 2;
const HONEST: [Port; 2] = [3, 4];
const WINDOW: u32 = 12;

/// A group on a switch with its controller, and the true state of the honest receivers.
#[derive(Clone)]
struct World {
    group: Group,
    aggregator: Aggregator,
    /// Newest PSN that each of [`HONEST`] has.
    has: [u32; 2],
    first: u32,
    now: u64,
}

impl World {
    fn new(strategy: Strategy, is_selective: bool, flaw: Flaw, first: u32) -> World {
        let config = Config {
            window: WINDOW,
            is_selective,
            flaw,
            ..Config::pipeline(strategy)
        };
        let ports = [SOURCE, HOSTILE, HONEST[0], HONEST[1]];
        let group = Group::new(config, &ports, first, 0);
        let before = group.last_acked.point;
        World {
            aggregator: Aggregator::new(Space::PSN, ports, before),
            has: [before.psn; 2],
            first,
            now: 5_000_000,
            group,
        }
    }

    fn psn(&self, offset: i32) -> u32 {
        Space::PSN.add(self.first, offset as u32)
    }

    /// Processes queued packets, including those of the controller, until none is left.
    fn run(&mut self, queued: Vec<QueuedPacket>) -> Vec<SentPacket> {
        self.now += 20;
        let mut all = Vec::new();
        let mut sent = self.group.run(queued, self.now);
        while !sent.is_empty() {
            let mut next = Vec::new();
            for sent in &sent {
                if let SentPacket::ToController(packet) = sent {
                    self.aggregator.record(packet);
                    let mut replies = Vec::from_iter(self.aggregator.replies());
                    let leaves = self.group.ports().iter().zip(self.group.leaves.iter());
                    if !self.aggregator.lagging().is_empty() {
                        for (port, leaf) in leaves {
                            self.aggregator.update_path(*port, leaf.newest.psn);
                        }
                        replies.extend(self.aggregator.replies());
                        self.aggregator.drop_probes();
                    }
                    for reply in replies {
                        let queued = self.group.command(reply);
                        next.extend(self.group.run(queued, self.now));
                    }
                }
            }
            all.extend(std::mem::replace(&mut sent, next));
        }
        all
    }

    fn data(&mut self, port: Port, psn: u32) -> Vec<SentPacket> {
        let queued = self.group.data(port, psn, self.now);
        self.run(queued)
    }

    fn acknowledge(&mut self, port: Port, psn: u32, syndrome: u8, msn: u32) -> Vec<SentPacket> {
        let aeth = aeth::Repr {
            syndrome: syndrome.into(),
            msn,
        };
        let queued = match classify(psn, aeth) {
            Some(AckClass::Feedback(feedback)) => self.group.feedback(port, feedback, self.now),
            Some(AckClass::Notice(notice)) => self.group.notice(port, notice, self.now),
            None => Vec::new(),
        };
        self.run(queued)
    }

    /// Delivers the next `count` packets to an honest receiver, which acknowledges the last one. Each packet is a
    /// message.
    fn receive(&mut self, receiver: usize, count: u32) -> Vec<SentPacket> {
        let sent = self.group.sender.sent;
        let lacks = Space::PSN.distance(self.has[receiver], sent).max(0) as u32;
        let has = Space::PSN.add(self.has[receiver], count.min(lacks));
        self.has[receiver] = has;
        self.acknowledge(HONEST[receiver], has, 0x1f, self.messages(has))
    }

    fn messages(&self, psn: u32) -> u32 {
        Space::PSN.add(psn, 1u32.wrapping_sub(self.first))
    }

    /// Checks that ACKs and NAKs to members acknowledge only packets that the other honest receivers have, and only
    /// complete messages.
    fn check(&self, sent: &[SentPacket]) -> Result<(), String> {
        let space = Space::PSN;
        let acknowledged = |sent: &SentPacket| match *sent {
            SentPacket::Feedback { port, feedback } => {
                let Point { psn, msn } = feedback.acked(space);
                Some((port, psn, msn))
            }
            SentPacket::Notice {
                port,
                notice: Notice::FatalNak { nak, msn },
            } => Some((port, space.previous(nak.psn), msn)),
            _ => None,
        };
        for (port, psn, msn) in sent.iter().filter_map(acknowledged) {
            for (honest, has) in HONEST.iter().zip(self.has) {
                if port != *honest && space.lt(has, psn) {
                    return Err(format!("{sent:?}: {honest} has {has}, of {psn}"));
                }
            }
            // A former source that sends old data gets the MSN that its own path has reported. Before the group's first
            // packet, no message was complete.
            let complete = match space.distance(space.previous(self.first), psn) {
                0.. => self.messages(psn),
                _ => 0,
            };
            if port != HOSTILE && space.lt(complete, msn) {
                return Err(format!("{sent:?}: {msn} messages"));
            }
        }
        let is_selective = |sent: &SentPacket| {
            let SentPacket::Notice { notice, .. } = sent else {
                return false;
            };
            matches!(notice, Notice::SelectiveNak { .. })
        };
        match !self.group.constants.config.is_selective && sent.iter().any(is_selective) {
            true => Err("a selective NAK".to_owned()),
            false => Ok(()),
        }
    }
}

/// Groups in different states: nothing sent, packets outstanding, some and all packets acknowledged.
fn states(strategy: Strategy, is_selective: bool, flaw: Flaw) -> Vec<World> {
    let begin = |first| World::new(strategy, is_selective, flaw, first);
    let fresh = begin(0xff_fffd);
    let mut sent = fresh.clone();
    for offset in 0..8 {
        let psn = sent.psn(offset);
        sent.data(SOURCE, psn);
    }
    let mut one_behind = sent.clone();
    one_behind.receive(0, 5);
    let mut both = one_behind.clone();
    both.receive(1, 3);
    let mut waiting = both.clone();
    let lost = waiting.psn(3);
    waiting.acknowledge(HONEST[1], lost, 0x60, 3);
    let mut done = sent.clone();
    done.receive(0, 8);
    done.receive(1, 8);
    let last = done.psn(7);
    done.acknowledge(HOSTILE, last, 0x1f, 8);
    vec![fresh, sent, one_behind, both, waiting, done]
}

/// Offsets from the first PSN: around the first, acknowledged and newest PSNs, the end of the window, and half the
/// number space.
fn offsets() -> impl Iterator<Item = i32> {
    let far = [1 << 22, (1 << 23) - 1, 1 << 23, (1 << 23) + 7];
    (-3..23).chain(far)
}

const STRATEGIES: [Strategy; 3] = [Strategy::Tree, Strategy::Walk, Strategy::Punt];

/// Sends every syndrome at every offset in every state. The error describes the first wrong acknowledgement.
fn every_syndrome_and_psn(flaw: Flaw) -> Result<(), String> {
    for strategy in STRATEGIES {
        for is_selective in [false, true] {
            for state in states(strategy, is_selective, flaw) {
                for offset in offsets() {
                    for syndrome in 0..=u8::MAX {
                        let mut world = state.clone();
                        let psn = world.psn(offset);
                        let sent = world.acknowledge(HOSTILE, psn, syndrome, 1);
                        let what = || format!("{strategy:?}, {syndrome:#x} at {offset}");
                        world
                            .check(&sent)
                            .map_err(|why| format!("{}: {why}", what()))?;
                        // The honest receivers then acknowledge.
                        for receiver in 0..2 {
                            let sent = world.receive(receiver, 1);
                            let what = || format!("{}, then an ACK", what());
                            world
                                .check(&sent)
                                .map_err(|why| format!("{}: {why}", what()))?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn no_syndrome_at_any_psn_acknowledges_what_a_receiver_lacks() {
    every_syndrome_and_psn(Flaw::None).unwrap();
}

#[test]
fn the_test_of_all_syndromes_finds_its_flaws() {
    for flaw in [Flaw::CoveredNak, Flaw::ReservedNak] {
        every_syndrome_and_psn(flaw).unwrap_err();
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The source sends the packet this far beyond its newest one.
    Send(i32),
    /// The source retransmits the packet this far before its newest one.
    Again(i32),
    Receive(usize, u32),
    Acknowledge(i32, u8, u32),
    /// The hostile member sends a data packet.
    Data(i32),
}

fn step() -> impl Generate<Value = Step> {
    let messages = prop_oneof![Just(0u32), 1u32..4, Just(0x40_0000), any::<u32>()];
    let near = || prop_oneof![8 => -9i32..16, 1 => any::<i32>()];
    prop_oneof![
        4 => (1i32..4).prop_map(Step::Send),
        2 => (0i32..10).prop_map(Step::Again),
        6 => (0usize..2, 0u32..5).prop_map(|(receiver, count)| Step::Receive(receiver, count)),
        8 => (near(), any::<u8>(), messages).prop_map(|(ahead, syndrome, messages)| {
            Step::Acknowledge(ahead, syndrome, messages)
        }),
        3 => near().prop_map(Step::Data),
    ]
}

proptest! {
    #[test]
    fn no_conversation_with_a_hostile_member_acknowledges_what_a_receiver_lacks(
        strategy in prop::sample::select(STRATEGIES.to_vec()),
        is_selective: bool,
        first in prop_oneof![Just(0u32), Just(0xff_fff8), 0u32..1 << 24],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut world = World::new(strategy, is_selective, Flaw::None, first);
        for step in steps {
            let space = Space::PSN;
            let newest = world.group.sender.sent;
            let sent = match step {
                Step::Send(ahead) => world.data(SOURCE, space.add(newest, ahead as u32)),
                Step::Again(back) => world.data(SOURCE, space.add(newest, back.wrapping_neg() as u32)),
                Step::Receive(receiver, count) => world.receive(receiver, count),
                Step::Acknowledge(ahead, syndrome, messages) => {
                    let psn = space.add(newest, ahead as u32);
                    let msn = space.add(world.messages(newest), messages);
                    world.acknowledge(HOSTILE, psn, syndrome, msn)
                }
                Step::Data(ahead) => world.data(HOSTILE, space.add(newest, ahead as u32)),
            };
            if let Err(why) = world.check(&sent) {
                prop_assert!(false, "{}", why);
            }
            let ahead = space.distance(world.group.last_acked.point.psn, world.group.sender.sent);
            prop_assert!(ahead <= WINDOW as i32, "the source is {ahead} ahead");
        }
    }
}

fn selective() -> World {
    let mut world = World::new(Strategy::Tree, true, Flaw::None, 0);
    for psn in 0..6 {
        world.data(SOURCE, psn);
    }
    world
}

#[test]
fn a_report_count_of_255_does_not_suppress_honest_reports() {
    let mut world = selective();
    let passed = |reports| {
        let notice = Notice::SelectiveNak { psn: 2, reports };
        vec![SentPacket::Notice {
            port: SOURCE,
            notice,
        }]
    };
    assert_eq!(world.acknowledge(HOSTILE, 2, 0x7f, 255), passed(1));
    assert_eq!(world.acknowledge(HONEST[0], 2, 0x7f, 1), []);
    assert_eq!(world.acknowledge(HONEST[0], 2, 0x7f, 2), passed(2));
    assert_eq!(world.acknowledge(HONEST[0], 2, 0x7f, 3), passed(3));
}

#[test]
fn a_forged_msn_is_ignored_and_the_next_correct_one_accepted() {
    for strategy in STRATEGIES {
        let mut world = World::new(strategy, false, Flaw::None, 0);
        for psn in 0..3 {
            world.data(SOURCE, psn);
        }
        let counted = |sent: Vec<SentPacket>| match sent[..] {
            [.., SentPacket::Feedback { feedback, .. }] => Some(feedback.acked(Space::PSN)),
            _ => None,
        };
        let point = |psn, msn| Some(Point { psn, msn });
        world.receive(0, 1);
        world.receive(1, 1);
        let forged = world.acknowledge(HOSTILE, 0, 0x1f, 0x40_0000);
        // The controller may have the correct MSN from another path.
        let believed = counted(forged).map(|point| (point.psn, point.msn <= 1));
        assert_eq!(believed, Some((0, true)), "{strategy:?}");
        for psn in 1..3 {
            world.acknowledge(HOSTILE, psn, 0x1f, psn + 1);
            world.receive(0, 1);
            let right = world.receive(1, 1);
            assert_eq!(counted(right), point(psn, psn + 1), "{strategy:?}");
        }
    }
}

#[test]
fn a_nak_of_the_next_unsent_psn_is_an_ack() {
    for strategy in STRATEGIES {
        for syndrome in [0x60, 0x20, 0x2e] {
            let mut world = World::new(strategy, false, Flaw::None, 0);
            world.data(SOURCE, 0);
            world.receive(0, 1);
            world.receive(1, 1);
            let sent = world.acknowledge(HOSTILE, 1, syndrome, 1);
            let feedback = Feedback::Ack { psn: 0, msn: 1 };
            let ack = SentPacket::Feedback {
                port: SOURCE,
                feedback,
            };
            assert_eq!(sent.last(), Some(&ack), "{strategy:?}");
            let again = world.acknowledge(HOSTILE, 1, syndrome, 1);
            assert!(!again
                .iter()
                .any(|sent| matches!(sent, SentPacket::Feedback { .. })));
            assert_eq!(world.group.waiting_nak, WaitingNak::default());
        }
    }
}

#[test]
fn a_fatal_nak_is_accepted_only_for_an_unacknowledged_request() {
    let mut world = World::new(Strategy::Tree, false, Flaw::None, 0);
    for psn in 0..6 {
        world.data(SOURCE, psn);
    }
    world.acknowledge(HOSTILE, 2, 0x1f, 3);
    for (psn, passes) in [
        (0xff_ff00, false),
        (0, false),
        (2, false),
        (3, true),
        (5, true),
        (6, false),
    ] {
        for syndrome in [0x61, 0x62, 0x63] {
            let sent = world.acknowledge(HOSTILE, psn, syndrome, 1);
            assert_eq!(!sent.is_empty(), passes, "{syndrome:#x} of {psn}");
        }
    }
}

#[test]
fn without_a_source_only_the_next_psn_is_accepted() {
    for strategy in STRATEGIES {
        let mut world = World::new(strategy, false, Flaw::None, 0);
        for psn in [1, 7, 0x40_0000, 0x80_0000, 0xff_ffff] {
            let sent = world.data(HOSTILE, psn);
            assert!(
                !sent
                    .iter()
                    .any(|sent| matches!(sent, SentPacket::Data { .. })),
                "{psn}"
            );
            assert_eq!(world.group.sender.source, None);
        }
        assert_eq!(world.data(SOURCE, 0).len(), 3);
        assert_eq!(world.group.sender.source, Some(SOURCE));
    }
}

#[test]
fn a_source_stays_within_its_window() {
    let mut world = World::new(Strategy::Tree, false, Flaw::None, 0);
    assert_eq!(world.data(SOURCE, 0).len(), 3);
    // PSN 0xff_ffff, the one before the first, counts as acknowledged.
    assert_eq!(world.data(SOURCE, WINDOW), []);
    assert_eq!(world.group.sender.sent, 0);
    assert_eq!(world.data(SOURCE, WINDOW - 1).len(), 3);
    world.acknowledge(HOSTILE, 0, 0x1f, 1);
    world.receive(0, 1);
    world.receive(1, 1);
    assert_eq!(world.data(SOURCE, WINDOW).len(), 3);
    assert_eq!(world.data(SOURCE, WINDOW + 1), []);
}

/// A dropped packet is not cloned (`p4src/v1model/execute.p4`). Old data of the source is not dropped, so it causes a query.
#[test]
fn dropped_data_causes_no_query_to_the_controller() {
    let mut world = World::new(Strategy::Punt, false, Flaw::None, 0);
    for psn in 0..3 {
        world.data(SOURCE, psn);
    }
    for (port, psn) in [(HOSTILE, 3), (HOSTILE, 9), (SOURCE, WINDOW), (9, 1)] {
        assert_eq!(
            world.group.data(port, psn, world.now),
            [],
            "{psn} from {port}"
        );
    }
    let queued = world.group.data(SOURCE, 1, world.now);
    let is_query = |queued: &QueuedPacket| {
        matches!(queued, QueuedPacket::Transmit(SentPacket::ToController(_)))
    };
    assert_eq!(queued.iter().filter(|queued| is_query(queued)).count(), 1);
    assert!(queued.len() > 1, "copies");
}

#[test]
fn a_repeated_ack_does_not_prevent_the_end_of_a_walk() {
    // A walk with one path per pass; its oldest path repeats an ACK between any two passes.
    let config = Config {
        paths_per_pass: 1,
        ..Config::pipeline(Strategy::Walk)
    };
    for (flaw, ends) in [(Flaw::None, true), (Flaw::EqualAckDirties, false)] {
        let config = Config { flaw, ..config };
        let mut group = Group::new(config, &[SOURCE, HOSTILE, 3, 4], 0, 0);
        let queued = group.data(SOURCE, 0, 0);
        group.run(queued, 0);
        let ack = Feedback::Ack { psn: 0, msn: 1 };
        for port in [3, 4] {
            let queued = group.feedback(port, ack, 0);
            group.run(queued, 0);
        }
        let mut walking = group.feedback(HOSTILE, ack, 0);
        let mut is_forwarded = false;
        for pass in 1..100 {
            let repeated = group.feedback(HOSTILE, ack, pass);
            // The repeated ACK updates the filter, and starts no other walk.
            group.run(repeated, pass);
            let (sent, more) = group.dequeue(walking.remove(0), pass);
            is_forwarded |= sent.is_some();
            walking = more;
            if walking.is_empty() {
                break;
            }
            if let [QueuedPacket::Transmit(SentPacket::Feedback { .. })] = walking[..] {
                is_forwarded = true;
                break;
            }
        }
        assert_eq!(is_forwarded, ends, "{flaw:?}");
    }
}

#[test]
fn a_cnp_of_the_source_is_not_returned_to_it() {
    let mut world = selective();
    let group = &mut world.group;
    assert_eq!(group.cnp(SOURCE, 0), Err(Some(CnpDrop::Own)));
    assert_eq!(group.cnp(9, 0), Err(None));
    assert!(group.cnp(HOSTILE, 0).is_ok());
}

#[test]
fn cnps_of_a_path_are_limited_in_each_window() {
    let mut world = selective();
    let group = &mut world.group;
    let mut passed =
        |times: std::ops::Range<u64>| times.filter(|&now| group.cnp(HOSTILE, now).is_ok()).count();
    assert_eq!(passed(0..1_000), 63);
    // Half of the count carries over to the next window.
    assert_eq!(passed(1_024..2_000), 32);
    assert_eq!(passed(100_000..100_050), 50);
    assert!(group.cnp(HOSTILE, 1 << 24).is_ok());
}
