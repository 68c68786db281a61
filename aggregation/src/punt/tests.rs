//! Tests of single rules, and random runs with receivers whose true state is compared.

use proptest::prelude::*;

use super::*;

use crate::{classify, Answer};

const ACK: u8 = 0x1f;
const NAK: u8 = 0x60;
const RNR_NAK: u8 = 0x2e;

fn psn(n: u32) -> u32 {
    n & 0xff_ffff
}

fn word(n: u32, syndrome: u8, msn: u32) -> Feedback {
    let syndrome = syndrome.into();
    let aeth = alfirk_roce::wire::aeth::Repr { syndrome, msn };
    match classify(psn(n), aeth) {
        Some(Answer::Feedback(feedback)) => feedback,
        other => panic!("{other:?} is not feedback"),
    }
}

fn at(n: u32, msn: u32) -> Point {
    Point { psn: psn(n), msn }
}

fn unknowing(ports: impl IntoIterator<Item = Port>, last_acked: Point) -> Aggregator {
    Aggregator::new(Space::PSN, ports, last_acked)
}

/// A group with ports 1 to 3; the source is at port 1, and PSN 9 was acknowledged to it.
fn group() -> Aggregator {
    let mut group = unknowing([1, 2, 3], at(9, 4));
    group.observe(Some(1), at(9, 4));
    group
}

/// Single steps, each followed by the replies.
trait AtOnce {
    /// Feedback sent to the source.
    fn forwarded(&mut self) -> Option<Feedback>;
    fn record_now(&mut self, port: Port, feedback: Feedback) -> Option<Feedback>;
    /// The reply to a probe; a probe without a reply is dropped.
    fn probe_now(&mut self, port: Port, asked: Point) -> Option<Feedback>;
}

impl AtOnce for Aggregator {
    fn forwarded(&mut self) -> Option<Feedback> {
        let Replies {
            forwarded,
            probe_replies,
        } = self.replies();
        assert_eq!(probe_replies, []);
        forwarded.map(|out| out.feedback)
    }

    fn record_now(&mut self, port: Port, feedback: Feedback) -> Option<Feedback> {
        self.record_feedback(port, feedback);
        self.forwarded()
    }

    fn probe_now(&mut self, port: Port, asked: Point) -> Option<Feedback> {
        self.record_probe(port, asked);
        let replies = self.replies();
        self.give_up();
        let mut to_prober = replies.into_iter().filter(|out| out.port == Some(port));
        to_prober.next().map(|out| out.feedback)
    }
}

#[test]
fn the_source_gets_the_minimum_of_all_other_paths() {
    let mut group = group();
    assert_eq!(group.record_now(2, word(12, ACK, 6)), None);
    assert_eq!(
        group.record_now(3, word(11, ACK, 5)),
        Some(word(11, ACK, 5))
    );
    // The minimum does not advance.
    assert_eq!(group.record_now(3, word(11, ACK, 5)), None);
    assert_eq!(group.record_now(3, word(10, ACK, 5)), None);
    assert_eq!(group.last_acked(), at(11, 5));
}

#[test]
fn a_nak_waits_until_all_have_what_is_before_it() {
    let mut group = group();
    assert_eq!(group.record_now(2, word(13, NAK, 6)), None);
    assert_eq!(
        group.record_now(3, word(10, ACK, 5)),
        Some(word(10, ACK, 5))
    );
    assert_eq!(
        group.record_now(3, word(12, ACK, 6)),
        Some(word(13, NAK, 6))
    );
    // It is sent once.
    assert_eq!(group.record_now(3, word(12, ACK, 6)), None);
}

#[test]
fn of_two_naks_the_earlier_one_counts() {
    let mut group = group();
    assert_eq!(group.record_now(2, word(13, NAK, 6)), None);
    assert_eq!(
        group.record_now(3, word(10, RNR_NAK, 4)),
        Some(word(10, RNR_NAK, 4))
    );
}

#[test]
fn a_nak_is_cleared_when_all_paths_have_its_psn() {
    let mut group = group();
    group.record_now(2, word(13, NAK, 6));
    group.record_now(2, word(15, ACK, 8));
    assert_eq!(
        group.record_now(3, word(14, ACK, 7)),
        Some(word(14, ACK, 7))
    );
    assert_eq!(group.waiting_nak.nak, None);
    // A NAK older than its own path's newest PSN is ignored.
    assert_eq!(group.record_now(2, word(13, NAK, 6)), None);
    assert_eq!(group.waiting_nak.nak, None);
}

