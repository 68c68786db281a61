//! Messages between nodes outside the links.

use std::sync::Arc;

use alfirk_ctrl::controller::{Request, RequestId, Response};
use alfirk_experiment::TransferId;
use alfirk_p4runtime::p4::v1::{StreamMessageRequest, StreamMessageResponse};
use alfirk_p4runtime::Status;
use alfirk_roce::host::{HostEvent, Packet};

use super::ports::Ticket;
use crate::engine::NodeId;

/// Control channels, and work that a node has put off to a later time.
///
/// Nearly all messages are of frames. What is rare and large is boxed, for each message is moved several times.
pub enum Message {
    /// Controller to switch: open the stream.
    Connect,
    /// Switch to controller: the stream is open.
    Connected,
    /// Switch to controller: the connection is gone.
    Disconnected { why: String },
    /// Controller to switch: a unary call.
    Request { id: RequestId, body: Box<Request> },
    /// Switch to controller: its answer.
    Reply {
        id: RequestId,
        result: Box<Result<Response, Status>>,
    },
    /// Controller to switch, on the stream.
    StreamRequest(Box<StreamMessageRequest>),
    /// Switch to controller, on the stream.
    StreamResponse(Box<StreamMessageResponse>),
    /// To a switch: it ends, and begins again later, to be connected to by this controller.
    End { downtime: u64, controller: NodeId },
    /// A switch that has ended to itself: it begins again.
    Begin { controller: NodeId },
    /// Switch to controller: it can be connected to again.
    Listening,
    /// To the controller: another one takes its place.
    Restart { keeps_state: bool },
    /// The controller to itself: all that came at this moment is there.
    Together,
    /// A switch to itself: a frame leaves the ingress pipeline.
    Ingress {
        port: u32,
        frame: Packet,
        ticket: Ticket,
    },
    /// A host to itself: the NIC has taken a frame in.
    NicReceived { frame: Packet },
    /// A host to itself: what the application did at `seen_at` on seeing an event reaches the NIC.
    Handled { event: Box<HostEvent>, seen_at: u64 },
    /// A host to itself: the first post of a transfer's root reaches the NIC.
    Start { id: TransferId, data: Arc<[u8]> },
    /// A host to itself: a post of its multicast member reaches the NIC.
    Multicast { data: Arc<[u8]> },
    /// A host to itself: the application has handled everything that the queue pairs of a leg have delivered.
    Left { id: TransferId },
}
