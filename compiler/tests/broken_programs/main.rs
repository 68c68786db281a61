//! Broken programs. A program with a typing error is rejected at the line of the error. A program with random changes is rejected or
//! compiled in bounded time and memory, without a panic.

mod corpus;
mod damaged;
mod fuzz;
mod rng;
mod typos;