#[test]
fn without_a_source_nothing_is_sent_and_nothing_is_lost() {
    let mut group = unknowing([1, 2, 3], at(9, 4));
    for port in 1..=3 {
        assert_eq!(group.record_now(port, word(12, ACK, 6)), None);
    }
    assert_eq!(group.last_acked(), at(9, 4));
    group.observe(Some(1), at(9, 4));
    assert_eq!(group.forwarded(), Some(word(12, ACK, 6)));
}

#[test]
fn the_path_of_a_former_source_counts_for_the_minimum() {
    let mut group = group();
    group.record_now(2, word(12, ACK, 6));
    group.record_now(3, word(12, ACK, 6));
    group.observe(Some(2), at(12, 6));
    // Path 1 has all that was acknowledged to it as the source, but not the data of path 2.
    assert_eq!(group.record_now(3, word(14, ACK, 7)), None);
    assert_eq!(
        group.record_now(1, word(14, ACK, 7)),
        Some(word(14, ACK, 7))
    );
}

#[test]
fn data_sent_again_is_answered_when_all_have_it() {
    let mut group = group();
    group.record_now(2, word(12, ACK, 6));
    assert_eq!(group.probe_now(1, at(11, 4)), None);
    group.record_now(3, word(12, ACK, 6));
    assert_eq!(group.probe_now(1, at(11, 4)), Some(word(12, ACK, 6)));
    assert_eq!(group.probe_now(1, at(13, 4)), None);
    assert_eq!(group.probe_now(9, at(11, 4)), None);
}

#[test]
fn a_former_source_is_answered_about_its_own_data_alone() {
    let mut group = group();
    group.record_now(2, word(11, ACK, 5));
    // Path 2 becomes the source with 12; path 3 has not acknowledged 10 and 11 yet.
    group.observe(Some(2), at(9, 4));
    assert_eq!(group.probe_now(1, at(10, 4)), None);
    assert_eq!(
        group.record_now(3, word(15, ACK, 8)),
        Some(word(11, ACK, 5)),
        "path 1 has sent what path 2 acknowledged"
    );
    assert_eq!(group.probe_now(1, at(11, 4)), Some(word(11, ACK, 5)));
}

#[test]
fn a_source_that_is_alone_is_answered() {
    let mut group = unknowing([1], at(9, 4));
    group.observe(Some(1), at(9, 4));
    assert_eq!(group.probe_now(1, at(10, 4)), Some(word(10, ACK, 4)));
    assert_eq!(group.last_acked(), at(10, 4));
}

#[test]
fn registers_replace_missing_feedback() {
    let mut group = group();
    for port in 1..=3 {
        group.update_path(port, psn(12));
    }
    // Registers do not contain the MSN.
    assert_eq!(group.forwarded(), Some(word(12, ACK, 4)));
    assert_eq!(
        group.record_now(2, word(13, ACK, 7)),
        None,
        "path 3 has not got it"
    );
}

#[test]
fn numbers_wrap_around() {
    let mut group = unknowing([1, 2, 3], at(0xff_fffe, 0xff_ffff));
    group.observe(Some(1), at(0xff_fffe, 0xff_ffff));
    assert_eq!(group.record_now(2, word(2, ACK, 1)), None);
    assert_eq!(group.record_now(3, word(0, NAK, 0)), Some(word(0, NAK, 0)));
    assert_eq!(group.record_now(3, word(1, ACK, 1)), Some(word(1, ACK, 1)));
}

#[test]
fn an_old_packet_does_not_advance_the_path_of_a_former_source() {
    let mut group = group();
    // Sent while the source was at port 1. Now it is at port 2, which has sent 11, and path 3 has that.
    group.record_probe(1, at(10, 4));
    assert_eq!(group.replies(), Replies::default());
    assert_eq!(group.lagging(), [2, 3].into());
    group.update_path(2, psn(11));
    group.update_path(3, psn(11));
    assert_eq!(group.forwarded(), Some(word(10, ACK, 4)));
}

