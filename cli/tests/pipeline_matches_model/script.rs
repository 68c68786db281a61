//! Random sequences of packets that resemble a group's traffic: numbers rise, paths fall behind and catch up.

use alfirk_aggregation::{Config, Feedback, Nak, Notice, Port, Space};
use proptest::prelude::*;

/// Packets of a message.
const MESSAGE: u32 = 4;
/// Offset of the group's first PSN: smaller offsets are PSNs from before the group.
const FIRST: u32 = 8;
const MICROSECOND: u64 = 1_000;
/// First of Tofino's recirculation ports, which send no packets out.
const FIRST_RECIRCULATION_PORT: Port = 68;
const RECIRCULATION_PORTS: u32 = 4;

/// The group.
#[derive(Clone, Debug)]
pub struct Scene {
    pub paths: u32,
    /// log2 of the number of paths for which the program is compiled.
    pub path_bits: u32,
    /// Bit n is set if a host is on path n.
    pub hosts: u64,
    pub initial_psn: u32,
    pub initial_msn: u32,
    /// Initial value of the clock in nanoseconds.
    pub start: u64,
    /// Window of the source in packets.
    pub window: u32,
    /// Whether selective NAKs are enabled.
    pub is_selective: bool,
}

impl Scene {
    /// The port of each path.
    pub fn ports(&self) -> Vec<Port> {
        (0..self.paths).map(|path| self.port(path)).collect()
    }

    /// Whether a host is on a path.
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

    /// Number of completed messages when all packets up to `offset` have arrived; the same at all responders.
    fn msn(&self, offset: u32) -> u32 {
        let messages = (offset + 1).saturating_sub(FIRST) / MESSAGE;
        Space::PSN.add(self.initial_msn, messages)
    }
}

pub fn scene() -> impl Strategy<Value = Scene> {
    let near_the_end = (1u32 << 24) - 12;
    let number = move || prop_oneof![Just(0), Just(near_the_end), 0u32..1 << 24];
    let turn = (1u64 << 30) * MICROSECOND;
    let window = Config::pipeline(alfirk_aggregation::Strategy::Tree).window;
    (
        prop::sample::select(vec![2, 3, 4, 5, 7, 16, 17, 32, 64, 128]),
        0u32..6,
        prop_oneof![Just(0), any::<u64>()],
        number(),
        prop_oneof![Just(0), Just((1 << 24) - 2), Just(0xfffe), 0u32..1 << 24],
        prop_oneof![Just(5_000_000), Just(turn - 100_000), Just(turn + 5)],
        prop_oneof![2 => Just(window), 1 => 1u32..30],
        prop::bool::weighted(0.7),
    )
        .prop_map(
            |(paths, spare, hosts, initial_psn, initial_msn, start, window, is_selective)| Scene {
                paths,
                path_bits: (paths.next_power_of_two().ilog2().max(2) + spare).min(7),
                hosts,
                initial_psn,
                initial_msn,
                start,
                window,
                is_selective,
            },
        )
}

/// One event of a script.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Wait(u64),
    Arrive(Packet),
    /// The n-th queued packet continues.
    Dequeue(usize),
    /// The n-th queued packet is lost.
    Lose(usize),
    /// The n-th reply of the controller arrives.
    Command(usize),
    /// All queued packets continue until none is left.
    Drain,
}

#[derive(Clone, Copy, Debug)]
pub enum Packet {
    Data {
        port: Port,
        psn: u32,
    },
    Feedback {
        port: Port,
        feedback: Feedback,
    },
    Notice {
        port: Port,
        notice: Notice,
    },
    /// An ACKNOWLEDGE packet with any syndrome and any MSN.
    Answer {
        port: Port,
        psn: u32,
        syndrome: u8,
        msn: u32,
    },
    /// An ACK with header fields that no receiver would send.
    OddAnswer {
        port: Port,
        psn: u32,
        msn: u32,
        odd: Odd,
    },
    /// Data, or a CNP, that must be rejected.
    Refused {
        port: Port,
        psn: u32,
        what: Refused,
    },
}

impl Packet {
    /// Whether the core profile handles the packet as the model does: it drops CNPs, selective NAKs and tagged frames.
    pub fn is_of_core(&self) -> bool {
        let is_optional = matches!(
            self,
            Packet::Notice {
                notice: Notice::Cnp | Notice::SelectiveNak { .. },
                ..
            } | Packet::OddAnswer { odd: Odd::Tag, .. }
        );
        !is_optional
    }
}

/// Unusual properties of a feedback frame that must be accepted.
#[derive(Clone, Copy, Debug)]
pub enum Odd {
    Tag,
    LongLengths,
    ShortLengths,
    Version,
    Padding,
    Flags,
    Congestion,
    Ttl,
    Trailer,
}

