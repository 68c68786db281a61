//! Tests of the P4Runtime server, one file per feature.

mod arbitration;
mod arrays;
mod atomic_write;
mod default_entries;
mod digests;
mod direct_resources;
mod fixture;
mod idle_timeouts;
mod initial_entries;
mod multicast_groups;
mod one_shot;
mod packet_io;
mod pipeline_config;
mod profiles;
mod reads;
mod recirculation;
mod register_rw;
mod robustness;
mod table_entries;
mod translation;
mod value_sets;
