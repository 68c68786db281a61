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
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestLatencies, RequestTimes,
    TransferSpec,
};
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig};

use serde::Serialize;

use super::job::ProcessingTimes;
use super::{MemberEvent, TransferId};

/// A fabric that is ready to use: every switch has its pipeline and routes, and every host replies.
///
/// Calls may block in real time; times are nanoseconds on the fabric's clock.
pub trait Fabric {
    /// Registers a multicast group with the controller, and waits until members may send to it.
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError>;

    /// Removes a multicast group from the controller and the switches.
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

    /// Adds hosts to a multicast group of UD datagrams; `group` is an address of 224.0.0.0/4.
    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// Removes hosts from a multicast group of UD datagrams.
    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError>;

    /// Reports to the controller that a group makes no progress: in packets sent by `source`, or, if `source` is
    /// `None`, by the controller's control service.
    fn report_stall(
        &mut self,
        mcst_id: Ipv4Addr,
        source: Option<HostIndex>,
    ) -> Result<(), FabricError>;

    /// Removes and returns the changes that the controller has made to groups in use since the last call: reroutings,
    /// and removals of members.
    fn take_group_changes(&mut self) -> Result<Vec<GroupChange>, FabricError>;

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

    /// Makes a member post its data. The member is the root of the transfer, or the source of the next part of the
    /// data. Returns the time of the post.
    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError>;

    /// Waits for the next event of any member's transfer; `None` if none arrives before `deadline`.
    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError>;

    /// Waits for the next event as [`Fabric::next_event`] does. While packets flow without any disturbance, a simulator may
    /// instead return at `deadline` plus any multiple of `interval`, both in nanoseconds, but not after `latest`. All
    /// results are as if it had returned each time.
    fn next_event_by_intervals(
        &mut self,
        deadline: u64,
        _interval: u64,
        _latest: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        self.next_event(deadline)
    }

    /// Ends the transfer at a member, and destroys its queue pairs.
    fn close(&mut self, host: HostIndex) -> Result<(), FabricError>;

