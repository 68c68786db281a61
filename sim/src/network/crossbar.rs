//! Input queues and crossbar of a switch.
//!
//! Packets are queued at their ingress port, by class. With plain input queues, only the first packet of a class may
//! cross. It is sent to each of its outputs as that becomes idle (fan-out splitting). It blocks later packets until its
//! last copy has begun to cross (head-of-line blocking). With virtual output queues, a packet waits only for earlier
//! ones to the same output. The speedup of an input is the number of packets that may cross at the same time, each at
//! the rate of the output's link. Copies of one packet count once.
//!
//! Each output sends from the highest class that is not stopped, and serves the inputs in turn (round robin).

use std::collections::VecDeque;

use crate::engine::DequeuedPacket;

/// Packets in the input queues of a switch, and the packets that are crossing to outputs.
pub(super) struct Crossbar<Q> {
    only_first: bool,
    speedup: usize,
    /// Inputs, ordered by port.
    inputs: Vec<Input<Q>>,
    /// Outputs, ordered by port.
    outputs: Vec<Output>,
}

/// Queues of one input port.
struct Input<Q> {
    port: u32,
    /// Waiting packets, by class.
    queues: Vec<VecDeque<Waiting<Q>>>,
    /// For each packet of this input that is crossing: the packet's number, and how many of its copies are crossing.
    crossing: Vec<(u64, usize)>,
}

struct Waiting<Q> {
    packet: u64,
    enqueued_at: u64,
    depth_at_enqueue: u32,
    /// Copies of the packet that have not crossed yet, each with its output port; never empty.
    copies: VecDeque<(u32, Q)>,
}

struct Output {
    port: u32,
    /// Input port at which the round robin begins its search for the next input. The search wraps around.
    next_input: u32,
    /// Input port and number of the packet that the output is sending; `None` while the output is idle.
    from: Option<(u32, u64)>,
}

