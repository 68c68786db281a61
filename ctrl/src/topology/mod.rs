//! The network as data: switches, hosts and the links between them.
//!
//! A [`Topology`] is immutable and always valid: it comes from YAML ([`Topology::from_yaml`]), from a
//! generator ([`fat_tree`], [`leaf_spine`], [`m_port_n_tree`], [`testbed`]) or from a [`Builder`], and each of
//! them refuses duplicates, dangling links and networks in pieces.  [`Topology::to_yaml`] prints the same
//! document back, so that what a generator makes and what a file says never differ.
//!
//! Shortest paths are in [`Paths`], and prefixes that stand for many hosts in [`PrefixTree`].  Nothing here reads files
//! or knows about P4.

mod builder;
mod generate;
mod model;
pub mod n_tree;
mod paths;
mod placement;
mod prefixes;
mod print;
mod switching;
mod yaml;

#[cfg(test)]
mod tests;

pub use alfirk_roce::wire::MacAddr;
pub use builder::{Builder, Problem};
pub use generate::{
    fat_tree, generate, is_generated, leaf_spine, m_port_n_tree, mesh, testbed, FatTreeShape,
    GenerateError, WordError, GENERATED,
};
pub use model::{
    End, Host, HostIndex, Link, LinkAttributes, LinkIndex, Neighbour, Node, Switch, SwitchIndex,
    Topology,
};
pub use paths::Paths;
pub use placement::{Placement, PlacementError};
pub use prefixes::{Place, Prefix, PrefixTree};
pub use switching::{Alpha, BadAlpha, Pfc, Queueing, SharedBuffer, Switching, SwitchingProblem};
pub use yaml::TopologyError;
