//! What the package of an architecture is made of: its blocks in the order in which a packet meets them, and what their parameters
//! stand for.

mod tofino;
mod v1model;
