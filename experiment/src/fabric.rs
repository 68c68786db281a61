//! What the main job needs of a fabric, whatever drives it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{GroupError, GroupInfo, RegisterGroup, SwitchError};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, LinkIndex, SwitchIndex};
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegAnswer, LegVerb, Progress, RequestTimes, Requests, TransferSpec,
};
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig};

use serde::Serialize;

use super::job::Processing;
use super::member::{MemberEvent, TransferId};

/// A fabric that is up: every switch has its pipeline and routes, every host answers.
///
/// Calls may block in real time; times are nanoseconds on the fabric's clock.
pub trait Fabric {
    /// Makes a group and waits until it can be used.
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError>;

    /// Removes a group.
    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError>;

    /// Has `leader`, the group's first member, register it in band, and waits until it may send.
    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError>;

    /// Has the leader take the group back in band.
    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError>;

    /// Has hosts get what is sent to a multicast group of datagrams, of 224.0.0.0/4.
    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// The opposite.
    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// Says that a group makes no progress: in band by its `source` if there is one, else through the control service.
    fn stalled(&mut self, mcst_id: Ipv4Addr, source: Option<HostIndex>) -> Result<(), FabricError>;

    /// What the controller has done to groups in use since the last call.
    fn news(&mut self) -> Result<Vec<News>, FabricError>;

    /// Breaks something for good.
    fn kill(&mut self, victim: Victim) -> Result<(), FabricError>;

    /// Has a host's application do nothing for so many nanoseconds from now on, while its NIC goes on. Only where time is virtual.
    fn suspend(&mut self, host: HostIndex, lasts: u64) -> Result<(), FabricError>;

    /// Has a member send random packets of all kinds to a group, beside what its queue pairs send, until its transfer is closed:
    /// as fast as its link takes them, and where links have no rate, as many as it receives.
    fn turn_hostile(
        &mut self,
        host: HostIndex,
        target: Target,
        seed: u64,
    ) -> Result<(), FabricError>;

    /// Makes the queue pairs of a transfer at one member.
    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError>;

    /// Connects them. [`MemberEvent::Ready`] follows.
    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError>;

    /// Has the root, or the source of the next part, post the data; returns when it did.
    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError>;

    /// Waits for the next event of any member's transfer; `None` when `deadline` passes without one.
    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError>;

    /// Ends the transfer at a member.
    fn close(&mut self, host: HostIndex) -> Result<(), FabricError>;

    /// Has a member's transfer do something about its legs. After [`LegVerb::Leave`] [`MemberEvent::Left`] follows, when what the leg's
    /// queue pairs have delivered is seen.
    fn act(&mut self, host: HostIndex, verb: LegVerb) -> Result<LegAnswer, FabricError>;

    /// The same, for a verb that gives queue pairs.
    fn endpoints(&mut self, host: HostIndex, verb: LegVerb) -> Result<Vec<Endpoint>, FabricError> {
        match self.act(host, verb)? {
            LegAnswer::Endpoints(endpoints) => Ok(endpoints),
            other => Err(FabricError::Broken(format!("unexpected answer {other:?}"))),
        }
    }

    /// The same, for a verb that says how far it goes.
    fn limit(&mut self, host: HostIndex, verb: LegVerb) -> Result<u32, FabricError> {
        match self.act(host, verb)? {
            LegAnswer::Limit(limit) => Ok(limit),
            other => Err(FabricError::Broken(format!("unexpected answer {other:?}"))),
        }
    }

    /// How long the source's messages took, if it counts them as requests.
    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError>;

    /// How many slices a member holds.
    fn held(&mut self, host: HostIndex) -> Result<u32, FabricError>;

    /// Has a link lose frames with this probability, in each direction; as at the start if `None`.
    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError>;

    /// How far the transfer at a host is.
    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError>;

    /// Request packets of a host that have been acknowledged, each counted once.
    fn acknowledged(&mut self, host: HostIndex) -> Result<u64, FabricError>;

