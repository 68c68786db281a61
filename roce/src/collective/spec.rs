//! The specification of a transfer, and the endpoints that its members exchange.

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

/// How the address and R_Key of one WRITE to a group become valid at each receiver.
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

/// Memory that the remote side may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Virtual address of the first byte.
    pub va: u64,
    pub rkey: u32,
    /// Length in bytes.
    pub len: u64,
}

/// One end of an edge. Sent to the other end and, for a group, to the controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    pub edge: EdgeId,
    /// The rank of the member that owns this end.
    pub rank: u32,
    pub ip: Ipv4Addr,
    pub qpn: QpNum,
    /// The initial PSN of this end's requests.
    pub psn: Psn,
    /// Target of WRITEs, at receiving ends only. A group is registered with it. Its address is a multiple of a power of two that is at
    /// least its length.
    pub memory: Option<RemoteMemory>,
    /// The target of each slice's WRITE, with [`WriteMode::PerRequest`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RemoteMemory>,
}

/// The parameters that all members of a group in the fabric share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The McstID: the IPv4 address of the group.
    pub mcst_id: Ipv4Addr,
    /// The virtual queue pair number of the group, which members use as the remote number. It must differ from that of the previous
    /// group with the same address, so that old queue pairs of that group are kept out.
    pub virtual_qpn: QpNum,
    /// The initial PSN of every member.
    pub initial_psn: Psn,
    /// The virtual address that the root writes to; switches rewrite it to each receiver's. With [`WriteMode::Aligned`] its alignment
    /// equals that of the receivers' regions.
    pub va: u64,
    /// The R_Key that the root uses; switches rewrite it to each receiver's.
    pub rkey: u32,
}

impl GroupSpec {
    /// Virtual address 0, R_Key 0.
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

/// The specification of a transfer for one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferSpec {
    #[serde(default)]
    pub collective: Collective,
    pub algorithm: Algorithm,
    /// The rank of this member; 0 is the root.
    pub rank: u32,
    /// The addresses of all members, by rank.
    pub members: Members,
    /// Length of the data in bytes.
    pub size: u64,
    /// Number of messages into which the data is cut. Default: [`Algorithm::default_slices`].
    pub slices: u32,
    #[serde(default)]
    pub op: TransferOp,
    /// How WRITEs to a group fit the receivers' memory; unused by connections between two members.
    #[serde(default)]
    pub write: WriteMode,
    /// The ranks of the sources, each of which sends an equal part of the slices, one after the other on the same queue pairs. Empty
    /// if the root sends all data. No rank appears twice in a row. Only for algorithms that need a group.
    #[serde(default, skip_serializing_if = "is_empty_list")]
    pub sources: Arc<[u32]>,
    /// Receives kept posted on each queue pair, at least 1; `None` posts one for every message. A source that has no receive left gets
    /// an RNR NAK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receives: Option<u32>,
    /// Settings of the queue pairs; `None` for the host's defaults.
    #[serde(default)]
    pub rc: Option<RcConfig>,
    /// Settings of the queue pairs to single members, for paths that need others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSettings>,
    /// The group, for algorithms that need one: [`Algorithm::needs_group`].
    #[serde(default)]
    pub group: Option<GroupSpec>,
    /// The multicast group of algorithms that send datagrams: [`Algorithm::needs_datagrams`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramSpec>,
    /// The rack of each rank, for algorithms that need it: [`Algorithm::needs_racks`].
    #[serde(default, skip_serializing_if = "Racks::is_empty")]
    pub racks: Racks,
    /// Whether members send nothing before they hold all data; only where all data takes one path to each member.
    #[serde(default)]
    pub store_and_forward: bool,
    /// Bytes per slice; only the last slice may be shorter. `None` cuts the data into slices that differ by at most one byte. With a
    /// block size, `slices` must be [`blocks`](super::blocks).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Receives that a member keeps posted and announces to the sender, at least 1; the sender waits for the announcement. They are
    /// for the next blocks of the member's schedule or, without a schedule, on each edge. Not for groups. Members begin to announce
    /// with [`Transfer::proceed`](super::Transfer::proceed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Whether receivers take the size from the first block; their `size` and `slices` are then ignored. Needs `block`.
    #[serde(default)]
    pub announce: bool,
    /// Queue depth: the most slices that the root has in flight, at least 1. Each slice is a request; the next is posted when all
    /// receivers have acknowledged one. Only where a single root sends to all receivers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The SHA-256 that a receiver's data must have; other data fails the transfer.
    #[serde(default)]
    pub expected_sha256: Option<super::Digest>,
}