/// Defects of a frame that must be rejected.
#[derive(Clone, Copy, Debug)]
pub enum Refused {
    /// Data with a transport version other than 0.
    Version,
    /// Data with inconsistent lengths.
    Lengths,
    /// Truncated data.
    Cut,
    /// Data with more padding than payload.
    Padding,
    /// A CNP with a wrong ICRC.
    CnpIcrc,
    /// An ACK with a wrong ICRC.
    AckIcrc,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The source continues, and skips some packets.
    Send {
        skip: u32,
    },
    /// A sender on another path continues.
    SwitchSource {
        path: u32,
        /// It has acknowledged all previous packets.
        is_ready: bool,
    },
    /// Old data is retransmitted, by the source or another sender.
    SendAgain {
        path: Option<u32>,
        back: u32,
    },
    /// Unexpected data.
    SendAnything {
        path: u32,
        back: u32,
    },
    /// All paths but one acknowledge all packets except the last ones.
    AckAll {
        but: u32,
        back: u32,
    },
    /// A path acknowledges all packets except the last ones: more than before, or less.
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
    /// A path sends a NAK, possibly of a packet that was never sent, or that all have.
    Lose {
        path: u32,
        back: u32,
        reports: u8,
    },
    Fatal {
        path: u32,
    },
    /// A path acknowledges with any syndrome, any MSN, and any PSN from far back to beyond what was sent.
    Answer {
        path: u32,
        ahead: i32,
        syndrome: u8,
        messages: u32,
    },
    /// A frame with unusual fields: see [`Odd`].
    Odd {
        path: u32,
        back: u32,
        odd: Odd,
    },
    Refused {
        path: u32,
        ahead: u32,
        what: Refused,
    },
    /// A path sends many CNPs at once.
    Cnps {
        path: u32,
        count: u32,
    },
    /// The source, or another sender, sends near the end of its window.
    Leap {
        path: Option<u32>,
        /// Offset from the window's end.
        ahead: i32,
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
    /// Whether most packets pass the switch completely before the next event.
    pub is_hasty: bool,
}

/// Scripts that also contain packets of faulty and hostile members.
pub fn hostile() -> impl Strategy<Value = Script> {
    let path = || 0u32..64;
    let near = || prop_oneof![4 => -9i32..4, 1 => Just(1 << 23), 1 => Just((1 << 23) - 1), 1 => any::<i32>()];
    let messages =
        prop_oneof![3 => 0u32..4, 1 => Just(0x40_0000), 1 => Just(0x1_0002), 1 => any::<u32>()];
    let odd = prop::sample::select(vec![
        Odd::Tag,
        Odd::LongLengths,
        Odd::ShortLengths,
        Odd::Version,
        Odd::Padding,
        Odd::Flags,
        Odd::Congestion,
        Odd::Ttl,
        Odd::Trailer,
    ]);
    let refused = prop::sample::select(vec![
        Refused::Version,
        Refused::Lengths,
        Refused::Cut,
        Refused::Padding,
        Refused::CnpIcrc,
        Refused::AckIcrc,
    ]);
    let hostile = prop_oneof![
        6 => (path(), near(), any::<u8>(), messages).prop_map(|(path, ahead, syndrome, messages)| {
            Step::Answer { path, ahead, syndrome, messages }
        }),
        2 => (path(), 0u32..8, odd).prop_map(|(path, back, odd)| Step::Odd { path, back, odd }),
        2 => (path(), 0u32..3, refused)
            .prop_map(|(path, ahead, what)| Step::Refused { path, ahead, what }),
        1 => (path(), prop_oneof![1u32..8, 60u32..70]).prop_map(|(path, count)| Step::Cnps { path, count }),
        1 => (prop::option::weighted(0.3, path()), -3i32..4)
            .prop_map(|(path, ahead)| Step::Leap { path, ahead }),
    ];
    (
        script(),
        prop::collection::vec((any::<prop::sample::Index>(), hostile), 0..40),
    )
        .prop_map(|(mut script, hostile)| {
            for (at, step) in hostile {
                let at = at.index(script.steps.len() + 1);
                script.steps.insert(at, step);
            }
            script
        })
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
                Step::Answer {
                    path: who,
                    ahead,
                    syndrome,
                    messages,
                } => events.push(arrive(Packet::Answer {
                    port: scene.port(path(who)),
                    psn: Space::PSN.add(scene.psn(newest), ahead as u32),
                    syndrome,
                    msn: Space::PSN.add(scene.msn(newest), messages),
                })),
                Step::Odd {
                    path: who,
                    back,
                    odd,
                } => {
                    let acked = newest - back.min(7);
                    events.push(arrive(Packet::OddAnswer {
                        port: scene.port(path(who)),
                        psn: scene.psn(acked),
                        msn: scene.msn(acked),
                        odd,
                    }));
                }
                Step::Refused {
                    path: who,
                    ahead,
                    what,
                } => events.push(arrive(Packet::Refused {
                    port: scene.port(path(who)),
                    psn: scene.psn(newest + ahead),
                    what,
                })),
                Step::Cnps { path: who, count } => {
                    let cnp = arrive(Packet::Notice {
                        port: scene.port(path(who)),
                        notice: Notice::Cnp,
                    });
                    events.extend((0..count).map(|_| cnp));
                }
                Step::Leap { path: who, ahead } => {
                    let end = Space::PSN.add(scene.psn(newest), scene.window);
                    events.push(arrive(Packet::Data {
                        port: scene.port(who.map_or(source, path)),
                        psn: Space::PSN.add(end, ahead as u32),
                    }));
                }
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