    /// Request packets that the queue pairs of a host have received in order; `None` where the host's RDMA stack does not count them.
    fn received(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError>;

    /// What has gone over links and through the members' queue pairs. The first `sources` members are those that send. Only
    /// the difference between two calls within one transfer has a meaning.
    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError>;

    /// What priority-based flow control has done since the fabric came up; `None` where there is none, or where the driver cannot
    /// tell.
    fn flow_control(&mut self) -> Result<Option<FlowControl>, FabricError> {
        Ok(None)
    }

    /// What the switches have counted.
    fn counts(&mut self) -> Result<Counts, FabricError>;

    /// How long a packet to the controller and its answer take, in nanoseconds, at the switch that is the farthest: as it
    /// was measured, 0 if nothing was.
    fn control_round_trip(&mut self) -> Result<u64, FabricError>;

    /// The fabric's clock.
    fn now(&self) -> u64;

    /// How long to wait between two looks at the progress.
    fn tick(&self) -> u64;

    /// How long to wait between two comparisons of what is acknowledged with what is received: the shorter, the fewer false
    /// acknowledgements are missed.
    fn audit_interval(&self) -> u64 {
        self.tick()
    }

    /// How long a sender bears to get no acknowledgement before it says so.
    fn patience(&self) -> u64;

    /// What its equipment takes, by its clock; `None` where links do not have the rates that the topology states.
    fn processing(&self) -> Option<Processing>;

    /// Settings of queue pairs on this fabric, as far as they do not follow from the topology.
    fn rc(&self, mtu: PathMtu) -> RcConfig;
}

/// A fabric whose hosts take part in several transfers at a time. What [`Fabric`] says of transfers is about
/// [`TransferId::MAIN`].
pub trait SharedFabric: Fabric {
    /// [`Fabric::prepare`] of one of them.
    fn prepare_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError>;

    /// [`Fabric::connect`] of one of them.
    fn connect_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        peers: &[Endpoint],
    ) -> Result<(), FabricError>;

    /// [`Fabric::start`] of one of them.
    fn start_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        data: &Arc<ExpectedData>,
    ) -> Result<u64, FabricError>;

    /// [`Fabric::act`] of one of them.
    fn act_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        verb: LegVerb,
    ) -> Result<LegAnswer, FabricError>;

    /// [`Fabric::next_event`] of all of them.
    fn next_event_of_any(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError>;

    /// What the root of one of them knows of its requests, if it counts them.
    fn requests_of(&self, id: TransferId, source: HostIndex) -> Option<&Requests>;

    /// [`Fabric::progress`] of one of them.
    fn progress_of(&self, id: TransferId, host: HostIndex) -> Progress;

    /// [`Fabric::close`] of one of them.
    fn close_of(&mut self, id: TransferId, host: HostIndex) -> Result<(), FabricError>;
}

/// What may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    Host(HostIndex),
    Switch(SwitchIndex),
    Link(LinkIndex),
}

/// What the controller has done to a group in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub mcst_id: Ipv4Addr,
    /// On the fabric's clock.
    pub at: u64,
    /// Members that are out of the group, because they did not answer or nothing leads to them any more.
    pub lost: Vec<Ipv4Addr>,
}

/// Pauses of a whole fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlowControl {
    /// PAUSE frames that stopped somebody.
    pub pauses: u64,
    /// For how long senders were stopped, all together, in ns.
    pub paused_ns: u64,
    /// The senders that were.
    pub links: Vec<PausedLink>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedLink {
    /// `h1:0 -> s1:1`.
    pub link: String,
    /// PAUSE frames that stopped its sender.
    pub pauses: u64,
    /// For how long it was stopped, in ns; a stop that lasts is not counted yet.
    pub paused_ns: u64,
}

