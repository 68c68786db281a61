//! Messages of a node to another node or to itself, which use no link.

use std::sync::Arc;

use alfirk_ctrl::controller::{Request, RequestId, Response};
use alfirk_experiment::TransferId;
use alfirk_p4runtime::p4::v1::{StreamMessageRequest, StreamMessageResponse};
use alfirk_p4runtime::Status;
use alfirk_roce::host::{HostEvent, Packet};

use super::ports::PendingCharge;
use crate::engine::NodeId;

/// A message of the control channel, or work that a node has scheduled for itself.
///
/// Nearly all messages contain frames. Rare and large contents are boxed, because each message is moved several times.
pub enum Message {
    /// Controller to switch: opens the P4Runtime stream.
    Connect,
    /// Switch to controller: the stream is open.
    Connected,
    /// Switch to controller: the connection has ended.
    Disconnected { why: String },
    /// Controller to switch: a unary P4Runtime call.
    Request { id: RequestId, body: Box<Request> },
    /// Switch to controller: the reply to a unary P4Runtime call.
    Reply {
        id: RequestId,
        result: Box<Result<Response, Status>>,
    },
    /// Controller to switch: a message on the P4Runtime stream.
    StreamRequest(Box<StreamMessageRequest>),
    /// Switch to controller: a message on the P4Runtime stream.
    StreamResponse(Box<StreamMessageResponse>),
    /// To a switch: it must fail now, and restart after `downtime` nanoseconds. It then reports to `controller` that it
    /// accepts connections.
    Fail { downtime: u64, controller: NodeId },
    /// A failed switch to itself: the downtime is over, and the switch must restart.
    RestartSwitch { controller: NodeId },
    /// Switch to controller: the restarted switch accepts connections again.
    Listening,
    /// To the controller: a new controller must replace it. `keeps_state`: whether the new controller restores the
    /// saved state.
    ReplaceController { keeps_state: bool },
    /// The controller to itself: all messages of the current time have arrived, and can be handled together.
    HandleInbox,
    /// A switch to itself: the pipeline latency of a received frame has passed, and the ingress processes the frame.
    Ingress {
        port: u32,
        frame: Packet,
        pending_charge: PendingCharge,
    },
    /// A host to itself: the NIC has received a frame.
    NicReceived { frame: Packet },
    /// A host to itself: the application has handled an event at `seen_at`, and its resulting posts reach the NIC.
    AppPosted { event: Box<HostEvent>, seen_at: u64 },
    /// A host to itself: the first post of the transfer that the host is the root of reaches the NIC.
    PostFirst { id: TransferId, data: Arc<[u8]> },
    /// A host to itself: a post of its datagram endpoint reaches the NIC.
    PostMulticast { data: Arc<[u8]> },
    /// A host to itself: the application has handled everything that the queue pairs of a leg have delivered. A leg is
    /// the part of a transfer that one algorithm carries.
    LegHandled { id: TransferId },
}
