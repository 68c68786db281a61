//! What a job is to do.

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

use crate::changes::{Outage, Suspension};
use crate::fabric::Victim;
use crate::safeguard::SafeguardConfig;

/// What is sent, to which hosts and how, the same for every algorithm.
#[derive(Debug, Clone)]
pub struct Job {
    /// The source first.
    pub members: Vec<HostIndex>,
    pub data: Arc<ExpectedData>,
    /// What is to be brought about; a barrier has no data.
    pub collective: Collective,
    pub op: TransferOp,
    /// How WRITEs to the group fit its receivers.
    pub write: WriteMode,
    /// How the switches handle the group's feedback and ICRCs.
    pub strategies: Strategies,
    /// What slows the members' queue pairs down.
    pub congestion: Congestion,
    /// What the members' queue pairs do about losses.
    pub recovery: Recovery,
    /// What the members' queue pairs are not to take from the topology.
    pub sender: SenderSettings,
    /// How the controller grows the group's tree.
    pub tree_policy: Policy,
    pub mtu: PathMtu,
    /// Slices of the algorithms that relay, and of WRITEs to the group that announce each receiver's region; their own choice if
    /// `None`.
    pub slices: Option<u32>,
    /// Messages into which the algorithms that cut nothing by themselves cut the data; one if `None`.
    pub messages: Option<u32>,
    /// Bytes per slice instead, of which only the last one may have fewer.
    pub block: Option<u32>,
    /// Whether members that relay pass nothing on before they hold everything.
    pub store_and_forward: bool,
    /// Receives that members of overlays keep posted and announce, so that nobody sends before; what RDMC posts for its algorithms, and
    /// unannounced for others, if `None`.
    pub ready: Option<u32>,
    /// Receives that each member keeps posted; one for each message if `None`.
    pub receives: Option<u32>,
    /// How many messages the source has under way, each a request of its own that is over when all receivers have acknowledged it;
    /// all at once if `None`. Only for algorithms whose source sends to everybody itself.
    pub depth: Option<u32>,
    /// How often another member takes over as the source of a group: the data goes out in one part more than that, by turns
    /// through all members. Algorithms without a group send everything from the first member.
    pub switch_source: u32,
    /// Whether a source begins as soon as all others hold what was sent before, though the one before may still wait for its
    /// acknowledgements.
    pub switch_early: bool,
    /// The longest time that setting up, and then the transfer, may each take on the fabric's clock, in ns.
    pub time_limit: Option<u64>,
    /// The address that stands for the group.
    pub mcst_id: Ipv4Addr,
    /// Decides the group's initial PSN, if that is not given.
    pub seed: u64,
    pub initial_psn: Option<Psn>,
    /// How the group is registered.
    pub registration: Registration,
    /// What to do without a group if it cannot be registered; an error if `None`.
    pub fallback: Option<Algorithm>,
    /// When the group is given up for the fallback though it could be registered, and when it is tried again; then it is also tried
    /// again after it could not be registered. Never if `None`, or if there is no fallback. Not for groups whose source changes.
    pub safeguard: Option<SafeguardConfig>,
    /// Which links lose frames, and when.
    pub outages: Vec<Outage>,
    /// Whose application does nothing for a while, and when; only in virtual time.
    pub suspensions: Vec<Suspension>,
    /// What breaks while the message is under way.
    pub kills: Vec<Kill>,
    /// Members that send random packets to the group while the message is under way. Nobody waits for them.
    pub hostiles: Vec<HostIndex>,
}

impl Job {
    /// A SEND of `data` from the first member to the others, with 4,096 bytes per packet and nothing special about it.
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

/// Settings of queue pairs that follow from the topology unless they are given ([`crate::job::limits`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderSettings {
    /// Packets that may be outstanding.
    pub window: Option<u32>,
    pub ack_timeout: Option<AckTimeout>,
    /// How many ACK timeouts in a row to bear.
    pub retries: Option<Retries>,
    pub pace: Pace,
}

/// The rate at which request packets leave at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// That of the slowest link to any receiver; with congestion control that of the sender's own link.
    #[default]
    Path,
    /// That of the sender's own link.
    Off,
    /// So many bits per second of the wire.
    At(NonZeroU64),
}

/// How a group is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Registration {
    /// Through the controller's service
    #[default]
    Api,
    /// In band: the source sends registration packets (MRP), which the switches punt to their agents
    Mrp,
}

/// Congestion control of the members' queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// Nothing: they send as fast as ports and windows let them
    #[default]
    None,
    /// DCQCN: at most one CNP per 50 us and queue pair; rates from 10 Mbit/s to that of the host's link
    ///
    /// With the parameters of its paper; below 40 and above 100 Gbit/s its rates and bytes are in proportion to the link's rate.
    Dcqcn,
}

/// Something that breaks for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    pub victim: Victim,
    /// For people.
    pub name: String,
    /// Nanoseconds after the source has posted the message.
    pub after: u64,
}
