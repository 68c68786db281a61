//! What a transfer is to do, and what its members exchange.

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

/// The verb that carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum TransferOp {
    /// SEND into receive buffers
    #[default]
    Send,
    /// WRITE to an address, then an empty SEND as the notice for the receiver
    Write,
    /// WRITE with immediate data
    WriteImm,
}

impl TransferOp {
    pub(super) fn writes(self) -> bool {
        !matches!(self, TransferOp::Send)
    }
}

/// How one WRITE to a group fits the memory of each of its receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// Regions aligned to a power of two, registered with the group once; switches turn address and key
    ///
    /// The receivers' regions, aligned to a power of two that is at least their length, are registered with the group once:
    /// switches turn address and key by XOR constants, at every offset and for every later WRITE.
    #[default]
    Aligned,
    /// The same address and key at every receiver; switches turn nothing
    ///
    /// All members have their region at the same address, with the same key: [`GroupSpec::va`] and [`GroupSpec::rkey`].
    Uniform,
    /// Any region for each WRITE; the source announces them to the switches by one packet of 16 bytes per receiver
    ///
    /// The root announces each receiver's region to the switches before each WRITE, by messages in the stream
    /// ([`crate::wire::mr_info`]): regions may be anywhere, of any size, and others for every WRITE. That costs two round
    /// trips per WRITE: the root waits until a WRITE is acknowledged before it announces the regions of the next, and until these
    /// are before it sends it, so that none finds another's however packets are lost and overtaken.
    ///
    /// Where members take turns, a source must begin only when the one before has all its acknowledgements.
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

/// One end of an edge, to be sent to the other end (and for a group, to the controller).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    pub edge: EdgeId,
    /// The member that this end belongs to.
    pub rank: u32,
    pub ip: Ipv4Addr,
    pub qpn: QpNum,
    /// The first PSN that this end sends.
    pub psn: Psn,
    /// Where WRITEs to this end go; only at receiving ends. A group is registered with it. Its address is a multiple of a power
    /// of two that is at least its length.
    pub memory: Option<RemoteMemory>,
    /// Where each slice's WRITE goes, with [`WriteMode::PerRequest`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RemoteMemory>,
}

/// What the members of a group in the fabric agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The address that stands for the group.
    pub mcst_id: Ipv4Addr,
    /// The queue pair number that members address inside the group. Another one than that of the group which had the address before:
    /// so its queue pairs, should they live on, are kept out.
    pub virtual_qpn: QpNum,
    /// The first PSN of every member.
    pub initial_psn: Psn,
    /// The virtual address that the root writes to; the fabric turns it into each receiver's. With [`WriteMode::Aligned`] it is
    /// aligned as the receivers' are.
    pub va: u64,
    /// The R_Key that the root uses; the fabric turns it into each receiver's.
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

