use super::punt::Aggregator;
use super::*;

mod hostile;

const SYNDROME_SEQUENCE: u8 = 0x60;

fn ack(psn: u32) -> Feedback {
    Feedback::Ack { psn, msn: psn / 10 }
}

fn nak(psn: u32) -> Feedback {
    Feedback::Nak {
        nak: Nak {
            psn,
            syndrome: SYNDROME_SEQUENCE,
        },
        msn: psn / 10,
    }
}

fn to_source(feedback: Feedback) -> Vec<SentPacket> {
    vec![SentPacket::Feedback { port: 1, feedback }]
}

fn copies(ports: &[Port], psn: u32) -> Vec<SentPacket> {
    ports
        .iter()
        .map(|&port| SentPacket::Data { port, psn })
        .collect()
}

trait SingleStep {
    fn send(&mut self, port: Port, psn: u32) -> Vec<SentPacket>;
    fn report(&mut self, port: Port, feedback: Feedback) -> Vec<SentPacket>;
}

impl SingleStep for Group {
    fn send(&mut self, port: Port, psn: u32) -> Vec<SentPacket> {
        let queued = self.data(port, psn, 0);
        self.run(queued, 0)
    }

    fn report(&mut self, port: Port, feedback: Feedback) -> Vec<SentPacket> {
        let queued = self.feedback(port, feedback, 0);
        self.run(queued, 0)
    }
}

/// A group with the sender at port 1 and receivers at ports 2 to 4, after packets 0 to `last` were sent.
fn group_of(strategy: Strategy, last: u32) -> Group {
    let config = Config {
        paths_per_pass: 1,
        ..Config::pipeline(strategy)
    };
    let mut group = Group::new(config, &[1, 2, 3, 4], 0, 0);
    for psn in 0..=last {
        assert_eq!(group.send(1, psn), copies(&[2, 3, 4], psn));
    }
    group
}

fn group(last: u32) -> Group {
    group_of(Strategy::Tree, last)
}

#[test]
fn the_source_gets_the_psn_of_the_slowest_receiver() {
    for strategy in [Strategy::Tree, Strategy::Walk] {
        let mut group = group_of(strategy, 9);
        assert_eq!(group.report(2, ack(9)), []);
        assert_eq!(group.report(3, ack(4)), []);
        assert_eq!(group.report(4, ack(7)), to_source(ack(4)));
        assert_eq!(group.report(3, ack(9)), to_source(ack(7)));
    }
}

#[test]
fn a_nak_waits_for_earlier_losses_of_others() {
    for strategy in [Strategy::Tree, Strategy::Walk] {
        let mut group = group_of(strategy, 9);
        assert_eq!(group.report(2, nak(6)), []);
        assert_eq!(group.report(3, nak(2)), []);
        assert_eq!(group.report(4, ack(9)), to_source(nak(2)));
        assert_eq!(group.report(3, ack(9)), to_source(ack(5)));
    }
}

#[test]
fn an_overtaken_nak_does_not_replace_one_that_waits() {
    let mut group = group(9);
    group.report(2, ack(3));
    group.report(3, nak(6));
    group.report(4, ack(3));
    assert_eq!(group.waiting_nak.nak.map(|nak| nak.psn), Some(6));
    group.report(2, nak(2));
    assert_eq!(group.waiting_nak.nak.map(|nak| nak.psn), Some(6));
}

#[test]
fn a_retransmission_that_all_have_is_acknowledged() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.report(port, ack(3));
    }
    assert_eq!(
        group.send(1, 2),
        to_source(Feedback::Ack { psn: 3, msn: 0 })
    );
}

#[test]
fn a_former_source_gets_no_ack_beyond_its_own_data() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.report(port, ack(3));
    }
    group.send(2, 4);
    group.report(1, Feedback::Ack { psn: 4, msn: 1 });
    for port in [3, 4] {
        group.report(port, ack(4));
    }
    assert_eq!(group.last_acked.point.psn, 4);
    assert_eq!(
        group.send(1, 3),
        to_source(Feedback::Ack { psn: 3, msn: 1 })
    );
}

