//! Specification of a transfer, and the endpoints that its members exchange to connect.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::barrier;
use super::binomial_ack::DatagramSpec;
use super::edge::EdgeId;
use super::kind::Collective;
use super::members::Members;
use super::racks::Racks;
use crate::rc::{RcConfig, MAX_MESSAGE};
use crate::wire::{Psn, QpNum};

/// The RDMA operation that carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum TransferOp {
    /// SEND into receive buffers
    #[default]
    Send,
    /// WRITE to an address, then an empty SEND that notifies the receiver
    Write,
    /// WRITE with immediate data
    WriteImm,
}

impl TransferOp {
    pub(super) fn writes(self) -> bool {
        !matches!(self, TransferOp::Send)
    }
}

/// How one WRITE to a group gets the address and R_Key that are valid at each receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// Switches rewrite address and key; regions registered once, aligned to a power of two
    ///
    /// Each receiver's region is aligned to a power of two that is at least its length, and is registered with the group once.
    /// Switches rewrite address and key by XOR constants, which hold at every offset and for every later WRITE.
    #[default]
    Aligned,
    /// The same address and key at every receiver; switches rewrite nothing
    ///
    /// All members register their region at the same address with the same key: [`GroupSpec::va`] and [`GroupSpec::rkey`].
    Uniform,
    /// Any region for each WRITE; the source announces it to the switches with 16 bytes per receiver
    ///
    /// The root announces each receiver's region to the switches before each WRITE, in-band ([`crate::wire::mr_info`]). Regions may
    /// have any address and size, and differ for every WRITE. The cost is two round trips per WRITE: the root waits for the
    /// acknowledgement of one WRITE before it announces the next regions, and for that of the announcement before it sends the next
    /// WRITE. So no WRITE, not even a retransmitted one, can reach the region of another.
    ///
    /// With several sources, a source must start only when the previous one has received all its acknowledgements.
    PerRequest,
}

/// Memory of one member to which another member may WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Virtual address of the first byte, in the owner's address space.
    pub va: u64,
    /// R_Key of the memory region or window.
    pub rkey: u32,
    /// Length in bytes.
    pub len: u64,
}

/// One member's end of an edge: the addresses, numbers and memory that the other end needs to connect to it. The controller
/// needs them to register a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The edge to which this end belongs.
    pub edge: EdgeId,
    /// Rank of the member that owns this end.
    pub rank: u32,
    /// IPv4 address of that member.
    pub ip: Ipv4Addr,
    /// Number of that member's queue pair.
    pub qpn: QpNum,
    /// Initial PSN of the requests that this end sends.
    pub psn: Psn,
    /// Memory for WRITEs, at receiving ends. A group is registered with it. Its address is a multiple of a power of two
    /// that is at least its length. `None` without WRITEs, and in groups whose mode is not [`WriteMode::Aligned`].
    pub memory: Option<RemoteMemory>,
    /// Memory window for the WRITE of each slice (message), with [`WriteMode::PerRequest`]; otherwise empty.
    #[serde(rename = "requests", default, skip_serializing_if = "Vec::is_empty")]
    pub slice_windows: Vec<RemoteMemory>,
}

/// Parameters of a multicast group in the fabric, equal for all its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// IPv4 address of the group (McstID).
    pub mcst_id: Ipv4Addr,
    /// Virtual queue pair number of the group, which members use as the remote number. It must differ from that of the
    /// previous group with the same address, so that packets of that group's queue pairs are rejected.
    pub virtual_qpn: QpNum,
    /// Initial PSN of every member.
    pub initial_psn: Psn,
    /// Virtual address to which the root writes; switches rewrite it to each receiver's. With [`WriteMode::Aligned`]
    /// its alignment equals that of the receivers' regions.
    pub va: u64,
    /// R_Key that the root uses; switches rewrite it to each receiver's.
    pub rkey: u32,
}