    /// Executes a [`LegCommand`] in the transfer of a member. A leg is the part of the transfer that one algorithm
    /// carries. After [`LegCommand::Leave`], the event [`MemberEvent::Left`] follows once the member has processed all
    /// data that the leg's queue pairs delivered.
    fn execute_leg_command(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError>;

    /// Executes a [`LegCommand`] in the transfer of a member, and returns the queue pairs that the command creates.
    fn execute_for_endpoints(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<Vec<Endpoint>, FabricError> {
        match self.execute_leg_command(host, command)? {
            LegReply::Endpoints(endpoints) => Ok(endpoints),
            other => Err(FabricError::Broken(format!("unexpected reply {other:?}"))),
        }
    }

    /// Executes a [`LegCommand`] in the transfer of a member, and returns the number of slices that is the command's
    /// result.
    fn execute_for_limit(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<u32, FabricError> {
        match self.execute_leg_command(host, command)? {
            LegReply::Limit(limit) => Ok(limit),
            other => Err(FabricError::Broken(format!("unexpected reply {other:?}"))),
        }
    }

    /// Completion times of the source's messages; `None` if the source does not count its messages as requests.
    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError>;

    /// Number of slices that a member holds without a gap, from slice 0 on. A slice is one message of the data.
    fn held_slices(&mut self, host: HostIndex) -> Result<u32, FabricError>;

    /// Sets the probability that a link loses a frame, for each direction; `None` restores the link's initial
    /// probability.
    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError>;

    /// Number of bytes of the transfer that a host has received, and their total.
    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError>;

    /// Number of request packets that a host has sent and that have been acknowledged. A retransmitted packet counts
    /// once.
    fn acknowledged_packets(&mut self, host: HostIndex) -> Result<u64, FabricError>;

    /// Number of request packets that the queue pairs of a host have received in order; `None` where the host's RDMA
    /// stack does not count them.
    fn received_packets(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError>;

    /// Reads the counters of all links, and those of the queue pairs of `members`. The first `sources` of the members
    /// are the ones that send. Only the difference of two calls within one transfer is meaningful.
    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError>;

    /// Statistics of priority-based flow control (PFC) since the fabric started; `None` if the fabric does not use PFC,
    /// or does not count.
    fn flow_control(&mut self) -> Result<Option<FlowControl>, FabricError> {
        Ok(None)
    }

    /// Reads the packet counters of the pipelines, summed over all switches.
    fn counts(&mut self) -> Result<Counts, FabricError>;

    /// Time at which a member has last got an acknowledgement of packets that were not acknowledged before, in nanoseconds;
    /// `None` if the fabric does not record it.
    fn last_acknowledged_at(&mut self, _host: HostIndex) -> Result<Option<u64>, FabricError> {
        Ok(None)
    }

    /// Measured round trip in nanoseconds between the controller and the farthest switch; 0 if not measured.
    fn control_round_trip(&mut self) -> Result<u64, FabricError>;

    /// Time on the fabric's clock in nanoseconds.
    fn now(&self) -> u64;

    /// Interval in nanoseconds at which a caller that waits for events should look at the progress.
    fn tick(&self) -> u64;

    /// Interval in nanoseconds between two audits, which compare acknowledged with received packets. The shorter it is,
    /// the fewer false acknowledgements are missed.
    fn audit_interval(&self) -> u64 {
        self.tick()
    }

    /// Time without acknowledgements after which a sender reports that its group is stalled, in nanoseconds.
    fn stall_timeout(&self) -> u64;

    /// Processing times of the fabric's hosts and switches, on its clock; `None` if links do not have the topology's
    /// rates.
    fn processing(&self) -> Option<ProcessingTimes>;

    /// Default settings of RC queue pairs on this fabric. Limits derived from the topology are applied to them.
    fn rc(&self, mtu: PathMtu) -> RcConfig;
}

/// A fabric whose hosts take part in several transfers at the same time. The methods of [`Fabric`] apply to the
/// transfer [`TransferId::MAIN`].
pub trait SharedFabric: Fabric {
    /// Creates the queue pairs of transfer `id` at one member.
    fn prepare_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError>;

    /// Connects the queue pairs of a member in transfer `id`. [`MemberEvent::Ready`] follows.
    fn connect_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        peers: &[Endpoint],
    ) -> Result<(), FabricError>;

    /// Makes a member post its data in transfer `id`. Returns the time of the post.
    fn start_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        data: &Arc<ExpectedData>,
    ) -> Result<u64, FabricError>;

    /// Executes a [`LegCommand`] in transfer `id` at a member; see [`Fabric::execute_leg_command`].
    fn execute_in_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError>;

    /// Waits for the next event of any transfer, and returns it with the transfer and the host; `None` if none arrives
    /// before `deadline`.
    fn next_transfer_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError>;

    /// Waits for the next event of any transfer, as [`Fabric::next_event_by_intervals`] does for one transfer.
    fn next_transfer_event_by_intervals(
        &mut self,
        deadline: u64,
        _interval: u64,
        _latest: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError> {
        self.next_transfer_event(deadline)
    }

    /// Completion times of the messages that the root of transfer `id` sent, each a request; `None` if the root does
    /// not count its messages as requests.
    fn transfer_requests(&self, id: TransferId, source: HostIndex) -> Option<&RequestLatencies>;

    /// Number of bytes of transfer `id` that a host has received, and their total.
    fn transfer_progress(&self, id: TransferId, host: HostIndex) -> Progress;

    /// Ends transfer `id` at a member, and destroys its queue pairs there.
    fn close_transfer(&mut self, id: TransferId, host: HostIndex) -> Result<(), FabricError>;
}

/// A component of a fabric that a job makes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// A host, which neither sends nor receives any more.
    Host(HostIndex),
    /// A switch, which drops all packets; its connection to the controller ends.
    Switch(SwitchIndex),
    /// A link, which loses all frames in both directions.
    Link(LinkIndex),
}

/// A change that the controller has made to a group in use, such as a rerouting or the removal of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupChange {
    /// Address of the group.
    pub mcst_id: Ipv4Addr,
    /// Time of the change in nanoseconds, on the fabric's clock.
    pub at: u64,
    /// IPv4 addresses of the members that were removed from the group, because they did not reply or no path leads to
    /// them.
    pub lost: Vec<Ipv4Addr>,
}

/// Statistics of priority-based flow control (PFC) on a whole fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlowControl {
    /// Number of PAUSE frames that stopped a sender.
    pub pauses: u64,
    /// Total time for which senders were stopped, in ns.
    pub paused_ns: u64,
    /// Statistics of the senders that were stopped.
    pub links: Vec<PausedLink>,
}

/// PFC statistics of one direction of a link whose sender was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedLink {
    /// Both ends of the link, the sender first, such as `h1:0 -> s1:1`.
    pub link: String,
    /// Number of PAUSE frames that stopped the sender.
    pub pauses: u64,
    /// Time for which the sender was stopped, in ns, without a pause that still lasts.
    pub paused_ns: u64,
}

/// Counters of a fabric: frames on its links, and packets of the members' queue pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the frames that the source sent. This and the following counters of the source are sums if there are
    /// several sources.
    pub source_tx_bytes: u64,
    /// Message bytes in the frames that the source sent; 0 if a source is a device that does not count them.
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
    /// Creates counters without traffic, as the start of a sum.
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

/// Error of a [`Fabric`] operation.
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
        /// Description of what did not happen in time, such as `group 10.255.0.1 is not registered`.
        what: String,
        /// Time limit that was exceeded, in seconds.
        seconds: f64,
    },
    /// A component of the fabric has ended, or the fabric cannot be reached; holds the reason.
    #[error("{0}")]
    Broken(String),
}

impl FabricError {
    /// Whether the error affects only the group, so that its members can continue without the group.
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
