//! Algorithms of collectives: names, sources in the literature, and properties.
//!
//! Terms: the data is cut into *slices* (of RDMC: *blocks*), each of which is one message. The *root* has rank 0 and the data
//! at the start. A *piece* is one member's share of the slices in a scatter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::kind::Collective;
use super::plan::{Plan, Shape};
use super::rdmc::{self, Schedule};
use super::ring::{self, Ring};
use super::{
    alfirk, allgather, barrier, binomial, binomial_ack, chain, double_tree, kary, long, scatter,
    unicast,
};
use crate::rc::MAX_MESSAGE;

/// An algorithm of a collective: which member sends which data to which other member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Algorithm {
    /// Multicast: the root sends once, and switches replicate.
    Alfirk,
    /// Pipelined chain: each member forwards every slice to the next member as soon as it has it.
    Chain,
    /// Binomial tree: the number of members that have the data doubles in each round.
    Binomial,
    /// The root sends the data to each member on a connection of its own.
    Unicast,
    /// Complete tree in which each member has up to K children; K is at least 1.
    Kary(u32),
    /// One of the ring broadcasts of High-Performance Linpack (HPL).
    Ring(Ring),
    /// Two binary trees, each of which carries half of the slices.
    DoubleBinaryTree,
    /// A scatter of pieces, then a ring allgather.
    Long,
    /// HPL's spread-and-roll: a scatter of pieces, which neighbours then exchange.
    SpreadRoll,
    /// One of the block schedules of RDMC (DSN 2018).
    Rdmc(Schedule),
    /// The root multicasts datagrams, which receivers acknowledge up a binomial tree.
    BinomialAck,
    /// Dissemination: in round t every member sends to the member 2^t ranks ahead.
    Dissemination,
}

/// Error: a text that is not the name of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAlgorithm {
    /// The text is not one of the names.
    #[error("unknown algorithm `{0}`: expected one of {names}", names = names())]
    Name(String),
    /// The fan-out K of `kary:K` is missing, not a number, or out of range.
    #[error("invalid algorithm `{0}`: write kary:K, with K from 1 to {most}", most = Algorithm::MAX_CHILDREN)]
    FanOut(String),
}

fn names() -> String {
    let names = Algorithm::ALL.map(|algorithm| match algorithm {
        Algorithm::Kary(_) => "kary:K".to_owned(),
        other => other.to_string(),
    });
    names.join(", ")
}

impl Algorithm {
    /// All algorithms; the K-ary tree with K = 4 as an example.
    pub const ALL: [Algorithm; 19] = [
        Algorithm::Alfirk,
        Algorithm::Unicast,
        Algorithm::Chain,
        Algorithm::Binomial,
        Algorithm::Kary(4),
        Algorithm::DoubleBinaryTree,
        Algorithm::Ring(Ring::One),
        Algorithm::Ring(Ring::OneModified),
        Algorithm::Ring(Ring::Two),
        Algorithm::Ring(Ring::TwoModified),
        Algorithm::Long,
        Algorithm::SpreadRoll,
        Algorithm::Rdmc(Schedule::Sequential),
        Algorithm::Rdmc(Schedule::Chain),
        Algorithm::Rdmc(Schedule::BinomialTree),
        Algorithm::Rdmc(Schedule::BinomialPipeline),
        Algorithm::Rdmc(Schedule::Hybrid),
        Algorithm::BinomialAck,
        Algorithm::Dissemination,
    ];

    /// All block schedules of RDMC.
    pub const RDMC: [Schedule; 5] = [
        Schedule::Sequential,
        Schedule::Chain,
        Schedule::BinomialTree,
        Schedule::BinomialPipeline,
        Schedule::Hybrid,
    ];

    /// Largest fan-out K of `kary:K`.
    pub const MAX_CHILDREN: u32 = 65_535;

