//! Random sequences of packets that resemble a group's life: numbers rise, paths fall behind and catch up.

use alfirk_aggregation::{Feedback, Nak, Notice, Port, Space};
use proptest::prelude::*;

/// Packets of a message.
const MESSAGE: u32 = 4;
/// Offsets begin here, so that the oldest are before the group's first.
const FIRST: u32 = 8;
const MICROSECOND: u64 = 1_000;
/// Through these of Tofino's nothing leaves.
const FIRST_RECIRCULATION_PORT: Port = 68;
const RECIRCULATION_PORTS: u32 = 4;

/// The group.
#[derive(Clone, Debug)]
pub struct Scene {
    pub paths: u32,
    /// For groups of up to 2^n paths the program is compiled.
    pub path_bits: u32,
    /// Bit n: a host is behind path n.
    pub hosts: u64,
    pub initial_psn: u32,
    pub initial_msn: u32,
    /// The clock at the beginning, in nanoseconds.
    pub start: u64,
}

impl Scene {
    /// The port of each path.
    pub fn ports(&self) -> Vec<Port> {
        (0..self.paths).map(|path| self.port(path)).collect()
    }

    /// Is a host behind a path?
    pub fn is_host(&self, path: usize) -> bool {
        self.hosts >> (path % 64) & 1 == 1
    }

    fn port(&self, path: u32) -> Port {
        let port = 3 * path + 2;
        match port < FIRST_RECIRCULATION_PORT {
            true => port,
            false => port + RECIRCULATION_PORTS,
        }
    }

    fn psn(&self, offset: u32) -> u32 {
        Space::PSN.add(self.initial_psn, offset.wrapping_sub(FIRST))
    }

    /// Messages completed when everything up to `offset` has arrived: all responders count the same.
    fn msn(&self, offset: u32) -> u32 {
        let messages = (offset + 1).saturating_sub(FIRST) / MESSAGE;
        Space::PSN.add(self.initial_msn, messages)
    }
}

pub fn scene() -> impl Strategy<Value = Scene> {
    let near_the_end = (1u32 << 24) - 12;
    let number = move || prop_oneof![Just(0), Just(near_the_end), 0u32..1 << 24];
    let turn = (1u64 << 30) * MICROSECOND;
    (
        prop::sample::select(vec![2, 3, 4, 5, 7, 16, 17, 32, 64, 128]),
        0u32..6,
        prop_oneof![Just(0), any::<u64>()],
        number(),
        prop_oneof![Just(0), Just((1 << 24) - 2), Just(0xfffe), 0u32..1 << 24],
        prop_oneof![Just(5_000_000), Just(turn - 100_000), Just(turn + 5)],
    )
        .prop_map(
            |(paths, spare, hosts, initial_psn, initial_msn, start)| Scene {
                paths,
                path_bits: (paths.next_power_of_two().ilog2().max(2) + spare).min(7),
                hosts,
                initial_psn,
                initial_msn,
                start,
            },
        )
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Wait(u64),
    Arrive(Packet),
    /// The n-th queued packet goes on.
    Dequeue(usize),
    /// The n-th queued packet is lost.
    Lose(usize),
    /// The n-th answer of the controller comes.
    Command(usize),
    /// All that is queued goes on, to the end.
    Drain,
}

#[derive(Clone, Copy, Debug)]
pub enum Packet {
    Data { port: Port, psn: u32 },
    Feedback { port: Port, feedback: Feedback },
    Notice { port: Port, notice: Notice },
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The source goes on, and leaves out some.
    Send {
        skip: u32,
    },
    /// Another path's sender goes on.
    SwitchSource {
        path: u32,
        /// It has acknowledged all that came before.
        is_ready: bool,
    },
    /// Old data comes again, from the source or another.
    SendAgain {
        path: Option<u32>,
        back: u32,
    },
    /// Data that nobody expects.
    SendAnything {
        path: u32,
        back: u32,
    },
    /// All paths but one acknowledge all but the last ones.
    AckAll {
        but: u32,
        back: u32,
    },
    /// A path acknowledges all but the last ones: more than before, or less.
    Ack {
        path: u32,
        back: u32,
    },
    Nak {
        path: u32,
        back: u32,
        syndrome: u8,
    },
    Cnp {
        path: u32,
    },
    /// A path reports a packet, maybe one that was never sent, or that all have.
    Lose {
        path: u32,
        back: u32,
        reports: u8,
    },
    Fatal {
        path: u32,
    },
    Wait {
        microseconds: u64,
    },
    Dequeue {
        at: usize,
    },
    Drop {
        at: usize,
    },
    Command {
        at: usize,
    },
    Drain,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub steps: Vec<Step>,
    /// Most packets are taken to their end at once.
    pub is_hasty: bool,
}

