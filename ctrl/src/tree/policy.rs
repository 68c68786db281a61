//! Tree policies: names, and the choice of ports on one topology.

use std::fmt;
use std::str::FromStr;

use super::{cyclic_multicast, spanning, View};
use crate::topology::n_tree::{NTree, NotAnNTree};
use crate::topology::{HostIndex, SwitchIndex, Topology};

/// Rule by which multicast trees choose among ports of equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A port that is already in the tree, otherwise the one with the fewest groups (Gleam, algorithm 4).
    #[default]
    ReuseLeastLoaded,
    /// The union of the leader's paths by cyclic LID selection (Zhou et al., 2007); only for m-port n-trees.
    Cyclic,
    /// A shortest-path tree from one root by the lowest ports, as in OpenSM.
    Spanning,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 3] = [Policy::ReuseLeastLoaded, Policy::Cyclic, Policy::Spanning];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::ReuseLeastLoaded => "reuse-least-loaded",
            Policy::Cyclic => "cyclic",
            Policy::Spanning => "spanning",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: the name is not that of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tree policy `{0}`; use reuse-least-loaded, cyclic or spanning")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// Error: the policy is not applicable to the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tree policy cyclic: {0}; reuse-least-loaded and spanning take any network")]
pub struct UnfitPolicy(#[from] NotAnNTree);

/// A policy, with its data about one topology.
#[derive(Clone, Debug)]
pub enum Planner {
    /// Plans for [`Policy::ReuseLeastLoaded`].
    ReuseLeastLoaded,
    /// Plans for [`Policy::Cyclic`], with the labels of the nodes.
    Cyclic(NTree),
    /// Plans for [`Policy::Spanning`].
    Spanning,
}

impl Planner {
    /// Prepares a policy for a topology.
    ///
    /// # Errors
    ///
    /// The policy is cyclic, and the topology is not an m-port n-tree.
    pub fn new(policy: Policy, topology: &Topology) -> Result<Planner, UnfitPolicy> {
        Ok(match policy {
            Policy::ReuseLeastLoaded => Planner::ReuseLeastLoaded,
            Policy::Cyclic => Planner::Cyclic(NTree::recognise(topology)?),
            Policy::Spanning => Planner::Spanning,
        })
    }

    /// Whether a switch can choose a port from the leader and one member alone, without the other members of the group.
    pub fn is_local(&self) -> bool {
        match self {
            Planner::ReuseLeastLoaded | Planner::Cyclic(_) => true,
            Planner::Spanning => false,
        }
    }

    /// The switch from which the tree is built. `members`: the first one is the leader.
    pub(super) fn root(&self, view: &View, members: &[HostIndex]) -> SwitchIndex {
        match self {
            Planner::ReuseLeastLoaded | Planner::Cyclic(_) => {
                view.topology.attachment(members[0]).0
            }
            Planner::Spanning => spanning::root(view, members),
        }
    }

    /// Chooses the port of `at` towards `member`. `has_port`: whether a port of `at` is already in the tree.
    pub fn port(
        &self,
        view: &View,
        at: SwitchIndex,
        leader: HostIndex,
        member: HostIndex,
        has_port: impl Fn(u32) -> bool,
    ) -> u32 {
        match self {
            Planner::ReuseLeastLoaded => view.least_loaded(at, member, has_port),
            Planner::Cyclic(labels) => cyclic_multicast::port(view, labels, at, leader, member),
            Planner::Spanning => spanning::port(view, at, member, has_port),
        }
    }
}
