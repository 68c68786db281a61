//! A member that sends arbitrary packets besides those of its queue pair.

use alfirk_aggregation::Strategy;

use crate::fabric::{End, InFlight, ModelFabric, Recovery, World, SPACE, SPACE_BITS};
use crate::hosts::{Acknowledgement, Packet, SELECTIVE, SEQUENCE_ERROR, UNLIMITED};

/// Half of the number space. Serial numbers at this distance have no order.
const HALF: u32 = 1 << (SPACE_BITS - 1);
/// Syndromes: RNR NAK with the longest timer, NAK of an invalid request.
const NOT_READY: u8 = 0x20;
const INVALID_REQUEST: u8 = 0x61;
/// Reserved syndromes: NAK codes 4 and 30, type 0b010, and bit 7 set.
const RESERVED: [u8; 4] = [0x64, 0x7e, 0x45, 0xff];

/// Kind of packets that a faulty member sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyTraffic {
    /// Data, ACKs and sequence NAKs with every PSN, as soon as there is a source. Data with the next PSN is left out,
    /// because it would make the member the source.
    Anything,
    /// Acknowledgements of every kind, with PSNs around the newest acknowledged and sent ones, and half the number
    /// space away.
    Acknowledgements,
    /// The same acknowledgements with forged MSNs: as many messages as there are PSNs, and numbers next to the correct
    /// one.
    Counts,
    /// Data before there is a source, with every PSN but the first one.
    First,
    /// The member's last ACK, repeated.
    SameAck,
    /// The member's last ACK with malformed headers.
    OddAck,
    /// Congestion notifications.
    Cnps,
    /// Data as far ahead as the number space allows, once the member is the source.
    Leap,
    /// Selective NAKs of any packet in the window, with any number of reports.
    Reports,
}

/// A faulty member of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultyMember {
    pub host: usize,
    /// Number of packets that it sends besides those of its queue pair.
    pub false_reports: u32,
    pub traffic: FaultyTraffic,
}

impl ModelFabric {
    /// Whether a host is faulty. Its own state is not checked.
    pub fn is_faulty(&self, host: usize) -> bool {
        self.faulty.is_some_and(|faulty| faulty.host == host)
    }

    /// Whether the group waits for the faulty member only: it lacks packets, and the switches of all other members have
    /// their acknowledgements of everything. A member that acknowledges a packet which it lacks is not sent that packet
    /// again, and so never acknowledges later ones; the controller removes a member that stops acknowledging.
    pub fn waits_for_faulty_member(&self, world: &World) -> bool {
        let Some(faulty) = self.faulty else {
            return false;
        };
        let has_all = |host: usize| world.hosts[host].expected == self.last_expected(host);
        let is_acknowledged = |host: usize| {
            let (switch, port) = self.leaf_of(host);
            world.words(switch)[port as usize - 1] == SPACE.previous(self.end())
        };
        let mut others = (0..world.hosts.len()).filter(|host| *host != faulty.host);
        !has_all(faulty.host) && others.all(|host| has_all(host) && is_acknowledged(host))
    }