impl GroupSpec {
    /// Creates the parameters of a group with virtual address 0 and R_Key 0, which suit SENDs.
    pub const fn new(mcst_id: Ipv4Addr, virtual_qpn: QpNum, initial_psn: Psn) -> GroupSpec {
        GroupSpec {
            mcst_id,
            virtual_qpn,
            initial_psn,
            va: 0,
            rkey: 0,
        }
    }
}

/// Specification of a transfer, as one member needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferSpec {
    /// The collective operation.
    #[serde(default)]
    pub collective: Collective,
    /// The algorithm, which must support the collective.
    pub algorithm: Algorithm,
    /// Rank of this member; rank 0 is the root.
    pub rank: u32,
    /// Addresses of all members, by rank.
    pub members: Members,
    /// Length of the data in bytes.
    pub size: u64,
    /// Number of messages (slices) into which the data is cut, at least 1. Default: [`Algorithm::default_slices`].
    pub slices: u32,
    /// The RDMA operation that carries the data.
    #[serde(default)]
    pub op: TransferOp,
    /// How WRITEs to a group get each receiver's address and key; not used by connections between two members.
    #[serde(default)]
    pub write: WriteMode,
    /// Ranks of the sources, each of which sends an equal part of the slices, one after the other on the same queue
    /// pairs. Empty if the root sends all data. The same rank may not follow itself. Only for algorithms that need a
    /// group.
    #[serde(default, skip_serializing_if = "is_empty_list")]
    pub sources: Arc<[u32]>,
    /// Number of receives kept posted on each queue pair, at least 1; `None` posts one for every message at the start.
    /// A message that finds no receive gets an RNR NAK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receives: Option<u32>,
    /// Settings of the queue pairs; `None` for the host's defaults.
    #[serde(default)]
    pub rc: Option<RcConfig>,
    /// Settings of the queue pairs to members whose network path needs settings different from `rc`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSettings>,
    /// The multicast group in the fabric, for algorithms that need one ([`Algorithm::needs_group`]); otherwise `None`.
    #[serde(default)]
    pub group: Option<GroupSpec>,
    /// The multicast group for datagrams, for algorithms that send them ([`Algorithm::needs_datagrams`]); otherwise
    /// `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramSpec>,
    /// Rack of each rank, for algorithms that need it: [`Algorithm::needs_racks`].
    #[serde(default, skip_serializing_if = "Racks::is_empty")]
    pub racks: Racks,
    /// Whether members hold all data before they send any. Supported only if all data takes one path to each member.
    #[serde(default)]
    pub store_and_forward: bool,
    /// Block size in bytes: every slice but the last has this length. `None` cuts the data into slices that differ by
    /// at most one byte. With a block size, `slices` must be [`blocks`](super::blocks).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Number of receives that a member keeps posted and announces to the sender, at least 1; the sender waits for the
    /// announcement. With a block schedule, these receives are for the member's next blocks on all edges. Without one,
    /// each edge has that number. `None` announces no receives. Not for groups.
    /// Members announce from [`Transfer::proceed`](super::Transfer::proceed) on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Whether receivers take the size from the first block; their `size` and `slices` are then ignored. Needs `block`.
    #[serde(default)]
    pub announce: bool,
    /// Queue depth: the largest number of slices that the root has in flight, at least 1; `None` for no limit. Each
    /// slice is a request. The next one is posted when all receivers have acknowledged an earlier one. Only where a
    /// single root sends to all receivers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// SHA-256 that a receiver's data must have; other data fails the transfer. `None` accepts any data.
    #[serde(default)]
    pub expected_sha256: Option<super::Digest>,
}