#[test]
fn of_many_packets_only_the_newest_state_is_acknowledged() {
    let mut group = group();
    for n in 10..=20 {
        group.record_feedback(2, word(n, ACK, 5));
        group.record_feedback(3, word(n, ACK, 5));
        group.record_probe(1, at(n - 1, 4));
    }
    let Replies {
        forwarded,
        probe_replies,
    } = group.replies();
    assert_eq!(forwarded.map(|out| out.feedback), Some(word(20, ACK, 5)));
    assert_eq!(probe_replies, [], "the source has its ACK");
    assert_eq!(group.replies(), Replies::default());
}

#[test]
fn a_probe_is_kept_until_it_is_acknowledged_or_given_up() {
    let mut group = group();
    group.record_feedback(2, word(12, ACK, 6));
    group.record_probe(1, at(11, 4));
    assert_eq!(group.replies(), Replies::default());
    assert_eq!(group.lagging(), [3].into());
    group.update_path(3, psn(12));
    assert_eq!(group.forwarded(), Some(word(12, ACK, 6)));
    assert_eq!(group.lagging(), [].into());
    group.record_probe(1, at(13, 4));
    assert_eq!(group.lagging(), [2, 3].into());
    group.give_up();
    assert_eq!(group.lagging(), [].into());
}

/// A random event; its numbers select among the possible values.
#[derive(Clone, Debug)]
enum Happening {
    /// The source sends N packets.
    Send(u32),
    /// A receiver gets N of the packets that it lacks, and acknowledges.
    Receive(usize, u32),
    /// A receiver sends a NAK.
    Nak(usize),
    /// An earlier acknowledgement arrives again.
    Again(usize),
    /// The source retransmits.
    Ask(u32),
    /// A former source retransmits.
    AskLate(usize, u32),
    /// Another member, which has all data, becomes the source.
    Turn(usize),
    /// The controller loses its state; registers are read, or not.
    Restart(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1u32..20).prop_map(Happening::Send),
        8 => (any::<usize>(), 1u32..20).prop_map(|(r, n)| Happening::Receive(r, n)),
        2 => any::<usize>().prop_map(Happening::Nak),
        2 => any::<usize>().prop_map(Happening::Again),
        2 => (0u32..30).prop_map(Happening::Ask),
        1 => (any::<usize>(), 0u32..30).prop_map(|(r, n)| Happening::AskLate(r, n)),
        1 => any::<usize>().prop_map(Happening::Turn),
        1 => any::<bool>().prop_map(Happening::Restart),
    ]
}

/// True state of members and switch. PSNs are distances from the first one, so that they are ordered.
struct Truth {
    first: u32,
    /// Newest PSN that each member has; that of the source is the newest one sent.
    has: Vec<u32>,
    /// Newest PSN that each path has acknowledged or sent.
    leaves: Vec<u32>,
    /// Newest PSN that each member sent itself; `None` if it sent no data.
    sent: Vec<Option<u32>>,
    source: usize,
    last_acked: Point,
    aggregate: Aggregator,
}

impl Truth {
    fn psn(&self, n: u32) -> u32 {
        psn(self.first.wrapping_add(n))
    }

    /// Distance of a PSN from the first one.
    fn number(&self, of: u32) -> u32 {
        psn(of.wrapping_sub(self.first))
    }

    /// MSN after packet `n`: a message has four packets.
    fn msn(n: u32) -> u32 {
        n / 4
    }

    fn port(member: usize) -> Port {
        member as u32 + 1
    }

    fn ack(&self, n: u32) -> Feedback {
        word(self.psn(n), ACK, Self::msn(n))
    }

    /// Passes a packet to the controller, with the header of the switch.
    fn take(&mut self, member: usize, message: Message) {
        let packet = PacketIn {
            port: Self::port(member),
            message,
            source: Some(Self::port(self.source)),
            last_acked: self.last_acked,
        };
        self.aggregate.take(&packet);
    }

    fn feedback(&mut self, member: usize, feedback: Feedback) {
        let acked = self.number(feedback.acked(Space::PSN).psn);
        self.leaves[member] = self.leaves[member].max(acked);
        self.take(member, Message::Feedback(feedback));
    }

    fn probe(&mut self, member: usize, n: u32) {
        let asked = Point {
            psn: self.psn(n),
            msn: 0,
        };
        self.take(member, Message::Probe(asked));
    }

