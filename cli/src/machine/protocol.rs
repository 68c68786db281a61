//! The protocol between `alfirk run --machines` and the agent of a machine: lines of JSON.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run::mininet::load::Counters;
use crate::run::mininet::network::{Addresses, NetworkSpec};

/// Properties of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of its alfirk.
    pub version: String,
    /// Requirements of a network that it lacks, and how to install them.
    pub missing: Vec<String>,
    /// Address by which the machine was reached.
    pub address: Option<Ipv4Addr>,
    /// Address of the connection's other end.
    pub client: Option<Ipv4Addr>,
    pub processors: usize,
    /// Wake-up latency: nanoseconds until a sleeping thread reacts to a message.
    pub wake_ns: f64,
    /// Boot id of the kernel; machines with equal ids are one kernel.
    pub boot: String,
    /// Whether its kernel supports VXLAN interfaces.
    pub kernel_vxlan: bool,
}

/// Requests to a machine; one line of JSON each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Build this part of a network. Response: [`Response::Ready`] or [`Response::Failed`].
    Start { network: Box<NetworkSpec> },
    /// Kill the process of a node.
    Kill { node: String },
    /// Take an interface down.
    Cut { interface: String },
    /// Bring an interface up again.
    Restore { interface: String },
    /// Count the packets that interfaces sent and received. Response: [`Response::Packets`].
    Packets {
        sent: Vec<String>,
        received: Vec<String>,
    },
    /// Read the processor counters. Response: [`Response::Load`].
    Load,
    /// Store a file. Responses: [`Response::GoOn`], and when its contents have arrived in the stream of files, [`Response::Stored`]. The
    /// contents are sent only after `GoOn`, as unread data would block the other streams.
    Store { name: String, size: u64 },
    /// Send the contents of the announced capture.
    GoOn,
    /// Remove the network and send the captures. Responses: [`Response::Capture`] for each, then [`Response::Stopped`].
    Stop,
}

/// Responses of a machine; one line of JSON each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// The machine's properties; always the first response.
    Hello(Hello),
    /// The network is ready.
    Ready {
        addresses: Addresses,
    },
    /// A process could not start, or has ended.
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
    /// A capture; its contents follow in the stream of files after a [`Request::GoOn`].
    Capture {
        name: String,
        size: u64,
    },
    /// The network has been removed.
    Stopped,
}
