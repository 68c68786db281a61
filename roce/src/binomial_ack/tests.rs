//! Groups in virtual time: datagrams are randomly lost, duplicated and delayed at each receiver; packets of connections only delayed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::*;
use crate::rc::PathMtu;
use crate::wire::QpNum;

const CONFIG: Config = Config {
    mtu: PathMtu::B256,
    max_message: 100_000,
    cycle_timeout: 20_000,
    segment_time: 100,
    attempts: 4,
    window: 3,
};
/// Delay of a datagram in nanoseconds.
const DATAGRAM: u64 = 1_000;
/// Delay of a connection's packet in nanoseconds, retransmissions included.
const CONNECTION: u64 = 3_000;

enum Arrival {
    Datagram(u32, Vec<u8>),
    Packet(u32, Vec<u8>),
    List(Membership),
}

struct World {
    now: u64,
    random: ChaCha8Rng,
    /// Lost datagrams per million at each receiver.
    loss: u32,
    manager: Manager,
    nodes: BTreeMap<u32, Node>,
    /// Arrivals by time and order of sending; connections keep the order between two nodes.
    agenda: BTreeMap<(u64, u64), (u32, Arrival)>,
    sent: u64,
    last_arrival: BTreeMap<(u32, u32), u64>,
    datagrams: u64,
    packets: BTreeMap<u8, u64>,
    delivered: BTreeMap<(u32, MessageId), Arc<[u8]>>,
    completed: BTreeSet<MessageId>,
    silent: BTreeSet<(u32, u32)>,
    dead: BTreeSet<u32>,
    /// Whether the manager removes failed members that were reported as silent.
    expels: bool,
    /// By message: the members of the list by which it was sent.
    addressed: BTreeMap<MessageId, BTreeSet<u32>>,
}

