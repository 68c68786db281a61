//! Inputs and outputs of a group's state machine: feedback, notices, and packets between ingress and egress.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that
//! all paths have acknowledged or sent. The *source* is the member of the group that sends at present.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;
use alfirk_roce::steady::StateVisitor;
use alfirk_roce::wire::aeth::{self, CREDITS_UNLIMITED};
use alfirk_roce::wire::Syndrome;

use super::{PathPsn, Point, Space};

/// Number of a switch port.
pub type Port = u32;

/// Constant parameters of the aggregation of one group's feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number space of PSNs: 24 bits in RoCE, fewer in a model checker.
    pub space: Space,
    /// Method that finds the minimum, the newest PSN that all paths have acknowledged or sent.
    pub strategy: Strategy,
    /// Number of paths that a recirculated packet compares in one pass: 4 in the pipeline.
    pub paths_per_pass: usize,
    /// Microseconds after which a recirculating search packet counts as lost.
    pub walk_timeout: u64,
    /// Number of slots in the table of losses reported by selective NAKs, a power of two: 64 in the pipeline.
    pub loss_slots: usize,
    /// Number of packets that a source may send beyond the last acknowledged one; less than half the PSN space.
    pub window: u32,
    /// Whether the group's queue pairs use selective repeat. If not, selective NAKs are dropped.
    pub is_selective: bool,
    /// Deliberate bug that a test must find; [`Flaw::None`] otherwise.
    #[cfg(any(test, feature = "flaws"))]
    pub flaw: Flaw,
}

impl Config {
    /// The parameters of the compiled P4 pipeline.
    pub fn pipeline(strategy: Strategy) -> Config {
        Config {
            space: Space::PSN,
            strategy,
            paths_per_pass: 4,
            walk_timeout: 1_000,
            loss_slots: 64,
            window: DEFAULT_WINDOW,
            is_selective: false,
            #[cfg(any(test, feature = "flaws"))]
            flaw: Flaw::None,
        }
    }

    /// The deliberate bug of the rules: [`Flaw::None`] without the feature `flaws`, which only tests enable.
    #[inline]
    pub(crate) fn flaw(&self) -> Flaw {
        #[cfg(any(test, feature = "flaws"))]
        return self.flaw;
        #[cfg(not(any(test, feature = "flaws")))]
        Flaw::None
    }
}

/// Method that finds the minimum: the newest PSN that all paths of a group have acknowledged or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// A tournament tree in registers, in one pass of the pipeline.
    Tree,
    /// A *walk*: a packet recirculates and compares the PSNs of a few paths in each pass.
    Walk,
    /// The controller computes the minimum: the switch sends all ACKs and NAKs to it.
    Punt,
}

/// A deliberate bug in the rules of aggregation, to test that the model checker and the comparisons find it. Groups can
/// have one only with the feature `flaws`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// No bug: the rules are correct.
    #[default]
    None,
    /// Forwards a NAK at once, although other receivers may lack earlier packets.
    CoveredNak,
    /// Drops retransmissions that all receivers have acknowledged, as the papers do. The sender then waits for an ACK
    /// that was lost.
    DroppedTailAck,
    /// Accepts data with any PSN from every port.
    AnyoneSends,
    /// Accepts feedback that acknowledges packets not yet sent.
    AnyAck,
    /// Does not repeat a search for the minimum (a walk) although the oldest path has advanced meanwhile. The source
    /// may then never get the last ACK.
    IgnoredAdvance,
    /// Forwards a NAK with a reserved code to the source, with the receiver's PSN.
    ReservedNak,
    /// Sends an aggregated ACK or NAK with the headers of the received one, not with headers of the group's own: see
    /// [`Group::malformed_feedback`](super::Group::malformed_feedback).
    KeptHeaders,
    /// Returns the source's own CNPs to it, and does not limit the CNPs of a path.
    AnyCnp,
    /// Repeats a search for the minimum (a walk) when a path repeats an acknowledgement, so that the search may never
    /// end.
    EqualAckDirties,
    /// Accepts any PSN in the first packet of the first source.
    AnyFirstPsn,
    /// Does not limit the number of unacknowledged packets of a source.
    NoWindow,
    /// Accepts any MSN that a receiver reports.
    AnyMsn,
    /// Forwards the report count of a selective NAK as received, not as one more than was forwarded before.
    AnyCount,
    /// Treats a NAK of the next unsent PSN as a NAK of a lost packet, not as an ACK.
    NakOfUnsent,
}

