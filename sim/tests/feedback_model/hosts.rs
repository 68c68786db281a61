//! Hosts: the responder of every member, and the requester of each that sends.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_aggregation::Notice;
use alfirk_roce::wire::{aeth, Syndrome};

use crate::fabric::{End, ModelFabric, Moving, Nature, Recovery, World, FIRST_PSN, SPACE};

/// AETH syndromes: an ACK without a limit of credits, a PSN sequence error, a selective NAK.
pub const UNLIMITED: u8 = 0x1f;
pub const SEQUENCE_ERROR: u8 = 0x60;
pub const SELECTIVE: u8 = 0x7f;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    Data(u32),
    Answer(Answer),
    /// An answer with a header that its receiver would take offence at: a tag, a length, a version.
    OddAnswer(Answer),
    /// A congestion notification.
    Cnp,
}

/// An ACKNOWLEDGE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    pub psn: u32,
    pub syndrome: u8,
    pub msn: u32,
}

impl Answer {
    pub fn of((psn, aeth::Repr { syndrome, msn }): (u32, aeth::Repr)) -> Answer {
        Answer {
            psn,
            syndrome: syndrome.into(),
            msn,
        }
    }

    /// A receiver's report of a lost packet.
    fn report(psn: u32, reports: u8) -> Answer {
        Answer {
            psn,
            syndrome: SELECTIVE,
            msn: reports.into(),
        }
    }

    pub fn aeth(&self) -> aeth::Repr {
        aeth::Repr {
            syndrome: self.syndrome.into(),
            msn: self.msn,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    pub expected: u32,
    has_sent_nak: bool,
    /// With selective repeat: what it has beyond a gap, and how often it has reported what it lacks.
    early: BTreeSet<u32>,
    reports: BTreeMap<u32, u8>,
}

impl Host {
    pub fn new(expected: u32) -> Host {
        Host {
            expected,
            has_sent_nak: false,
            early: BTreeSet::new(),
            reports: BTreeMap::new(),
        }
    }
}

/// The sender of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    /// The oldest PSN without an ACK.
    pub unacked: u32,
    /// The next one to send, and the next one that it never sent.
    pub next: u32,
    pub fresh: u32,
    /// With selective repeat: what to send again.
    lost: BTreeSet<u32>,
}

impl Requester {
    pub fn new(first: u32) -> Requester {
        Requester {
            unacked: first,
            next: first,
            fresh: first,
            lost: BTreeSet::new(),
        }
    }

    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
}

impl Packet {
    /// What is not aggregated, as it leaves a switch: between switches a report is that of the receiver; to a host goes a NAK of the packet
    /// after the last one acknowledged, with the lost packet's PSN in the MSN field.
    pub fn of_notice(notice: Notice, is_for_host: bool, last_acked: u32) -> Packet {
        match notice {
            Notice::Cnp => Packet::Cnp,
            Notice::SelectiveNak { psn, .. } if is_for_host => Packet::Answer(Answer {
                psn: SPACE.next(last_acked),
                syndrome: SELECTIVE,
                msn: psn,
            }),
            Notice::SelectiveNak { psn, reports } => Packet::Answer(Answer::report(psn, reports)),
            Notice::FatalNak { nak, msn } => Packet::Answer(Answer {
                psn: nak.psn,
                syndrome: nak.syndrome,
                msn,
            }),
        }
    }
}

impl ModelFabric {
    /// How many messages are complete with a PSN: each packet is one.
    pub fn messages_with(&self, psn: u32) -> u32 {
        SPACE.add(SPACE.next(psn), FIRST_PSN.wrapping_neg())
    }

    pub fn ack(&self, psn: u32) -> Answer {
        self.answer(psn, UNLIMITED, psn)
    }

    /// An answer of a host that has everything up to `acked`.
    fn answer(&self, psn: u32, syndrome: u8, acked: u32) -> Answer {
        let msn = match self.counts_messages {
            true => self.messages_with(acked),
            false => 0,
        };
        Answer { psn, syndrome, msn }
    }

    /// What hosts may report again, as their timers have them do: in a kind world only when nothing else happens.
    pub fn reports(&self, world: &World) -> Vec<(usize, u32)> {
        let Recovery::SelectiveRepeat(most) = self.recovery else {
            return Vec::new();
        };
        let is_busy = || {
            let mut senders = 0..self.streams.len();
            !self.moving(world).is_empty() || senders.any(|at| self.can_send(world, at))
        };
        if self.nature == Nature::Kind && is_busy() {
            return Vec::new();
        }
        let hosts = world.hosts.iter().enumerate();
        hosts
            .flat_map(|(at, host)| {
                let due = host.reports.iter().filter(move |(_, times)| **times < most);
                due.map(move |(psn, _)| (at, *psn))
            })
            .collect()
    }

    /// What in a kind world may be lost.
    pub fn may_be_lost(&self, world: &World, moving: &Moving) -> bool {
        let mut ranges = (0..self.streams.len()).map(|at| self.range(at));
        let mut is_edge = |psn| ranges.any(|(first, end)| psn == first || SPACE.next(psn) == end);
        world.losses < self.losses
            && match moving {
                Moving::OnWire(_, Packet::Data(psn)) => !is_edge(*psn),
                Moving::OnWire(_, Packet::Answer(answer)) => answer.syndrome == SELECTIVE,
                _ => false,
            }
    }

    pub fn report(&self, world: &mut World, host: usize, psn: u32) {
        let times = world.hosts[host].reports.entry(psn).or_default();
        *times += 1;
        let answer = Answer::report(psn, *times);
        self.emit(world, End::Host(host), Packet::Answer(answer));
    }

