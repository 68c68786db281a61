//! Tests of single rules, and random runs that compare the controller's replies with the true state of the receivers.

use proptest::prelude::*;

use super::*;

use crate::{classify, AckClass};

const ACK: u8 = 0x1f;
const NAK: u8 = 0x60;
const RNR_NAK: u8 = 0x2e;

fn psn(n: u32) -> u32 {
    n & 0xff_ffff
}

fn feedback(n: u32, syndrome: u8, msn: u32) -> Feedback {
    let syndrome = syndrome.into();
    let aeth = alfirk_roce::wire::aeth::Repr { syndrome, msn };
    match classify(psn(n), aeth) {
        Some(AckClass::Feedback(feedback)) => feedback,
        other => panic!("{other:?} is not feedback"),
    }
}

fn at(n: u32, msn: u32) -> Point {
    Point { psn: psn(n), msn }
}

fn aggregator_at(ports: impl IntoIterator<Item = Port>, last_acked: Point) -> Aggregator {
    Aggregator::new(Space::PSN, ports, last_acked)
}

/// A group with ports 1 to 3; the source is at port 1, and PSN 9 was acknowledged to it.
fn group() -> Aggregator {
    let mut group = aggregator_at([1, 2, 3], at(9, 4));
    group.observe(Some(1), at(9, 4));
    group
}

/// Single inputs to the controller, each followed by its replies.
trait SingleStep {
    /// The ACK or NAK that goes to the source.
    fn forwarded(&mut self) -> Option<Feedback>;
    fn record_now(&mut self, port: Port, feedback: Feedback) -> Option<Feedback>;
    /// The reply to a retransmission; one without a reply is dropped.
    fn probe_now(&mut self, port: Port, data_point: Point) -> Option<Feedback>;
}

impl SingleStep for Aggregator {
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

    fn probe_now(&mut self, port: Port, data_point: Point) -> Option<Feedback> {
        self.record_probe(port, data_point);
        let replies = self.replies();
        self.drop_probes();
        let mut to_prober = replies.into_iter().filter(|out| out.port == Some(port));
        to_prober.next().map(|out| out.feedback)
    }
}

#[test]
fn the_source_gets_the_minimum_of_all_other_paths() {
    let mut group = group();
    assert_eq!(group.record_now(2, feedback(12, ACK, 6)), None);
    assert_eq!(
        group.record_now(3, feedback(11, ACK, 5)),
        Some(feedback(11, ACK, 5))
    );
    // The minimum does not advance.
    assert_eq!(group.record_now(3, feedback(11, ACK, 5)), None);
    assert_eq!(group.record_now(3, feedback(10, ACK, 5)), None);
    assert_eq!(group.last_acked(), at(11, 5));
}

#[test]
fn a_nak_waits_until_all_paths_have_the_packets_before_it() {
    let mut group = group();
    assert_eq!(group.record_now(2, feedback(13, NAK, 6)), None);
    assert_eq!(
        group.record_now(3, feedback(10, ACK, 5)),
        Some(feedback(10, ACK, 5))
    );
    assert_eq!(
        group.record_now(3, feedback(12, ACK, 6)),
        Some(feedback(13, NAK, 6))
    );
    // A NAK is sent once.
    assert_eq!(group.record_now(3, feedback(12, ACK, 6)), None);
}

#[test]
fn of_two_naks_the_one_with_the_older_psn_is_sent() {
    let mut group = group();
    assert_eq!(group.record_now(2, feedback(13, NAK, 6)), None);
    assert_eq!(
        group.record_now(3, feedback(10, RNR_NAK, 4)),
        Some(feedback(10, RNR_NAK, 4))
    );
}

#[test]
fn a_nak_is_cleared_when_all_paths_have_its_psn() {
    let mut group = group();
    group.record_now(2, feedback(13, NAK, 6));
    group.record_now(2, feedback(15, ACK, 8));
    assert_eq!(
        group.record_now(3, feedback(14, ACK, 7)),
        Some(feedback(14, ACK, 7))
    );
    assert_eq!(group.waiting_nak.nak, None);
    // A NAK older than the newest PSN of its own path is ignored.
    assert_eq!(group.record_now(2, feedback(13, NAK, 6)), None);
    assert_eq!(group.waiting_nak.nak, None);
}

#[test]
fn without_a_source_nothing_is_sent_and_nothing_is_lost() {
    let mut group = aggregator_at([1, 2, 3], at(9, 4));
    for port in 1..=3 {
        assert_eq!(group.record_now(port, feedback(12, ACK, 6)), None);
    }
    assert_eq!(group.last_acked(), at(9, 4));
    group.observe(Some(1), at(9, 4));
    assert_eq!(group.forwarded(), Some(feedback(12, ACK, 6)));
}

#[test]
fn the_minimum_includes_the_path_of_a_former_source() {
    let mut group = group();
    group.record_now(2, feedback(12, ACK, 6));
    group.record_now(3, feedback(12, ACK, 6));
    group.observe(Some(2), at(12, 6));
    // Path 1 has all that was acknowledged to it as the source, but not the data of path 2.
    assert_eq!(group.record_now(3, feedback(14, ACK, 7)), None);
    assert_eq!(
        group.record_now(1, feedback(14, ACK, 7)),
        Some(feedback(14, ACK, 7))
    );
}

