//! Extern objects: registers, counters, meters, filters, hashes, random numbers.

pub(crate) mod cells;
pub mod counter;
pub(crate) mod filter;
pub mod hash;
pub mod meter;
pub mod random;
pub mod register;