impl World {
    fn new(members: u32, loss: u32, seed: u64) -> World {
        let mut world = World {
            now: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
            loss,
            manager: Manager::new(),
            nodes: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sent: 0,
            last_arrival: BTreeMap::new(),
            datagrams: 0,
            packets: BTreeMap::new(),
            delivered: BTreeMap::new(),
            completed: BTreeSet::new(),
            silent: BTreeSet::new(),
            dead: BTreeSet::new(),
            expels: false,
            addressed: BTreeMap::new(),
        };
        for _ in 0..members {
            world.join();
        }
        world.run();
        world
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn join(&mut self) -> u32 {
        let ip = Ipv4Addr::from(0x0a00_0001 + self.sent as u32);
        let (number, list) = self.manager.join(ip, QpNum::new(0x11)).unwrap();
        self.nodes.insert(number, Node::new(number, CONFIG));
        self.publish(&list);
        number
    }

    fn leave(&mut self, number: u32) {
        let list = self.manager.leave(number).unwrap();
        self.publish(&list);
    }

    /// Sends a list to its members, and to those that it does not name any more.
    fn publish(&mut self, list: &Membership) {
        for number in self.nodes.keys().copied().collect::<Vec<_>>() {
            // From the manager, which has no member number in this test.
            self.post(u32::MAX, number, Arrival::List(list.clone()));
        }
    }

    fn post(&mut self, from: u32, to: u32, arrival: Arrival) {
        let mut at = match arrival {
            Arrival::Datagram(..) => self.now + DATAGRAM + self.below(DATAGRAM),
            _ => self.now + CONNECTION + self.below(CONNECTION),
        };
        if !matches!(arrival, Arrival::Datagram(..)) {
            let last = self.last_arrival.entry((from, to)).or_insert(0);
            at = at.max(*last);
            *last = at;
        }
        self.sent += 1;
        self.agenda.insert((at, self.sent), (to, arrival));
    }

    fn multicast(&mut self, root: u32, data: &[u8]) -> MessageId {
        let node = self.nodes.get_mut(&root).unwrap();
        let members = node.newest_members();
        let message = node.multicast(self.now, data.into()).unwrap();
        let id = MessageId { root, message };
        self.addressed.insert(id, members);
        self.apply_effects(root);
        id
    }

    fn apply_effects(&mut self, number: u32) {
        while let Some(effect) = self.nodes.get_mut(&number).and_then(Node::poll) {
            match effect {
                Effect::Multicast(bytes) => {
                    self.datagrams += 1;
                    for other in self.nodes.keys().copied().collect::<Vec<_>>() {
                        if other == number {
                            continue;
                        }
                        if self.below(1_000_000) >= u64::from(self.loss) {
                            self.post(number, other, Arrival::Datagram(number, bytes.clone()));
                        }
                        if self.below(1_000_000) < u64::from(self.loss) {
                            self.post(number, other, Arrival::Datagram(number, bytes.clone()));
                        }
                    }
                }
                Effect::Send { to, packet } => {
                    *self.packets.entry(packet[0]).or_default() += 1;
                    self.post(number, to, Arrival::Packet(number, packet));
                    // A connection to a failed member fails.
                    self.look_after(to);
                }
                Effect::Delivered { id, data } => {
                    let before = self.delivered.insert((number, id), data);
                    assert!(before.is_none(), "{id:?} comes twice to {number}");
                }
                Effect::Completed { message } => {
                    let id = MessageId {
                        root: number,
                        message,
                    };
                    self.check_safe(id);
                    assert!(self.completed.insert(id));
                }
                Effect::Silent { member } => {
                    self.silent.insert((number, member));
                    self.look_after(member);
                }
            }
        }
    }

    /// The manager's reaction to a report about a member.
    fn look_after(&mut self, member: u32) {
        let is_there = self.manager.membership().place(member).is_some();
        if self.expels && is_there && self.dead.contains(&member) {
            self.leave(member);
        }
    }

    /// Asserts that a message was complete only when all addressed members that remain had it.
    fn check_safe(&self, id: MessageId) {
        let members = self.manager.membership();
        for number in &self.addressed[&id] {
            let is_member = members.place(*number).is_some() && *number != id.root;
            let has_it = self.delivered.contains_key(&(*number, id));
            assert!(has_it || !is_member, "{number} lacks {id:?}");
        }
    }

    fn step(&mut self) -> bool {
        let alive = self.nodes.iter().filter(|(n, _)| !self.dead.contains(n));
        let alarms = alive.filter_map(|(number, node)| Some((node.poll_timeout()?, *number)));
        let alarm = alarms.min();
        let arrival = self.agenda.first_key_value().map(|((at, _), _)| *at);
        match (alarm, arrival) {
            (None, None) => return false,
            (Some((at, number)), arrival) if arrival.is_none_or(|other| at < other) => {
                self.now = self.now.max(at);
                let now = self.now;
                self.nodes.get_mut(&number).unwrap().handle_timeout(now);
                self.apply_effects(number);
            }
            _ => {
                let ((at, _), (to, arrival)) = self.agenda.pop_first().unwrap();
                self.now = self.now.max(at);
                let now = self.now;
                if self.dead.contains(&to) {
                    return true;
                }
                let Some(node) = self.nodes.get_mut(&to) else {
                    return true;
                };
                match arrival {
                    Arrival::Datagram(from, bytes) => {
                        node.handle_datagram(now, from, &bytes).unwrap();
                    }
                    Arrival::Packet(from, bytes) => node.handle_packet(now, from, &bytes).unwrap(),
                    Arrival::List(list) => node.handle_membership(now, list),
                }
                self.apply_effects(to);
            }
        }
        true
    }

    /// Runs until nothing is pending.
    fn run(&mut self) {
        let deadline = self.now + 60_000_000_000;
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(self.now < deadline && steps < 10_000_000, "no end");
        }
    }

    fn count(&self, kind: u8) -> u64 {
        self.packets.get(&kind).copied().unwrap_or(0)
    }

