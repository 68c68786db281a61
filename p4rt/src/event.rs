//! Events of the server: actions for its driver, which is the code that owns the network interfaces and gRPC streams.

use alfirk_p4runtime::{p4::v1::StreamMessageResponse, Status};

use alfirk_bmv2::Queued;
use alfirk_packet_io::frame::SplitFrame;

/// Identifies a client's stream until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// An action that the server's driver executes.
#[derive(Debug)]
pub enum Event {
    /// Put a packet into the queue of its port, and return it by [`crate::Server::dequeue`] when it leaves.
    Enqueue(Queued),
    /// Send a frame to a port.
    Output {
        /// Egress port; a frame for a port without a link is lost.
        port: u32,
        /// The frame from the Ethernet header on, without FCS.
        frame: SplitFrame,
    },
    /// Send a message on a client's stream.
    Stream {
        /// The client whose stream it is.
        client: ClientId,
        /// The message; boxed, because nearly all events are about packets and are small.
        message: Box<StreamMessageResponse>,
    },
    /// End a client's stream with this status. The server has removed the client already.
    Close {
        /// The client whose stream it is.
        client: ClientId,
        /// Reason for ending the stream.
        status: Status,
    },
}
