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

fn told(feedback: Feedback) -> Action {
    Action::Tell { port: 1, feedback }
}

/// Sender behind port 1, receivers behind ports 2 to 4, and packets 0 to `last` sent.
fn group(last: u32) -> Group {
    let mut group = Group::new(Space::PSN, &[1, 2, 3, 4], 0, Flaw::None);
    for psn in 0..=last {
        assert_eq!(group.data(1, psn), Action::Replicate(vec![2, 3, 4]));
    }
    group
}

#[test]
fn the_slowest_receiver_decides() {
    let mut group = group(9);
    assert_eq!(group.feedback(2, ack(9)), Action::Record);
    assert_eq!(group.feedback(3, ack(4)), Action::Record);
    assert_eq!(group.feedback(4, ack(7)), told(ack(4)));
    assert_eq!(group.feedback(3, ack(9)), told(ack(7)));
}

#[test]
fn a_nak_waits_for_earlier_losses_of_others() {
    let mut group = group(9);
    assert_eq!(group.feedback(2, nak(6)), Action::Record);
    assert_eq!(group.feedback(3, nak(2)), Action::Record);
    assert_eq!(group.feedback(4, ack(9)), told(nak(2)));
    assert_eq!(group.feedback(3, ack(9)), told(ack(5)));
}

#[test]
fn an_overtaken_nak_does_not_replace_one_that_waits() {
    let mut group = group(9);
    group.feedback(2, ack(3));
    group.feedback(3, nak(6));
    group.feedback(4, ack(3));
    assert_eq!(group.waiting.map(|nak| nak.psn), Some(6));
    group.feedback(2, nak(2));
    assert_eq!(group.waiting.map(|nak| nak.psn), Some(6));
}

#[test]
fn what_everyone_has_is_answered() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.feedback(port, ack(3));
    }
    assert_eq!(
        group.data(1, 2),
        Action::Answer {
            port: 1,
            psn: 3,
            msn: 0
        }
    );
}

#[test]
fn a_retransmission_goes_only_where_it_is_missing() {
    let mut group = group(3);
    group.feedback(2, ack(3));
    group.feedback(3, ack(1));
    assert_eq!(group.data(1, 2), Action::Replicate(vec![3, 4]));
}

#[test]
fn the_source_may_change() {
    let mut group = group(3);
    for port in [2, 3, 4] {
        group.feedback(port, ack(3));
    }
    assert_eq!(group.data(3, 4), Action::Replicate(vec![1, 2, 4]));
    group.feedback(1, ack(4));
    group.feedback(2, ack(4));
    assert_eq!(
        group.feedback(4, ack(4)),
        Action::Tell {
            port: 3,
            feedback: ack(4)
        }
    );
}

#[test]
fn numbers_wrap_around() {
    let space = Space::new(3);
    assert!(
        space.lt(7, 0) && space.lt(6, 1) && !space.lt(0, 7) && !space.lt(0, 4) && !space.lt(4, 0)
    );
}
