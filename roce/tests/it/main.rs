//! Hosts connected in virtual time: over a faulty segment, and behind a model of the fabric.

mod application;
mod collectives;
mod congestion;
mod conversation;
mod fabric;
mod groups;
mod hosts;
mod net;
mod reliability;
mod splits;
mod strict;
