//! Protocol between `alfirk run --machines` and the agent on a machine (`alfirk machine`): lines of JSON.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run::mininet::load::Counters;
use crate::run::mininet::network::{Addresses, NetworkSpec};

/// Properties of a machine, as its agent reports them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of alfirk on the machine.
    pub version: String,
    /// Requirements of a Mininet network that the machine lacks, each with how to install it.
    pub missing: Vec<String>,
    /// Address of the machine at which the remote shell reached it.
    pub address: Option<Ipv4Addr>,
    /// Address of the machine that started the agent.
    pub client: Option<Ipv4Addr>,
    pub processors: usize,
    /// Wake-up latency: nanoseconds until a sleeping thread reacts to a message.
    pub wake_ns: f64,
    /// Boot id of the kernel. Machines with equal boot ids share a kernel, as containers do.
    pub boot: String,
    /// Whether its kernel supports VXLAN interfaces.
    pub kernel_vxlan: bool,
}

/// Requests to the agent on a machine; each is one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Build this part of a network. Response: [`Response::Ready`] or [`Response::Failed`].
    Start { network: Box<NetworkSpec> },
    /// Kill the process of a host or switch.
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
    /// Store a file of `size` bytes. Responses: [`Response::GoOn`], then [`Response::Stored`] when its contents have
    /// arrived in the stream of files. The contents are sent only after `GoOn`, because unread data would block the
    /// other streams.
    Store { name: String, size: u64 },
    /// Request the contents of the capture that [`Response::Capture`] has announced.
    GoOn,
    /// Remove the network and send the captures. Responses: [`Response::Capture`] for each, then [`Response::Stopped`].
    Stop,
}

/// Responses of the agent on a machine; each is one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// The machine's properties; always the first response.
    Hello(Hello),
    /// The machine's part of the network is ready.
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
    /// Request the contents of the file that [`Request::Store`] has announced.
    GoOn,
    Stored {
        path: PathBuf,
    },
    /// Announces a capture of `size` bytes. Its contents follow in the stream of files after a [`Request::GoOn`].
    Capture {
        name: String,
        size: u64,
    },
    /// The machine's part of the network has been removed.
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_counters_arrive_as_they_were_sent() {
        let sent = Counters::read(&[std::process::id()]);
        let line = serde_json::to_string(&Response::Load {
            counters: sent.clone(),
        });
        let received = serde_json::from_str(&line.expect("counters are JSON"));
        let Response::Load { counters } = received.expect("an agent's line is understood") else {
            panic!("the line holds no counters");
        };
        assert_eq!(counters, sent);
    }
}
