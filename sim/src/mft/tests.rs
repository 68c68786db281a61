use super::*;

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

fn told(feedback: Feedback) -> Vec<Sent> {
    vec![Sent::Feedback { port: 1, feedback }]
}

fn copies(ports: &[Port], psn: u32) -> Vec<Sent> {
    ports.iter().map(|&port| Sent::Data { port, psn }).collect()
}

trait AtOnce {
    fn send(&mut self, port: Port, psn: u32) -> Vec<Sent>;
    fn report(&mut self, port: Port, feedback: Feedback) -> Vec<Sent>;
}

impl AtOnce for Group {
    fn send(&mut self, port: Port, psn: u32) -> Vec<Sent> {
        let queued = self.data(port, psn, 0);
        self.run(queued, 0)
    }

    fn report(&mut self, port: Port, feedback: Feedback) -> Vec<Sent> {
        let queued = self.feedback(port, feedback, 0);
        self.run(queued, 0)
    }
}

/// Sender behind port 1, receivers behind ports 2 to 4, and packets 0 to `last` sent.
fn group_of(strategy: Strategy, last: u32) -> Group {
    let config = Config {
        paths_per_pass: 1,
        ..Config::pipeline(strategy)
    };
    let ports = [1, 2, 3, 4].map(|port| (port, false));
    let mut group = Group::new(config, &ports, 0, 0);
    for psn in 0..=last {
        assert_eq!(group.send(1, psn), copies(&[2, 3, 4], psn));
    }
    group
}

fn group(last: u32) -> Group {
    group_of(Strategy::Tree, last)
}

#[test]
fn the_slowest_receiver_decides() {
    for strategy in [Strategy::Tree, Strategy::Walk] {
        let mut group = group_of(strategy, 9);
        assert_eq!(group.report(2, ack(9)), []);
        assert_eq!(group.report(3, ack(4)), []);
        assert_eq!(group.report(4, ack(7)), told(ack(4)));
        assert_eq!(group.report(3, ack(9)), told(ack(7)));
    }
}

#[test]
fn a_nak_waits_for_earlier_losses_of_others() {
    for strategy in [Strategy::Tree, Strategy::Walk] {
        let mut group = group_of(strategy, 9);
        assert_eq!(group.report(2, nak(6)), []);
        assert_eq!(group.report(3, nak(2)), []);
        assert_eq!(group.report(4, ack(9)), told(nak(2)));
        assert_eq!(group.report(3, ack(9)), told(ack(5)));
    }
}

#[test]
fn an_overtaken_nak_does_not_replace_one_that_waits() {
    let mut group = group(9);
    group.report(2, ack(3));
    group.report(3, nak(6));
    group.report(4, ack(3));
    assert_eq!(group.waiting.map(|nak| nak.psn), Some(6));
    group.report(2, nak(2));
    assert_eq!(group.waiting.map(|nak| nak.psn), Some(6));
}

#[test]
fn what_everyone_has_is_answered() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.report(port, ack(3));
    }
    assert_eq!(group.send(1, 2), told(Feedback::Ack { psn: 3, msn: 0 }));
}

#[test]
fn a_source_of_before_hears_of_nothing_that_it_did_not_send() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.report(port, ack(3));
    }
    group.send(2, 4);
    group.report(1, Feedback::Ack { psn: 4, msn: 1 });
    for port in [3, 4] {
        group.report(port, ack(4));
    }
    assert_eq!(group.agg.0, 4);
    assert_eq!(group.send(1, 3), told(Feedback::Ack { psn: 3, msn: 1 }));
}

#[test]
fn a_retransmission_goes_only_where_it_is_missing() {
    let mut group = group(3);
    group.report(2, ack(3));
    group.report(3, ack(1));
    assert_eq!(group.send(1, 2), copies(&[3, 4], 2));
    assert_eq!(group.send(1, 3), copies(&[3, 4], 3), "the newest too");
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
    let told = vec![Sent::Feedback { port: 3, feedback }];
    assert_eq!(group.report(4, ack(4)), told);
}

#[test]
fn a_switch_does_not_vouch_for_the_hosts_behind_it() {
    let mut group = group(3);
    for port in [2, 4] {
        group.report(port, ack(3));
    }
    group.report(3, ack(2));
    // Somebody behind port 3 has packet 3 and goes on; somebody else there has not.
    assert_eq!(group.send(3, 4), copies(&[1, 2, 4], 4));
    assert_eq!(group.minimum().psn, 2);
    assert_eq!(group.src_port, Some(1));
    assert_eq!(group.report(3, ack(3)), told(ack(3)));
}

#[test]
fn the_last_news_of_the_oldest_path_is_not_lost_in_a_walk() {
    let mut group = group_of(Strategy::Walk, 3);
    group.report(2, ack(2));
    group.report(3, ack(2));
    group.report(4, ack(2));
    assert_eq!(group.agg.0, 2);
    group.report(3, ack(3));
    group.report(4, ack(3));
    // This one starts a walk, and another comes to its end while it is under way.
    let mut queued = group.feedback(2, ack(3), 0);
    assert_eq!(queued.len(), 1);
    assert!(matches!(queued[0], Queued::Round { .. }));
    let more = group.feedback(2, ack(3), 1);
    assert_eq!(group.run(more, 1), []);
    queued = group.dequeue(queued.remove(0), 2).1;
    assert_eq!(group.run(queued, 3), told(ack(3)));
}

#[test]
fn a_lost_walk_is_taken_over() {
    let mut group = group_of(Strategy::Walk, 3);
    let lost = group.feedback(2, ack(3), 0);
    assert!(matches!(lost[..], [Queued::Round { .. }]));
    for port in [3, 4] {
        let queued = group.feedback(port, ack(3), 500);
        assert_eq!(group.run(queued, 500), []);
    }
    let probe = group.data(1, 2, 2_000);
    let mut answer = copies(&[2], 2);
    answer.extend(told(ack(3)));
    assert_eq!(
        group.run(probe, 2_000),
        answer,
        "the filter learns when an ACK is dequeued"
    );
    assert_eq!(group.run(lost, 2_001), [], "it comes back late");
}

#[test]
fn only_the_most_congested_path_complains() {
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
fn numbers_wrap_around() {
    let space = Space::new(3);
    assert!(
        space.lt(7, 0) && space.lt(6, 1) && !space.lt(0, 7) && !space.lt(0, 4) && !space.lt(4, 0)
    );
}