/// Reason why a [`TransferSpec`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The group has fewer than 2 members; holds their number.
    #[error("a group needs at least 2 members, found {0}")]
    TooFewMembers(usize),
    /// The rank of this member is not below the number of members.
    #[error("no member has rank {rank}: the group has {members} members, ranks begin at 0")]
    NoSuchRank {
        /// Rank of this member.
        rank: u32,
        /// Number of members.
        members: usize,
    },
    /// The specification lists an address for this member that is not the host's.
    #[error("member {rank} has address {listed}, but this host has {host}")]
    WrongHost {
        /// Rank of this member.
        rank: u32,
        /// Address listed for that rank.
        listed: Ipv4Addr,
        /// Address of the host.
        host: Ipv4Addr,
    },
    /// An address appears twice among the members.
    #[error("address {0} appears twice in the group")]
    DuplicateMember(Ipv4Addr),
    /// A slice is longer than a message may be (2^31 bytes).
    #[error(
        "{slices} slices of {size} bytes are too few: a message holds at most 2147483648 bytes; use more slices"
    )]
    SlicesTooLarge {
        /// Number of slices.
        slices: u32,
        /// Length of the data in bytes.
        size: u64,
    },
    /// The specification names sources, but the algorithm does not use a group of the fabric.
    #[error("algorithm {0} supports one source only: several sources need a group of the fabric, as alfirk does")]
    UnsupportedSources(Algorithm),
    /// A rank follows itself in the list of sources.
    #[error("rank {0} appears twice in a row among the sources")]
    SameSourceTwice(u32),
    /// The slices cannot be divided into parts of equal size, one per source.
    #[error(
        "{slices} slices cannot be divided evenly among {parts} sources: use a multiple of {parts}"
    )]
    UnevenParts {
        /// Number of slices.
        slices: u32,
        /// Number of parts, one per source in the list.
        parts: u32,
    },
    /// The transfer cannot be continued by another algorithm: the old or the new algorithm delivers slices out of order.
    /// Holds the new algorithm.
    #[error("the transfer cannot continue with algorithm {0}: it or the present algorithm delivers slices out of order")]
    OutOfOrderSlices(Algorithm),
    /// The algorithm does not implement the collective.
    #[error("algorithm {algorithm} does not support the collective {collective}")]
    UnsupportedCollective {
        /// The algorithm of the specification.
        algorithm: Algorithm,
        /// The collective of the specification.
        collective: Collective,
    },
    /// A barrier has data, or a number of slices other than the number of its signals.
    #[error("a barrier of {members} members has {signals} signals and no data, found {slices} slices of {size} bytes")]
    WrongBarrierSize {
        /// Number of members.
        members: usize,
        /// Number of signals that the barrier needs.
        signals: u32,
        /// Number of slices in the specification.
        slices: u32,
        /// Length of the data in bytes, which must be 0.
        size: u64,
    },
    /// Store-and-forward, ready announcements or an announced size are set for a collective other than a broadcast.
    #[error("collective {0} has no block schedule: only a broadcast supports store-and-forward, ready receivers and an announced size")]
    OnlyBroadcast(Collective),
    /// The number of slices is 0.
    #[error("the number of slices must be at least 1, found 0")]
    ZeroSlices,
    /// The number of receives to keep posted is 0.
    #[error("the number of receives must be at least 1, found 0")]
    ZeroReceives,
    /// The queue depth is 0.
    #[error("the queue depth must be at least 1, found 0")]
    ZeroDepth,
    /// A queue depth is set, but with this algorithm the root does not send to all receivers itself.
    #[error("algorithm {0} has no requests to count: a queue depth needs one source that sends to all receivers itself, as with alfirk and unicast")]
    UnsupportedDepth(Algorithm),
    /// The block size is 0.
    #[error("the block size must be at least 1 byte, found 0")]
    ZeroBlockSize,
    /// The number of slices is not the number of blocks in the data.
    #[error(
        "found {slices} slices for {size} bytes in blocks of {block} bytes, expected {expected}",
        expected = super::blocks(*size, *block)
    )]
    BlockCountMismatch {
        /// Number of slices in the specification.
        slices: u32,
        /// Length of the data in bytes.
        size: u64,
        /// Block size in bytes.
        block: u32,
    },
    /// Ready announcements or an announced size are set for an algorithm that uses a group of the fabric.
    #[error("algorithm {0} uses a group of the fabric, whose receivers cannot announce that they are ready, nor its source the size")]
    AnnouncementInGroup(Algorithm),
    /// Both `ready` and `receives` are set.
    #[error("receivers that announce when they are ready keep that number of receives posted: set either `ready` or `receives`")]
    ReadyAndReceives,
    /// An announced size is set with WRITE; only SEND can carry the announcement.
    #[error("only SEND can announce the size to receivers: a WRITE needs their memory before")]
    AnnouncedWrite,
    /// The data is too long to announce its length in 32 bits of immediate data; holds the length in bytes.
    #[error("{0} bytes cannot be announced: the immediate data of a SEND has 32 bits")]
    TooLargeToAnnounce(u64),
    /// The algorithm needs a group of the fabric, and `group` is `None`.
    #[error("algorithm {0} needs a group in the fabric, and the specification has none")]
    MissingGroup(Algorithm),
    /// The algorithm needs a datagram group, and `datagrams` is `None` or not valid.
    #[error("algorithm {0} needs a multicast group of datagrams (in 224.0.0.0/4, with a Q_Key below 2^31), and the specification has none")]
    MissingDatagramGroup(Algorithm),
    /// The algorithm sends datagrams, which do not support one of the settings.
    #[error("algorithm {algorithm} sends datagrams, which support no {setting}")]
    UnsupportedByDatagrams {
        /// The algorithm of the specification.
        algorithm: Algorithm,
        /// Name of the setting.
        setting: &'static str,
    },
    /// A slice is longer than a datagram endpoint can buffer.
    #[error("a slice of {len} bytes is longer than {algorithm} can buffer until all members have it: use {min_slices} slices or more")]
    LongDatagramSlice {
        /// The algorithm of the specification.
        algorithm: Algorithm,
        /// Length of the longest slice in bytes.
        len: u64,
        /// Smallest number of slices that would be accepted.
        min_slices: u32,
    },
    /// The algorithm needs the rack of each member, and some are missing.
    #[error(
        "algorithm {algorithm} needs the rack of each of {members} members, found {racks} racks"
    )]
    MissingRacks {
        /// The algorithm of the specification.
        algorithm: Algorithm,
        /// Number of members.
        members: usize,
        /// Number of racks listed, one per member.
        racks: usize,
    },
    /// Store-and-forward is set, but the algorithm sends parts of the data over different paths.
    #[error("algorithm {0} sends parts of the data over different paths, so members cannot store and forward")]
    UnsupportedStoreAndForward(Algorithm),
}