/// Counters of a fabric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the frames that the source put on its link; here and below all sources together, if there are several.
    pub source_tx_bytes: u64,
    /// Message bytes in them; 0 if a source is a device that does not count them.
    pub source_payload_bytes: u64,
    /// ACK and NAK frames that reached the source, and acknowledgements of datagrams.
    pub source_acks: u64,
    /// CNPs that reached the source.
    pub source_cnps: u64,
    /// Request packets that reached members with the mark of congestion.
    pub marked: u64,
    /// CNPs that members sent.
    pub cnps_sent: u64,
    /// Frames on all links, each counted once per link.
    pub wire_packets: u64,
    /// Frames lost on links and in queues; `None` where the driver does not count them.
    pub dropped_packets: Option<u64>,
    /// Request packets that members sent again, also to repair what datagrams have lost.
    pub retransmissions: u64,
    /// Frames that members, but for hostile ones, refused because no correct fabric delivers them: [`HostStats::implausible`].
    ///
    /// [`HostStats::implausible`]: alfirk_roce::host::HostStats::implausible
    pub implausible: u64,
}

impl Traffic {
    /// What has gone over links when nothing has: what others are added to.
    pub fn nothing() -> Traffic {
        Traffic {
            dropped_packets: Some(0),
            ..Traffic::default()
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Traffic) -> Traffic {
        Traffic {
            source_tx_bytes: self.source_tx_bytes + other.source_tx_bytes,
            source_payload_bytes: self.source_payload_bytes + other.source_payload_bytes,
            source_acks: self.source_acks + other.source_acks,
            source_cnps: self.source_cnps + other.source_cnps,
            marked: self.marked + other.marked,
            cnps_sent: self.cnps_sent + other.cnps_sent,
            wire_packets: self.wire_packets + other.wire_packets,
            dropped_packets: self
                .dropped_packets
                .zip(other.dropped_packets)
                .map(|(one, two)| one + two),
            retransmissions: self.retransmissions + other.retransmissions,
            implausible: self.implausible + other.implausible,
        }
    }

    /// What has been added since `earlier`.
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            source_tx_bytes: self.source_tx_bytes - earlier.source_tx_bytes,
            source_payload_bytes: self.source_payload_bytes - earlier.source_payload_bytes,
            source_acks: self.source_acks - earlier.source_acks,
            source_cnps: self.source_cnps - earlier.source_cnps,
            marked: self.marked - earlier.marked,
            cnps_sent: self.cnps_sent - earlier.cnps_sent,
            wire_packets: self.wire_packets - earlier.wire_packets,
            dropped_packets: self
                .dropped_packets
                .zip(earlier.dropped_packets)
                .map(|(now, then)| now - then),
            retransmissions: self.retransmissions - earlier.retransmissions,
            implausible: self.implausible - earlier.implausible,
        }
    }
}

/// Why a fabric did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The controller could not make or remove a group.
    #[error(transparent)]
    Group(Box<GroupError>),
    /// A group could not be registered in band.
    #[error("registration in band: {0}")]
    Registration(String),
    /// A switch could not be set up.
    #[error(transparent)]
    Switch(Box<SwitchError>),
    /// A host refused or failed.
    #[error("host {host}: {why}")]
    Host { host: String, why: String },
    /// Something did not come about in time.
    #[error("{what} after {seconds} s")]
    Timeout { what: String, seconds: f64 },
    /// A part of the fabric has ended, or the fabric cannot be reached.
    #[error("{0}")]
    Broken(String),
}

impl FabricError {
    /// Whether it only means that there is no group, so that the members can do without one.
    pub fn leaves_members_alone(&self) -> bool {
        matches!(self, FabricError::Group(_) | FabricError::Registration(_))
    }
}

impl From<GroupError> for FabricError {
    fn from(error: GroupError) -> FabricError {
        FabricError::Group(Box::new(error))
    }
}

impl From<SwitchError> for FabricError {
    fn from(error: SwitchError) -> FabricError {
        FabricError::Switch(Box::new(error))
    }
}