pub fn script() -> impl Strategy<Value = Script> {
    let path = || 0u32..64;
    let at = || prop_oneof![Just(0usize), 0usize..64];
    let back = || prop_oneof![3 => Just(0u32), 2 => 0u32..4, 1 => 0u32..8];
    let syndrome = prop::sample::select(vec![0x60u8, 0x60, 0x2c, 0x21]);
    let reports = prop_oneof![4 => 0u8..3, 1 => Just(254u8), 1 => Just(255u8)];
    let step = prop_oneof![
        6 => prop_oneof![8 => Just(0u32), 1 => 1u32..3].prop_map(|skip| Step::Send { skip }),
        2 => (path(), prop::bool::weighted(0.8))
            .prop_map(|(path, is_ready)| Step::SwitchSource { path, is_ready }),
        3 => (prop::option::weighted(0.3, path()), back())
            .prop_map(|(path, back)| Step::SendAgain { path, back }),
        1 => (path(), back()).prop_map(|(path, back)| Step::SendAnything { path, back }),
        3 => (path(), back()).prop_map(|(but, back)| Step::AckAll { but, back }),
        8 => (path(), back()).prop_map(|(path, back)| Step::Ack { path, back }),
        3 => (path(), back(), syndrome)
            .prop_map(|(path, back, syndrome)| Step::Nak { path, back, syndrome }),
        2 => path().prop_map(|path| Step::Cnp { path }),
        5 => (path(), prop_oneof![4 => 0u32..5, 1 => 0u32..10], reports)
            .prop_map(|(path, back, reports)| Step::Lose { path, back, reports }),
        1 => path().prop_map(|path| Step::Fatal { path }),
        2 => prop_oneof![0u64..300, 900u64..5_000]
            .prop_map(|microseconds| Step::Wait { microseconds }),
        6 => at().prop_map(|at| Step::Dequeue { at }),
        1 => at().prop_map(|at| Step::Drop { at }),
        3 => at().prop_map(|at| Step::Command { at }),
        2 => Just(Step::Drain),
    ];
    (prop::collection::vec(step, 1..90), any::<bool>())
        .prop_map(|(steps, is_hasty)| Script { steps, is_hasty })
}

impl Script {
    pub fn events(&self, scene: &Scene) -> Vec<Event> {
        let mut events = Vec::new();
        let mut source = 0;
        let mut newest = FIRST - 1;
        let path = |path: u32| path % scene.paths;
        let arrive = |packet| Event::Arrive(packet);
        for &step in &self.steps {
            let before = events.len();
            let data = |path: u32, offset: u32| {
                arrive(Packet::Data {
                    port: scene.port(path),
                    psn: scene.psn(offset),
                })
            };
            let ack = |path: u32, offset: u32| {
                let (psn, msn) = (scene.psn(offset), scene.msn(offset));
                arrive(Packet::Feedback {
                    port: scene.port(path),
                    feedback: Feedback::Ack { psn, msn },
                })
            };
            match step {
                Step::Send { skip } => {
                    newest += 1 + skip;
                    events.push(data(source, newest));
                }
                Step::SwitchSource {
                    path: next,
                    is_ready,
                } => {
                    source = path(next);
                    if is_ready {
                        events.push(ack(source, newest));
                    }
                    newest += 1;
                    events.push(data(source, newest));
                }
                Step::SendAgain { path: who, back } => {
                    events.push(data(who.map_or(source, path), newest - back.min(7)));
                }
                Step::SendAnything { path: who, back } => {
                    events.push(data(path(who), newest + 3 - back));
                }
                Step::AckAll { but, back } => {
                    let others = (0..scene.paths).filter(|&other| other != path(but));
                    events.extend(others.map(|other| ack(other, newest - back.min(7))));
                }
                Step::Ack { path: who, back } => {
                    events.push(ack(path(who), newest - back.min(7)));
                }
                Step::Nak {
                    path: who,
                    back,
                    syndrome,
                } => {
                    let acked = newest - back.min(7);
                    let nak = Nak {
                        psn: scene.psn(acked + 1),
                        syndrome,
                    };
                    events.push(arrive(Packet::Feedback {
                        port: scene.port(path(who)),
                        feedback: Feedback::Nak {
                            nak,
                            msn: scene.msn(acked),
                        },
                    }));
                }
                Step::Lose {
                    path: who,
                    back,
                    reports,
                } => events.push(arrive(Packet::Notice {
                    port: scene.port(path(who)),
                    notice: Notice::SelectiveNak {
                        psn: scene.psn(newest + 2 - back.min(9)),
                        reports,
                    },
                })),
                Step::Cnp { path: who } => events.push(arrive(Packet::Notice {
                    port: scene.port(path(who)),
                    notice: Notice::Cnp,
                })),
                Step::Fatal { path: who } => {
                    let nak = Nak {
                        psn: scene.psn(newest),
                        syndrome: 0x62,
                    };
                    let msn = scene.msn(newest);
                    events.push(arrive(Packet::Notice {
                        port: scene.port(path(who)),
                        notice: Notice::FatalNak { nak, msn },
                    }));
                }
                Step::Wait { microseconds } => {
                    events.push(Event::Wait(microseconds * MICROSECOND + 7));
                }
                Step::Dequeue { at } => events.push(Event::Dequeue(at)),
                Step::Drop { at } => events.push(Event::Lose(at)),
                Step::Command { at } => events.push(Event::Command(at)),
                Step::Drain => events.push(Event::Drain),
            }
            if self.is_hasty && events.len() > before {
                events.push(Event::Drain);
            }
        }
        events
    }
}