/// Settings of the queue pair to one member, if they differ from [`TransferSpec::rc`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSettings {
    /// IPv4 address of that member.
    pub peer: Ipv4Addr,
    /// Settings of the queue pair to that member.
    pub rc: RcConfig,
}

impl TransferSpec {
    /// Creates a broadcast of `size` bytes by SEND in one slice, with default settings.
    pub fn new(algorithm: Algorithm, rank: u32, members: Members, size: u64) -> TransferSpec {
        TransferSpec {
            collective: Collective::Broadcast,
            algorithm,
            rank,
            members,
            size,
            slices: 1,
            op: TransferOp::Send,
            write: WriteMode::Aligned,
            sources: Arc::default(),
            receives: None,
            rc: None,
            paths: Vec::new(),
            group: None,
            datagrams: None,
            racks: Racks::default(),
            store_and_forward: false,
            block: None,
            ready: None,
            announce: false,
            depth: None,
            expected_sha256: None,
        }
    }

    /// Whether this member is the root (rank 0), which has the data at the start.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// Checks the specification on the host with IPv4 address `host`.
    pub fn check(&self, host: Ipv4Addr) -> Result<(), SpecError> {
        if self.members.len() < 2 {
            return Err(SpecError::TooFewMembers(self.members.len()));
        }
        let Some(listed) = self.members.get(self.rank as usize).copied() else {
            return Err(SpecError::NoSuchRank {
                rank: self.rank,
                members: self.members.len(),
            });
        };
        if listed != host {
            return Err(SpecError::WrongHost {
                rank: self.rank,
                listed,
                host,
            });
        }
        if let Some(twice) = self.members.duplicate() {
            return Err(SpecError::DuplicateMember(twice));
        }
        self.check_announcements()?;
        if self.slices == 0 && self.has_size() {
            return Err(SpecError::ZeroSlices);
        }
        if self.receives == Some(0) {
            return Err(SpecError::ZeroReceives);
        }
        let longest = match self.block {
            Some(block) => block.into(),
            None => self.size.div_ceil(u64::from(self.slices)),
        };
        if longest > MAX_MESSAGE {
            return Err(SpecError::SlicesTooLarge {
                slices: self.slices,
                size: self.size,
            });
        }
        self.check_collective()?;
        self.check_datagrams()?;
        if self.algorithm.needs_group() && self.group.is_none() {
            return Err(SpecError::MissingGroup(self.algorithm));
        }
        let (members, racks) = (self.members.len(), self.racks.len());
        if self.algorithm.needs_racks() && racks != members {
            return Err(SpecError::MissingRacks {
                algorithm: self.algorithm,
                members,
                racks,
            });
        }
        if self.store_and_forward && !self.algorithm.is_one_tree() {
            return Err(SpecError::UnsupportedStoreAndForward(self.algorithm));
        }
        self.check_sources()?;
        self.check_depth()
    }

