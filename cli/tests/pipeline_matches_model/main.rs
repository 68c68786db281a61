//! The compiled pipeline and the model `alfirk_aggregation` get the same packets and must produce the same ones, with each strategy of
//! finding the minimum. Packets are data, acknowledgements of all kinds and CNPs, in random order on random ports, with losses,
//! duplicates, old numbers and changing sources, across the wrap-around of PSNs, MSNs and clocks.
//!
//! Queued packets between ingress and egress continue in random order, too. So walks are overtaken by other packets between their passes,
//! lose packets, and are taken over; and punted packets are outdated when the controller replies. At the end all registers and counters
//! are compared.
//!
//! The pipeline for Tofino has a model of its own (`tofino.rs`).

mod bench;
mod script;
mod tofino;
mod wire;

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{
    self as model, classify, AckClass, Config, Feedback, Group, PacketOut, Port, SentPacket, Space,
    Strategy, Work,
};
use alfirk_bmv2::{Effects, QueueState, Queued, Switch};
use alfirk_roce::wire::aeth;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use bench::{Profile, CPU_PORT};
use script::{Event, Packet, Scene, Script, Step};

/// The pipeline and the model, side by side.
struct Pair {
    profile: Profile,
    strategy: Strategy,
    path_bits: u32,
    switch: Switch,
    model: Group,
    work: Work,
    /// Queued packets, in the order of queueing.
    queued: Vec<(Queued, model::QueuedPacket)>,
    /// The model of the controller, and its pending replies.
    aggregator: Aggregator,
    commands: Vec<PacketOut>,
    /// Time in nanoseconds.
    now: u64,
}

impl Pair {
    fn new(profile: Profile, strategy: Strategy, scene: &Scene) -> Pair {
        let ports = scene.ports();
        let (psn, msn) = (scene.initial_psn, scene.initial_msn);
        let config = Config {
            window: scene.window,
            is_selective: scene.is_selective,
            ..Config::pipeline(strategy)
        };
        let model = Group::new(config, &ports, psn, msn);
        Pair {
            profile,
            strategy,
            switch: bench::switch(profile, strategy, scene),
            path_bits: scene.path_bits,
            aggregator: Aggregator::new(Space::PSN, ports, model.last_acked.point),
            model,
            work: Work::default(),
            queued: Vec::new(),
            commands: Vec::new(),
            now: scene.start,
        }
    }

    fn play(&mut self, event: Event) -> TestCaseResult {
        match event {
            Event::Wait(nanoseconds) => self.now += nanoseconds,
            Event::Arrive(packet) if self.profile == Profile::Core && !packet.is_of_core() => {}
            Event::Arrive(packet) => {
                let (port, frame, queued) = self.give_model(packet);
                self.give_switch(port, &frame, queued)?;
            }
            Event::Dequeue(at) if !self.queued.is_empty() => {
                self.dequeue(at % self.queued.len())?
            }
            Event::Lose(at) if !self.queued.is_empty() => {
                self.queued.remove(at % self.queued.len());
            }
            Event::Command(at) if !self.commands.is_empty() => {
                let command = self.commands.remove(at % self.commands.len());
                self.command(command)?;
            }
            Event::Drain => self.drain()?,
            Event::Dequeue(_) | Event::Lose(_) | Event::Command(_) => {}
        }
        Ok(())
    }

    fn give_model(&mut self, packet: Packet) -> (Port, Vec<u8>, Vec<model::QueuedPacket>) {
        let now = self.now / 1_000;
        let mut counted = self.model.counted(&mut self.work);
        match packet {
            Packet::Data { port, psn } => (port, wire::data(psn), counted.data(port, psn, now)),
            Packet::Feedback { port, feedback } => {
                let frame = wire::feedback(feedback);
                (port, frame, counted.feedback(port, feedback, now))
            }
            Packet::Notice { port, notice } => {
                let frame = wire::notice(notice);
                (port, frame, self.model.notice(port, notice, now))
            }
            Packet::Answer {
                port,
                psn,
                syndrome,
                msn,
            } => {
                let aeth = aeth::Repr {
                    syndrome: syndrome.into(),
                    msn,
                };
                let queued = match classify(psn, aeth) {
                    Some(AckClass::Feedback(feedback)) => counted.feedback(port, feedback, now),
                    Some(AckClass::Notice(notice)) => self.model.notice(port, notice, now),
                    None => Vec::new(),
                };
                (port, wire::acknowledge(psn, syndrome, msn), queued)
            }
            Packet::OddAnswer {
                port,
                psn,
                msn,
                odd,
            } => {
                let feedback = Feedback::Ack { psn, msn };
                // Aggregated feedback gets headers of the group's own.
                let queued = counted.feedback(port, feedback, now);
                (port, wire::odd(feedback, odd), queued)
            }
            Packet::Refused { port, psn, what } => (port, wire::refused(psn, what), Vec::new()),
        }
    }

    fn give_switch(
        &mut self,
        port: Port,
        frame: &[u8],
        model: Vec<model::QueuedPacket>,
    ) -> TestCaseResult {
        let mut fx = Effects::default();
        self.switch.ingress(port, frame, self.now, &mut fx);
        self.pair_up(fx, model)
    }

