//! Stateful and computing extern objects: registers, counters, meters, hashes, random numbers.

pub mod counter;
pub(crate) mod filter;
pub mod hash;
pub mod meter;
pub mod random;
pub mod register;
