//! Operations that a job needs of a fabric, independent of the driver.
//!
//! A fabric is a network of switches and hosts, in virtual time or on Mininet. A *group* is a multicast group, of which
//! switches replicate the packets. A *transfer* sends the data of one job among the members, by queue pairs of their
//! hosts.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{GroupError, GroupInfo, RegisterGroup, SwitchError};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, LinkIndex, SwitchIndex};
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestTimes, Requests, TransferSpec,
};
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig};

use serde::Serialize;

use super::job::Processing;
use super::member::{MemberEvent, TransferId};

/// A fabric that is ready: every switch has its pipeline and routes, and every host replies.
///
/// Calls may block in real time; times are nanoseconds on the fabric's clock.
pub trait Fabric {
    /// Registers a group and waits until it can be used.
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError>;

    /// Removes a group.
    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError>;

    /// Makes `leader`, the group's first member, register the group in band (by packets on the fabric). Waits until the
    /// leader may send.
    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError>;

    /// Makes the leader of a group deregister it in band, by packets on the fabric.
    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError>;

    /// Adds hosts to a multicast group of datagrams, with an address of 224.0.0.0/4.
    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// Removes hosts from a multicast group of datagrams.
    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// Reports that a group makes no progress: by packets of `source` if given, else through the controller's control
    /// service.
    fn stalled(&mut self, mcst_id: Ipv4Addr, source: Option<HostIndex>) -> Result<(), FabricError>;

    /// Returns the actions of the controller on groups in use since the last call: rerouting, and removal of members.
    fn news(&mut self) -> Result<Vec<News>, FabricError>;

    /// Makes a host, switch or link fail permanently.
    fn kill(&mut self, victim: Victim) -> Result<(), FabricError>;

    /// Suspends a host's application for `lasts` nanoseconds; its NIC continues. Only in virtual time.
    fn suspend(&mut self, host: HostIndex, lasts: u64) -> Result<(), FabricError>;

    /// Makes a member send random packets of all kinds to a group until its transfer is closed: at link rate, or if links have no
    /// rate, one for each packet that it receives.
    fn turn_hostile(
        &mut self,
        host: HostIndex,
        target: Target,
        seed: u64,
    ) -> Result<(), FabricError>;

    /// Creates the queue pairs of a transfer at one member.
    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError>;

    /// Connects the queue pairs of a member. [`MemberEvent::Ready`] follows.
    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError>;

    /// Makes a member post its data: the root, or the source of the next part of the data. Returns the time of the
    /// post.
    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError>;

    /// Waits for the next event of any member's transfer; `None` if none arrives before `deadline`.
    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError>;

    /// Ends the transfer at a member.
    fn close(&mut self, host: HostIndex) -> Result<(), FabricError>;

    /// Executes a [`LegCommand`] at a member's transfer. A leg is the part of the transfer that one algorithm carries.
    /// After [`LegCommand::Leave`], [`MemberEvent::Left`] follows once the member has processed all data that the leg's
    /// queue pairs delivered.
    fn act(&mut self, host: HostIndex, verb: LegCommand) -> Result<LegReply, FabricError>;

    /// Executes a [`LegCommand`] whose result is a list of queue pairs.
    fn endpoints(
        &mut self,
        host: HostIndex,
        verb: LegCommand,
    ) -> Result<Vec<Endpoint>, FabricError> {
        match self.act(host, verb)? {
            LegReply::Endpoints(endpoints) => Ok(endpoints),
            other => Err(FabricError::Broken(format!("unexpected reply {other:?}"))),
        }
    }

    /// Executes a [`LegCommand`] whose result is a number of slices.
    fn limit(&mut self, host: HostIndex, verb: LegCommand) -> Result<u32, FabricError> {
        match self.act(host, verb)? {
            LegReply::Limit(limit) => Ok(limit),
            other => Err(FabricError::Broken(format!("unexpected reply {other:?}"))),
        }
    }

    /// Completion times of the source's messages; `None` if the source does not count its messages as requests.
    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError>;

    /// Number of contiguous slices that a member holds, from the first on. A slice is one message of the data.
    fn held(&mut self, host: HostIndex) -> Result<u32, FabricError>;

    /// Sets a link's loss probability in each direction; `None` restores the initial one.
    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError>;

    /// Progress of the transfer at a host.
    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError>;

    /// Number of request packets of a host that have been acknowledged, each counted once.
    fn acknowledged(&mut self, host: HostIndex) -> Result<u64, FabricError>;

    /// Number of request packets that the queue pairs of a host have received in order; `None` where the host's RDMA
    /// stack does not count them.
    fn received(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError>;

    /// Reads the counters of links and of the members' queue pairs. The first `sources` members are those that send.
    /// Only differences between two calls within one transfer are meaningful.
    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError>;

    /// Statistics of priority-based flow control since the fabric started; `None` if it is not used, or the driver does not count.
    fn flow_control(&mut self) -> Result<Option<FlowControl>, FabricError> {
        Ok(None)
    }

    /// Reads the packet counters of the switches.
    fn counts(&mut self) -> Result<Counts, FabricError>;

    /// Measured round trip in nanoseconds between the controller and the farthest switch; 0 if not measured.
    fn control_round_trip(&mut self) -> Result<u64, FabricError>;

    /// Time on the fabric's clock in nanoseconds.
    fn now(&self) -> u64;

    /// Interval between two progress checks, in nanoseconds.
    fn tick(&self) -> u64;

    /// Interval between two comparisons of acknowledged with received packets, in nanoseconds. The shorter, the fewer
    /// false acknowledgements are missed.
    fn audit_interval(&self) -> u64 {
        self.tick()
    }

    /// Time without acknowledgements after which a sender reports that its group is stalled, in nanoseconds.
    fn stall_timeout(&self) -> u64;

    /// Processing times of the fabric's hosts and switches, on its clock; `None` if links do not have the topology's
    /// rates.
    fn processing(&self) -> Option<Processing>;

    /// Default settings of queue pairs on this fabric, before those that follow from the topology.
    fn rc(&self, mtu: PathMtu) -> RcConfig;
}

/// A fabric whose hosts take part in several transfers at a time. The methods of [`Fabric`] refer to [`TransferId::MAIN`].
pub trait SharedFabric: Fabric {
    /// Like [`Fabric::prepare`], for the transfer `id`.
    fn prepare_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError>;