    /// Checks that both have queued the same number of packets; the switch may have more if it recirculates.
    fn pair_up(&mut self, fx: Effects, model: Vec<model::QueuedPacket>) -> TestCaseResult {
        let ports: Vec<Port> = fx.enqueued.iter().map(|queued| queued.port).collect();
        prop_assert_eq!(ports.len(), model.len(), "{:?} for {:?}", ports, model);
        self.queued.extend(fx.enqueued.into_iter().zip(model));
        Ok(())
    }

    fn dequeue(&mut self, at: usize) -> TestCaseResult {
        let (queued, expected) = self.queued.remove(at);
        let mut fx = Effects::default();
        let what = format!("{expected:?}");
        let mut counted = self.model.counted(&mut self.work);
        let (sent, more) = counted.dequeue(expected, self.now / 1_000);
        let state = QueueState {
            enq_timestamp: self.now,
            ..QueueState::default()
        };
        self.switch.egress(queued, self.now, state, &mut fx);
        let output = std::mem::take(&mut fx.output);
        let output: Vec<SentPacket> = output
            .iter()
            .map(|output| {
                let frame = output.frame.bytes();
                wire::check_form(output.port, &frame);
                wire::parse(output.port, &frame)
            })
            .collect();
        prop_assert_eq!(&output, &Vec::from_iter(sent), "of {}", what);
        if let [SentPacket::ToController(packet)] = &output[..] {
            self.aggregator.record(packet);
            self.commands.extend(self.aggregator.replies());
            if !self.aggregator.lagging().is_empty() {
                let leaves = self.model.ports().iter().zip(self.model.leaves.iter());
                leaves.for_each(|(port, leaf)| self.aggregator.update_path(*port, leaf.newest.psn));
                self.commands.extend(self.aggregator.replies());
                self.aggregator.drop_probes();
            }
        }
        self.pair_up(fx, more)
    }

    fn command(&mut self, command: PacketOut) -> TestCaseResult {
        let expected = self.model.command(command);
        self.give_switch(CPU_PORT, &wire::packet_out(command), expected)
    }

    fn drain(&mut self) -> TestCaseResult {
        loop {
            if !self.queued.is_empty() {
                self.dequeue(0)?;
            } else if !self.commands.is_empty() {
                let command = self.commands.remove(0);
                self.command(command)?;
            } else {
                return Ok(());
            }
        }
    }

    fn check_state(&self) -> TestCaseResult {
        let expected = bench::expected_registers(&self.model);
        let registers = bench::registers(&self.switch, self.path_bits, self.model.ports().len());
        for ((name, value), expected) in registers.into_iter().zip(expected) {
            match value {
                Some(value) => prop_assert_eq!(
                    (&name, format!("{value:#x}")),
                    (&name, format!("{expected:#x}"))
                ),
                // Registers of optional parts.
                None => prop_assert_eq!(self.profile, Profile::Core, "{}", name),
            }
        }
        if self.profile == Profile::Core {
            return Ok(());
        }
        let work = self.work;
        prop_assert_eq!(
            bench::work(&self.switch, self.strategy),
            [
                work.feedback,
                work.forwarded,
                work.recirculations,
                work.punts
            ],
            "feedback, forwarded, recirculations, punts"
        );
        Ok(())
    }
}

fn check(strategy: Strategy, scene: &Scene, script: &Script) -> TestCaseResult {
    check_profile(Profile::Full, strategy, scene, script)
}

fn check_profile(
    profile: Profile,
    strategy: Strategy,
    scene: &Scene,
    script: &Script,
) -> TestCaseResult {
    let mut pair = Pair::new(profile, strategy, scene);
    for event in script.events(scene) {
        let what = format!("{event:?}");
        pair.play(event)
            .and_then(|()| pair.check_state())
            .map_err(|error| TestCaseError::fail(format!("{what}: {error}")))?;
    }
    pair.drain()?;
    pair.check_state()
}

/// A sender's word does not contain its path: of two equal words, a walk keeps the first one.
#[test]
fn the_walk_keeps_the_first_of_two_sources_at_the_same_psn() {
    let scene = Scene {
        paths: 7,
        path_bits: 6,
        hosts: 0,
        initial_psn: 0,
        initial_msn: 0,
        start: 5_000_000,
        window: 64,
        is_selective: true,
    };
    let ack = |path| Step::Ack { path, back: 0 };
    let script = Script {
        steps: vec![
            Step::SendAnything { path: 4, back: 2 },
            Step::Send { skip: 0 },
            Step::SwitchSource {
                path: 1,
                is_ready: true,
            },
            ack(2),
            ack(3),
            ack(5),
            // Sees path 4 in its own node, then path 0.
            ack(6),
        ],
        is_hasty: true,
    };
    check(Strategy::Walk, &scene, &script).unwrap();
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn tree_matches_the_model(scene in script::scene(), script in script::hostile()) {
        check(Strategy::Tree, &scene, &script)?;
    }

    #[test]
    fn core_matches_the_model(scene in script::scene(), script in script::hostile()) {
        let scene = Scene { is_selective: false, ..scene };
        check_profile(Profile::Core, Strategy::Tree, &scene, &script)?;
    }

    #[test]
    fn walk_matches_the_model(scene in script::scene(), script in script::hostile()) {
        check(Strategy::Walk, &scene, &script)?;
    }

    #[test]
    fn punt_matches_the_model(scene in script::scene(), script in script::hostile()) {
        check(Strategy::Punt, &scene, &script)?;
    }
}
