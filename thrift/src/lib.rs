//! BMv2's runtime services over Thrift, as `simple_switch` serves them: tables, arrays, multicast groups, clones,
//! queues.
//!
//! `idl/` declares the services. The build generates a module for each, with its types, a [`Call`](standard::Call) and
//! a [`Reply`](standard::Reply) for each method, a `Handler` trait for servers and a `Client`. This crate has neither
//! switch nor command line: `alfirk-switch` is the server, `alfirk cli` the client.
//!
//! Messages use Thrift's binary protocol on a buffered TCP stream. All services share one port: the service's name
//! precedes the method's, as in `standard:bm_register_read`.

mod client;
mod server;
mod wire;

pub use client::{Connection, Failure};
pub use server::{Call, Incoming, Reply, Requests, Ticket};
pub use thrift::Error;

/// Default TCP port of simple_switch's Thrift server.
pub const DEFAULT_PORT: u16 = 9090;

/// Declares the module of a Thrift service, which `build.rs` has generated.
macro_rules! service {
    ($(#[$doc:meta])* $module:ident, $file:literal) => {
        $(#[$doc])*
        // The interface files determine names and numbers of arguments.
        #[rustfmt::skip]
        // BMv2's interface files do not document fields and constants.
        #[allow(missing_docs)]
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
    /// The service "standard": tables, arrays, learning, configurations and ports.
    standard, "/standard.rs"
}
service! {
    /// The service "simple_pre": multicast groups.
    simple_pre, "/simple_pre.rs"
}
service! {
    /// The service "simple_pre_lag": multicast groups with link aggregation.
    simple_pre_lag, "/simple_pre_lag.rs"
}
service! {
    /// The service "simple_switch": clones, queues and clocks.
    simple_switch, "/simple_switch.rs"
}
