//! Inputs and outputs of a group's state machine.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;
use alfirk_roce::wire::aeth::{self, CREDITS_UNLIMITED};
use alfirk_roce::wire::Syndrome;

use super::{Point, Space, Word};

/// Number of a switch port.
pub type Port = u32;

/// Constant parameters of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number space of PSNs.
    pub space: Space,
    /// Method of finding the minimum PSN over all paths.
    pub strategy: Strategy,
    /// Paths that a walk compares in one pass: 4 in the pipeline.
    pub paths_per_pass: usize,
    /// Microseconds after which a walk is taken as lost.
    pub walk_timeout: u64,
    /// Slots for losses reported by selective NAKs, a power of two: 64 in the pipeline.
    pub losses: usize,
    /// Packets that a source may send beyond the last acknowledged one; less than half the PSN space.
    pub window: u32,
    /// The group's queue pairs use selective repeat; otherwise selective NAKs are dropped.
    pub is_selective: bool,
    /// Deliberate bug, for tests of the checkers.
    pub flaw: Flaw,
}

impl Config {
    /// Parameters of the compiled pipeline.
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

/// Method of finding the minimum PSN over all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Tournament tree in registers, one pass.
    Tree,
    /// Recirculation, a few paths per pass.
    Walk,
    /// Search by the controller.
    Punt,
}

/// Deliberate bug, to test that the checkers find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// No bug.
    #[default]
    None,
    /// Forwards a NAK at once, although other receivers may lack earlier packets.
    CoveredNak,
    /// Drops retransmissions of acknowledged data, as the papers do.
    DroppedTailAck,
    /// Accepts data of any PSN from any port.
    AnyoneSends,
    /// Accepts feedback that acknowledges packets not yet sent.
    AnyAck,
    /// Ignores an advance of the walk's oldest path while the walk is under way.
    LostLaggard,
    /// Forwards a NAK of a reserved code to the source, with the PSN of the receiver.
    ReservedNak,
    /// Keeps the headers of the received frame in merged feedback: see [`Group::odd_feedback`](super::Group::odd_feedback).
    MembersForm,
    /// Returns the source's own CNPs to it, and does not limit the CNPs of a path.
    AnyCnp,
    /// Marks a walk as dirty when a path repeats an acknowledgement.
    EqualAckDirties,
    /// Accepts any PSN from the first source.
    AnyFirst,
    /// Does not limit the packets outstanding.
    NoWindow,
    /// Accepts any MSN.
    AnyMsn,
    /// Accepts the report count of any selective NAK.
    AnyCount,
    /// Treats a NAK of the next unsent PSN as a NAK, not as an ACK.
    NakOfUnsent,
}

/// A NAK, as a responder sends it or as it waits until the minimum reaches the PSN before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nak {
    /// The PSN that the responder expects.
    pub psn: u32,
    /// AETH syndrome: a PSN sequence error, or RNR with its timer code.
    pub syndrome: u8,
}

/// An ACK or NAK of a receiver, or of a switch that has merged those of its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feedback {
    /// All packets up to `psn` have arrived.
    Ack {
        /// Newest acknowledged PSN.
        psn: u32,
        /// Messages completed (MSN).
        msn: u32,
    },
    /// All packets before `nak.psn` have arrived, packet `nak.psn` has not.
    Nak {
        /// Missing PSN, and the syndrome.
        nak: Nak,
        /// Messages completed (MSN).
        msn: u32,
    },
}

impl Feedback {
    /// Newest PSN that this feedback acknowledges, with its MSN.
    pub fn acked(self, space: Space) -> Point {
        match self {
            Feedback::Ack { psn, msn } => Point { psn, msn },
            Feedback::Nak { nak, msn } => Point {
                psn: space.previous(nak.psn),
                msn,
            },
        }
    }

    /// Builds an ACK of all packets up to a point.
    pub fn ack(Point { psn, msn }: Point) -> Feedback {
        Feedback::Ack { psn, msn }
    }

