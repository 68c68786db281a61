//! The rules one by one, and then whole conversations with receivers whose true state is known.

use proptest::prelude::*;

use super::*;

const NAK: u8 = 0x60;
const RNR_NAK: u8 = 0x2e;

fn psn(n: u32) -> Psn {
    Psn::new(n & 0xff_ffff)
}

fn word(n: u32, syndrome: u8, msn: u32) -> Word {
    Word {
        psn: psn(n),
        syndrome,
        msn,
    }
}

fn at(n: u32, msn: u32) -> Position {
    Position { psn: psn(n), msn }
}

/// Ports 1, 2 and 3; the source is behind port 1 and has been told 9.
fn group() -> Aggregate {
    let mut group = Aggregate::new([1, 2, 3], at(9, 4));
    group.see(Some(1), at(9, 4));
    group
}

#[test]
fn the_source_is_told_what_all_others_have() {
    let mut group = group();
    assert_eq!(group.hear(2, word(12, SYNDROME_ACK, 6)), None);
    assert_eq!(
        group.hear(3, word(11, SYNDROME_ACK, 5)),
        Some(word(11, SYNDROME_ACK, 5))
    );
    // Nothing new.
    assert_eq!(group.hear(3, word(11, SYNDROME_ACK, 5)), None);
    assert_eq!(group.hear(3, word(10, SYNDROME_ACK, 5)), None);
    assert_eq!(group.told(), at(11, 5));
}

#[test]
fn a_nak_waits_until_all_have_what_is_before_it() {
    let mut group = group();
    assert_eq!(group.hear(2, word(13, NAK, 6)), None);
    assert_eq!(
        group.hear(3, word(10, SYNDROME_ACK, 5)),
        Some(word(10, SYNDROME_ACK, 5))
    );
    assert_eq!(
        group.hear(3, word(12, SYNDROME_ACK, 6)),
        Some(word(13, NAK, 6))
    );
    // Told once.
    assert_eq!(group.hear(3, word(12, SYNDROME_ACK, 6)), None);
}

#[test]
fn of_two_naks_the_earlier_one_counts() {
    let mut group = group();
    assert_eq!(group.hear(2, word(13, NAK, 6)), None);
    assert_eq!(
        group.hear(3, word(10, RNR_NAK, 4)),
        Some(word(10, RNR_NAK, 4))
    );
}

#[test]
fn a_nak_that_all_have_passed_is_forgotten() {
    let mut group = group();
    group.hear(2, word(13, NAK, 6));
    group.hear(2, word(15, SYNDROME_ACK, 8));
    assert_eq!(
        group.hear(3, word(14, SYNDROME_ACK, 7)),
        Some(word(14, SYNDROME_ACK, 7))
    );
    assert_eq!(group.waiting, None);
    // So is one that its own path had passed when it came.
    assert_eq!(group.hear(2, word(13, NAK, 6)), None);
    assert_eq!(group.waiting, None);
}

#[test]
fn without_a_source_nobody_is_told_and_nothing_is_lost() {
    let mut group = Aggregate::new([1, 2, 3], at(9, 4));
    for port in 1..=3 {
        assert_eq!(group.hear(port, word(12, SYNDROME_ACK, 6)), None);
    }
    assert_eq!(group.told(), at(9, 4));
    group.see(Some(1), at(9, 4));
    assert_eq!(group.settle(), Some(word(12, SYNDROME_ACK, 6)));
}

#[test]
fn a_former_source_counts_again() {
    let mut group = group();
    group.hear(2, word(12, SYNDROME_ACK, 6));
    group.hear(3, word(12, SYNDROME_ACK, 6));
    group.see(Some(2), at(12, 6));
    // Path 1 has what its source was told, and not what path 2 sends.
    assert_eq!(group.hear(3, word(14, SYNDROME_ACK, 7)), None);
    assert_eq!(
        group.hear(1, word(14, SYNDROME_ACK, 7)),
        Some(word(14, SYNDROME_ACK, 7))
    );
}

