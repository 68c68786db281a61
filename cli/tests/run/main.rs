//! `alfirk run`: from the command line, with invalid input, and on fabrics with faults.

mod any_fabric;
mod bad_input;
mod binomial_ack;
mod collectives;
mod common;
mod datagrams;
mod experiments;
mod fallback;
mod groups;
mod help;
mod job;
mod lossless;
mod membership;
mod mininet;
mod missing_receivers;
mod models;
mod network;
mod profile;
mod random;
mod rdmc;
mod recovery;
mod stop;
mod strategies;
mod tofino;
mod tree_policies;
mod workloads;