    /// PSN and AETH of the packet with this feedback. An ACK carries no credit limit, because a switch cannot merge the
    /// credits of many receivers.
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

/// Feedback that is filtered, not aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Notice {
    /// A congestion notification; forwarded if its path is the most congested one and not the source's.
    Cnp,
    /// A report of one lost packet; forwarded if that loss was not reported to the source before. It acknowledges nothing:
    /// towards a host, its PSN follows the last acknowledged one, and the lost PSN replaces the MSN.
    SelectiveNak {
        /// PSN of the lost packet.
        psn: u32,
        /// Number of reports of this loss by its receiver, 1 to 255.
        reports: u8,
    },
    /// A NAK with which a receiver's queue pair has entered the error state.
    FatalNak {
        /// PSN of the failed request, and the syndrome.
        nak: Nak,
        /// Messages completed (MSN).
        msn: u32,
    },
}

/// A packet that recirculates to find the minimum ([`Strategy::Walk`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinSearch {
    /// The retransmission that started the walk: its port, its PSN, and the MSN of its path. It is acknowledged if all
    /// paths have it.
    pub probe: Option<(Port, Point)>,
    /// Oldest word of the nodes visited so far.
    pub oldest: Option<Word>,
    /// Node of `paths_per_pass` paths to visit next.
    pub node: usize,
    /// Node that was visited before the first recirculation.
    pub seen: Option<usize>,
    /// Start of the walk in microseconds; identifies the walk.
    pub start: u64,
}

/// A packet to the controller under [`Strategy::Punt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketIn {
    /// Ingress port.
    pub port: Port,
    /// Feedback or probe.
    pub message: Message,
    /// Port of the source; `None` before any data.
    pub source: Option<Port>,
    /// Point last acknowledged to the source.
    pub last_acked: Point,
}

/// Content of a [`PacketIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// An ACK or NAK to aggregate.
    Feedback(Feedback),
    /// PSN of retransmitted data, with the MSN of its path. The controller acknowledges it if all paths have it.
    Probe(Point),
}

/// An ACK or NAK that the controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketOut {
    /// Egress port; `None` for the port of the source at the time of processing.
    pub port: Option<Port>,
    /// Feedback to send.
    pub feedback: Feedback,
    /// Point last acknowledged to the source, including this packet.
    pub last_acked: Point,
}

/// A packet between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Queued {
    /// A packet that leaves the switch without further processing.
    Leave(Sent),
    /// A packet that egress drops.
    End,
    /// A packet that updates the retransmission filter; egress then drops it.
    UpdateFilter {
        /// Path of the packet.
        path: usize,
        /// Newest PSN that the path has.
        acked: u32,
    },
    /// A copy of data for a path, which egress drops if that path has it.
    Copy {
        /// Destination path.
        path: usize,
        /// PSN of the data.
        psn: u32,
        /// The source sends the packet again; only such copies are filtered.
        is_retransmission: bool,
    },
    /// A packet that updates the filter and goes to the controller.
    Punt {
        /// Path of the packet.
        path: usize,
        /// Newest PSN that the path has.
        acked: u32,
        /// Packet to the controller.
        packet: PacketIn,
    },
    /// A packet that egress recirculates.
    Recirculate {
        /// State of the walk.
        search: MinSearch,
        /// Path and PSN for the retransmission filter, in the first pass only.
        filter_update: Option<(usize, u32)>,
    },
}

/// A packet that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// A copy of data.
    Data {
        /// Egress port.
        port: Port,
        /// PSN of the data.
        psn: u32,
    },
    /// An ACK or NAK.
    Feedback {
        /// Egress port.
        port: Port,
        /// Content.
        feedback: Feedback,
    },
    /// Feedback that is not aggregated.
    Notice {
        /// Egress port.
        port: Port,
        /// Content.
        notice: Notice,
    },
    /// A packet to the controller, which computes the minimum.
    ToController(PacketIn),
    /// A copy of a fatal NAK to the controller: a receiver's queue pair is in the error state.
    Alarm {
        /// Port of the receiver.
        port: Port,
        /// Content.
        notice: Notice,
    },
}

/// Constants of a group. Excluded from hashes, because all states of one group have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub config: Config,
    /// Port of each path, in the order of path numbers.
    pub ports: Arc<[Port]>,
}

impl Hash for Fixed {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