    /// Algorithms that run by default: multicast and the three usual alternatives.
    pub const DEFAULTS: [Algorithm; 4] = [
        Algorithm::Alfirk,
        Algorithm::Chain,
        Algorithm::Binomial,
        Algorithm::Unicast,
    ];

    /// Name without its number K, description in one line, and source in the literature.
    const fn description(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Algorithm::Alfirk => ("alfirk", "the source sends once; switches replicate packets and aggregate acknowledgements", "Cepheus (HPCA 2024) sections III and IV; Gleam section 3"),
            Algorithm::Unicast => ("unicast", "the source sends everything to each member; its connections share the link", "Cepheus section II-C, multiple unicasts"),
            Algorithm::Chain => ("chain", "each member forwards slices to the next one as they arrive", "Cepheus section II-C, Chain; Open MPI's pipelined chain"),
            Algorithm::Binomial => ("binomial", "each member forwards the data to its children, the largest subtree first", "Cepheus section II-C, BT; Open MPI's and MPICH's binomial tree"),
            Algorithm::Kary(_) => ("kary", "a tree in which each member forwards slices to K children, alternating between them", "MPI libraries, k-ary tree"),
            Algorithm::DoubleBinaryTree => ("double-binary-tree", "two trees with half of the slices each; leaves of one are inner nodes of the other", "Sanders, Speck, Traeff: Two-tree algorithms (2009); NCCL"),
            Algorithm::Ring(Ring::One) => ("1ring", "increasing ring: the whole message from each member to the next", "HPL, BCAST 0: Increasing-ring"),
            Algorithm::Ring(Ring::OneModified) => ("1ringM", "increasing ring, but rank 1 gets the message first and forwards nothing", "HPL, BCAST 1: Increasing-ring (modified)"),
            Algorithm::Ring(Ring::Two) => ("2ring", "two increasing rings, each through half of the members", "HPL, BCAST 2: Increasing-2-ring"),
            Algorithm::Ring(Ring::TwoModified) => ("2ringM", "two increasing rings, but rank 1 gets the message first and forwards nothing", "HPL, BCAST 3: Increasing-2-ring (modified)"),
            Algorithm::Long => ("long", "a scatter along a binomial tree, then a ring allgather", "van de Geijn's broadcast; MPICH, scatter and ring allgather"),
            Algorithm::SpreadRoll => ("spread-roll", "a scatter along a binomial tree, then neighbours exchange pieces, alternating sides", "HPL, BCAST 4: Long (scatter_pieces and roll)"),
            Algorithm::Rdmc(Schedule::Sequential) => ("rdmc-sequential", "all blocks to one member after the other", "RDMC (DSN 2018) section 4.3, Sequential Send"),
            Algorithm::Rdmc(Schedule::Chain) => ("rdmc-chain", "each member relays blocks to the next one when that one is ready", "RDMC section 4.3, Chain Send"),
            Algorithm::Rdmc(Schedule::BinomialTree) => ("rdmc-binomial-tree", "in each round every member that has the whole message sends it to one that lacks it", "RDMC section 4.3, Binomial Tree"),
            Algorithm::Rdmc(Schedule::BinomialPipeline) => ("rdmc-binomial-pipeline", "blocks along the edges of a hypercube, each member sending and receiving in each step", "RDMC sections 4.3 and 4.4, Binomial Pipeline"),
            Algorithm::Rdmc(Schedule::Hybrid) => ("rdmc-hybrid", "a binomial pipeline between racks, and one inside each", "RDMC section 4.3, Hybrid Algorithms"),
            Algorithm::BinomialAck => ("binomial-ack", "the root multicasts datagrams, which are acknowledged and repaired along a binomial tree", "Mansoor, Meehan: Reliable Multicast Protocol Using RDMA"),
            Algorithm::Dissemination => ("dissemination", "in round t each member sends to the member 2^t ranks ahead; for allgathers and barriers", "Hensgen, Finkel, Manber (1988); Bruck et al. (1997)"),
        }
    }

    /// Name without its number: `kary` of `kary:4`.
    pub const fn base_name(self) -> &'static str {
        self.description().0
    }

    /// Description of the algorithm in one line.
    pub const fn about(self) -> &'static str {
        self.description().1
    }

    /// Source of the algorithm in the literature.
    pub const fn source(self) -> &'static str {
        self.description().2
    }

    /// Whether the algorithm needs a reliable multicast group, registered in the fabric.
    pub const fn needs_group(self) -> bool {
        matches!(self, Algorithm::Alfirk)
    }

    /// Whether the algorithm needs a multicast group of datagrams, registered in the fabric.
    pub const fn needs_datagrams(self) -> bool {
        matches!(self, Algorithm::BinomialAck)
    }

    /// Whether the algorithm uses only connections between two members (an overlay).
    pub const fn is_overlay(self) -> bool {
        !self.needs_group() && !self.needs_datagrams()
    }

    /// Whether the algorithm needs to know the rack of each member.
    pub const fn needs_racks(self) -> bool {
        matches!(self, Algorithm::Rdmc(Schedule::Hybrid))
    }

    /// Whether each member receives slices (messages) in order. The number of slices received then tells which ones
    /// these are.
    pub const fn keeps_order(self) -> bool {
        match self {
            Algorithm::Alfirk
            | Algorithm::Unicast
            | Algorithm::Chain
            | Algorithm::Binomial
            | Algorithm::Kary(_)
            | Algorithm::Ring(_) => true,
            Algorithm::DoubleBinaryTree
            | Algorithm::Long
            | Algorithm::SpreadRoll
            | Algorithm::Rdmc(_)
            | Algorithm::BinomialAck
            | Algorithm::Dissemination => false,
        }
    }

    /// Whether all slices (messages) take the same path through the members. Members can then store and forward.
    pub const fn is_one_tree(self) -> bool {
        self.keeps_order() && !self.needs_group()
    }

    /// Whether receivers forward data to other members.
    pub const fn relays(self) -> bool {
        !matches!(
            self,
            Algorithm::Alfirk | Algorithm::Unicast | Algorithm::BinomialAck
        )
    }

    /// Smallest number of slices (messages) for `size` bytes. A message holds at most 2^31 bytes, or 2^20 with
    /// datagrams.
    pub fn min_slices(self, size: u64) -> u32 {
        let longest = match self.needs_datagrams() {
            true => binomial_ack::LONGEST_SLICE,
            false => MAX_MESSAGE,
        };
        u32::try_from(size.div_ceil(longest).max(1)).unwrap_or(u32::MAX)
    }

    /// The default number of slices of a broadcast of `size` bytes to `members` members. Pipelines use slices of 64 KiB,
    /// but at most 256 slices. Datagrams use slices of at most 64 KiB. Algorithms that scatter pieces use at least one
    /// slice per member. All others use the smallest number.
    pub fn default_slices(self, size: u64, members: u32) -> u32 {
        let least = u64::from(self.min_slices(size));
        let wanted = match self {
            Algorithm::Chain
            | Algorithm::Kary(_)
            | Algorithm::DoubleBinaryTree
            | Algorithm::Rdmc(_) => (size / (64 << 10)).clamp(1, 256),
            Algorithm::BinomialAck => size.div_ceil(64 << 10).max(1),
            Algorithm::Long | Algorithm::SpreadRoll | Algorithm::Dissemination => members.into(),
            Algorithm::Alfirk | Algorithm::Binomial | Algorithm::Unicast | Algorithm::Ring(_) => 1,
        };
        u32::try_from(least.max(wanted)).unwrap_or(u32::MAX)
    }

    /// A number of slices (messages) that is large enough for every edge (connection) that the algorithm may use to
    /// carry one.
    pub(super) fn slices_on_all_edges(self, members: u32) -> u32 {
        match self {
            Algorithm::Rdmc(schedule) => schedule.blocks_on_all_edges(members),
            Algorithm::DoubleBinaryTree => 2,
            Algorithm::Long | Algorithm::SpreadRoll => members,
            _ => 1,
        }
    }

    /// Whether the algorithm implements `collective`.
    pub const fn supports(self, collective: Collective) -> bool {
        match collective {
            Collective::Broadcast => !matches!(self, Algorithm::Dissemination),
            Collective::Scatter => matches!(self, Algorithm::Unicast | Algorithm::Binomial),
            Collective::Allgather => matches!(
                self,
                Algorithm::Alfirk | Algorithm::Ring(Ring::One) | Algorithm::Dissemination
            ),
            Collective::Barrier => matches!(
                self,
                Algorithm::Alfirk | Algorithm::Binomial | Algorithm::Dissemination
            ),
        }
    }

    /// The default number of slices of a collective. Scatter and allgather: at least one per member. Barrier: one per
    /// signal.
    pub fn slices_for(self, collective: Collective, size: u64, members: u32) -> u32 {
        match collective {
            Collective::Broadcast => self.default_slices(size, members),
            Collective::Scatter | Collective::Allgather => {
                let least = size.div_ceil(MAX_MESSAGE).max(1);
                let each = u32::try_from(least).unwrap_or(u32::MAX);
                each.saturating_mul(members)
            }
            Collective::Barrier => barrier::signal_count(members),
        }
    }

    /// Plan of member `rank` for `collective`, which the algorithm must [support](Algorithm::supports). Only the root
    /// has data at the start, except in allgathers.
    pub fn plan_for(self, collective: Collective, shape: Shape<'_>, rank: u32) -> Plan {
        let members = shape.members;
        match (collective, self) {
            (Collective::Scatter, Algorithm::Unicast) => scatter::direct(shape, rank),
            (Collective::Scatter, _) => scatter::binomial(shape, rank),
            (Collective::Allgather, Algorithm::Dissemination) => {
                allgather::dissemination(shape, rank)
            }
            (Collective::Allgather, _) => allgather::ring(shape, rank),
            (Collective::Barrier, Algorithm::Alfirk) => barrier::alfirk(rank),
            (Collective::Barrier, Algorithm::Binomial) => barrier::binomial(members, rank),
            (Collective::Barrier, _) => barrier::dissemination(members, rank),
            (Collective::Broadcast, _) => self.plan(shape, rank),
        }
    }

    /// Plan of member `rank` for a broadcast; empty if the algorithm has no broadcast. The run time is linear in the
    /// number of slices that the member sends and receives.
    pub fn plan(self, shape: Shape<'_>, rank: u32) -> Plan {
        match self {
            Algorithm::Alfirk => alfirk::plan(shape, rank),
            Algorithm::Chain => chain::plan(shape, rank),
            Algorithm::Binomial => binomial::plan(shape, rank),
            Algorithm::Unicast => unicast::plan(shape, rank),
            Algorithm::Kary(fan_out) => kary::plan(shape, rank, fan_out.max(1)),
            Algorithm::Ring(ring) => ring::plan(shape, rank, ring),
            Algorithm::DoubleBinaryTree => double_tree::plan(shape, rank),
            Algorithm::Long => long::ring(shape, rank),
            Algorithm::SpreadRoll => long::spread_roll(shape, rank),
            Algorithm::Rdmc(schedule) => rdmc::plan(schedule, shape, rank),
            Algorithm::BinomialAck => binomial_ack::plan(shape, rank),
            Algorithm::Dissemination => Plan::default(),
        }
    }
}