#[test]
fn data_sent_again_is_answered_when_all_have_it() {
    let mut group = group();
    group.hear(2, word(12, SYNDROME_ACK, 6));
    assert_eq!(group.ask(1, word(11, SYNDROME_ACK, 4)), None);
    group.hear(3, word(12, SYNDROME_ACK, 6));
    assert_eq!(
        group.ask(1, word(11, SYNDROME_ACK, 4)),
        Some(word(12, SYNDROME_ACK, 6))
    );
    assert_eq!(group.ask(1, word(13, SYNDROME_ACK, 4)), None);
    assert_eq!(group.ask(9, word(11, SYNDROME_ACK, 4)), None);
}

#[test]
fn a_former_source_is_answered_about_its_own_data_alone() {
    let mut group = group();
    group.hear(2, word(11, SYNDROME_ACK, 5));
    // Path 2 becomes the source with 12; path 3 has not acknowledged 10 and 11 yet.
    group.see(Some(2), at(9, 4));
    assert_eq!(group.ask(1, word(10, SYNDROME_ACK, 4)), None);
    assert_eq!(
        group.hear(3, word(15, SYNDROME_ACK, 8)),
        Some(word(10, SYNDROME_ACK, 4)),
        "path 1 has what it asked about"
    );
    assert_eq!(
        group.ask(1, word(11, SYNDROME_ACK, 4)),
        Some(word(11, SYNDROME_ACK, 5))
    );
}

#[test]
fn a_source_that_is_alone_is_answered() {
    let mut group = Aggregate::new([1], at(9, 4));
    group.see(Some(1), at(9, 4));
    assert_eq!(
        group.ask(1, word(10, SYNDROME_ACK, 4)),
        Some(word(10, SYNDROME_ACK, 4))
    );
    assert_eq!(group.told(), at(10, 4));
}

#[test]
fn what_registers_tell_is_as_good_as_feedback() {
    let mut group = group();
    group.learn(2, psn(12));
    group.learn(3, psn(12));
    // How many messages that is was not said.
    assert_eq!(group.settle(), Some(word(12, SYNDROME_ACK, 4)));
    assert_eq!(
        group.hear(2, word(13, SYNDROME_ACK, 7)),
        None,
        "path 3 has not got it"
    );
}

#[test]
fn numbers_wrap_around() {
    let mut group = Aggregate::new([1, 2, 3], at(0xff_fffe, 0xff_ffff));
    group.see(Some(1), at(0xff_fffe, 0xff_ffff));
    assert_eq!(group.hear(2, word(2, SYNDROME_ACK, 1)), None);
    assert_eq!(group.hear(3, word(0, NAK, 0)), Some(word(0, NAK, 0)));
    assert_eq!(
        group.hear(3, word(1, SYNDROME_ACK, 1)),
        Some(word(1, SYNDROME_ACK, 1))
    );
}

/// What may happen next; numbers choose among what is possible.
#[derive(Clone, Debug)]
enum Happening {
    /// The source sends so many packets.
    Send(u32),
    /// A receiver gets so many of those that it lacks, and acknowledges.
    Receive(usize, u32),
    /// A receiver finds a gap.
    Nak(usize),
    /// An earlier acknowledgement arrives again.
    Again(usize),
    /// The source sends something again.
    Ask(u32),
    /// A former source does.
    AskLate(usize, u32),
    /// Another member becomes the source; it has everything.
    Turn(usize),
    /// The controller forgets all; registers are read, or not.
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

/// Members and the switch as they are; PSNs as distances from the first one, so that they have an order.
struct Truth {
    first: u32,
    /// Newest PSN that each member has, of its own or of others; the source's is what was sent.
    has: Vec<u32>,
    /// The newest that each path has told, or sent.
    leaves: Vec<u32>,
    /// The newest that each member sent itself, if it sent anything.
    sent: Vec<Option<u32>>,
    source: usize,
    told: Position,
    aggregate: Aggregate,
}

impl Truth {
    fn psn(&self, n: u32) -> Psn {
        psn(self.first.wrapping_add(n))
    }

    /// A message ends with every fourth packet.
    fn msn(n: u32) -> u32 {
        n / 4
    }

    fn port(member: usize) -> u32 {
        member as u32 + 1
    }

    fn ack(&self, n: u32) -> Word {
        Word {
            psn: self.psn(n),
            syndrome: SYNDROME_ACK,
            msn: Self::msn(n),
        }
    }