#[test]
fn a_retransmission_is_sent_only_to_paths_that_lack_it() {
    let mut group = group(3);
    group.report(2, ack(3));
    group.report(3, ack(1));
    assert_eq!(group.send(1, 2), copies(&[3, 4], 2));
    assert_eq!(
        group.send(1, 3),
        copies(&[3, 4], 3),
        "the filter also applies to the newest packet"
    );
}

#[test]
fn the_source_may_change() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.report(port, ack(3));
    }
    assert_eq!(group.send(3, 4), copies(&[1, 2, 4], 4));
    group.report(1, ack(4));
    group.report(2, ack(4));
    let feedback = ack(4);
    let sent = vec![SentPacket::Feedback { port: 3, feedback }];
    assert_eq!(group.report(4, ack(4)), sent);
}

#[test]
fn an_advance_of_the_oldest_path_during_a_walk_is_not_lost() {
    let mut group = group_of(Strategy::Walk, 3);
    group.report(2, ack(2));
    group.report(3, ack(2));
    group.report(4, ack(2));
    assert_eq!(group.last_acked.point.psn, 2);
    group.report(3, ack(3));
    group.report(4, ack(3));
    // The first ACK starts a walk; the second ACK arrives during that walk.
    let mut queued = group.feedback(2, ack(3), 0);
    assert_eq!(queued.len(), 1);
    assert!(matches!(queued[0], QueuedPacket::Recirculate { .. }));
    let more = group.feedback(2, ack(3), 1);
    assert_eq!(group.run(more, 1), []);
    queued = group.dequeue(queued.remove(0), 2).1;
    assert_eq!(group.run(queued, 3), to_source(ack(3)));
}

#[test]
fn a_lost_walk_is_taken_over() {
    let mut group = group_of(Strategy::Walk, 3);
    let lost = group.feedback(2, ack(3), 0);
    assert!(matches!(lost[..], [QueuedPacket::Recirculate { .. }]));
    for port in [3, 4] {
        let queued = group.feedback(port, ack(3), 500);
        assert_eq!(group.run(queued, 500), []);
    }
    let probe = group.data(1, 2, 2_000);
    let mut expected = copies(&[2], 2);
    expected.extend(to_source(ack(3)));
    assert_eq!(
        group.run(probe, 2_000),
        expected,
        "the filter is updated when an ACK is dequeued"
    );
    assert_eq!(
        group.run(lost, 2_001),
        [],
        "the search packet returns too late"
    );
}

/// Number of data packets of [`price`].
const PACKETS: u32 = 64;

/// Returns the turns of `receivers`, from 0 on, in an order that depends on the PSN of the packet.
fn shuffled(turn: u32, psn: u32, receivers: u32) -> u32 {
    (turn * 11 + psn * 5) % receivers
}

/// Packet counters after data packets, which all `receivers` acknowledge in the order that `order` returns for turn and PSN.
fn price(strategy: Strategy, receivers: u32, order: fn(u32, u32, u32) -> u32) -> Work {
    let ports: Vec<Port> = (1..=receivers + 1).collect();
    let mut group = Group::new(Config::pipeline(strategy), &ports, 0, 0);
    let before = group.last_acked.point;
    let mut aggregator = Aggregator::new(Space::PSN, ports, before);
    let mut work = Work::default();
    for psn in 0..PACKETS {
        let mut counted = group.counted(&mut work);
        let queued = counted.data(1, psn, 0);
        counted.run(queued, 0);
        for turn in 0..receivers {
            let port = 2 + order(turn, psn, receivers);
            let mut counted = group.counted(&mut work);
            let queued = counted.feedback(port, ack(psn), 0);
            for sent in counted.run(queued, 0) {
                let SentPacket::ToController(packet) = sent else {
                    continue;
                };
                aggregator.record(&packet);
                for command in aggregator.replies() {
                    let queued = group.command(command);
                    group.counted(&mut work).run(queued, 0);
                }
            }
        }
        assert_eq!(
            group.last_acked.point.psn, psn,
            "{strategy:?} with {receivers} receivers"
        );
    }
    assert_eq!(work.feedback, u64::from(PACKETS * receivers));
    println!("{strategy:?}, {receivers} receivers: {work:?}");
    work
}

