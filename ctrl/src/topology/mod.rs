//! Model of a network: switches, hosts and the links between them.
//!
//! A [`Topology`] is immutable and always valid. It is parsed from YAML ([`Topology::from_yaml`]), generated ([`fat_tree`],
//! [`leaf_spine`], [`m_port_n_tree`], [`testbed`]) or built by a [`Builder`]; each of them rejects duplicates, dangling links
//! and unconnected networks. [`Topology::to_yaml`] prints a document that parses to the same topology.
//!
//! [`Paths`] has the shortest paths, and [`PrefixTree`] aggregates routes to hosts. This module does no I/O and is independent
//! of P4.

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
pub use builder::{BuildError, Builder};
pub use generate::{
    fat_tree, generate, is_generator_spec, leaf_spine, m_port_n_tree, mesh, testbed, FatTreeShape,
    GenerateError, GeneratorSpecError, GENERATOR_FORMS,
};
pub use model::{
    End, Host, HostIndex, Link, LinkAttributes, LinkIndex, Neighbour, Node, Switch, SwitchIndex,
    Topology,
};
pub use paths::Paths;
pub use placement::{Placement, PlacementError};
pub use prefixes::{Destination, Prefix, PrefixTree};
pub use switching::{Alpha, BadAlpha, Pfc, Queueing, SharedBuffer, Switching, SwitchingProblem};
pub use yaml::TopologyError;