#[test]
fn a_retransmission_is_acknowledged_when_all_paths_have_it() {
    let mut group = group();
    group.record_now(2, feedback(12, ACK, 6));
    assert_eq!(group.probe_now(1, at(11, 4)), None);
    group.record_now(3, feedback(12, ACK, 6));
    assert_eq!(group.probe_now(1, at(11, 4)), Some(feedback(12, ACK, 6)));
    assert_eq!(group.probe_now(1, at(13, 4)), None);
    assert_eq!(group.probe_now(9, at(11, 4)), None);
}

#[test]
fn a_former_source_gets_an_ack_of_its_own_data_only() {
    let mut group = group();
    group.record_now(2, feedback(11, ACK, 5));
    // Path 2 becomes the source with 12; path 3 has not acknowledged 10 and 11 yet.
    group.observe(Some(2), at(9, 4));
    assert_eq!(group.probe_now(1, at(10, 4)), None);
    assert_eq!(
        group.record_now(3, feedback(15, ACK, 8)),
        Some(feedback(11, ACK, 5)),
        "path 1 has sent what path 2 acknowledged"
    );
    assert_eq!(group.probe_now(1, at(11, 4)), Some(feedback(11, ACK, 5)));
}

#[test]
fn a_source_without_receivers_gets_an_ack() {
    let mut group = aggregator_at([1], at(9, 4));
    group.observe(Some(1), at(9, 4));
    assert_eq!(group.probe_now(1, at(10, 4)), Some(feedback(10, ACK, 4)));
    assert_eq!(group.last_acked(), at(10, 4));
}

#[test]
fn register_values_replace_lost_acks() {
    let mut group = group();
    for port in 1..=3 {
        group.update_path(port, psn(12));
    }
    // Registers do not contain the MSN.
    assert_eq!(group.forwarded(), Some(feedback(12, ACK, 4)));
    assert_eq!(
        group.record_now(2, feedback(13, ACK, 7)),
        None,
        "path 3 lacks PSN 13"
    );
}

#[test]
fn psn_and_msn_wrap_around() {
    let mut group = aggregator_at([1, 2, 3], at(0xff_fffe, 0xff_ffff));
    group.observe(Some(1), at(0xff_fffe, 0xff_ffff));
    assert_eq!(group.record_now(2, feedback(2, ACK, 1)), None);
    assert_eq!(
        group.record_now(3, feedback(0, NAK, 0)),
        Some(feedback(0, NAK, 0))
    );
    assert_eq!(
        group.record_now(3, feedback(1, ACK, 1)),
        Some(feedback(1, ACK, 1))
    );
}

#[test]
fn an_old_packet_does_not_advance_the_path_of_a_former_source() {
    let mut group = group();
    // Path 1 sent this while it was the source. Now path 2 is the source and has sent 11, which path 3 has.
    group.record_probe(1, at(10, 4));
    assert_eq!(group.replies(), Replies::default());
    assert_eq!(group.lagging(), [2, 3].into());
    group.update_path(2, psn(11));
    group.update_path(3, psn(11));
    assert_eq!(group.forwarded(), Some(feedback(10, ACK, 4)));
}

#[test]
fn after_many_packets_only_the_newest_state_is_acknowledged() {
    let mut group = group();
    for n in 10..=20 {
        group.record_feedback(2, feedback(n, ACK, 5));
        group.record_feedback(3, feedback(n, ACK, 5));
        group.record_probe(1, at(n - 1, 4));
    }
    let Replies {
        forwarded,
        probe_replies,
    } = group.replies();
    assert_eq!(
        forwarded.map(|out| out.feedback),
        Some(feedback(20, ACK, 5))
    );
    assert_eq!(probe_replies, [], "the source has its ACK");
    assert_eq!(group.replies(), Replies::default());
}

#[test]
fn a_probe_is_kept_until_it_is_acknowledged_or_given_up() {
    let mut group = group();
    group.record_feedback(2, feedback(12, ACK, 6));
    group.record_probe(1, at(11, 4));
    assert_eq!(group.replies(), Replies::default());
    assert_eq!(group.lagging(), [3].into());
    group.update_path(3, psn(12));
    assert_eq!(group.forwarded(), Some(feedback(12, ACK, 6)));
    assert_eq!(group.lagging(), [].into());
    group.record_probe(1, at(13, 4));
    assert_eq!(group.lagging(), [2, 3].into());
    group.drop_probes();
    assert_eq!(group.lagging(), [].into());
}

