//! Broken programs: what a slip of the fingers makes of a right program is refused, at the line of the slip, and what chance makes of
//! it is refused or compiled, in bounded time and memory, without a panic.

mod corpus;
mod fuzz;
mod rng;
mod slips;