impl<Q> Crossbar<Q> {
    /// Creates a crossbar without packets. If `only_first`, it has plain input queues, in which only the first packet
    /// of a class may cross; otherwise it has virtual output queues.
    pub(super) fn new(only_first: bool, speedup: u32) -> Crossbar<Q> {
        Crossbar {
            only_first,
            speedup: speedup as usize,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds a copy, for `output`, of packet `number` received at `input`. Copies of one packet are added in succession.
    pub(super) fn push(
        &mut self,
        (input, class, packet): (u32, u8, u64),
        output: u32,
        copy: Q,
        now: u64,
    ) {
        let input = self.input(input);
        let class = usize::from(class);
        if input.queues.len() <= class {
            input.queues.resize_with(class + 1, VecDeque::new);
        }
        let queue = &mut input.queues[class];
        match queue.back_mut() {
            Some(last) if last.packet == packet => last.copies.push_back((output, copy)),
            _ => {
                let depth_at_enqueue = queue.len() as u32;
                queue.push_back(Waiting {
                    packet,
                    enqueued_at: now,
                    depth_at_enqueue,
                    copies: [(output, copy)].into(),
                });
            }
        }
    }

    /// Chooses the next copy for an idle output, of a class that is not stopped there; removes and returns it.
    pub(super) fn grant(
        &mut self,
        output: u32,
        is_stopped: impl Fn(u8) -> bool,
    ) -> Option<DequeuedPacket<Q>> {
        let turn = self.output(output).next_input;
        let classes = self.inputs.iter().map(|input| input.queues.len()).max()?;
        let start = self.inputs.partition_point(|input| input.port < turn);
        let in_turn = (start..self.inputs.len()).chain(0..start);
        for class in (0..classes).rev().filter(|class| !is_stopped(*class as u8)) {
            for at in in_turn.clone() {
                let Some(place) = self.find(at, class, output) else {
                    continue;
                };
                let (from, packet, dequeued) = self.take(at, class, place);
                let output = self.output(output);
                output.next_input = from.wrapping_add(1);
                output.from = Some((from, packet));
                return Some(dequeued);
            }
        }
        None
    }

    /// Finds the next copy for an output in the queue of an input and class. Returns the packet's position in the
    /// queue, and the copy's position in the packet; `None` if no copy may cross.
    fn find(&self, input: usize, class: usize, output: u32) -> Option<(usize, usize)> {
        let input = &self.inputs[input];
        let looked_at = if self.only_first { 1 } else { usize::MAX };
        let mut waiting = input
            .queues
            .get(class)?
            .iter()
            .take(looked_at)
            .enumerate()
            .filter_map(|(place, waiting)| {
                let copy = waiting.copies.iter().position(|(to, _)| *to == output)?;
                Some((place, copy, waiting.packet))
            });
        let (place, copy, packet) = waiting.next()?;
        let crosses = input.crossing.iter().any(|(of, _)| *of == packet);
        let may = crosses || input.crossing.len() < self.speedup;
        may.then_some((place, copy))
    }

    fn take(
        &mut self,
        input: usize,
        class: usize,
        (place, copy): (usize, usize),
    ) -> (u32, u64, DequeuedPacket<Q>) {
        let input = &mut self.inputs[input];
        let queue = &mut input.queues[class];
        let waiting = &mut queue[place];
        let (_, copy) = waiting.copies.remove(copy).expect("found just now");
        let packet = waiting.packet;
        let (enqueued_at, depth_at_enqueue) = (waiting.enqueued_at, waiting.depth_at_enqueue);
        if waiting.copies.is_empty() {
            queue.remove(place);
        }
        let dequeued = DequeuedPacket {
            packet: copy,
            enqueued_at,
            depth_at_enqueue,
            depth_at_dequeue: queue.len() as u32,
        };
        match input.crossing.iter_mut().find(|(of, _)| *of == packet) {
            Some((_, copies)) => *copies += 1,
            None => input.crossing.push((packet, 1)),
        }
        (input.port, packet, dequeued)
    }

    /// Records that an output has finished its copy, by sending or dropping it, so that the input may send another
    /// packet.
    pub(super) fn release_output(&mut self, output: u32) {
        let Some((from, packet)) = self.output(output).from.take() else {
            return;
        };
        let crossing = &mut self.input(from).crossing;
        if let Some(at) = crossing.iter().position(|(of, _)| *of == packet) {
            crossing[at].1 -= 1;
            if crossing[at].1 == 0 {
                crossing.remove(at);
            }
        }
    }

    /// Outputs for which copies wait at `input`, in round-robin order after `output`. With plain input queues, only the
    /// first packet of each class counts.
    pub(super) fn other_wanted_outputs(&self, output: u32, input: u32) -> Vec<u32> {
        let found = self.inputs.binary_search_by_key(&input, |i| i.port);
        let Some(input) = found.ok().map(|at| &self.inputs[at]) else {
            return Vec::new();
        };
        let looked_at = if self.only_first { 1 } else { usize::MAX };
        let mut outputs: Vec<u32> = input
            .queues
            .iter()
            .flat_map(|queue| queue.iter().take(looked_at))
            .flat_map(|waiting| waiting.copies.iter().map(|(to, _)| *to))
            .collect();
        outputs.sort_unstable();
        outputs.dedup();
        let after = outputs.partition_point(|port| *port <= output);
        outputs.rotate_left(after);
        outputs
    }

    /// Input port of the packet that an output is sending; `None` for an idle output.
    pub(super) fn source(&self, output: u32) -> Option<u32> {
        let at = self
            .outputs
            .binary_search_by_key(&output, |o| o.port)
            .ok()?;
        self.outputs[at].from.map(|(input, _)| input)
    }

    /// Removes all packets.
    pub(super) fn clear(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
    }

    fn input(&mut self, port: u32) -> &mut Input<Q> {
        let at = self.inputs.partition_point(|input| input.port < port);
        if self.inputs.get(at).is_none_or(|input| input.port != port) {
            let input = Input {
                port,
                queues: Vec::new(),
                crossing: Vec::new(),
            };
            self.inputs.insert(at, input);
        }
        &mut self.inputs[at]
    }

    fn output(&mut self, port: u32) -> &mut Output {
        let at = self.outputs.partition_point(|output| output.port < port);
        if self
            .outputs
            .get(at)
            .is_none_or(|output| output.port != port)
        {
            let output = Output {
                port,
                next_input: 0,
                from: None,
            };
            self.outputs.insert(at, output);
        }
        &mut self.outputs[at]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn crossbar(only_first: bool) -> Crossbar<&'static str> {
        let mut crossbar = Crossbar::new(only_first, 1);
        // Input 1: a packet for outputs 3 and 4, then one for output 5. Input 2: a packet for output 3.
        crossbar.push((1, 0, 1), 3, "a3", 0);
        crossbar.push((1, 0, 1), 4, "a4", 0);
        crossbar.push((1, 0, 2), 5, "b5", 0);
        crossbar.push((2, 0, 3), 3, "c3", 0);
        crossbar
    }

    fn grant(crossbar: &mut Crossbar<&'static str>, output: u32) -> Option<&'static str> {
        crossbar.grant(output, |_| false).map(|next| next.packet)
    }

    #[test]
    fn first_packet_blocks_later_ones_until_its_last_copy_has_crossed() {
        let mut crossbar = crossbar(true);
        assert_eq!(grant(&mut crossbar, 5), None);
        assert_eq!(grant(&mut crossbar, 3), Some("a3"));
        crossbar.release_output(3);
        assert_eq!(grant(&mut crossbar, 5), None, "a copy for 4 still waits");
        assert_eq!(grant(&mut crossbar, 4), Some("a4"));
        assert_eq!(grant(&mut crossbar, 5), None, "the input is busy");
        crossbar.release_output(4);
        assert_eq!(grant(&mut crossbar, 5), Some("b5"));
    }

    #[test]
    fn virtual_output_queues_do_not_block_other_outputs() {
        let mut crossbar = crossbar(false);
        assert_eq!(grant(&mut crossbar, 5), Some("b5"));
        assert_eq!(grant(&mut crossbar, 3), Some("c3"), "input 1 is busy");
        crossbar.release_output(5);
        assert_eq!(crossbar.other_wanted_outputs(5, 1), [3, 4]);
        assert_eq!(grant(&mut crossbar, 4), Some("a4"));
    }

    #[test]
    fn copies_of_one_packet_cross_together() {
        let mut crossbar = crossbar(true);
        assert_eq!(grant(&mut crossbar, 4), Some("a4"));
        assert_eq!(grant(&mut crossbar, 3), Some("a3"));
        assert_eq!(crossbar.source(3), Some(1));
        crossbar.release_output(3);
        assert_eq!(grant(&mut crossbar, 5), None, "4 still sends");
        crossbar.release_output(4);
        assert_eq!(grant(&mut crossbar, 5), Some("b5"));
    }

    #[test]
    fn inputs_are_served_in_turn_and_stopped_classes_wait() {
        let mut crossbar = Crossbar::new(true, 1);
        for packet in 0..4 {
            for input in [1, 2] {
                crossbar.push((input, 0, packet), 9, (input, packet), 0);
            }
        }
        crossbar.push((1, 3, 9), 9, (1, 9), 0);
        let mut order = Vec::new();
        while let Some(next) = crossbar.grant(9, |class| class == 3) {
            order.push(next.packet.0);
            crossbar.release_output(9);
        }
        assert_eq!(order, [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(crossbar.grant(9, |_| false).unwrap().packet, (1, 9));
    }

    proptest! {
        #[test]
        fn every_copy_leaves_once_and_in_order(
            packets in proptest::collection::vec(
                (0..4u32, 0..3u8, proptest::collection::btree_set(0..4u32, 1..4)), 0..60),
            only_first in any::<bool>(),
            speedup in 1..3u32,
            order in proptest::collection::vec((0..4u32, any::<bool>()), 1..200),
        ) {
            let mut crossbar = Crossbar::new(only_first, speedup);
            let mut expected: BTreeMap<(u32, u8, u32), Vec<u64>> = BTreeMap::new();
            for (packet, (input, class, outputs)) in (0u64..).zip(&packets) {
                for output in outputs {
                    let copy = (*input, *class, *output, packet);
                    crossbar.push((*input, *class, packet), *output, copy, 0);
                    expected.entry((*input, *class, *output)).or_default().push(packet);
                }
            }
            let mut left: BTreeMap<(u32, u8, u32), Vec<u64>> = BTreeMap::new();
            let rest = (0..2_000u32).map(|step| (step % 4, step / 4 % 2 == 0));
            for (output, grants) in order.into_iter().chain(rest) {
                if !grants {
                    crossbar.release_output(output);
                } else if crossbar.source(output).is_none() {
                    if let Some(next) = crossbar.grant(output, |_| false) {
                        let (input, class, to, packet) = next.packet;
                        prop_assert_eq!(to, output);
                        left.entry((input, class, to)).or_default().push(packet);
                    }
                }
                for input in &crossbar.inputs {
                    prop_assert!(input.crossing.len() <= speedup as usize);
                }
            }
            prop_assert_eq!(left, expected);
        }
    }
}