    /// Checks that replies acknowledge only what all members have, and only complete messages.
    fn replies(&mut self) -> Result<Replies, TestCaseError> {
        let replies = self.aggregate.replies();
        self.aggregate.give_up();
        for out in replies.clone() {
            let Point { psn, msn } = out.feedback.acked(Space::PSN);
            let acked = self.number(psn);
            for (member, has) in self.has.iter().enumerate() {
                if out.port != Some(Self::port(member)) {
                    prop_assert!(acked <= *has, "{acked} is acknowledged, {member} has {has}");
                }
            }
            prop_assert!(msn <= Self::msn(acked));
        }
        self.last_acked = self.aggregate.last_acked();
        Ok(replies)
    }
}

proptest! {
    #[test]
    fn no_ack_exceeds_the_minimum_and_in_the_end_the_source_has_all(
        members in 2usize..6,
        first in prop_oneof![Just(0u32), Just(0xff_fff8), any::<u32>()],
        // The flag: replies are delayed until after the next event.
        happenings in proptest::collection::vec((happening(), any::<bool>()), 0..120),
    ) {
        // Number 0 is the PSN before the first one.
        let last_acked = Point { psn: psn(first), msn: 0 };
        let mut truth = Truth {
            first,
            has: vec![0; members],
            leaves: vec![0; members],
            sent: vec![None; members],
            source: 0,
            last_acked,
            aggregate: unknowing(1..=members as u32, last_acked),
        };
        for (happening, can_wait) in happenings {
            let source = truth.source;
            match happening {
                Happening::Send(n) => {
                    truth.has[source] += n;
                    truth.leaves[source] = truth.has[source];
                    truth.sent[source] = Some(truth.has[source]);
                }
                Happening::Receive(r, n) => {
                    let r = r % members;
                    if r != source {
                        truth.has[r] = (truth.has[r] + n).min(truth.has[source]);
                        truth.feedback(r, truth.ack(truth.has[r]));
                    }
                }
                Happening::Nak(r) => {
                    let r = r % members;
                    if r != source && truth.has[r] < truth.has[source] {
                        let msn = Truth::msn(truth.has[r]);
                        let gap = truth.psn(truth.has[r] + 1);
                        truth.feedback(r, word(gap, NAK, msn));
                    }
                }
                Happening::Again(r) => {
                    let r = r % members;
                    let earlier = truth.has[r].min(truth.leaves[r]) / 2;
                    if r != source {
                        truth.feedback(r, truth.ack(earlier));
                    }
                }
                Happening::Ask(back) => {
                    if let Some(newest) = truth.sent[source] {
                        truth.probe(source, newest.saturating_sub(back));
                    }
                }
                Happening::AskLate(r, back) => {
                    let r = r % members;
                    if let (Some(newest), true) = (truth.sent[r], r != source) {
                        truth.probe(r, newest.saturating_sub(back));
                    }
                }
                Happening::Turn(r) => {
                    let r = r % members;
                    if truth.has[r] == truth.has[source] && r != source {
                        truth.source = r;
                        truth.has[r] += 1;
                        truth.leaves[r] = truth.has[r];
                        truth.sent[r] = Some(truth.has[r]);
                    }
                }
                Happening::Restart(reads) => {
                    truth.aggregate = unknowing(1..=members as u32, truth.last_acked);
                    if reads {
                        truth.aggregate.observe(Some(Truth::port(source)), truth.last_acked);
                        for member in 0..members {
                            let leaf = truth.psn(truth.leaves[member]);
                            truth.aggregate.update_path(Truth::port(member), leaf);
                        }
                    }
                }
            }
            if !can_wait {
                truth.replies()?;
            }
        }
        // All packets arrive, and all members acknowledge them.
        let (source, all) = (truth.source, truth.has[truth.source]);
        for member in (0..members).filter(|m| *m != source) {
            truth.has[member] = all;
            truth.feedback(member, truth.ack(all));
        }
        truth.replies()?;
        prop_assert_eq!(truth.last_acked.psn, truth.psn(all));
        prop_assert!(truth.last_acked.msn <= Truth::msn(all));
        // A remaining probe gets its reply; only the source gets more than its own PSN acknowledged.
        for member in 0..members {
            if let Some(newest) = truth.sent[member] {
                truth.probe(member, newest);
                let replies = truth.replies()?.probe_replies;
                prop_assert_eq!(replies.len(), 1);
                let expected = if member == source { all } else { newest };
                prop_assert_eq!(replies[0].feedback.acked(Space::PSN).psn, truth.psn(expected));
            }
        }
    }
}