/// Why a [`TransferSpec`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("a group needs at least 2 members, found {0}")]
    TooFewMembers(usize),
    #[error("no member has rank {rank}: the group has {members} members, ranks begin at 0")]
    NoSuchRank { rank: u32, members: usize },
    #[error("member {rank} has address {is}, but this host has {host}")]
    WrongHost {
        rank: u32,
        is: Ipv4Addr,
        host: Ipv4Addr,
    },
    #[error("address {0} appears twice in the group")]
    DuplicateMember(Ipv4Addr),
    #[error(
        "{slices} slices of {size} bytes are too few: a message holds at most 2147483648 bytes; use more slices"
    )]
    SlicesTooLarge { slices: u32, size: u64 },
    #[error("algorithm {0} supports one source only: several sources need a group of the fabric, as alfirk does")]
    SingleSource(Algorithm),
    #[error("rank {0} appears twice in a row among the sources")]
    SameSourceTwice(u32),
    #[error(
        "{slices} slices cannot be divided evenly among {parts} sources: use a multiple of {parts}"
    )]
    UnevenParts { slices: u32, parts: u32 },
    #[error("algorithm {0} delivers slices out of order, so their number is not enough to resume with another algorithm")]
    NoOrder(Algorithm),
    #[error("algorithm {algorithm} does not support the collective {collective}")]
    NotDone {
        algorithm: Algorithm,
        collective: Collective,
    },
    #[error("a barrier of {members} members has {signals} signals and no data, found {slices} slices of {size} bytes")]
    NoBarrier {
        members: usize,
        signals: u32,
        slices: u32,
        size: u64,
    },
    #[error("collective {0} has no block schedule: only a broadcast supports store-and-forward, ready receivers and an announced size")]
    OnlyBroadcast(Collective),
    #[error("the number of slices must be at least 1, found 0")]
    NoSlices,
    #[error("the number of receives must be at least 1, found 0")]
    NoReceives,
    #[error("the queue depth must be at least 1, found 0")]
    NoDepth,
    #[error("algorithm {0} has no requests to count: a queue depth needs one source that sends to all receivers itself, as with alfirk and unicast")]
    NoRequests(Algorithm),
    #[error("the block size must be at least 1 byte, found 0")]
    NoBlock,
    #[error("{size} bytes in blocks of {block} bytes do not make {slices} slices")]
    WrongBlocks { slices: u32, size: u64, block: u32 },
    #[error("algorithm {0} uses a group of the fabric, whose receivers cannot announce that they are ready, nor its source the size")]
    NotInGroup(Algorithm),
    #[error("receivers that announce when they are ready keep that number of receives posted: set either `ready` or `receives`")]
    ReadyAndReceives,
    #[error("only SEND can announce the size to receivers: a WRITE needs their memory before")]
    AnnouncedWrite,
    #[error("{0} bytes cannot be announced: the immediate data of a SEND has 32 bits")]
    TooLargeToAnnounce(u64),
    #[error("algorithm {0} needs a group in the fabric, and the specification has none")]
    NoGroup(Algorithm),
    #[error("algorithm {0} needs a multicast group of datagrams (in 224.0.0.0/4, with a Q_Key below 2^31), and the specification has none")]
    NoDatagrams(Algorithm),
    #[error("algorithm {algorithm} sends datagrams, which support no {what}")]
    NotByDatagrams {
        algorithm: Algorithm,
        what: &'static str,
    },
    #[error("a slice of {len} bytes is longer than {algorithm} can buffer until all members have it: use {least} slices or more")]
    LongDatagramSlice {
        algorithm: Algorithm,
        len: u64,
        least: u32,
    },
    #[error(
        "algorithm {algorithm} needs the rack of each of {members} members, found {racks} racks"
    )]
    NoRacks {
        algorithm: Algorithm,
        members: usize,
        racks: usize,
    },
    #[error("algorithm {0} sends parts of the data over different paths, so members cannot store and forward")]
    NoStoreAndForward(Algorithm),
}

/// Settings of the queue pair to one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSettings {
    pub peer: Ipv4Addr,
    pub rc: RcConfig,
}

impl TransferSpec {
    /// A broadcast of `size` bytes by SEND in one slice, with default settings.
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

