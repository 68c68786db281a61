//! What goes into a group's state machine and what comes out.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;
use alfirk_roce::wire::aeth::{self, CREDITS_UNLIMITED};
use alfirk_roce::wire::Syndrome;

use super::{Point, Space, Word};

/// Number of a switch port.
pub type Port = u32;

/// What does not change in a group's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Of PSNs.
    pub space: Space,
    /// How the minimum is found.
    pub strategy: Strategy,
    /// Paths that a walk looks at in one pass: 4 in the pipeline.
    pub paths_per_pass: usize,
    /// Microseconds after which a walk counts as lost.
    pub walk_timeout: u64,
    /// Losses that a switch keeps in mind: 64 in the pipeline.
    pub losses: usize,
    /// Packets that a source may be ahead of what was last acknowledged to it, less than half the space.
    pub window: u32,
    /// Whether the group's queue pairs repeat selectively, so that selective NAKs have a meaning.
    pub is_selective: bool,
    /// What is to be wrong.
    pub flaw: Flaw,
}

impl Config {
    /// What the pipeline is like.
    pub fn pipeline(strategy: Strategy) -> Config {
        Config {
            space: Space::PSN,
            strategy,
            paths_per_pass: 4,
            walk_timeout: 1_000,
            losses: 64,
            window: DEFAULT_WINDOW,
            is_selective: false,
            flaw: Flaw::None,
        }
    }
}

/// How the minimum over all paths is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// At once.
    Tree,
    /// By packets that go round.
    Walk,
    /// By the controller.
    Punt,
}

/// A mistake built in on purpose, to show that the checkers find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// None: the rules as they are.
    #[default]
    None,
    /// A NAK is passed on at once, though others may lack earlier packets.
    CoveredNak,
    /// Retransmissions of what is acknowledged are dropped, as the papers have it.
    DroppedTailAck,
    /// Data counts from whatever port it comes, with whatever PSN.
    AnyoneSends,
    /// Feedback counts whatever it acknowledges.
    AnyAck,
    /// News of the path that a walk takes for the oldest, while the walk is under way, is forgotten.
    ForgottenLaggard,
    /// A NAK of a reserved code passes to the source with its own PSN.
    ReservedNak,
    /// What is merged keeps the form of the frame that caused it: see [`Group::odd_feedback`](super::Group::odd_feedback).
    MembersForm,
    /// The source's own CNPs come back to it, and those of a path are not limited.
    AnyCnp,
    /// An acknowledgement that a path repeats marks a walk as dirty.
    EqualAckDirties,
    /// Before there is a source any PSN makes one.
    AnyFirst,
    /// A source may be ahead as far as it likes.
    NoWindow,
    /// Any count of messages is believed.
    AnyMsn,
    /// The count of a selective NAK is believed.
    AnyCount,
    /// A NAK of the packet after the last one that was sent is one.
    NakOfUnsent,
}

/// A negative acknowledgement that waits until the minimum has come to the PSN before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nak {
    /// The PSN that the responder expects.
    pub psn: u32,
    /// AETH syndrome: a PSN sequence error, or RNR with its timer code.
    pub syndrome: u8,
}

/// What a receiver, or the switch below, reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feedback {
    /// Everything up to `psn` has arrived.
    Ack {
        /// Newest PSN that is acknowledged.
        psn: u32,
        /// Messages completed.
        msn: u32,
    },
    /// Everything before `nak.psn` has arrived, that one has not.
    Nak {
        /// What is missing, and why.
        nak: Nak,
        /// Messages completed.
        msn: u32,
    },
}

impl Feedback {
    /// The newest PSN that it acknowledges, with the messages completed then.
    pub fn acked(self, space: Space) -> Point {
        match self {
            Feedback::Ack { psn, msn } => Point { psn, msn },
            Feedback::Nak { nak, msn } => Point {
                psn: space.previous(nak.psn),
                msn,
            },
        }
    }

    /// An ACK of all up to a point.
    pub fn ack(Point { psn, msn }: Point) -> Feedback {
        Feedback::Ack { psn, msn }
    }

