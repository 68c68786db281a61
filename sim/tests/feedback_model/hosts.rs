//! Hosts: the responder of every member, and the requester of each sender.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_aggregation::Notice;
use alfirk_roce::wire::{aeth, Syndrome};

use crate::fabric::{End, InFlight, ModelFabric, Nature, Recovery, World, FIRST_PSN, SPACE};

/// AETH syndromes: ACK without a credit limit, PSN sequence error, selective NAK.
pub const UNLIMITED: u8 = 0x1f;
pub const SEQUENCE_ERROR: u8 = 0x60;
pub const SELECTIVE: u8 = 0x7f;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    Data(u32),
    Acknowledgement(Acknowledgement),
    /// An acknowledgement with headers that its receiver would reject: a tag, a wrong length or version.
    MalformedAcknowledgement(Acknowledgement),
    /// A congestion notification.
    Cnp,
}

/// PSN and AETH of an ACKNOWLEDGE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Acknowledgement {
    pub psn: u32,
    pub syndrome: u8,
    pub msn: u32,
}

impl Acknowledgement {
    pub fn of((psn, aeth::Repr { syndrome, msn }): (u32, aeth::Repr)) -> Acknowledgement {
        Acknowledgement {
            psn,
            syndrome: syndrome.into(),
            msn,
        }
    }

    /// A receiver's report of a lost packet.
    fn report(psn: u32, reports: u8) -> Acknowledgement {
        Acknowledgement {
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
    /// With selective repeat: early packets after a gap, and the number of reports of each missing packet.
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
    /// Oldest PSN without an ACK.
    pub unacked: u32,
    /// PSN to send next, and PSN that was never sent next.
    pub next: u32,
    pub fresh: u32,
    /// With selective repeat: packets to resend.
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
    /// Packet of a notice as it leaves a switch. Between switches, a report is that of the receiver. Towards a host it
    /// is a NAK of the PSN after the last acknowledged one, with the lost PSN in its MSN field.
    pub fn of_notice(notice: Notice, is_for_host: bool, last_acked: u32) -> Packet {
        match notice {
            Notice::Cnp => Packet::Cnp,
            Notice::SelectiveNak { psn, .. } if is_for_host => {
                Packet::Acknowledgement(Acknowledgement {
                    psn: SPACE.next(last_acked),
                    syndrome: SELECTIVE,
                    msn: psn,
                })
            }
            Notice::SelectiveNak { psn, reports } => {
                Packet::Acknowledgement(Acknowledgement::report(psn, reports))
            }
            Notice::FatalNak { nak, msn } => Packet::Acknowledgement(Acknowledgement {
                psn: nak.psn,
                syndrome: nak.syndrome,
                msn,
            }),
        }
    }
}

impl ModelFabric {
    /// Number of messages that are complete up to a PSN: each packet is a message.
    pub fn messages_with(&self, psn: u32) -> u32 {
        SPACE.add(SPACE.next(psn), FIRST_PSN.wrapping_neg())
    }

    pub fn ack(&self, psn: u32) -> Acknowledgement {
        self.acknowledgement(psn, UNLIMITED, psn)
    }

    /// An acknowledgement of a host that has everything up to `acked`.
    fn acknowledgement(&self, psn: u32, syndrome: u8, acked: u32) -> Acknowledgement {
        let msn = match self.counts_messages {
            true => self.messages_with(acked),
            false => 0,
        };
        Acknowledgement { psn, syndrome, msn }
    }

    /// Reports that hosts may repeat when their timers expire. With [`Nature::Ordered`], only when no packet is in
    /// flight.
    pub fn reports(&self, world: &World) -> Vec<(usize, u32)> {
        let Recovery::SelectiveRepeat(most) = self.recovery else {
            return Vec::new();
        };
        let is_busy = || {
            let mut senders = 0..self.streams.len();
            !self.in_flight_packet(world).is_empty() || senders.any(|at| self.can_send(world, at))
        };
        if self.nature == Nature::Ordered && is_busy() {
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

    /// Whether a packet may be lost with [`Nature::Ordered`].
    pub fn may_be_lost(&self, world: &World, in_flight_packet: &InFlight) -> bool {
        let mut ranges = (0..self.streams.len()).map(|at| self.range(at));
        let mut is_edge = |psn| ranges.any(|(first, end)| psn == first || SPACE.next(psn) == end);
        world.losses < self.losses
            && match in_flight_packet {
                InFlight::OnWire(_, Packet::Data(psn)) => !is_edge(*psn),
                InFlight::OnWire(_, Packet::Acknowledgement(acknowledgement)) => {
                    acknowledgement.syndrome == SELECTIVE
                }
                _ => false,
            }
    }

    pub fn report(&self, world: &mut World, host: usize, psn: u32) {
        let times = world.hosts[host].reports.entry(psn).or_default();
        *times += 1;
        let acknowledgement = Acknowledgement::report(psn, *times);
        self.emit(
            world,
            End::Host(host),
            Packet::Acknowledgement(acknowledgement),
        );
    }

    /// Executes the responder of a host: one NAK per gap, or one per missing packet. Duplicates are acknowledged with
    /// the newest PSN.
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
            self.acknowledgement(expected, SEQUENCE_ERROR, SPACE.previous(expected))
        };
        self.emit(world, End::Host(host), Packet::Acknowledgement(reply));
    }

    /// Handles an acknowledgement at a host. As in Linux rxe, every NAK acknowledges all packets before its PSN,
    /// whatever its code.
    pub fn handle_acknowledgement(
        &self,
        world: &mut World,
        host: usize,
        acknowledgement: Acknowledgement,
    ) {
        let syndrome = Syndrome::from(acknowledgement.syndrome);
        let is_ack = matches!(syndrome, Syndrome::Ack { .. });
        let acked_before = match is_ack {
            true => SPACE.next(acknowledgement.psn),
            false => acknowledgement.psn,
        };
        self.complete(world, host, acked_before, !is_ack);
        let is_selective = matches!(self.recovery, Recovery::SelectiveRepeat(_));
        match acknowledgement.syndrome {
            // The MSN field has the PSN of the lost packet.
            SELECTIVE if is_selective => self.lose(world, host, acknowledgement.msn),
            SEQUENCE_ERROR if is_selective => self.lose(world, host, acknowledgement.psn),
            _ if self.counts_messages => {
                self.check_count(world, host, acked_before, acknowledgement.msn)
            }
            _ => {}
        }
    }

    /// Checks that a source gets no larger MSN than its PSN completes.
    fn check_count(&self, world: &mut World, host: usize, acked_before: u32, msn: u32) {
        let is_source = self.streams.iter().any(|&(sender, _)| sender == host);
        let most = self.messages_with(SPACE.previous(acked_before));
        if is_source && SPACE.lt(most, msn) {
            world.violation = Some("a count beyond the messages that all hold");
        }
    }

    /// Executes the requester: cumulative ACKs, go-back-N. A NAK of a packet that was never sent is dropped.
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

    /// Executes a requester with selective repeat, to which a switch has reported a lost packet.
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