    fn check_depth(&self) -> Result<(), SpecError> {
        match self.depth {
            Some(0) => Err(SpecError::ZeroDepth),
            Some(_) if !self.supports_depth() => Err(SpecError::UnsupportedDepth(self.algorithm)),
            _ => Ok(()),
        }
    }

    /// Whether the transfer supports a queue depth: when the source's queue pairs have completed a slice, all receivers
    /// have it.
    fn supports_depth(&self) -> bool {
        let sends_itself = !self.algorithm.relays() && !self.algorithm.needs_datagrams();
        sends_itself && self.collective == Collective::Broadcast && !self.has_several_sources()
    }

    fn check_collective(&self) -> Result<(), SpecError> {
        let (algorithm, collective) = (self.algorithm, self.collective);
        if !algorithm.supports(collective) {
            return Err(SpecError::UnsupportedCollective {
                algorithm,
                collective,
            });
        }
        let special = self.announce || self.store_and_forward || self.ready.is_some();
        if collective != Collective::Broadcast && special {
            return Err(SpecError::OnlyBroadcast(collective));
        }
        let members = self.members.len();
        let signals = barrier::signal_count(members as u32);
        if collective == Collective::Barrier && (self.slices, self.size) != (signals, 0) {
            return Err(SpecError::WrongBarrierSize {
                members,
                signals,
                slices: self.slices,
                size: self.size,
            });
        }
        Ok(())
    }

    /// Settings of the queue pair for an edge; `None` for the host's defaults.
    pub(super) fn rc_of(&self, edge: EdgeId) -> Option<RcConfig> {
        let peer = match edge {
            EdgeId::Pair { from, to } if from == self.rank => self.members.get(to as usize),
            EdgeId::Pair { .. } | EdgeId::Group { .. } | EdgeId::Datagrams { .. } => None,
        };
        let path = peer.and_then(|peer| self.paths.iter().find(|path| path.peer == *peer));
        path.map(|path| path.rc).or(self.rc)
    }

    /// How WRITEs on the group's edge get each receiver's address and key; `None` without a group or WRITEs.
    pub(super) fn group_write(&self) -> Option<WriteMode> {
        (self.algorithm.needs_group() && self.op.writes()).then_some(self.write)
    }

    /// Number of receives kept posted on a queue pair; `None` posts one for every message.
    pub(super) fn receives_kept(&self) -> Option<u32> {
        self.ready.or(self.receives)
    }

