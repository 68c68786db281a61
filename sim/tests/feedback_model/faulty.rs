//! A member that sends what it likes, beside what its queue pair sends.

use alfirk_aggregation::Strategy;

use crate::fabric::{End, ModelFabric, Moving, Recovery, World, SPACE, SPACE_BITS};
use crate::hosts::{Answer, Packet, SELECTIVE, SEQUENCE_ERROR, UNLIMITED};

/// Serial numbers that are half their space apart have no order.
const HALF: u32 = 1 << (SPACE_BITS - 1);
/// RNR NAK with the longest timer, NAK of an invalid request.
const NOT_READY: u8 = 0x20;
const INVALID_REQUEST: u8 = 0x61;
/// NAK codes 4 and 30, type 0b010, a syndrome with bit 7 set.
const RESERVED: [u8; 4] = [0x64, 0x7e, 0x45, 0xff];

/// What such a member sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Data, ACKs and sequence NAKs of every PSN, as soon as there is a source; but no data that follows just what was sent, by which
    /// a member becomes the source.
    Anything,
    /// Answers of every kind with PSNs around what was acknowledged and what was sent, and half the number space away.
    Answers,
    /// The same with forged message counts: as many messages as there are PSNs, and those next to the right one.
    Counts,
    /// Data before there is a source, of every PSN but the first one.
    First,
    /// Its last ACK again and again.
    SameAck,
    /// Its last ACK with odd headers.
    OddAck,
    /// Congestion notifications.
    Cnps,
    /// Data that is as far ahead as the number space allows, once it is the source.
    Leap,
    /// Any selective NAK of the window with any number of reports.
    Reports,
}

/// Such a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultyMember {
    pub host: usize,
    /// How often it sends something of its own.
    pub false_reports: u32,
    pub speech: Speech,
}

impl ModelFabric {
    /// What it claims to have is its own affair.
    pub fn is_faulty(&self, host: usize) -> bool {
        self.faulty.is_some_and(|faulty| faulty.host == host)
    }

