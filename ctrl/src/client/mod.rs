//! Driver for real networks: gRPC connections to switches, and the gRPC control service for clients.
//!
//! [`run`] is `alfirk ctrl`. It starts a runner that owns the [`Controller`](crate::Controller), one task per switch that
//! maintains the connection, and a service that turns gRPC calls into API requests. The controller makes all decisions;
//! this module only handles sockets, clocks and files.

mod args;
mod connection;
mod files;
mod runner;
mod service;

#[cfg(test)]
mod tests;

/// The messages, client and server of `proto/alfirk/ctrl/v1/control.proto`.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod control {
    tonic::include_proto!("alfirk.ctrl.v1");
}

pub use args::{run, CtrlArgs, CtrlError, DryRun, WEB_ADDRESS};
pub use connection::root_cause;
pub use files::{FileError, StateFile, SwitchAddress};
pub use runner::{GroupNotification, Handle, Journal, Runner, StartError};
pub use service::ControlService;