/// A random event. Its numbers select among the values that are possible at that time.
#[derive(Clone, Debug)]
enum Event {
    /// The source sends N packets.
    Send(u32),
    /// A receiver gets N of the packets that it lacks, and acknowledges them.
    Receive(usize, u32),
    /// A receiver sends a NAK of the next packet.
    Nak(usize),
    /// An earlier acknowledgement arrives a second time.
    RepeatAck(usize),
    /// The source retransmits a packet.
    Retransmit(u32),
    /// A former source retransmits a packet.
    RetransmitFormer(usize, u32),
    /// Another member that has all data becomes the source.
    ChangeSource(usize),
    /// The controller restarts without its state. The flag: it then reads the switch's registers.
    Restart(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u32..20).prop_map(Event::Send),
        8 => (any::<usize>(), 1u32..20).prop_map(|(r, n)| Event::Receive(r, n)),
        2 => any::<usize>().prop_map(Event::Nak),
        2 => any::<usize>().prop_map(Event::RepeatAck),
        2 => (0u32..30).prop_map(Event::Retransmit),
        1 => (any::<usize>(), 0u32..30).prop_map(|(r, n)| Event::RetransmitFormer(r, n)),
        1 => any::<usize>().prop_map(Event::ChangeSource),
        1 => any::<bool>().prop_map(Event::Restart),
    ]
}

/// The true state of members and switch. PSNs are distances from the first one, so that integers compare them.
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
        feedback(self.psn(n), ACK, Self::msn(n))
    }

    /// Passes a packet to the controller, with the state that the switch adds.
    fn send_to_controller(&mut self, member: usize, message: Message) {
        let packet = PacketIn {
            port: Self::port(member),
            message,
            source: Some(Self::port(self.source)),
            last_acked: self.last_acked,
        };
        self.aggregate.record(&packet);
    }

    fn feedback(&mut self, member: usize, feedback: Feedback) {
        let acked = self.number(feedback.acked(Space::PSN).psn);
        self.leaves[member] = self.leaves[member].max(acked);
        self.send_to_controller(member, Message::Feedback(feedback));
    }

    fn probe(&mut self, member: usize, n: u32) {
        let data_point = Point {
            psn: self.psn(n),
            msn: 0,
        };
        self.send_to_controller(member, Message::Probe(data_point));
    }

    /// Checks that replies acknowledge only what all members have, and only complete messages.
    fn replies(&mut self) -> Result<Replies, TestCaseError> {
        let replies = self.aggregate.replies();
        self.aggregate.drop_probes();
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
    fn no_ack_exceeds_the_minimum_and_all_data_is_acknowledged_in_the_end(
        members in 2usize..6,
        first in prop_oneof![Just(0u32), Just(0xff_fff8), any::<u32>()],
        // The flag: the controller's replies are delayed until after the next event.
        events in proptest::collection::vec((event(), any::<bool>()), 0..120),
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
            aggregate: aggregator_at(1..=members as u32, last_acked),
        };
        for (event, can_wait) in events {
            let source = truth.source;
            match event {
                Event::Send(n) => {
                    truth.has[source] += n;
                    truth.leaves[source] = truth.has[source];
                    truth.sent[source] = Some(truth.has[source]);
                }
                Event::Receive(r, n) => {
                    let r = r % members;
                    if r != source {
                        truth.has[r] = (truth.has[r] + n).min(truth.has[source]);
                        truth.feedback(r, truth.ack(truth.has[r]));
                    }
                }
                Event::Nak(r) => {
                    let r = r % members;
                    if r != source && truth.has[r] < truth.has[source] {
                        let msn = Truth::msn(truth.has[r]);
                        let gap = truth.psn(truth.has[r] + 1);
                        truth.feedback(r, feedback(gap, NAK, msn));
                    }
                }
                Event::RepeatAck(r) => {
                    let r = r % members;
                    let earlier = truth.has[r].min(truth.leaves[r]) / 2;
                    if r != source {
                        truth.feedback(r, truth.ack(earlier));
                    }
                }
                Event::Retransmit(back) => {
                    if let Some(newest) = truth.sent[source] {
                        truth.probe(source, newest.saturating_sub(back));
                    }
                }
                Event::RetransmitFormer(r, back) => {
                    let r = r % members;
                    if let (Some(newest), true) = (truth.sent[r], r != source) {
                        truth.probe(r, newest.saturating_sub(back));
                    }
                }
                Event::ChangeSource(r) => {
                    let r = r % members;
                    if truth.has[r] == truth.has[source] && r != source {
                        truth.source = r;
                        truth.has[r] += 1;
                        truth.leaves[r] = truth.has[r];
                        truth.sent[r] = Some(truth.has[r]);
                    }
                }
                Event::Restart(reads) => {
                    truth.aggregate = aggregator_at(1..=members as u32, truth.last_acked);
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
        // All outstanding packets arrive, and all members acknowledge them.
        let (source, all) = (truth.source, truth.has[truth.source]);
        for member in (0..members).filter(|m| *m != source) {
            truth.has[member] = all;
            truth.feedback(member, truth.ack(all));
        }
        truth.replies()?;
        prop_assert_eq!(truth.last_acked.psn, truth.psn(all));
        prop_assert!(truth.last_acked.msn <= Truth::msn(all));
        // Each retransmission still pending gets its reply. Only the source's ACK may exceed the PSN of its
        // retransmission.
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