    /// Everything that the faulty member could send next.
    pub fn false_reports(&self, world: &World) -> Vec<Packet> {
        let Some(faulty) = self
            .faulty
            .filter(|faulty| world.false_reports < faulty.false_reports)
        else {
            return Vec::new();
        };
        let (switch, _) = self.leaf_of(faulty.host);
        let (acked, sender) = (world.last_acked(switch), world.sender(switch));
        let has_source = sender.source.is_some();
        let numbers = || 0..1 << SPACE_BITS;
        let around = |psn: u32| [-2i32, -1, 0, 1, 2].map(|step| SPACE.add(psn, step as u32));
        let near = || {
            let mut near = [around(acked), around(sender.sent)].concat();
            near.extend([SPACE.add(acked, HALF), SPACE.add(sender.sent, HALF)]);
            near.sort_unstable();
            near.dedup();
            near
        };
        match faulty.speech {
            Speech::Anything if has_source => {
                let data = numbers().filter(|&psn| psn != SPACE.next(sender.sent));
                let selective = match self.recovery {
                    Recovery::GoBackN => 0,
                    Recovery::SelectiveRepeat(most) => u32::from(most),
                };
                let feedback = numbers().flat_map(move |psn| {
                    let reports = (1..=selective).map(move |times| (SELECTIVE, times));
                    let plain = [(UNLIMITED, 0), (SEQUENCE_ERROR, 0)];
                    plain
                        .into_iter()
                        .chain(reports)
                        .map(move |(syndrome, msn)| Packet::Answer(Answer { psn, syndrome, msn }))
                });
                data.map(Packet::Data).chain(feedback).collect()
            }
            Speech::Answers => {
                let usual = [
                    UNLIMITED,
                    SEQUENCE_ERROR,
                    NOT_READY,
                    INVALID_REQUEST,
                    SELECTIVE,
                ];
                let syndromes = || usual.into_iter().chain(RESERVED);
                let answer = |psn, syndrome| {
                    Packet::Answer(Answer {
                        psn,
                        syndrome,
                        msn: 1,
                    })
                };
                let answers = near()
                    .into_iter()
                    .flat_map(|psn| syndromes().map(move |syndrome| answer(psn, syndrome)));
                answers.collect()
            }
            Speech::Counts => {
                let answers = near().into_iter().flat_map(|psn| {
                    let right = self.messages_with(psn);
                    let counts = [
                        right,
                        SPACE.next(right),
                        SPACE.add(right, 3),
                        SPACE.add(right, HALF),
                    ];
                    let answer = move |syndrome| {
                        counts.map(|msn| Packet::Answer(Answer { psn, syndrome, msn }))
                    };
                    [UNLIMITED, SEQUENCE_ERROR].into_iter().flat_map(answer)
                });
                answers.collect()
            }
            Speech::First if !has_source => {
                let data = numbers().filter(|&psn| psn != SPACE.next(sender.sent));
                data.map(Packet::Data).collect()
            }
            Speech::SameAck | Speech::OddAck => {
                let expected = world.hosts[faulty.host].expected;
                let ack = self.ack(SPACE.previous(expected));
                vec![match faulty.speech {
                    Speech::SameAck => Packet::Answer(ack),
                    _ => Packet::OddAnswer(ack),
                }]
            }
            Speech::Cnps => vec![Packet::Cnp],
            Speech::Leap if has_source => {
                let ahead = (2..HALF).map(|ahead| Packet::Data(SPACE.add(sender.sent, ahead)));
                ahead.collect()
            }
            Speech::Reports => {
                let answer = |psn, msn| {
                    Packet::Answer(Answer {
                        psn,
                        syndrome: SELECTIVE,
                        msn,
                    })
                };
                let reports = near()
                    .into_iter()
                    .flat_map(|psn| [1, 2, (1 << SPACE_BITS) - 1].map(|msn| answer(psn, msn)));
                reports.collect()
            }
            Speech::Anything | Speech::First | Speech::Leap => Vec::new(),
        }
    }

    /// The faulty member's packet comes to its leaf. Data of a member that is not the source goes to no member.
    pub fn false_report(&self, world: &mut World, packet: Packet) {
        let faulty = self.faulty.expect("the fabric has a faulty member");
        world.false_reports += 1;
        let (switch, port) = self.leaf_of(faulty.host);
        let is_source = world.sender(switch).source == Some(port);
        let before = self.moving(world);
        self.arrive(world, self.direction_from(End::Host(faulty.host)), packet);
        let is_copied = self.moving(world).iter().any(|moving| {
            matches!(moving, Moving::OnWire(_, Packet::Data(_))) && !before.contains(moving)
        });
        if is_copied && !is_source {
            world.violation = Some("a member speaks for the source");
        }
        let way_back = self.direction_from(End::Switch(switch, port));
        let own_cnp = Moving::OnWire(way_back, Packet::Cnp);
        if packet == Packet::Cnp && self.moving(world).contains(&own_cnp) {
            world.violation = Some("a host receives its own CNP");
        }
    }

    /// After the last path has risen a walk goes on to its end, and once more along all paths.
    pub fn walks_end(&self, world: &World) -> bool {
        let ends = || self.links.iter().flat_map(|&(a, b)| [a, b]);
        let paths = |switch| {
            let paths = ends().filter(|end| matches!(end, End::Switch(at, _) if *at == switch));
            paths.count() as u32
        };
        (0..self.switches).all(|switch| world.passes(switch) <= 2 * paths(switch) + 1)
    }

    /// Whether passes of walks are counted: there is a member that may keep one going.
    pub fn counts_passes(&self) -> bool {
        let speech = self.faulty.map(|faulty| faulty.speech);
        self.strategy == Strategy::Walk && speech == Some(Speech::SameAck)
    }
}