impl Collective {
    /// The algorithms that implement this collective.
    pub fn algorithms(self) -> impl Iterator<Item = Algorithm> {
        let all = Algorithm::ALL.into_iter();
        all.filter(move |algorithm| algorithm.supports(self))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Kary(fan_out) => f.pad(&format!("{}:{fan_out}", self.base_name())),
            _ => f.pad(self.base_name()),
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let (base_name, number) = match text.split_once(':') {
            Some((base_name, number)) => (base_name, Some(number)),
            None => (text, None),
        };
        let named = Algorithm::ALL
            .into_iter()
            .find(|a| a.base_name() == base_name);
        match (named, number) {
            (Some(Algorithm::Kary(_)), number) => {
                let fan_out = number.and_then(|number| number.parse().ok());
                let fan_out = fan_out.filter(|n| (1..=Algorithm::MAX_CHILDREN).contains(n));
                fan_out
                    .map(Algorithm::Kary)
                    .ok_or_else(|| UnknownAlgorithm::FanOut(text.to_owned()))
            }
            (Some(algorithm), None) => Ok(algorithm),
            _ => Err(UnknownAlgorithm::Name(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Algorithm {
    type Error = UnknownAlgorithm;

    fn try_from(text: String) -> Result<Algorithm, UnknownAlgorithm> {
        text.parse()
    }
}

impl From<Algorithm> for String {
    fn from(algorithm: Algorithm) -> String {
        algorithm.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::testing::{delivers_everything_once, racks, sizes};

    #[test]
    fn every_algorithm_delivers_all_slices_to_all_members() {
        for algorithm in Collective::Broadcast.algorithms() {
            delivers_everything_once(algorithm);
        }
        for fan_out in [1, 2, 3, 600] {
            delivers_everything_once(Algorithm::Kary(fan_out));
        }
    }

    #[test]
    fn slices_arrive_in_order_if_the_algorithm_keeps_order() {
        for members in sizes() {
            let racks = racks(members);
            let shape = Shape {
                members,
                slices: 5,
                racks: &racks,
            };
            for algorithm in Algorithm::ALL.into_iter().filter(|a| a.keeps_order()) {
                for plan in (0..members).map(|rank| algorithm.plan(shape, rank)) {
                    assert!(plan.incoming.len() < 2, "{algorithm} comes two ways");
                    let mut flows = plan.incoming.iter().chain(&plan.outgoing);
                    assert!(flows.all(|flow| flow.slices.is_sorted()), "{algorithm}");
                }
            }
        }
    }

    /// The size of plans, and the time to make them, is linear in the number of slices that cross edges.
    #[test]
    fn plans_are_linear_in_the_slices_that_they_carry() {
        let (members, slices) = (4_096, 8);
        let racks = (0..members).map(|rank| rank / 32).collect();
        let shape = Shape {
            members,
            slices,
            racks: &racks,
        };
        for algorithm in Collective::Broadcast
            .algorithms()
            .filter(|a| a.is_overlay())
        {
            let mut entries = 0;
            for rank in 0..members {
                let plan = algorithm.plan(shape, rank);
                let flows = plan.incoming.iter().chain(&plan.outgoing);
                entries += flows.map(|flow| flow.slices.len() as u32).sum::<u32>();
            }
            assert_eq!(entries, 2 * (members - 1) * slices, "{algorithm}");
        }
    }

    #[test]
    fn algorithm_names_parse_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            let json = serde_json::to_string(&algorithm).unwrap();
            assert_eq!(json, format!("\"{algorithm}\""));
            assert_eq!(serde_json::from_str::<Algorithm>(&json).unwrap(), algorithm);
        }
        assert_eq!("kary:7".parse(), Ok(Algorithm::Kary(7)));
        for wrong in ["ring-ring", "chain:3", ""] {
            let error = wrong.parse::<Algorithm>().unwrap_err();
            assert_eq!(error, UnknownAlgorithm::Name(wrong.to_owned()));
            assert!(error.to_string().contains("kary:K, double-binary-tree"));
        }
        for wrong in ["kary", "kary:0", "kary:x", "kary:65536"] {
            let error = wrong.parse::<Algorithm>().unwrap_err();
            assert_eq!(error, UnknownAlgorithm::FanOut(wrong.to_owned()));
        }
    }
}
