//! What `alfirk run --machines` and the agent of a machine say to each other: lines of JSON.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run::mininet::load::Counters;
use crate::run::mininet::network::{Addresses, NetworkSpec};

/// What a machine is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Of its alfirk.
    pub version: String,
    /// What it lacks for a network, and what brings it.
    pub missing: Vec<String>,
    /// Its address, as the connection has it.
    pub address: Option<Ipv4Addr>,
    /// The address at the connection's other end.
    pub client: Option<Ipv4Addr>,
    pub processors: usize,
    /// Nanoseconds until a thread that sleeps does something about a message.
    pub wake_ns: f64,
    /// Tells machines apart: the same for all that are one kernel.
    pub boot: String,
    /// Whether its kernel has VXLAN.
    pub kernel_vxlan: bool,
}

/// What a machine is asked for; one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Build the part of a network. Answer: [`Response::Ready`] or [`Response::Failed`].
    Start { network: Box<NetworkSpec> },
    /// End the process of a node at once.
    Kill { node: String },
    /// Take an interface down.
    Cut { interface: String },
    /// Take it up again.
    Mend { interface: String },
    /// Count what interfaces have sent and received. Answer: [`Response::Packets`].
    Packets {
        sent: Vec<String>,
        received: Vec<String>,
    },
    /// What had processors to do? Answer: [`Response::Load`].
    Load,
    /// Keep a file. Answer: [`Response::GoOn`], and when its contents have come in the stream of files, [`Response::Stored`]. Nothing is sent
    /// before somebody reads it: it would hold up the other streams.
    Store { name: String, size: u64 },
    /// Send the contents of the capture that was announced.
    GoOn,
    /// Take the network down and give the captures. Answer: [`Response::Capture`] for each, and [`Response::Stopped`].
    Stop,
}

/// What a machine says; one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// It is there: always the first.
    Hello(Hello),
    /// Everything answers.
    Ready {
        addresses: Addresses,
    },
    /// Something could not start, or has died.
    Failed {
        what: String,
    },
    Packets {
        count: u64,
    },
    Load {
        counters: Counters,
    },
    /// Send the contents of the file.
    GoOn,
    Stored {
        path: PathBuf,
    },
    /// A capture, whose contents come in the stream of files after a [`Request::GoOn`].
    Capture {
        name: String,
        size: u64,
    },
    /// Nothing is left.
    Stopped,
}