    /// All packets that the faulty member may send next.
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
        match faulty.traffic {
            FaultyTraffic::Anything if has_source => {
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
                        .map(move |(syndrome, msn)| {
                            Packet::Acknowledgement(Acknowledgement { psn, syndrome, msn })
                        })
                });
                data.map(Packet::Data).chain(feedback).collect()
            }
            FaultyTraffic::Acknowledgements => {
                let usual = [
                    UNLIMITED,
                    SEQUENCE_ERROR,
                    NOT_READY,
                    INVALID_REQUEST,
                    SELECTIVE,
                ];
                let syndromes = || usual.into_iter().chain(RESERVED);
                let acknowledgement = |psn, syndrome| {
                    Packet::Acknowledgement(Acknowledgement {
                        psn,
                        syndrome,
                        msn: 1,
                    })
                };
                let acknowledgements = near().into_iter().flat_map(|psn| {
                    syndromes().map(move |syndrome| acknowledgement(psn, syndrome))
                });
                acknowledgements.collect()
            }
            FaultyTraffic::Counts => {
                let acknowledgements = near().into_iter().flat_map(|psn| {
                    let right = self.messages_with(psn);
                    let counts = [
                        right,
                        SPACE.next(right),
                        SPACE.add(right, 3),
                        SPACE.add(right, HALF),
                    ];
                    let acknowledgement = move |syndrome| {
                        counts.map(|msn| {
                            Packet::Acknowledgement(Acknowledgement { psn, syndrome, msn })
                        })
                    };
                    [UNLIMITED, SEQUENCE_ERROR]
                        .into_iter()
                        .flat_map(acknowledgement)
                });
                acknowledgements.collect()
            }
            FaultyTraffic::First if !has_source => {
                let data = numbers().filter(|&psn| psn != SPACE.next(sender.sent));
                data.map(Packet::Data).collect()
            }
            FaultyTraffic::SameAck | FaultyTraffic::OddAck => {
                let expected = world.hosts[faulty.host].expected;
                let ack = self.ack(SPACE.previous(expected));
                vec![match faulty.traffic {
                    FaultyTraffic::SameAck => Packet::Acknowledgement(ack),
                    _ => Packet::MalformedAcknowledgement(ack),
                }]
            }
            FaultyTraffic::Cnps => vec![Packet::Cnp],
            FaultyTraffic::Leap if has_source => {
                let ahead = (2..HALF).map(|ahead| Packet::Data(SPACE.add(sender.sent, ahead)));
                ahead.collect()
            }
            FaultyTraffic::Reports => {
                let acknowledgement = |psn, msn| {
                    Packet::Acknowledgement(Acknowledgement {
                        psn,
                        syndrome: SELECTIVE,
                        msn,
                    })
                };
                let reports = near().into_iter().flat_map(|psn| {
                    [1, 2, (1 << SPACE_BITS) - 1].map(|msn| acknowledgement(psn, msn))
                });
                reports.collect()
            }
            FaultyTraffic::Anything | FaultyTraffic::First | FaultyTraffic::Leap => Vec::new(),
        }
    }

    /// Delivers the faulty member's packet to its leaf switch. Checks that data of a member that is not the source
    /// reaches no member.
    pub fn false_report(&self, world: &mut World, packet: Packet) {
        let faulty = self.faulty.expect("the fabric has a faulty member");
        world.false_reports += 1;
        let (switch, port) = self.leaf_of(faulty.host);
        let is_source = world.sender(switch).source == Some(port);
        let before = self.in_flight_packet(world);
        self.arrive(world, self.direction_from(End::Host(faulty.host)), packet);
        let is_copied = self.in_flight_packet(world).iter().any(|in_flight_packet| {
            matches!(in_flight_packet, InFlight::OnWire(_, Packet::Data(_)))
                && !before.contains(in_flight_packet)
        });
        if is_copied && !is_source {
            world.violation = Some("a member speaks for the source");
        }
        let way_back = self.direction_from(End::Switch(switch, port));
        let own_cnp = InFlight::OnWire(way_back, Packet::Cnp);
        if packet == Packet::Cnp && self.in_flight_packet(world).contains(&own_cnp) {
            world.violation = Some("a host receives its own CNP");
        }
    }

    /// Whether each walk has ended: after the last advance of a path it completes, and visits all paths once more.
    pub fn walks_end(&self, world: &World) -> bool {
        let ends = || self.links.iter().flat_map(|&(a, b)| [a, b]);
        let paths = |switch| {
            let paths = ends().filter(|end| matches!(end, End::Switch(at, _) if *at == switch));
            paths.count() as u32
        };
        (0..self.switches).all(|switch| world.passes(switch) <= 2 * paths(switch) + 1)
    }

    /// Whether passes of walks are counted, because a member may prolong them.
    pub fn counts_passes(&self) -> bool {
        let traffic = self.faulty.map(|faulty| faulty.traffic);
        self.strategy == Strategy::Walk && traffic == Some(FaultyTraffic::SameAck)
    }
}
