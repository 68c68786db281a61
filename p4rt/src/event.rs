//! What the server wants its driver to do.

use alfirk_p4runtime::{p4::v1::StreamMessageResponse, Status};

use alfirk_bmv2::Queued;
use alfirk_packet_io::frame::SplitFrame;

/// Names a client's stream for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What the server wants its driver to do.
#[derive(Debug)]
pub enum Event {
    /// Put a packet into the queue of its port; give it back with [`Server::dequeue`].
    Enqueue(Queued),
    /// Send a frame.
    Output {
        /// Through this port; one without a link loses it.
        port: u32,
        /// From the Ethernet header on, without FCS.
        frame: SplitFrame,
    },
    /// Send a message on a client's stream.
    Stream {
        /// Whose stream.
        client: ClientId,
        /// The message; boxed, as nearly all events are of packets and small.
        message: Box<StreamMessageResponse>,
    },
    /// End a client's stream with this status. The server has forgotten the client already.
    Close {
        /// Whose stream.
        client: ClientId,
        /// Why.
        status: Status,
    },
}