/// The PSN and the syndrome (reason) of a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nak {
    /// The PSN that the responder expects (ePSN): that of the missing packet. In a fatal NAK: that of the rejected
    /// request.
    pub psn: u32,
    /// AETH syndrome: a PSN sequence error, an RNR NAK with its timer code, or a fatal error.
    pub syndrome: u8,
}

/// An ACK or NAK of a receiver, or of a downstream switch that has merged those of its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feedback {
    /// An ACK: all packets up to `psn` have arrived.
    Ack {
        /// Newest acknowledged PSN.
        psn: u32,
        /// Number of messages completed (MSN), modulo 2^24.
        msn: u32,
    },
    /// A NAK: all packets before `nak.psn` have arrived, packet `nak.psn` has not.
    Nak {
        /// PSN of the missing packet, and the syndrome.
        nak: Nak,
        /// Number of messages completed (MSN), modulo 2^24.
        msn: u32,
    },
}

impl Feedback {
    /// The newest PSN that this ACK or NAK acknowledges, with its MSN.
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

    /// PSN and AETH of the packet that carries this feedback. An ACK carries no credit limit, because a switch cannot
    /// merge the credits of several receivers.
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

/// Feedback that a switch filters and forwards, but does not aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Notice {
    /// A congestion notification packet. It is forwarded if its path is the most congested one and not the source's.
    Cnp,
    /// A report of one lost packet. The first report of a loss is forwarded; for later ones see
    /// [`SelectiveNak`](super::SelectiveNak). It acknowledges nothing: towards a host, its PSN is the one after the last
    /// acknowledged, and its MSN field holds the lost PSN.
    SelectiveNak {
        /// PSN of the lost packet.
        psn: u32,
        /// Number of reports of this loss by its receiver, 1 to 255.
        reports: u8,
    },
    /// A fatal NAK: the receiver's queue pair has entered the error state.
    FatalNak {
        /// PSN of the request that the receiver rejected, and the syndrome.
        nak: Nak,
        /// Number of messages completed (MSN), modulo 2^24.
        msn: u32,
    },
}

/// The state that a recirculated packet carries while it searches for the minimum ([`Strategy::Walk`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinSearch {
    /// The retransmission that started the search: its port, its PSN, and the MSN of its path. It is acknowledged if
    /// all paths have it. `None` if an ACK or NAK started the search.
    pub probe: Option<(Port, Point)>,
    /// The oldest PSN among the paths compared so far; `None` before the first comparison.
    pub oldest: Option<PathPsn>,
    /// The last path compared so far that has the oldest PSN; `None` before the first comparison.
    pub last: Option<usize>,
    /// Index of the next node (a few consecutive paths) to compare. Node `n` is the `paths_per_pass` paths from `n *
    /// paths_per_pass` on.
    pub node: usize,
    /// Index of the node (a few consecutive paths) that was compared before the first recirculation, and is skipped.
    /// `None` if there was none.
    pub skipped_node: Option<usize>,
    /// Start time of the search in microseconds, which also identifies the search.
    pub start: u64,
}

/// A packet from the switch to the controller under [`Strategy::Punt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketIn {
    /// Port at which the switch received the ACK, NAK or data.
    pub port: Port,
    /// The received feedback, or a probe for retransmitted data.
    pub message: Message,
    /// Port of the source; `None` before any data.
    pub source: Option<Port>,
    /// PSN and MSN last acknowledged to the source, from the switch's register.
    pub last_acked: Point,
}

