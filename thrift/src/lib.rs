//! BMv2's runtime services over Thrift, as `simple_switch` serves them: tables, arrays, multicast groups, clones, queues.
//!
//! `idl/` declares the services; the build turns each into a module with its types, a [`Call`](standard::Call) and a
//! [`Reply`](standard::Reply) for each method, a `Handler` for who carries calls out and a `Client` for who makes them.
//! Here is no switch and no command line: `alfirk-bmv2` serves, `alfirk cli` asks.
//!
//! Messages are in Thrift's binary protocol on a buffered TCP stream. All services share one port: a method's name goes
//! behind its service's, as `standard:bm_register_read`.

mod client;
mod server;
mod wire;

pub use client::{Connection, Failure};
pub use server::{Call, Incoming, Reply, Requests, Ticket};
pub use thrift::Error;

/// The port of simple_switch, where none is given.
pub const DEFAULT_PORT: u16 = 9090;

/// One service, written by `build.rs`.
macro_rules! service {
    ($(#[$doc:meta])* $module:ident, $file:literal) => {
        $(#[$doc])*
        // The interface decides about names and numbers of arguments.
        #[rustfmt::skip]
        #[allow(clippy::too_many_arguments, clippy::match_single_binding, clippy::unit_arg, unused_imports)]
        pub mod $module {
            use std::{collections::BTreeMap, convert::Infallible};

            use thrift::{
                protocol::{TInputProtocol, TOutputProtocol, TStructIdentifier, TType},
                Result,
            };

            use crate::{
                client::{Connection, Failure},
                wire::{self, Wire},
            };

            include!(concat!(env!("OUT_DIR"), $file));
        }
    };
}

service! {
    /// Tables, arrays, learning, configurations and ports.
    standard, "/standard.rs"
}
service! {
    /// Multicast groups.
    simple_pre, "/simple_pre.rs"
}
service! {
    /// Multicast groups with link aggregation.
    simple_pre_lag, "/simple_pre_lag.rs"
}
service! {
    /// Clones, queues and clocks.
    simple_switch, "/simple_switch.rs"
}