    /// The switch hands a word to the controller, with its header.
    fn hear(&mut self, member: usize, word: Word) -> Result<(), TestCaseError> {
        let acked = word.acked().distance_from(self.psn(0)) as u32;
        self.leaves[member] = self.leaves[member].max(acked);
        self.aggregate.see(Some(Self::port(self.source)), self.told);
        let answer = self.aggregate.hear(Self::port(member), word);
        self.check(answer, None)
    }

    fn ask(&mut self, member: usize, n: u32) -> Result<bool, TestCaseError> {
        self.aggregate.see(Some(Self::port(self.source)), self.told);
        let asked = Word {
            msn: 0,
            ..self.ack(n)
        };
        let answer = self.aggregate.ask(Self::port(member), asked);
        if let (Some(answer), true) = (answer, member != self.source) {
            prop_assert_eq!(answer.psn, self.psn(n));
        }
        self.check(answer, Some(member))?;
        Ok(answer.is_some())
    }

    /// Nobody is told what somebody lacks, nor a count of messages that are not complete.
    fn check(&mut self, answer: Option<Word>, asker: Option<usize>) -> Result<(), TestCaseError> {
        if let Some(word) = answer {
            let acked = word.acked().distance_from(self.psn(0)) as u32;
            for (member, has) in self.has.iter().enumerate() {
                if asker != Some(member) {
                    prop_assert!(acked <= *has, "{acked} is told, {member} has {has}");
                }
            }
            prop_assert!(word.msn <= Self::msn(acked));
        }
        self.told = self.aggregate.told();
        Ok(())
    }
}

proptest! {
    #[test]
    fn nobody_is_told_too_much_and_in_the_end_the_source_is_told_all(
        members in 2usize..6,
        first in prop_oneof![Just(0u32), Just(0xff_fff8), any::<u32>()],
        happenings in proptest::collection::vec(happening(), 0..120),
    ) {
        // Number 0 is the PSN before the first one.
        let told = Position { psn: psn(first), msn: 0 };
        let mut truth = Truth {
            first,
            has: vec![0; members],
            leaves: vec![0; members],
            sent: vec![None; members],
            source: 0,
            told,
            aggregate: Aggregate::new(1..=members as u32, told),
        };
        for happening in happenings {
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
                        truth.hear(r, truth.ack(truth.has[r]))?;
                    }
                }
                Happening::Nak(r) => {
                    let r = r % members;
                    if r != source && truth.has[r] < truth.has[source] {
                        let gap = truth.ack(truth.has[r] + 1);
                        let msn = Truth::msn(truth.has[r]);
                        truth.hear(r, Word { syndrome: NAK, msn, ..gap })?;
                    }
                }
                Happening::Again(r) => {
                    let r = r % members;
                    let earlier = truth.has[r].min(truth.leaves[r]) / 2;
                    if r != source {
                        truth.hear(r, truth.ack(earlier))?;
                    }
                }
                Happening::Ask(back) => {
                    if let Some(newest) = truth.sent[source] {
                        truth.ask(source, newest.saturating_sub(back))?;
                    }
                }
                Happening::AskLate(r, back) => {
                    let r = r % members;
                    if let (Some(newest), true) = (truth.sent[r], r != source) {
                        truth.ask(r, newest.saturating_sub(back))?;
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
                    truth.aggregate = Aggregate::new(1..=members as u32, truth.told);
                    if reads {
                        truth.aggregate.see(Some(Truth::port(source)), truth.told);
                        for member in 0..members {
                            let leaf = truth.psn(truth.leaves[member]);
                            truth.aggregate.learn(Truth::port(member), leaf);
                        }
                        let answer = truth.aggregate.settle();
                        truth.check(answer, None)?;
                    }
                }
            }
        }
        // Everything arrives, everyone says so.
        let (source, all) = (truth.source, truth.has[truth.source]);
        for member in (0..members).filter(|m| *m != source) {
            truth.has[member] = all;
            truth.hear(member, truth.ack(all))?;
        }
        prop_assert_eq!(truth.told.psn, truth.psn(all));
        prop_assert!(truth.told.msn <= Truth::msn(all));
        // Whoever still asks gets its answer.
        for member in 0..members {
            if let Some(newest) = truth.sent[member] {
                prop_assert!(truth.ask(member, newest)?);
            }
        }
    }
}