    /// Like [`Fabric::connect`], for the transfer `id`.
    fn connect_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        peers: &[Endpoint],
    ) -> Result<(), FabricError>;

    /// Like [`Fabric::start`], for the transfer `id`.
    fn start_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        data: &Arc<ExpectedData>,
    ) -> Result<u64, FabricError>;

    /// Like [`Fabric::act`], for the transfer `id`.
    fn act_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        verb: LegCommand,
    ) -> Result<LegReply, FabricError>;

    /// Like [`Fabric::next_event`], for all transfers; also returns the transfer.
    fn next_event_of_any(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError>;

    /// Requests of one transfer at its root; `None` if the root does not count its messages as requests.
    fn requests_of(&self, id: TransferId, source: HostIndex) -> Option<&Requests>;

    /// Like [`Fabric::progress`], for the transfer `id`.
    fn progress_of(&self, id: TransferId, host: HostIndex) -> Progress;

    /// Like [`Fabric::close`], for the transfer `id`.
    fn close_of(&mut self, id: TransferId, host: HostIndex) -> Result<(), FabricError>;
}

/// A part of the fabric that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// A host: it neither sends nor receives any more.
    Host(HostIndex),
    /// A switch: it drops all packets, and its connection to the controller ends.
    Switch(SwitchIndex),
    /// A link: frames in both directions are lost.
    Link(LinkIndex),
}

/// An action of the controller on a group in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Address of the group.
    pub mcst_id: Ipv4Addr,
    /// Time of the action on the fabric's clock, in nanoseconds.
    pub at: u64,
    /// Members removed from the group, because they did not reply or no path leads to them.
    pub lost: Vec<Ipv4Addr>,
}

/// Statistics of priority-based flow control on a whole fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlowControl {
    /// Number of PAUSE frames that stopped a sender.
    pub pauses: u64,
    /// Total time for which senders were stopped, in ns.
    pub paused_ns: u64,
    /// Statistics of the senders that were stopped.
    pub links: Vec<PausedLink>,
}

/// Flow control statistics of one direction of a link, from a sender that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedLink {
    /// Both ends of the link, the sender first, such as `h1:0 -> s1:1`.
    pub link: String,
    /// Number of PAUSE frames that stopped the sender.
    pub pauses: u64,
    /// Time for which the sender was stopped, in ns, without a pause that still lasts.
    pub paused_ns: u64,
}

/// Counters of a fabric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the frames that the source sent; here and below the sum of all sources, if there are several.
    pub source_tx_bytes: u64,
    /// Message bytes in these frames; 0 if a source is a device that does not count them.
    pub source_payload_bytes: u64,
    /// ACK and NAK frames that reached the source, and acknowledgements of datagrams.
    pub source_acks: u64,
    /// CNPs that reached the source.
    pub source_cnps: u64,
    /// Request packets that reached members with an ECN mark.
    pub marked: u64,
    /// CNPs that members sent.
    pub cnps_sent: u64,
    /// Frames on all links, each counted once per link.
    pub wire_packets: u64,
    /// Frames lost on links and in queues; `None` where the driver does not count them.
    pub dropped_packets: Option<u64>,
    /// Request packets that members retransmitted, including repairs of lost datagrams.
    pub retransmissions: u64,
    /// Frames that members, except hostile ones, discarded because no correct fabric delivers them: [`HostStats::implausible`].
    ///
    /// [`HostStats::implausible`]: alfirk_roce::host::HostStats::implausible
    pub implausible: u64,
}

impl Traffic {
    /// Counters of no traffic, to which others are added.
    pub fn nothing() -> Traffic {
        Traffic {
            dropped_packets: Some(0),
            ..Traffic::default()
        }
    }

    /// Adds two readings of the counters.
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

    /// Returns the traffic since an earlier reading of the same counters.
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

/// Why an operation of a fabric failed.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The controller could not create or remove a group.
    #[error(transparent)]
    Group(Box<GroupError>),
    /// A group could not be registered in band.
    #[error("registration in band: {0}")]
    Registration(String),
    /// A switch could not be set up.
    #[error(transparent)]
    Switch(Box<SwitchError>),
    /// A host rejected a request or failed.
    #[error("host {host}: {why}")]
    Host {
        /// Name of the host.
        host: String,
        /// Reason, from the host.
        why: String,
    },
    /// An operation exceeded its time limit.
    #[error("{what} after {seconds} s")]
    Timeout {
        /// What is missing, such as `group 10.255.0.1 is not registered`.
        what: String,
        /// Time limit that was exceeded, in seconds.
        seconds: f64,
    },
    /// A part of the fabric has ended, or the fabric cannot be reached.
    #[error("{0}")]
    Broken(String),
}

impl FabricError {
    /// Whether the error affects the group only, so that members can continue without it.
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
