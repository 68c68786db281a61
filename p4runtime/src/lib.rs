//! The P4Runtime protocol: messages, services, and functions used by server and client.
//!
//! The messages are generated from the files in `proto/`, whose names and numbers are those of P4Runtime 1.5 with
//! the two additions of 1.6. Three services are Alfirk's own: [`alfirk::links::v1`], for the links that a switch
//! emulates, [`alfirk::debug::v1`], for its debugger, and [`alfirk::trace::v1`], for traces of packets.
//!
//! The messages and the service of BfRuntime, Tofino's own control interface, are in [`bfrt_proto`].
//!
//! This crate contains only the protocol's own rules: text and JSON forms ([`text`], [`json`]), canonical byte
//! strings ([`bytestring`]) and statuses ([`status`]). The server is in `p4rt`, the client in `ctrl`.
//!
//! Feature `grpc` adds client and server of the service (`p4::v1::p4_runtime_client`, `p4::v1::p4_runtime_server`)
//! and conversions to `tonic::Status`; without it the crate does no I/O.

#![forbid(unsafe_code)]

pub mod bytestring;
pub mod descriptor;
pub mod json;
pub mod status;
pub mod text;

// P4Runtime's interface files do not document all fields.
#[allow(missing_docs, clippy::all, rustdoc::all)]
mod protocol {
    include!(concat!(env!("OUT_DIR"), "/protocol.rs"));
}

pub use prost::bytes::Bytes;
pub use prost::{Message, Name};
pub use prost_types::Any;
pub use protocol::{alfirk, bfrt_proto, google, p4};

pub use google::rpc::{Code, Status};

/// Packs a message into a protobuf `Any`. The type URL is in the form that the official libraries write.
pub fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}
