//! m-port n-trees of InfiniBand: labels, LIDs, forwarding tables, and cyclic multicast.
//!
//! Names and equations are those of Zhou, Lin and Chung, "Hardware supported multicast in fat-tree-based InfiniBand
//! networks" (J. Supercomputing 40, 2007), sections 2.2 and 3. [`Shape`] has the labels and links; `lids.rs` assigns LIDs to
//! hosts and selects among them; `forwarding.rs` has the tables. All this is arithmetic on labels. [`NTree`] derives the
//! labels of a [`super::Topology`] from its links, independent of node names.

mod forwarding;
mod label;
mod lids;
mod recognise;
mod shape;

#[cfg(test)]
mod tests;

pub use forwarding::Hop;
pub use label::{HostLabel, LabelError, SwitchLabel};
pub use lids::LidError;
pub use recognise::{NTree, NotAnNTree};
pub use shape::{Above, Below, Shape};