    /// A responder: one NAK for each gap, or one for each packet that is missing; duplicates acknowledged with the newest PSN.
    pub fn respond(&self, world: &mut World, host: usize, psn: u32) {
        let state = &mut world.hosts[host];
        let reply = if psn == state.expected {
            state.reports.remove(&psn);
            state.expected = SPACE.next(psn);
            while state.early.remove(&state.expected) {
                state.expected = SPACE.next(state.expected);
            }
            state.has_sent_nak = false;
            self.ack(SPACE.previous(state.expected))
        } else if SPACE.lt(psn, state.expected) {
            self.ack(SPACE.previous(state.expected))
        } else if let Recovery::SelectiveRepeat(_) = self.recovery {
            state.reports.remove(&psn);
            state.early.insert(psn);
            let mut missing = state.expected;
            while missing != psn {
                let state = &world.hosts[host];
                if !state.early.contains(&missing) && !state.reports.contains_key(&missing) {
                    self.report(world, host, missing);
                }
                missing = SPACE.next(missing);
            }
            return;
        } else if state.has_sent_nak {
            return;
        } else {
            state.has_sent_nak = true;
            let expected = state.expected;
            self.answer(expected, SEQUENCE_ERROR, SPACE.previous(expected))
        };
        self.emit(world, End::Host(host), Packet::Answer(reply));
    }

    /// An answer reaches a host: every NAK acknowledges all before its PSN, whatever its code, as Linux rxe's requester has it.
    pub fn take_answer(&self, world: &mut World, host: usize, answer: Answer) {
        let syndrome = Syndrome::from(answer.syndrome);
        let is_ack = matches!(syndrome, Syndrome::Ack { .. });
        let acked_before = match is_ack {
            true => SPACE.next(answer.psn),
            false => answer.psn,
        };
        self.complete(world, host, acked_before, !is_ack);
        let is_selective = matches!(self.recovery, Recovery::SelectiveRepeat(_));
        match answer.syndrome {
            // The place of the message count has the lost packet's PSN.
            SELECTIVE if is_selective => self.lose(world, host, answer.msn),
            SEQUENCE_ERROR if is_selective => self.lose(world, host, answer.psn),
            _ if self.counts_messages => self.check_count(world, host, acked_before, answer.msn),
            _ => {}
        }
    }

    /// A source gets no count of more messages than the PSN completes.
    fn check_count(&self, world: &mut World, host: usize, acked_before: u32, msn: u32) {
        let is_source = self.streams.iter().any(|&(sender, _)| sender == host);
        let most = self.messages_with(SPACE.previous(acked_before));
        if is_source && SPACE.lt(most, msn) {
            world.violation = Some("a count beyond the messages that all hold");
        }
    }

    /// A requester: cumulative ACKs, go-back-N. A NAK of a packet that was never sent is dropped.
    fn complete(&self, world: &mut World, host: usize, acked_before: u32, is_nak: bool) {
        for (stream, &(sender, _)) in self.streams.iter().enumerate() {
            let requester = &mut world.requesters[stream];
            if sender != host
                || SPACE.lt(acked_before, requester.unacked)
                || SPACE.lt(requester.fresh, acked_before)
                || requester.fresh == self.range(stream).0
                || (is_nak && acked_before == requester.fresh)
            {
                continue;
            }
            let lacks = |(at, state): (usize, &Host)| {
                at != sender && !self.is_faulty(at) && SPACE.lt(state.expected, acked_before)
            };
            if world.hosts.iter().enumerate().any(lacks) {
                world.violation = Some(if is_nak {
                    "a NAK covers a loss"
                } else {
                    "an ACK beyond the minimum"
                });
            }
            requester.unacked = acked_before;
            requester.lost.retain(|psn| !SPACE.lt(*psn, acked_before));
            let goes_back = is_nak && self.recovery == Recovery::GoBackN;
            if goes_back || SPACE.lt(requester.next, acked_before) {
                requester.next = acked_before;
            }
        }
    }

    /// A requester with selective repeat: a switch has reported a packet lost.
    fn lose(&self, world: &mut World, host: usize, psn: u32) {
        for (stream, &(sender, _)) in self.streams.iter().enumerate() {
            let requester = &mut world.requesters[stream];
            let is_outstanding =
                !SPACE.lt(psn, requester.unacked) && SPACE.lt(psn, requester.fresh);
            if sender == host && is_outstanding {
                requester.lost.insert(psn);
            }
        }
    }

    pub fn can_send(&self, world: &World, stream: usize) -> bool {
        let requester = &world.requesters[stream];
        self.may_send(world, stream)
            && (requester.next != self.range(stream).1 || requester.has_lost())
    }

    pub fn send(&self, world: &mut World, stream: usize) {
        let requester = &mut world.requesters[stream];
        let psn = match requester.lost.pop_first() {
            Some(lost) => lost,
            None => {
                let psn = requester.next;
                requester.next = SPACE.next(psn);
                if SPACE.lt(requester.fresh, requester.next) {
                    requester.fresh = requester.next;
                }
                psn
            }
        };
        self.emit(world, End::Host(self.streams[stream].0), Packet::Data(psn));
    }

    pub fn time_out(&self, world: &mut World, stream: usize) {
        let requester = &mut world.requesters[stream];
        match self.recovery {
            Recovery::GoBackN => requester.next = requester.unacked,
            Recovery::SelectiveRepeat(_) => {
                let newest = SPACE.previous(requester.fresh);
                requester.lost.extend([requester.unacked, newest]);
            }
        }
    }
}