    fn assert_idle(&self) {
        for (number, node) in &self.nodes {
            assert!(self.dead.contains(number) || node.may_leave(), "{number}");
        }
    }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

#[test]
fn without_loss_a_message_costs_its_datagrams_and_one_acknowledgement_per_member() {
    for members in [2, 3, 8, 21] {
        let mut world = World::new(members, 0, 1);
        let data = bytes(1_000, 1);
        let id = world.multicast(members / 2, &data);
        world.run();
        assert!(world.completed.contains(&id));
        // 228 bytes each.
        assert_eq!(world.datagrams, 5);
        let [content, acks, requests, releases] = [1, 2, 3, 4].map(|kind| world.count(kind));
        let others = u64::from(members) - 1;
        assert_eq!((content, acks, requests, releases), (0, others, 0, others));
        world.assert_idle();
    }
}

#[test]
fn parents_repair_children_and_children_repair_parents() {
    // Of members 0 to 3, number 2 is the parent of 3.
    for (lacking, requests) in [(3, 0), (2, 1)] {
        let mut world = World::new(4, 0, 1);
        let id = world.multicast(0, b"to all");
        world.agenda.retain(|_, (to, _)| *to != lacking);
        world.run();
        assert!(world.completed.contains(&id), "{lacking}");
        assert_eq!((world.count(1), world.count(3)), (1, requests), "{lacking}");
        assert_eq!(&world.delivered[&(lacking, id)][..], b"to all");
        world.assert_idle();
    }
}

#[test]
fn a_message_of_no_bytes_is_a_barrier() {
    let mut world = World::new(5, 0, 1);
    let id = world.multicast(3, b"");
    world.run();
    assert!(world.completed.contains(&id));
    assert_eq!(world.delivered.len(), 4);
}

#[test]
fn a_group_of_one_completes_at_once() {
    let mut world = World::new(1, 0, 1);
    let id = world.multicast(0, b"to myself");
    assert!(world.completed.contains(&id));
}

#[test]
fn new_members_get_the_next_message_and_departed_ones_none() {
    let mut world = World::new(3, 0, 1);
    let first = world.multicast(1, b"first");
    let late = world.join();
    world.run();
    let second = world.multicast(0, b"second");
    world.run();
    assert!(!world.delivered.contains_key(&(late, first)));
    assert!(world.delivered.contains_key(&(late, second)));
    world.leave(2);
    world.run();
    let third = world.multicast(late, b"third");
    world.run();
    assert!(world.completed.contains(&third));
    assert!(!world.delivered.contains_key(&(2, third)));
    let gone = world
        .nodes
        .get_mut(&2)
        .unwrap()
        .multicast(0, Arc::from(&b"x"[..]));
    assert_eq!(gone, Err(MulticastError::NotMember));
    world.assert_idle();
}

#[test]
fn a_failed_member_is_reported_and_its_children_are_adopted() {
    // Number 4 has the children 5 and 6.
    let mut world = World::new(8, 0, 1);
    world.dead.insert(4);
    let id = world.multicast(0, b"one is dead");
    world.agenda.retain(|_, (to, _)| *to != 5);
    while !world.silent.contains(&(0, 4)) {
        assert!(world.step());
    }
    assert!(!world.completed.contains(&id));
    world.leave(4);
    world.run();
    assert!(world.completed.contains(&id));
    for number in [1, 2, 3, 5, 6, 7] {
        assert!(world.delivered.contains_key(&(number, id)), "{number}");
    }
    world.assert_idle();
}

#[test]
fn a_message_beyond_the_limit_is_rejected_with_a_remedy() {
    let mut world = World::new(2, 0, 1);
    let node = world.nodes.get_mut(&0).unwrap();
    let error = node.multicast(0, vec![0; 100_001].into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a message of 100001 bytes is longer than the group's limit of 100000 bytes; send it in parts"
    );
}

#[test]
fn inconsistent_packets_are_rejected_without_effect() {
    let mut world = World::new(3, 0, 1);
    let id = MessageId {
        root: 1,
        message: 0,
    };
    let packet = |len, body| Packet {
        id,
        version: 3,
        len,
        body,
    };
    let node = world.nodes.get_mut(&0).unwrap();
    let segment = |place, bytes| Body::Segment { place, bytes };
    // An index after the end, a short segment, a kind that is not a datagram's.
    for (len, body) in [
        (10, segment(1, &b""[..])),
        (1_000, segment(0, b"short")),
        (3, Body::Ack),
    ] {
        let lie = packet(len, body).emit();
        assert!(node.handle_datagram(0, 1, &lie).is_err());
    }
    // A message of another root.
    let good = packet(1_000, segment(0, &[0; 228])).emit();
    assert!(node.handle_datagram(0, 2, &good).is_err());
    // Longer than the group's limit: ignored.
    node.handle_datagram(0, 1, &packet(1 << 40, segment(0, &[0; 228])).emit())
        .unwrap();
    assert!(node.may_leave());
    // A message in this node's name that it never sent.
    let own = MessageId {
        root: 0,
        message: 9,
    };
    let ack = Packet {
        id: own,
        ..packet(3, Body::Ack)
    };
    node.handle_packet(0, 1, &ack.emit()).unwrap();
    assert!(node.may_leave());
    // Another length than before.
    node.handle_datagram(0, 1, &good).unwrap();
    assert!(node
        .handle_packet(0, 1, &packet(3, Body::Ack).emit())
        .is_err());
}

#[test]
fn a_root_waits_while_its_window_is_full() {
    let mut world = World::new(3, 0, 1);
    for _ in 0..CONFIG.window {
        world.multicast(1, b"one of many");
    }
    let root = world.nodes.get_mut(&1).unwrap();
    assert!(root.is_full());
    let refused = root.multicast(0, Arc::from(&b"x"[..]));
    assert_eq!(refused, Err(MulticastError::Full(3)));
    world.run();
    assert_eq!(world.completed.len(), 3);
    world.multicast(1, b"now");
    world.run();
    world.assert_idle();
}

#[test]
fn a_sender_that_completes_nothing_occupies_at_most_a_window() {
    let mut world = World::new(3, 0, 1);
    let node = world.nodes.get_mut(&0).unwrap();
    let begin = |root: u32, message: u32| {
        let packet = Packet {
            id: MessageId { root, message },
            version: 3,
            len: 100_000,
            body: Body::Segment {
                place: 0,
                bytes: &[0; 228],
            },
        };
        packet.emit()
    };
    for message in 0..50 {
        node.handle_datagram(0, 1, &begin(1, message)).unwrap();
    }
    assert_eq!(node.in_flight(), 3);
    // Another root has a window of its own.
    node.handle_datagram(0, 2, &begin(2, 7)).unwrap();
    assert_eq!(node.in_flight(), 4);
}

/// All members of groups of 2 to 40 members in turn, with loss of up to 1 % and far more.
#[test]
fn all_bytes_reach_all_members_of_any_group_size_under_loss() {
    for members in 2..=40 {
        for loss in [1_000, 10_000, 300_000] {
            let mut world = World::new(members, loss, u64::from(members) << 32 | u64::from(loss));
            let mut sent = Vec::new();
            for round in 0..3 {
                let root = (members * round / 3 + round) % members;
                let data = bytes(1 + 400 * round as usize * round as usize, root.into());
                sent.push((world.multicast(root, &data), data));
                if round != 1 {
                    // The second and the third message are in flight together.
                    world.run();
                }
            }
            assert_eq!(world.completed.len(), 3, "{members} members, loss {loss}");
            for (id, data) in sent {
                for number in (0..members).filter(|number| *number != id.root) {
                    assert!(world.delivered[&(number, id)][..] == data[..]);
                }
            }
            world.assert_idle();
        }
    }
}

#[test]
fn a_request_to_departed_members_waits_for_other_acknowledgements() {
    let mut world = World::new(4, 0, 1);
    world.run();
    let list = world.manager.membership();
    let root = list.number(0);
    let relays =
        |number: &u32| *number != root && world.nodes[number].tree_neighbours(root).len() == 2;
    let relay = *world.nodes.keys().find(|number| relays(number)).unwrap();
    let child = world.nodes[&relay].tree_neighbours(root)[1];
    let version = list.version;
    let node = world.nodes.get_mut(&relay).unwrap();
    let id = MessageId { root, message: 0 };
    let (len, body) = (10, Body::Ack);
    let ack = Packet {
        id,
        version,
        len,
        body,
    }
    .emit();
    node.handle_packet(0, child, &ack).unwrap();
    assert!(matches!(node.poll(), Some(Effect::Send { to, .. }) if to == child));
    node.handle_membership(0, world.manager.leave(child).unwrap());
    // The node reports its parent at growing intervals, and requests from no member.
    while let Some(at) = node.poll_timeout().filter(|at| *at < 1_000_000_000) {
        node.handle_timeout(at);
        assert!(node.poll_timeout().is_none_or(|next| next > at));
    }
    while let Some(effect) = node.poll() {
        assert_eq!(effect, Effect::Silent { member: root });
    }
}

proptest! {
    #[test]
    fn joins_leaves_and_messages_in_any_order_under_loss_complete(
        members in 2u32..20,
        loss in 0u32..50_000,
        seed: u64,
        steps in prop::collection::vec((0u8..6, any::<prop::sample::Index>(), 0usize..3_000, 0u64..20), 1..12),
    ) {
        let mut world = World::new(members, loss, seed);
        let mut sent = Vec::new();
        for (kind, who, len, events) in steps {
            let list = world.manager.membership();
            let number = list.number(who.index(list.members.len()) as u32);
            match kind {
                0 => {
                    world.join();
                }
                // A member leaves only when no other member needs its messages.
                1 if list.members.len() > 2 && world.nodes[&number].may_leave() => world.leave(number),
                _ if !world.nodes[&number].newest_members().contains(&number) => {}
                _ if world.nodes[&number].is_full() => {}
                _ => {
                    let data = bytes(len, seed ^ len as u64);
                    sent.push((world.multicast(number, &data), data));
                }
            }
            for _ in 0..events {
                world.step();
            }
        }
        world.run();
        let list = world.manager.membership();
        for (id, data) in &sent {
            for number in &world.addressed[id] {
                let is_there = list.place(*number).is_some() && list.place(id.root).is_some();
                if is_there && *number != id.root {
                    prop_assert!(world.delivered[&(*number, *id)][..] == data[..]);
                }
            }
            prop_assert!(world.completed.contains(id) || list.place(id.root).is_none());
        }
    }

    /// Leaves, inner members and the root fail while a message is in flight. Surviving members get it if the root survives, and none
    /// waits forever.
    #[test]
    fn failures_of_any_members_are_survived(
        members in 2u32..24,
        loss in 0u32..50_000,
        seed: u64,
        len in 0usize..3_000,
        failures in prop::collection::vec((any::<prop::sample::Index>(), 0u64..40), 1..5),
    ) {
        let mut world = World::new(members, loss, seed);
        world.expels = true;
        let root = seed as u32 % members;
        let data = bytes(len, seed);
        let id = world.multicast(root, &data);
        for (who, events) in failures {
            for _ in 0..events {
                world.step();
            }
            world.dead.insert(who.index(members as usize) as u32);
        }
        world.run();
        world.assert_idle();
        if world.dead.contains(&root) {
            return Ok(());
        }
        prop_assert!(world.completed.contains(&id));
        for number in (0..members).filter(|n| *n != root && !world.dead.contains(n)) {
            prop_assert!(world.delivered[&(number, id)][..] == data[..], "{} of {}", number, members);
        }
    }
}