    /// Offset and length in bytes of slice number `index`.
    pub fn slice(&self, index: u32) -> (u64, u64) {
        if let Some(block) = self.block.map(u64::from) {
            let offset = u64::from(index) * block;
            return (offset, block.min(self.size.saturating_sub(offset)));
        }
        equal_slice(self.size, self.slices, index)
    }
}

fn is_empty_list(ranks: &Arc<[u32]>) -> bool {
    ranks.is_empty()
}

/// Offset and length in bytes of slice number `index`. The data of `size` bytes is cut into `slices` slices (at least 1),
/// whose lengths differ by at most one byte.
pub fn equal_slice(size: u64, slices: u32, index: u32) -> (u64, u64) {
    let (n, i) = (u64::from(slices), u64::from(index));
    let (base, longer) = (size / n, size % n);
    let offset = i * base + i.min(longer);
    (offset, base + u64::from(i < longer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Schedule;

    fn spec(size: u64, slices: u32) -> TransferSpec {
        TransferSpec {
            slices,
            ..TransferSpec::new(
                Algorithm::Chain,
                0,
                vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)].into(),
                size,
            )
        }
    }

    #[test]
    fn slices_cover_the_data_without_gap() {
        for (size, slices) in [(0, 1), (0, 3), (1, 4), (10, 3), (1 << 20, 7)] {
            let spec = spec(size, slices);
            let mut end = 0;
            for i in 0..slices {
                let (offset, len) = spec.slice(i);
                assert_eq!(offset, end);
                end += len;
            }
            assert_eq!(end, size);
        }
    }

    #[test]
    fn invalid_specs_are_rejected() {
        let host = Ipv4Addr::new(10, 0, 0, 1);
        let good = spec(10, 1);
        assert_eq!(good.check(host), Ok(()));
        let alone = TransferSpec {
            members: vec![host].into(),
            ..good.clone()
        };
        assert_eq!(alone.check(host), Err(SpecError::TooFewMembers(1)));
        let rank = TransferSpec {
            rank: 2,
            ..good.clone()
        };
        assert!(matches!(
            rank.check(host),
            Err(SpecError::NoSuchRank { .. })
        ));
        let other = TransferSpec {
            rank: 1,
            ..good.clone()
        };
        assert!(matches!(
            other.check(host),
            Err(SpecError::WrongHost { .. })
        ));
        let twice = TransferSpec {
            members: vec![host, host].into(),
            ..good.clone()
        };
        assert_eq!(twice.check(host), Err(SpecError::DuplicateMember(host)));
        assert_eq!(spec(10, 0).check(host), Err(SpecError::ZeroSlices));
        let deaf = TransferSpec {
            receives: Some(0),
            ..spec(10, 2)
        };
        assert_eq!(deaf.check(host), Err(SpecError::ZeroReceives));
        assert!(matches!(
            spec(1 << 33, 3).check(host),
            Err(SpecError::SlicesTooLarge { .. })
        ));
        let group = TransferSpec {
            algorithm: Algorithm::Alfirk,
            ..good
        };
        assert_eq!(
            group.check(host),
            Err(SpecError::MissingGroup(Algorithm::Alfirk))
        );
        let turns = |sources: &[u32], slices| TransferSpec {
            sources: sources.into(),
            slices,
            group: Some(GroupSpec::new(
                Ipv4Addr::new(10, 255, 0, 1),
                QpNum::new(2),
                Psn::new(0),
            )),
            ..group.clone()
        };
        assert_eq!(turns(&[1, 0, 1], 6).check(host), Ok(()));
        let refused = [
            (turns(&[0, 0], 2), SpecError::SameSourceTwice(0)),
            (
                turns(&[0, 1], 3),
                SpecError::UnevenParts {
                    slices: 3,
                    parts: 2,
                },
            ),
            (
                turns(&[0, 2], 2),
                SpecError::NoSuchRank {
                    rank: 2,
                    members: 2,
                },
            ),
        ];
        for (spec, error) in refused {
            assert_eq!(spec.check(host), Err(error));
        }
        let overlay = TransferSpec {
            algorithm: Algorithm::Chain,
            ..turns(&[0, 1], 2)
        };
        assert_eq!(
            overlay.check(host),
            Err(SpecError::UnsupportedSources(Algorithm::Chain))
        );
    }

    #[test]
    fn unsupported_settings_of_an_algorithm_are_rejected() {
        let host = Ipv4Addr::new(10, 0, 0, 1);
        let (chain, alfirk) = (Algorithm::Chain, Algorithm::Alfirk);
        let hybrid = Algorithm::Rdmc(Schedule::Hybrid);
        let good = TransferSpec {
            block: Some(4),
            announce: true,
            ready: Some(1),
            ..spec(10, 3)
        };
        assert_eq!(good.check(host), Ok(()));
        let of = |algorithm| TransferSpec {
            algorithm,
            ..spec(10, 2)
        };
        let group = GroupSpec::new(Ipv4Addr::new(10, 255, 0, 1), QpNum::new(2), Psn::new(0));
        let refused = [
            (
                TransferSpec {
                    block: None,
                    ..good.clone()
                },
                SpecError::ZeroBlockSize,
            ),
            (
                TransferSpec {
                    slices: 2,
                    ..good.clone()
                },
                SpecError::BlockCountMismatch {
                    slices: 2,
                    size: 10,
                    block: 4,
                },
            ),
            (
                TransferSpec {
                    op: TransferOp::Write,
                    ..good.clone()
                },
                SpecError::AnnouncedWrite,
            ),
            (
                TransferSpec {
                    ready: Some(0),
                    ..of(chain)
                },
                SpecError::ZeroReceives,
            ),
            (
                TransferSpec {
                    receives: Some(1),
                    ..good.clone()
                },
                SpecError::ReadyAndReceives,
            ),
            (
                TransferSpec {
                    ready: Some(1),
                    group: Some(group),
                    ..of(alfirk)
                },
                SpecError::AnnouncementInGroup(alfirk),
            ),
            (
                of(hybrid),
                SpecError::MissingRacks {
                    algorithm: hybrid,
                    members: 2,
                    racks: 0,
                },
            ),
            (
                TransferSpec {
                    depth: Some(0),
                    ..of(Algorithm::Unicast)
                },
                SpecError::ZeroDepth,
            ),
            (
                TransferSpec {
                    depth: Some(1),
                    ..of(Algorithm::Chain)
                },
                SpecError::UnsupportedDepth(Algorithm::Chain),
            ),
            (
                TransferSpec {
                    store_and_forward: true,
                    ..of(Algorithm::Long)
                },
                SpecError::UnsupportedStoreAndForward(Algorithm::Long),
            ),
            (
                of(Algorithm::Dissemination),
                SpecError::UnsupportedCollective {
                    algorithm: Algorithm::Dissemination,
                    collective: Collective::Broadcast,
                },
            ),
            (
                TransferSpec {
                    collective: Collective::Barrier,
                    ..of(Algorithm::Binomial)
                },
                SpecError::WrongBarrierSize {
                    members: 2,
                    signals: 2,
                    slices: 2,
                    size: 10,
                },
            ),
        ];
        for (spec, error) in refused {
            assert_eq!(spec.check(host), Err(error));
        }
    }

    #[test]
    fn parts_cover_the_data_without_gap() {
        for (size, slices, sources) in [(10, 6, vec![0, 1, 0]), (1, 4, vec![1, 0]), (7, 1, vec![])]
        {
            let spec = TransferSpec {
                sources: sources.into(),
                ..spec(size, slices)
            };
            let mut end = 0;
            for part in 0..spec.parts() {
                let (offset, len) = spec.part(part);
                assert_eq!(offset, end);
                end += len;
                assert!(spec
                    .slices_of(part)
                    .all(|slice| spec.part_of(slice) == part));
            }
            assert_eq!(end, size);
        }
    }
}
