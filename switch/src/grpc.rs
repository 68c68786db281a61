//! The gRPC services for P4Runtime and for links. They pass every request to the thread that owns the switch. The services
//! for the debugger and for traces are implemented for the same [`Service`], in modules of their own.

use std::pin::Pin;

use alfirk_p4rt::Programs;
use alfirk_p4runtime::{
    alfirk::links::v1::{
        links_server::Links, ChangeRequest, ChangeResponse, ListRequest, ListResponse,
    },
    p4::v1::{p4_runtime_server::P4Runtime, *},
};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::{
    command::{Command, CommandSender},
    reads::ReadLimiter,
    stream_queue::stream_queue,
    trailer_limit::TrailerLimit,
};

/// Implementation of the gRPC services for P4Runtime and for links.
#[derive(Clone)]
pub struct Service {
    commands: CommandSender,
    reads: ReadLimiter,
    /// Cache that loads programs with notes; `None` if those of the switch have notes.
    notes: Option<Programs>,
}

impl Service {
    /// Creates the services for the switch that receives `commands`. `notes`: cache that loads programs with notes; `None` if
    /// those of the switch have notes.
    pub fn new(commands: CommandSender, notes: Option<Programs>) -> Service {
        Service {
            commands,
            reads: ReadLimiter::default(),
            notes,
        }
    }

    /// Returns the queue of commands.
    pub(super) fn commands(&self) -> &CommandSender {
        &self.commands
    }

    /// Returns the cache that loads programs with notes, if those of the switch have none.
    pub(super) fn notes(&self) -> Option<&Programs> {
        self.notes.as_ref()
    }

    /// Sends a command, and returns the response.
    pub(super) async fn request<T>(
        &self,
        limit: TrailerLimit,
        command: impl FnOnce(oneshot::Sender<Result<T, alfirk_p4runtime::Status>>) -> Command,
    ) -> Result<Response<T>, Status> {
        let (sender, receiver) = oneshot::channel();
        self.commands.send(command(sender)).await;
        match receiver.await {
            Ok(result) => result
                .map(Response::new)
                .map_err(|status| limit.shorten(status)),
            Err(_) => Err(stopping()),
        }
    }
}

/// The status of requests that reach no switch any more.
pub(super) fn stopping() -> Status {
    Status::unavailable("the switch is stopping")
}

/// A stream of responses.
pub(super) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = ResponseStream<ReadResponse>;
    type StreamChannelStream = ResponseStream<StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = request.into_inner();
        self.request(limit, |reply| Command::Write(request, reply))
            .await
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let limit = TrailerLimit::of(&request);
        let reply = self.reads.start(&self.commands, request.into_inner());
        match reply.await {
            Some(reply) => {
                let reply = reply.map(move |part| part.map_err(|status| limit.shorten(status)));
                Ok(Response::new(Box::pin(reply)))
            }
            None => Err(stopping()),
        }
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = Box::new(request.into_inner());
        self.request(limit, |reply| Command::SetPipeline(request, reply))
            .await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = request.into_inner();
        self.request(limit, |reply| Command::GetPipeline(request, reply))
            .await
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let limit = TrailerLimit::of(&request);
        let (sender, receiver) = stream_queue();
        let (opened, id) = oneshot::channel();
        self.commands
            .send(Command::StreamOpen(sender, opened))
            .await;
        let client = id
            .await
            .map_err(|_| stopping())?
            .map_err(|status| limit.shorten(status))?;

        let commands = self.commands.clone();
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            // An error or the end means that the client has closed its side or has disconnected.
            while let Some(Ok(message)) = requests.next().await {
                if !commands.send(Command::StreamMessage(client, message)).await {
                    return;
                }
            }
            commands.send(Command::StreamClose(client)).await;
        });
        let stream = receiver.map(move |message| message.map_err(|status| limit.shorten(status)));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = request.into_inner();
        self.request(limit, |reply| Command::Capabilities(request, reply))
            .await
    }
}

#[tonic::async_trait]
impl Links for Service {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = request.into_inner();
        self.request(limit, |reply| Command::ListLinks(request, reply))
            .await
    }

    async fn change(
        &self,
        request: Request<ChangeRequest>,
    ) -> Result<Response<ChangeResponse>, Status> {
        let limit = TrailerLimit::of(&request);
        let request = request.into_inner();
        self.request(limit, |reply| Command::ChangeLinks(request, reply))
            .await
    }
}
