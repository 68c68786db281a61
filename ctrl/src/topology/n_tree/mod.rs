//! m-port n-trees as InfiniBand sees them: labels, LIDs, forwarding tables, and cyclic multicast.
//!
//! Names and equations are those of Zhou, Lin and Chung, "Hardware supported multicast in fat-tree-based InfiniBand
//! networks" (J. Supercomputing 40, 2007), sections 2.2 and 3.  [`Shape`] knows which labels there are and which ports
//! are linked; `lids.rs` gives hosts their LIDs and chooses among them; `forwarding.rs` has the tables.  All this is
//! arithmetic on labels.  [`NTree`] finds the labels of a given [`super::Topology`], whatever its nodes are called.

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
