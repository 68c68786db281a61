//! Specification of a job: a message that is sent from one host, the source, to the other members of a group.
//!
//! Terms: a *group* is a multicast group of the fabric, of which switches replicate the packets. An *overlay* is an
//! algorithm that uses only unicast connections between members. A *slice* is one of the messages into which data to be
//! relayed is divided. A *part* is the portion of the data that one of several sources sends.

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::Arc;

use alfirk_ctrl::controller::GroupRange;
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::HostIndex;
use alfirk_ctrl::tree::Policy;
use alfirk_roce::collective::{Algorithm, Collective, ExpectedData, TransferOp, WriteMode};
use alfirk_roce::rc::{AckTimeout, PathMtu, Recovery, Retries};
use alfirk_roce::wire::Psn;
use serde::Serialize;

use crate::changes::{LossInterval, Suspension};
use crate::fabric::Victim;
use crate::safeguard::SafeguardConfig;

/// A message to send to the members of a group, with all settings that do not depend on the algorithm.
#[derive(Debug, Clone)]
pub struct Job {
    /// Hosts that take part, the source first.
    pub members: Vec<HostIndex>,
    /// Bytes of the message, with their SHA-256.
    pub data: Arc<ExpectedData>,
    /// Collective operation, such as a broadcast. A barrier has no data.
    pub collective: Collective,
    /// RDMA operation of the message: SEND, WRITE, or WRITE with immediate.
    pub op: TransferOp,
    /// How WRITEs to the group address the memory regions of the receivers.
    pub write: WriteMode,
    /// Methods by which switches merge the group's ACKs and NAKs, and keep the ICRC of rewritten packets valid.
    pub strategies: Strategies,
    /// Congestion control of the members' queue pairs.
    pub congestion: Congestion,
    /// Loss recovery of the members' queue pairs.
    pub recovery: Recovery,
    /// Settings of queue pairs that override those derived from the topology.
    pub sender: SenderSettings,
    /// Policy by which the controller chooses the tree of the group.
    pub tree_policy: Policy,
    /// Path MTU of the members' queue pairs.
    pub mtu: PathMtu,
    /// Number of slices into which algorithms that relay divide the data, and WRITEs to the group with regions per
    /// request; each algorithm's default if `None`.
    pub slices: Option<u32>,
    /// Number of messages into which algorithms that do not relay divide the data; one if `None`.
    pub messages: Option<u32>,
    /// Bytes per slice, in place of `slices`; the last slice may have fewer.
    pub block: Option<u32>,
    /// Whether members relay only after all data has arrived.
    pub store_and_forward: bool,
    /// Receives that members of overlays keep posted and announce to their senders, which wait for the notice. If `None`, RDMC's default
    /// for its algorithms, and no notices for others.
    pub ready: Option<u32>,
    /// Number of receives that each member keeps posted; one for each message if `None`.
    pub receives: Option<u32>,
    /// Maximum number of messages that the source has outstanding; no limit if `None`. Each message is a request, which
    /// completes when all receivers have acknowledged it. Only for algorithms whose source sends to all members itself.
    pub depth: Option<u32>,
    /// Number of source changes in a group. The data is sent in one part more than that, by the members in turn.
    /// Algorithms without a group send all data from the first member.
    pub switch_source: u32,
    /// Whether the next source may start as soon as all other members hold the previous part, while the previous source
    /// still waits for ACKs.
    pub switch_early: bool,
    /// Time limit in ns on the fabric's clock: for the setup, and again for the transfer. If `None`, a default that
    /// depends on the data's size and the slowest link.
    pub time_limit: Option<u64>,
    /// IPv4 address of the multicast group.
    pub mcst_id: Ipv4Addr,
    /// Seed of the job's random numbers, such as the group's initial PSN and virtual queue pair number.
    pub seed: u64,
    /// Initial PSN of the group; drawn from the seed if `None`.
    pub initial_psn: Option<Psn>,
    /// Way in which the group is registered: by the control service or in band.
    pub registration: Registration,
    /// Algorithm to use if the group cannot be registered. If `None`, the job then fails.
    pub fallback: Option<Algorithm>,
    /// Conditions for the change from the registered group to `fallback`, and back. If the registration has failed, the
    /// job begins with the fallback and returns by the same conditions. `None`: no change during the transfer. Ignored
    /// without a fallback and for groups whose source changes.
    pub safeguard: Option<SafeguardConfig>,
    /// Time intervals in which links lose frames.
    pub outages: Vec<LossInterval>,
    /// Time intervals in which applications are suspended; only in virtual time.
    pub suspensions: Vec<Suspension>,
    /// Failures to cause during the transfer.
    pub kills: Vec<Kill>,
    /// Members that send random packets to the group during the transfer. The job does not wait for them.
    pub hostiles: Vec<HostIndex>,
}

impl Job {
    /// Creates the job to send `data` from the first member to the others by SEND, with a path MTU of 4,096 bytes and
    /// defaults for all other settings.
    pub fn new(members: Vec<HostIndex>, data: Arc<[u8]>) -> Job {
        Job {
            members,
            data: Arc::new(ExpectedData::new(data)),
            collective: Collective::Broadcast,
            op: TransferOp::Send,
            write: WriteMode::Aligned,
            strategies: Strategies::default(),
            congestion: Congestion::None,
            recovery: Recovery::GoBackN,
            sender: SenderSettings::default(),
            tree_policy: Policy::default(),
            switch_source: 0,
            switch_early: false,
            mtu: PathMtu::B4096,
            slices: None,
            messages: None,
            block: None,
            store_and_forward: false,
            ready: None,
            receives: None,
            depth: None,
            time_limit: None,
            mcst_id: GroupRange::default().first(),
            seed: 1,
            initial_psn: None,
            registration: Registration::Api,
            fallback: None,
            safeguard: None,
            outages: Vec::new(),
            suspensions: Vec::new(),
            kills: Vec::new(),
            hostiles: Vec::new(),
        }
    }
}

/// Settings of queue pairs that override those derived from the topology ([`crate::job::limits`]); `None` keeps the
/// derived one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderSettings {
    /// Maximum number of outstanding packets.
    pub window: Option<u32>,
    /// Time without an acknowledgement after which a queue pair retransmits.
    pub ack_timeout: Option<AckTimeout>,
    /// Number of ACK timeouts in a row that a queue pair survives; the next one fails it.
    pub retries: Option<Retries>,
    /// Pacing rate of request packets, see [`Pace`].
    pub pace: Pace,
}

/// Rate at which a queue pair paces its request packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// The rate of the slowest link to any receiver. With DCQCN, requests are not paced, because the congestion control
    /// sets the rate.
    #[default]
    Path,
    /// No pacing: the rate of the sender's own link.
    Off,
    /// A fixed rate in bits per second on the wire.
    At(NonZeroU64),
}

/// Registration path of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Registration {
    /// Through the controller's control service
    #[default]
    Api,
    /// In band: the source sends registration packets (MRP), which switches punt to their agents
    Mrp,
}

/// Congestion control of the members' queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// None: queue pairs send as fast as ports and windows permit
    #[default]
    None,
    /// DCQCN: at most one CNP per 50 us and queue pair; rates from 10 Mbit/s to that of the host's link
    ///
    /// With the parameters of its paper; below 40 and above 100 Gbit/s its rates and bytes scale with the link's rate.
    Dcqcn,
}

/// A permanent failure during the transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The host, switch or link that fails.
    pub victim: Victim,
    /// Name of the failing component in messages.
    pub name: String,
    /// Time in nanoseconds after the source's post.
    pub after: u64,
}