/// What a transfer is to do, from the view of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferSpec {
    #[serde(default)]
    pub collective: Collective,
    pub algorithm: Algorithm,
    /// This member; 0 is the root.
    pub rank: u32,
    /// The addresses of all members by rank.
    pub members: Members,
    /// Bytes to transfer.
    pub size: u64,
    /// Into how many messages the data is cut. [`Algorithm::default_slices`] gives a good number.
    pub slices: u32,
    #[serde(default)]
    pub op: TransferOp,
    /// How WRITEs to a group fit the receivers; connections between two members need nothing of the kind.
    #[serde(default)]
    pub write: WriteMode,
    /// The ranks that send, each a part of the data, one after the other on the same queue pairs; the root sends everything when
    /// there are none. No rank comes twice in a row, and the slices are dealt out evenly. Only for algorithms that need a group.
    #[serde(default, skip_serializing_if = "is_nobody")]
    pub sources: Arc<[u32]>,
    /// How many receives a member keeps posted on each queue pair, at least 1; one for every message when missing. A source that gets
    /// ahead of that receives RNR NAKs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receives: Option<u32>,
    /// Settings of the queue pairs; the host's defaults when missing.
    #[serde(default)]
    pub rc: Option<RcConfig>,
    /// Settings of queue pairs to single members, where the paths to them need others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSettings>,
    /// For algorithms that need one: [`Algorithm::needs_group`].
    #[serde(default)]
    pub group: Option<GroupSpec>,
    /// For algorithms that send datagrams to a multicast group: [`Algorithm::needs_datagrams`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramSpec>,
    /// The rack of each rank, for algorithms that want to know: [`Algorithm::needs_racks`].
    #[serde(default, skip_serializing_if = "Racks::is_empty")]
    pub racks: Racks,
    /// Whether members pass nothing on before they hold everything; only where all of it takes the same way.
    #[serde(default)]
    pub store_and_forward: bool,
    /// Bytes per slice, of which only the last one may have fewer; when missing, slices are as equal as can be. There are then
    /// [`blocks`](super::blocks) slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// How many receives a member keeps posted, telling the sender of each, who waits for that; at least 1: for the next blocks of its
    /// schedule, or, where there is none, on each edge. Not for groups.
    /// Members begin with it when they are asked to: [`Transfer::proceed`](super::Transfer::proceed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Whether receivers learn the size from the first block that comes; `size` and `slices` mean nothing at them. Needs `block`.
    #[serde(default)]
    pub announce: bool,
    /// How many slices the root has under way at most, at least 1: each is a request, and the next one is posted when all receivers have
    /// acknowledged one. Only where the root itself sends to all of them, and nobody takes turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// SHA-256 that the data must have; a receiver that holds something else fails.
    #[serde(default)]
    pub expected_sha256: Option<super::Digest>,
}

/// A spec that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("a group of {0} members: at least 2 are needed")]
    TooFewMembers(usize),
    #[error("rank {rank} in a group of {members} members")]
    NoSuchRank { rank: u32, members: usize },
    #[error("member {rank} is {is}, but this host is {host}")]
    WrongHost {
        rank: u32,
        is: Ipv4Addr,
        host: Ipv4Addr,
    },
    #[error("address {0} appears twice in the group")]
    DuplicateMember(Ipv4Addr),
    #[error(
        "{slices} slices of {size} bytes are too few: a message holds at most 2147483648 bytes"
    )]
    SlicesTooLarge { slices: u32, size: u64 },
    #[error("{0} has one source: members can take turns only in a group of the fabric")]
    NoTurns(Algorithm),
    #[error("rank {0} comes twice in a row among the sources")]
    SameSourceTwice(u32),
    #[error("{slices} slices cannot be dealt out evenly to {parts} sources")]
    UnevenParts { slices: u32, parts: u32 },
    #[error("slices come in no order by {0}, so their number does not say where another algorithm is to go on")]
    NoOrder(Algorithm),
    #[error("{algorithm} makes no {collective}")]
    NotDone {
        algorithm: Algorithm,
        collective: Collective,
    },
    #[error("a barrier of {members} members has {signs} signs and no data, not {slices} slices of {size} bytes")]
    NoBarrier {
        members: usize,
        signs: u32,
        slices: u32,
        size: u64,
    },
    #[error("{0} knows no schedule of blocks: only a broadcast waits for everything, for ready receivers, or announces its size")]
    OnlyBroadcast(Collective),
    #[error("the data cannot be cut into 0 slices")]
    NoSlices,
    #[error("with 0 receives posted nothing can arrive")]
    NoReceives,
    #[error("a queue of depth 0 lets no request out")]
    NoDepth,
    #[error("requests are counted where the source sends to all receivers itself, as by alfirk and unicast, from one source, and not by {0}")]
    NoRequests(Algorithm),
    #[error("blocks need a size of at least 1 byte")]
    NoBlock,
    #[error("{size} bytes in blocks of {block} are not {slices} slices")]
    WrongBlocks { slices: u32, size: u64, block: u32 },
    #[error("in a group of the fabric ({0}) nobody announces to the source that it is ready or how much there is")]
    NotInGroup(Algorithm),
    #[error("receivers that say when they are ready keep as many receives posted as they say: give one number")]
    ReadyAndReceives,
    #[error("only SEND announces to receivers how much there is: a WRITE needs memory first")]
    AnnouncedWrite,
    #[error("{0} bytes are too many to be announced in an immediate, which has 32 bits")]
    TooLargeToAnnounce(u64),
    #[error("algorithm {0} needs a group in the fabric, and none is given")]
    NoGroup(Algorithm),
    #[error("algorithm {0} needs a multicast group of datagrams (of 224.0.0.0/4, with a Q_Key below 2^31), and none is given")]
    NoDatagrams(Algorithm),
    #[error("algorithm {algorithm} sends datagrams, which know no {what}")]
    NotByDatagrams {
        algorithm: Algorithm,
        what: &'static str,
    },
    #[error("a slice of {len} bytes is more than {algorithm} keeps until everybody has it: cut the data into {least} slices or more")]
    LongDatagramSlice {
        algorithm: Algorithm,
        len: u64,
        least: u32,
    },
    #[error(
        "algorithm {algorithm} needs the rack of each of {members} members, and {racks} are given"
    )]
    NoRacks {
        algorithm: Algorithm,
        members: usize,
        racks: usize,
    },
    #[error("{0} passes parts of the data on by different ways, so nobody can wait until it holds everything")]
    NoStoreAndForward(Algorithm),
}