    /// Whether this member has the data at the start.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// Checks the specification for the host with address `host`.
    pub fn check(&self, host: Ipv4Addr) -> Result<(), SpecError> {
        if self.members.len() < 2 {
            return Err(SpecError::TooFewMembers(self.members.len()));
        }
        let Some(is) = self.members.get(self.rank as usize).copied() else {
            return Err(SpecError::NoSuchRank {
                rank: self.rank,
                members: self.members.len(),
            });
        };
        if is != host {
            return Err(SpecError::WrongHost {
                rank: self.rank,
                is,
                host,
            });
        }
        if let Some(twice) = self.members.duplicate() {
            return Err(SpecError::DuplicateMember(twice));
        }
        self.check_announcements()?;
        if self.slices == 0 && self.has_size() {
            return Err(SpecError::NoSlices);
        }
        if self.receives == Some(0) {
            return Err(SpecError::NoReceives);
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
            return Err(SpecError::NoGroup(self.algorithm));
        }
        let (members, racks) = (self.members.len(), self.racks.len());
        if self.algorithm.needs_racks() && racks != members {
            return Err(SpecError::NoRacks {
                algorithm: self.algorithm,
                members,
                racks,
            });
        }
        if self.store_and_forward && !self.algorithm.is_one_tree() {
            return Err(SpecError::NoStoreAndForward(self.algorithm));
        }
        self.check_sources()?;
        self.check_depth()
    }

    fn check_depth(&self) -> Result<(), SpecError> {
        match self.depth {
            Some(0) => Err(SpecError::NoDepth),
            Some(_) if !self.counts_requests() => Err(SpecError::NoRequests(self.algorithm)),
            _ => Ok(()),
        }
    }

    /// Whether a slice is delivered when the source's queue pairs have completed it.
    fn counts_requests(&self) -> bool {
        let sends_itself = !self.algorithm.relays() && !self.algorithm.needs_datagrams();
        sends_itself && self.collective == Collective::Broadcast && !self.has_several_sources()
    }

    fn check_collective(&self) -> Result<(), SpecError> {
        let (algorithm, collective) = (self.algorithm, self.collective);
        if !algorithm.supports(collective) {
            return Err(SpecError::NotDone {
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
            return Err(SpecError::NoBarrier {
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

    /// How WRITEs along the group's edge fit the receivers; `None` without a group or WRITEs.
    pub(super) fn group_write(&self) -> Option<WriteMode> {
        (self.algorithm.needs_group() && self.op.writes()).then_some(self.write)
    }

    /// Receives kept posted on a queue pair; `None` posts one for every message.
    pub(super) fn receives_kept(&self) -> Option<u32> {
        self.ready.or(self.receives)
    }

    /// Offset and length of a slice in bytes.
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

/// Offset and length in bytes of slice `index` of `slices`, which cover `size` bytes and differ in length by at most one byte.
/// `slices` is at least 1.
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
        assert_eq!(spec(10, 0).check(host), Err(SpecError::NoSlices));
        let deaf = TransferSpec {
            receives: Some(0),
            ..spec(10, 2)
        };
        assert_eq!(deaf.check(host), Err(SpecError::NoReceives));
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
            Err(SpecError::NoGroup(Algorithm::Alfirk))
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
            Err(SpecError::SingleSource(Algorithm::Chain))
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
                SpecError::NoBlock,
            ),
            (
                TransferSpec {
                    slices: 2,
                    ..good.clone()
                },
                SpecError::WrongBlocks {
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
                SpecError::NoReceives,
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
                SpecError::NotInGroup(alfirk),
            ),
            (
                of(hybrid),
                SpecError::NoRacks {
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
                SpecError::NoDepth,
            ),
            (
                TransferSpec {
                    depth: Some(1),
                    ..of(Algorithm::Chain)
                },
                SpecError::NoRequests(Algorithm::Chain),
            ),
            (
                TransferSpec {
                    store_and_forward: true,
                    ..of(Algorithm::Long)
                },
                SpecError::NoStoreAndForward(Algorithm::Long),
            ),
            (
                of(Algorithm::Dissemination),
                SpecError::NotDone {
                    algorithm: Algorithm::Dissemination,
                    collective: Collective::Broadcast,
                },
            ),
            (
                TransferSpec {
                    collective: Collective::Barrier,
                    ..of(Algorithm::Binomial)
                },
                SpecError::NoBarrier {
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
