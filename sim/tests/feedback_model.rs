//! The rules of aggregation, explored to the end: every interleaving of sends, losses, duplicates, reordering
//! and timeouts, for small trees of switches. Every switch is the plain model `alfirk_sim::mft`, which another
//! test holds against the compiled pipeline.
//!
//! Invariants 1 to 4 of ARCHITECTURE.md: the sender never sees an ACK beyond what all receivers hold, no NAK
//! covers an earlier loss, and from every state in which all packets in flight are lost a fabric without
//! further losses completes the message. Numbers have three bits and start at the wrap-around.

use std::collections::BTreeSet;

use alfirk_sim::mft::{Action, Feedback, Flaw, Group, Nak, Port, Space};
use stateright::{Checker, HasDiscoveries, Model, Property};

const SPACE: Space = Space::new(3);
const SYNDROME_SEQUENCE: u8 = 0x60;
const ONLY_WHAT_ALL_HOLD: &str = "acknowledges only what all hold";
const RECOVERS: &str = "recovers from the loss of everything in flight";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Packet {
    Data(u32),
    Ack(u32),
    Nak(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Switch(usize, Port),
    /// The sender is host 0.
    Host(usize),
}

/// A tree of switches, its hosts and the adversary's means.
#[derive(Clone)]
struct Fabric {
    links: Vec<(End, End)>,
    switches: usize,
    receivers: usize,
    first_psn: u32,
    packets: u32,
    /// Different packets that may be under way at once on one direction of a link; more are lost.
    in_flight: usize,
    flaw: Flaw,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Receiver {
    expected: u32,
    has_sent_nak: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    switches: Vec<Group>,
    receivers: Vec<Receiver>,
    /// The oldest PSN without an ACK and the next one to send.
    unacked: u32,
    next: u32,
    /// Under way, for each direction of each link: even towards the second end, odd towards the first.
    wire: Vec<BTreeSet<Packet>>,
    violation: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Send,
    Timeout,
    Deliver(usize, Packet),
    DeliverAndKeep(usize, Packet),
    Lose(usize, Packet),
}

impl Fabric {
    fn psn_after_last(&self) -> u32 {
        SPACE.add(self.first_psn, self.packets)
    }

    fn is_complete(&self, world: &World) -> bool {
        let end = self.psn_after_last();
        world.unacked == end
            && world
                .receivers
                .iter()
                .all(|receiver| receiver.expected == end)
    }

    /// The direction of a link that leaves `from`.
    fn direction_from(&self, from: End) -> usize {
        let link = self
            .links
            .iter()
            .position(|&(a, b)| a == from || b == from)
            .expect("every port has a link");
        2 * link + usize::from(self.links[link].0 != from)
    }

    fn emit(&self, world: &mut World, from: End, packet: Packet) {
        let wire = &mut world.wire[self.direction_from(from)];
        if wire.len() < self.in_flight {
            wire.insert(packet);
        }
    }

    fn arrive(&self, world: &mut World, direction: usize, packet: Packet) {
        let (first, second) = self.links[direction / 2];
        match if direction % 2 == 0 { second } else { first } {
            End::Switch(switch, port) => {
                let group = &mut world.switches[switch];
                let action = match packet {
                    Packet::Data(psn) => group.data(port, psn),
                    Packet::Ack(psn) => group.feedback(port, Feedback::Ack { psn, msn: 0 }),
                    Packet::Nak(psn) => {
                        let nak = Nak {
                            psn,
                            syndrome: SYNDROME_SEQUENCE,
                        };
                        group.feedback(port, Feedback::Nak { nak, msn: 0 })
                    }
                };
                self.act(world, switch, packet, action);
            }
            End::Host(0) => self.sender_receives(world, packet),
            End::Host(host) => self.receiver_receives(world, host, packet),
        }
    }

    fn act(&self, world: &mut World, switch: usize, packet: Packet, action: Action) {
        match action {
            Action::Replicate(ports) => {
                for port in ports {
                    self.emit(world, End::Switch(switch, port), packet);
                }
            }
            Action::Answer { port, psn, .. } => {
                self.emit(world, End::Switch(switch, port), Packet::Ack(psn))
            }
            Action::Tell { port, feedback } => {
                let packet = match feedback {
                    Feedback::Ack { psn, .. } => Packet::Ack(psn),
                    Feedback::Nak { nak, .. } => Packet::Nak(nak.psn),
                };
                self.emit(world, End::Switch(switch, port), packet);
            }
            Action::Record | Action::NoSource => {}
        }
    }

    /// A responder: one NAK for each gap, duplicates acknowledged with the newest PSN.
    fn receiver_receives(&self, world: &mut World, host: usize, packet: Packet) {
        let Packet::Data(psn) = packet else { return };
        let receiver = &mut world.receivers[host - 1];
        let reply = if psn == receiver.expected {
            receiver.expected = SPACE.next(psn);
            receiver.has_sent_nak = false;
            Packet::Ack(psn)
        } else if SPACE.lt(psn, receiver.expected) {
            Packet::Ack(SPACE.previous(receiver.expected))
        } else if receiver.has_sent_nak {
            return;
        } else {
            receiver.has_sent_nak = true;
            Packet::Nak(receiver.expected)
        };
        self.emit(world, End::Host(host), reply);
    }

    /// A requester: cumulative ACKs, go-back-N, a NAK acknowledges all before it.
    fn sender_receives(&self, world: &mut World, packet: Packet) {
        let (acked_before, is_nak) = match packet {
            Packet::Ack(psn) => (SPACE.next(psn), false),
            Packet::Nak(psn) => (psn, true),
            Packet::Data(_) => return,
        };
        if SPACE.lt(acked_before, world.unacked) || SPACE.lt(world.next, acked_before) {
            return;
        }
        if world
            .receivers
            .iter()
            .any(|receiver| SPACE.lt(receiver.expected, acked_before))
        {
            world.violation = Some(if is_nak {
                "a NAK covers a loss"
            } else {
                "an ACK beyond the minimum"
            });
        }
        world.unacked = acked_before;
        if is_nak {
            world.next = acked_before;
        }
    }

    /// Everything in flight is lost and the adversary goes home: does the message complete?
    fn recovers(&self, world: &World) -> bool {
        let roomy = Fabric {
            in_flight: usize::MAX,
            ..self.clone()
        };
        let mut world = world.clone();
        world.wire.iter_mut().for_each(BTreeSet::clear);
        for _ in 0..2 * self.packets + 2 {
            if self.is_complete(&world) {
                return true;
            }
            world.next = world.unacked;
            while world.next != self.psn_after_last() {
                let psn = world.next;
                world.next = SPACE.next(psn);
                roomy.emit(&mut world, End::Host(0), Packet::Data(psn));
                roomy.deliver_all(&mut world);
            }
        }
        self.is_complete(&world)
    }

    fn deliver_all(&self, world: &mut World) {
        while let Some(direction) = world.wire.iter().position(|wire| !wire.is_empty()) {
            let packet = world.wire[direction]
                .pop_first()
                .expect("this one is not empty");
            self.arrive(world, direction, packet);
        }
    }
}

impl Model for Fabric {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let group = |switch| {
            let ports = self
                .links
                .iter()
                .flat_map(|&(a, b)| [a, b])
                .filter_map(|end| match end {
                    End::Switch(at, port) if at == switch => Some(port),
                    _ => None,
                });
            Group::new(SPACE, &ports.collect::<Vec<_>>(), self.first_psn, self.flaw)
        };
        let receiver = Receiver {
            expected: self.first_psn,
            has_sent_nak: false,
        };
        vec![World {
            switches: (0..self.switches).map(group).collect(),
            receivers: vec![receiver; self.receivers],
            unacked: self.first_psn,
            next: self.first_psn,
            wire: vec![BTreeSet::new(); 2 * self.links.len()],
            violation: None,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.violation.is_some() {
            return;
        }
        if world.next != self.psn_after_last() {
            steps.push(Step::Send);
        }
        if world.unacked != world.next {
            steps.push(Step::Timeout);
        }
        for (direction, wire) in world.wire.iter().enumerate() {
            for &packet in wire {
                steps.push(Step::Deliver(direction, packet));
                steps.push(Step::DeliverAndKeep(direction, packet));
                steps.push(Step::Lose(direction, packet));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        match step {
            Step::Send => {
                let psn = world.next;
                world.next = SPACE.next(psn);
                self.emit(&mut world, End::Host(0), Packet::Data(psn));
            }
            Step::Timeout => world.next = world.unacked,
            Step::Deliver(direction, packet) => {
                world.wire[direction].remove(&packet);
                self.arrive(&mut world, direction, packet);
            }
            Step::DeliverAndKeep(direction, packet) => self.arrive(&mut world, direction, packet),
            Step::Lose(direction, packet) => {
                world.wire[direction].remove(&packet);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONLY_WHAT_ALL_HOLD, |_, world: &World| {
                world.violation.is_none()
            }),
            Property::always(RECOVERS, |fabric: &Fabric, world: &World| {
                world.violation.is_some() || fabric.recovers(world)
            }),
            Property::sometimes("completes", |fabric: &Fabric, world: &World| {
                fabric.is_complete(world)
            }),
        ]
    }
}

/// Sender and `receivers` receivers at one switch.
fn one_switch(receivers: usize, packets: u32, flaw: Flaw) -> Fabric {
    let links = (0..=receivers)
        .map(|host| (End::Host(host), End::Switch(0, host as Port + 1)))
        .collect();
    Fabric {
        links,
        switches: 1,
        receivers,
        first_psn: 7,
        packets,
        in_flight: 1,
        flaw,
    }
}

/// Sender and one receiver at the first switch, `below` receivers at the second.
fn two_switches(below: usize, packets: u32, in_flight: usize, flaw: Flaw) -> Fabric {
    let mut links = vec![
        (End::Host(0), End::Switch(0, 1)),
        (End::Host(1), End::Switch(0, 2)),
        (End::Switch(0, 3), End::Switch(1, 1)),
    ];
    links.extend((0..below).map(|host| (End::Host(host + 2), End::Switch(1, host as Port + 2))));
    Fabric {
        links,
        switches: 2,
        receivers: below + 1,
        first_psn: 7,
        packets,
        in_flight,
        flaw,
    }
}

/// A sender's leaf without receivers and two leaves below it, one receiver each.
fn three_switches(packets: u32, in_flight: usize) -> Fabric {
    let links = vec![
        (End::Host(0), End::Switch(0, 1)),
        (End::Switch(0, 2), End::Switch(1, 1)),
        (End::Switch(0, 3), End::Switch(2, 1)),
        (End::Host(1), End::Switch(1, 2)),
        (End::Host(2), End::Switch(2, 2)),
    ];
    Fabric {
        links,
        switches: 3,
        receivers: 2,
        first_psn: 7,
        packets,
        in_flight,
        flaw: Flaw::None,
    }
}

fn check(fabric: Fabric) -> impl Checker<Fabric> {
    let checker = fabric.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker
}

#[test]
fn one_switch_with_two_receivers_keeps_the_invariants() {
    check(one_switch(2, 2, Flaw::None)).assert_properties();
}

#[test]
fn two_switches_with_two_receivers_keep_the_invariants() {
    check(two_switches(1, 2, 1, Flaw::None)).assert_properties();
}

#[test]
fn two_switches_with_three_receivers_keep_the_invariants() {
    check(two_switches(2, 1, 1, Flaw::None)).assert_properties();
}

#[test]
fn three_switches_keep_the_invariants() {
    check(three_switches(1, 1)).assert_properties();
}

/// Looks in depth first, and stops at the first failure.
fn finds(fabric: Fabric, property: &'static str) -> bool {
    let checker = fabric
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs()
        .join();
    println!("{} states", checker.unique_state_count());
    checker.discovery(property).is_some()
}

#[test]
fn the_checker_finds_a_nak_that_covers_a_loss() {
    assert!(finds(
        one_switch(2, 3, Flaw::CoveredNak),
        ONLY_WHAT_ALL_HOLD
    ));
}

#[test]
fn the_checker_finds_a_dropped_answer_to_acknowledged_data() {
    assert!(finds(two_switches(1, 2, 1, Flaw::DroppedTailAck), RECOVERS));
}