/// Settings of the queue pair to one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSettings {
    pub peer: Ipv4Addr,
    pub rc: RcConfig,
}

impl TransferSpec {
    /// A SEND of `size` bytes in one slice, and nothing special about it.
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

    /// Fails when the spec makes no sense for the host with address `host`.
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
        if self.slices == 0 && self.knows_size() {
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

    /// Whether what the source's queue pairs complete is all that there is to a slice.
    fn counts_requests(&self) -> bool {
        let sends_itself = !self.algorithm.relays() && !self.algorithm.needs_datagrams();
        sends_itself && self.collective == Collective::Broadcast && !self.takes_turns()
    }

    fn check_collective(&self) -> Result<(), SpecError> {
        let (algorithm, collective) = (self.algorithm, self.collective);
        if !algorithm.does(collective) {
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
        let signs = barrier::signs(members as u32);
        if collective == Collective::Barrier && (self.slices, self.size) != (signs, 0) {
            return Err(SpecError::NoBarrier {
                members,
                signs,
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

    /// How WRITEs along a group's edge fit the receivers, if there are any.
    pub(super) fn group_write(&self) -> Option<WriteMode> {
        (self.algorithm.needs_group() && self.op.writes()).then_some(self.write)
    }

    /// How many receives are kept posted on a queue pair; all that will be needed if `None`.
    pub(super) fn receives_kept(&self) -> Option<u32> {
        self.ready.or(self.receives)
    }

    /// Offset and length of a slice in bytes. Slices differ in length by at most one byte, or are blocks.
    pub fn slice(&self, index: u32) -> (u64, u64) {
        if let Some(block) = self.block.map(u64::from) {
            let offset = u64::from(index) * block;
            return (offset, block.min(self.size.saturating_sub(offset)));
        }
        equal_slice(self.size, self.slices, index)
    }
}

fn is_nobody(ranks: &Arc<[u32]>) -> bool {
    ranks.is_empty()
}

/// Offset and length in bytes of one of `slices` slices of `size` bytes, which differ in length by at most one byte. There is at least
/// one slice.
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
    fn senseless_specs_are_refused() {
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
            Err(SpecError::NoTurns(Algorithm::Chain))
        );
    }

    #[test]
    fn what_an_algorithm_cannot_do_is_refused() {
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
                    signs: 2,
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