    /// PSN and AETH of the packet that says so. An ACK gives no credits, as those of switches do: what each receiver has
    /// room for is not known to all.
    pub fn to_aeth(self) -> (u32, aeth::Repr) {
        let (psn, syndrome, msn) = match self {
            Feedback::Ack { psn, msn } => {
                let credits = CREDITS_UNLIMITED;
                (psn, Syndrome::Ack { credits }, msn)
            }
            Feedback::Nak { nak, msn } => (nak.psn, nak.syndrome.into(), msn),
        };
        (psn, aeth::Repr { syndrome, msn })
    }
}

/// What passes to the source as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Notice {
    /// Congestion, if the path is the most congested one and not the source's.
    Cnp,
    /// A packet is lost; it passes if that was not reported to the source. Nothing is acknowledged: on the link to a host its
    /// PSN is the one after what was last acknowledged, and the packet's PSN is in place of the MSN.
    SelectiveNak {
        /// The packet.
        psn: u32,
        /// How often its receiver has reported it, from 1 to 255.
        reports: u8,
    },
    /// A receiver has ended its queue pair.
    FatalNak {
        /// Of the request that failed.
        nak: Nak,
        /// Messages completed.
        msn: u32,
    },
}

/// A packet that is recirculated to find the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinSearch {
    /// Old data that asks whether everyone has it: its port, its PSN, and the MSN of its path then.
    pub probe: Option<(Port, Point)>,
    /// The oldest word so far.
    pub oldest: Option<Word>,
    /// The node of `paths_per_pass` paths to look at next.
    pub node: usize,
    /// The node that needs no look.
    pub seen: Option<usize>,
    /// When it began, in microseconds; also its name.
    pub start: u64,
}

/// For the controller under [`Strategy::Punt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketIn {
    /// Where it came in.
    pub port: Port,
    /// What it is.
    pub message: Message,
    /// The source's port, if any data has come.
    pub source: Option<Port>,
    /// What was acknowledged to the source last.
    pub last_acked: Point,
}

/// What a [`PacketIn`] brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// An ACK or NAK to aggregate.
    Feedback(Feedback),
    /// Old data: does everyone have it? With the MSN that its path counted when it last received.
    Probe(Point),
}

/// An ACK or NAK that the controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketOut {
    /// To whom: without it to whoever is the source when it comes.
    pub port: Option<Port>,
    /// What.
    pub feedback: Feedback,
    /// What is acknowledged to the source last, with this.
    pub last_acked: Point,
}

/// What waits between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Queued {
    /// It leaves.
    Leave(Sent),
    /// It ends.
    End,
    /// It ends, when the retransmission filter has learned of it.
    UpdateFilter {
        /// Of this path
        path: usize,
        /// the newest PSN that it has.
        acked: u32,
    },
    /// Data for a path, if that lacks it.
    Copy {
        /// The path it goes to.
        path: usize,
        /// Its PSN.
        psn: u32,
        /// Only these are filtered.
        is_retransmission: bool,
    },
    /// It goes to the controller, when the filter has learned of it.
    Punt {
        /// Of this path
        path: usize,
        /// the newest PSN that it has.
        acked: u32,
        /// What goes.
        what: PacketIn,
    },
    /// It is recirculated.
    Recirculate {
        /// Who.
        search: MinSearch,
        /// Path and PSN for the filter, the first time.
        filter_update: Option<(usize, u32)>,
    },
}

/// What leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// A copy of the data.
    Data {
        /// Through this port.
        port: Port,
        /// Its PSN.
        psn: u32,
    },
    /// An ACK or NAK.
    Feedback {
        /// Through this port.
        port: Port,
        /// What it says.
        feedback: Feedback,
    },
    /// What is not aggregated.
    Notice {
        /// Through this port.
        port: Port,
        /// What it says.
        notice: Notice,
    },
    /// To the controller, who has to find the minimum.
    ToController(PacketIn),
    /// To the controller: the receiver behind a port has ended its queue pair.
    Alarm {
        /// Of the receiver.
        port: Port,
        /// What it says.
        notice: Notice,
    },
}

/// What does not change in a group's life. It is no part of a group's state: all states of one group have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub config: Config,
    /// Of each path, in the order of path numbers.
    pub ports: Arc<[Port]>,
}

impl Hash for Fixed {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
