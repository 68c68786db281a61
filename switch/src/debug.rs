//! The debugger of a running switch: a gRPC stream that carries the Debug Adapter Protocol between an editor and a
//! [`PacketDebugger`], which the thread of the switch owns.

use std::sync::Arc;
use std::time::Duration;

use alfirk_bmv2::{trace::FrameFilter, LoadedProgram, Switch};
use alfirk_p4runtime::alfirk::debug::v1::{debug_server::Debug, Message};
use alfirk_p4runtime::Status as SwitchStatus;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{wrappers::UnboundedReceiverStream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::{
    command::Command,
    grpc::{stopping, ResponseStream, Service},
    trailer_limit::TrailerLimit,
};

/// A frame that a debugger records.
#[derive(Debug)]
pub struct DebuggedFrame {
    /// Ingress port.
    pub port: u32,
    /// The frame from the Ethernet header on, without FCS.
    pub bytes: Vec<u8>,
    /// Time in nanoseconds since the switch started.
    pub at: u64,
    /// A copy of the switch before the frame, which records.
    pub before: Switch,
}

/// A held packet that is to be sent now.
#[derive(Debug)]
pub struct ReleasedPacket {
    /// Number under which it is held.
    pub id: u64,
    /// Frames that are sent in place of what is held, with their ports, if the debugger has changed the packet.
    pub frames: Option<Vec<(u32, Vec<u8>)>>,
}

/// A debugger that an editor has attached to the switch.
pub trait PacketDebugger: Send {
    /// Handles a message of the editor, a JSON object, and returns the messages to send.
    ///
    /// # Errors
    /// The message is not a request of the protocol.
    fn handle(&mut self, message: &str) -> Result<Vec<String>, String>;

    /// Returns the program of the switch, loaded with notes, by which frames are recorded; `None` if none are.
    fn program(&self) -> Option<&Arc<LoadedProgram>>;

    /// Whether a received frame has to be recorded.
    fn wants(&self, frame: &[u8]) -> bool;

    /// Takes a received frame, and a copy of the switch before the frame ([`Switch::recording_copy`]). Returns whether what the
    /// packet sends is held under the number `id`, and the messages to send.
    fn packet(&mut self, id: u64, frame: DebuggedFrame) -> (bool, Vec<String>);

    /// Returns the held packets that are to be sent now.
    fn take_released(&mut self) -> Vec<ReleasedPacket>;

    /// Time after which a held packet is sent in any case.
    fn hold_time(&self) -> Duration;

    /// Handles that a packet was sent because its time is over, and returns the messages to send.
    fn expired(&mut self, id: u64) -> Vec<String>;

    /// Ends the session for the reason `why`, and returns the messages to send.
    fn end(&mut self, why: &str) -> Vec<String>;

    /// Whether the editor has ended the session.
    fn is_done(&self) -> bool;
}

/// Creates the debugger of a switch that runs the program in this BMv2 JSON.
pub type CreateDebugger = fn(&str) -> Box<dyn PacketDebugger>;

/// Returns a condition on frames, as `alfirk packet sniff --filter` has. `json`: BMv2 JSON of the program, whose headers the
/// condition may name.
///
/// # Errors
/// The condition is not valid.
pub fn frame_filter(text: &str, json: Option<&str>) -> Result<FrameFilter, String> {
    super::trace::frame_filter(text, json)
}

/// The messages to an editor, or the status that ends its stream.
pub(super) type EditorSender = mpsc::UnboundedSender<Result<Message, SwitchStatus>>;

#[tonic::async_trait]
impl Debug for Service {
    type AttachStream = ResponseStream<Message>;

    async fn attach(
        &self,
        request: Request<Streaming<Message>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let limit = TrailerLimit::of(&request);
        let peer = match request.remote_addr() {
            Some(address) => address.to_string(),
            None => "the switch's Unix socket".to_owned(),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let (attached, id) = oneshot::channel();
        let commands = self.commands().clone();
        commands
            .send(Command::AttachDebugger(sender, peer, attached))
            .await;
        let id = id
            .await
            .map_err(|_| stopping())?
            .map_err(|status| limit.shorten(status))?;
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            // An error or the end means that the editor has closed its side or has disconnected.
            while let Some(Ok(message)) = requests.next().await {
                let message = Command::DebugMessage(id, message.json);
                if !commands.send(message).await {
                    return;
                }
            }
            commands.send(Command::DetachDebugger(id)).await;
        });
        let stream = UnboundedReceiverStream::new(receiver);
        let stream = stream.map(move |message| message.map_err(|status| limit.shorten(status)));
        Ok(Response::new(Box::pin(stream)))
    }
}