#[test]
fn costs_of_the_strategies() {
    for receivers in [3, 15, 63] {
        let tree = price(Strategy::Tree, receivers, shuffled);
        assert_eq!((tree.recirculations, tree.punts), (0, 0));
        let punt = price(Strategy::Punt, receivers, shuffled);
        assert_eq!((punt.recirculations, punt.punts), (0, punt.feedback));
        let walk = price(Strategy::Walk, receivers, shuffled);
        assert_eq!(walk.punts, 0);
        // The number of walks per packet grows with the logarithm of the number of receivers: each walk ends at a
        // receiver that has not acknowledged yet. A walk visits all nodes.
        let nodes = u64::from(receivers + 1).div_ceil(4);
        let walks_per_packet = walk.recirculations as f64 / (nodes * walk.forwarded) as f64;
        assert!(
            walks_per_packet < 2.0 * f64::from(receivers).ln(),
            "{walk:?}"
        );
    }
}

#[test]
fn acks_in_the_order_of_the_copies_start_few_walks() {
    for receivers in [7, 15, 63] {
        let walk = price(Strategy::Walk, receivers, |turn, _, _| turn);
        let nodes = u64::from(receivers + 1).div_ceil(4);
        // The ACK of the last path starts a walk that compares its own node first, so that a path of another node starts the next.
        let most = 2 * (nodes - 1) * u64::from(PACKETS);
        assert!(walk.recirculations <= most, "{walk:?}");
    }
}

#[test]
fn only_cnps_of_the_most_congested_path_are_forwarded() {
    let mut group = group(0);
    let mut cnp = |port, now| {
        let queued = group.notice(port, Notice::Cnp, now);
        !group.run(queued, now).is_empty()
    };
    assert!(cnp(2, 0) && cnp(2, 1) && cnp(2, 2));
    assert!(!cnp(3, 3) && !cnp(3, 4) && !cnp(3, 5));
    assert!(cnp(3, 6), "four are more than three");
    assert!(cnp(4, 5_000), "old counts age");
}

#[test]
fn of_naks_with_the_same_psn_the_longest_timer_is_forwarded() {
    let nak = |syndrome| Feedback::Nak {
        nak: Nak { psn: 2, syndrome },
        msn: 0,
    };
    let (none, shortest, longest) = (SYNDROME_SEQUENCE, 0x21, 0x20);
    for order in [[none, shortest, longest], [longest, none, shortest]] {
        let mut group = group(3);
        for (port, syndrome) in (2..).zip(order) {
            let sent = group.report(port, nak(syndrome));
            assert_eq!(sent.len(), usize::from(port == 4));
            if port == 4 {
                let feedback = nak(longest);
                assert_eq!(sent, [SentPacket::Feedback { port: 1, feedback }]);
            }
        }
    }
}

#[test]
fn packets_from_a_port_that_is_not_a_path_are_dropped() {
    let mut group = group(3);
    let before = group.clone();
    assert_eq!(group.send(9, 4), []);
    assert_eq!(group.report(9, ack(3)), []);
    assert_eq!(group.notice(9, Notice::Cnp, 0), []);
    assert_eq!(group, before);
}

#[test]
fn classification_of_syndromes() {
    let feedback = [ack(7), nak(7)];
    for feedback in feedback {
        let (psn, aeth) = feedback.to_aeth();
        assert_eq!(classify(psn, aeth), Some(AckClass::Feedback(feedback)));
    }
    let aeth = |syndrome: u8| alfirk_roce::wire::aeth::Repr {
        syndrome: syndrome.into(),
        msn: 1,
    };
    let fatal = Nak {
        psn: 7,
        syndrome: 0x62,
    };
    let notice = Notice::FatalNak { nak: fatal, msn: 1 };
    assert_eq!(classify(7, aeth(0x62)), Some(AckClass::Notice(notice)));
    assert_eq!(classify(7, aeth(0x40)), None);
}