/// Content of a [`PacketIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// An ACK or NAK to aggregate.
    Feedback(Feedback),
    /// A probe: retransmitted data has arrived. Holds the PSN of the data, and the MSN of the path at which it arrived.
    /// The controller acknowledges the data if all paths have it.
    Probe(Point),
}

/// An ACK or NAK that the controller sends through the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketOut {
    /// Egress port; `None` for the source's port at the time when the switch processes the packet.
    pub port: Option<Port>,
    /// The ACK or NAK to send.
    pub feedback: Feedback,
    /// PSN and MSN last acknowledged to the source, after this packet is sent.
    pub last_acked: Point,
}

impl QueuedPacket {
    /// Visits the state of a queued copy or filter update, to which the retransmission filter applies. Other packets are not
    /// supported. The visitor's stream must be the group's.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        match self {
            QueuedPacket::Drop => visitor.same(0),
            QueuedPacket::UpdateFilter { path, acked } => {
                visitor.same(*path as u64);
                *acked = visitor.psn(*acked);
            }
            QueuedPacket::Copy {
                path,
                psn,
                is_retransmission,
            } => {
                visitor.same((*path as u64) << 1 | u64::from(*is_retransmission));
                *psn = visitor.psn(*psn);
            }
            QueuedPacket::Transmit(_)
            | QueuedPacket::Punt { .. }
            | QueuedPacket::Recirculate { .. } => visitor.unsupported(),
        }
    }
}

/// A packet in the queues between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueuedPacket {
    /// A packet that egress sends unchanged.
    Transmit(SentPacket),
    /// A packet that egress drops, without any other effect.
    Drop,
    /// A packet that updates the retransmission filter, the egress copy of each path's newest PSN. Egress then drops it.
    UpdateFilter {
        /// Path at which the feedback or data arrived.
        path: usize,
        /// Newest PSN that the path has acknowledged or sent.
        acked: u32,
    },
    /// A copy of data for one path. Egress drops it if that path has the data.
    Copy {
        /// Destination path.
        path: usize,
        /// PSN of the data.
        psn: u32,
        /// Whether the source has sent the packet before. Copies of first transmissions are not filtered.
        is_retransmission: bool,
    },
    /// A packet to the controller, which also updates the retransmission filter.
    Punt {
        /// Path at which the ACK or NAK arrived.
        path: usize,
        /// Newest PSN that the path has acknowledged.
        acked: u32,
        /// The packet that the controller receives.
        packet: PacketIn,
    },
    /// A packet that searches for the minimum. Egress recirculates it.
    Recirculate {
        /// State of the search that the packet carries.
        search: MinSearch,
        /// Path number and newest PSN for the retransmission filter, in the first pass; `None` in later passes.
        filter_update: Option<(usize, u32)>,
    },
}

/// A packet that leaves the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SentPacket {
    /// A copy of a data packet.
    Data {
        /// Egress port.
        port: Port,
        /// PSN of the data.
        psn: u32,
    },
    /// An aggregated ACK or NAK.
    Feedback {
        /// Egress port.
        port: Port,
        /// The ACK or NAK.
        feedback: Feedback,
    },
    /// A forwarded CNP, selective NAK or fatal NAK.
    Notice {
        /// Egress port.
        port: Port,
        /// The CNP or NAK.
        notice: Notice,
    },
    /// An ACK, NAK or probe to the controller, which computes the minimum.
    ToController(PacketIn),
    /// A copy of a fatal NAK to the controller: a receiver's queue pair is in the error state.
    Alarm {
        /// Port of the receiver.
        port: Port,
        /// The fatal NAK, as received.
        notice: Notice,
    },
}

/// Constants of a group. They are left out of hashes, because all states of one group have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupConstants {
    pub config: Config,
    /// Port of each path, in the order of path numbers.
    pub ports: Arc<[Port]>,
}

impl Hash for GroupConstants {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
