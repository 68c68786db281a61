//! The gRPC service of BfRuntime. It passes every request to the thread that owns the switch.

use std::{path::Path, sync::Arc};

use alfirk_bfrt::{Generation, Options, Program, StreamId};
use alfirk_p4runtime::{
    bfrt_proto::{bf_runtime_server::BfRuntime, *},
    Status as P4Status,
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{wrappers::ReceiverStream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::{
    command::{Command, CommandSender},
    grpc::{stopping, ResponseStream},
    trailer_limit::TrailerLimit,
};

/// Maximum number of queued messages per client.
const MAX_QUEUED_MESSAGES: usize = 4096;

/// A request to the thread that owns the switch, with the channel for its reply.
pub enum BfRtCommand {
    Write(
        WriteRequest,
        Options,
        oneshot::Sender<Result<WriteResponse, P4Status>>,
    ),
    Read(
        ReadRequest,
        Options,
        oneshot::Sender<(Vec<ReadResponse>, Result<(), P4Status>)>,
    ),
    SetPipeline(
        Box<SetForwardingPipelineConfigRequest>,
        oneshot::Sender<Result<SetForwardingPipelineConfigResponse, P4Status>>,
    ),
    GetPipeline(oneshot::Sender<GetForwardingPipelineConfigResponse>),
    StreamOpen(
        mpsc::Sender<StreamMessageResponse>,
        oneshot::Sender<StreamId>,
    ),
    StreamMessage(StreamId, StreamMessageRequest),
    StreamClose(StreamId),
}

/// Implementation of the gRPC service.
#[derive(Clone)]
pub struct Service {
    commands: CommandSender,
}

impl Service {
    /// Creates the service for the switch that receives `commands`.
    pub fn new(commands: CommandSender) -> Service {
        Service { commands }
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> BfRtCommand,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        self.commands.send(Command::BfRt(command(sender))).await;
        receiver.await.map_err(|_| stopping())
    }
}

/// The wishes of a client in the metadata of a request.
fn options<T>(request: &Request<T>) -> Options {
    let is_set = |name: &str| {
        let value = request.metadata().get(name);
        value.is_some_and(|value| value.as_bytes() == b"1")
    };
    Options {
        errors_in_response: is_set("error_in_resp"),
        ignores_not_found: is_set("ignore_not_found"),
    }
}

#[tonic::async_trait]
impl BfRuntime for Service {
    type ReadStream = ResponseStream<ReadResponse>;
    type StreamChannelStream = ResponseStream<StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let (limit, options) = (TrailerLimit::LONG, options(&request));
        let request = request.into_inner();
        let result = self
            .request(|reply| BfRtCommand::Write(request, options, reply))
            .await?;
        result
            .map(Response::new)
            .map_err(|status| limit.shorten(status))
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let (limit, options) = (TrailerLimit::LONG, options(&request));
        let request = request.into_inner();
        let (parts, outcome) = self
            .request(|reply| BfRtCommand::Read(request, options, reply))
            .await?;
        let end = outcome.err().map(|status| Err(limit.shorten(status)));
        let all = parts.into_iter().map(Ok).chain(end);
        Ok(Response::new(Box::pin(tokio_stream::iter(all))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let limit = TrailerLimit::LONG;
        let request = Box::new(request.into_inner());
        let result = self
            .request(|reply| BfRtCommand::SetPipeline(request, reply))
            .await?;
        result
            .map(Response::new)
            .map_err(|status| limit.shorten(status))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let reply = self.request(BfRtCommand::GetPipeline).await?;
        Ok(Response::new(reply))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let stream = self
            .request(|reply| BfRtCommand::StreamOpen(sender, reply))
            .await?;
        let commands = self.commands.clone();
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            // An error or the end means that the client has closed its side or has disconnected.
            while let Some(Ok(message)) = requests.next().await {
                let command = BfRtCommand::StreamMessage(stream, message);
                if !commands.send(Command::BfRt(command)).await {
                    return;
                }
            }
            let command = BfRtCommand::StreamClose(stream);
            commands.send(Command::BfRt(command)).await;
        });
        let messages = ReceiverStream::new(receiver).map(Ok);
        Ok(Response::new(Box::pin(messages)))
    }
}

/// Reads the program and its schema, which clients request. Clients bind to the program by the name of its file.
///
/// # Errors
/// A file cannot be read, or is not a schema; holds the message.
pub fn load(json: &Path, schema: Option<&Path>) -> Result<(Arc<Program>, Generation), String> {
    let beside = json.with_file_name("bf-rt.json");
    let schema = schema.unwrap_or(&beside);
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            format!(
                "{}: {error}; write the schema with `alfirk p4c --bf-rt-schema`",
                path.display()
            )
        })
    };
    let (text, binary) = (read(schema)?, read(json)?);
    let generation = match is_tofino_2(&binary) {
        true => Generation::Two,
        false => Generation::One,
    };
    let name = json.file_stem().map(|stem| stem.to_string_lossy());
    let name = name.as_deref().and_then(|name| name.split('.').next());
    let name = name.unwrap_or_default().to_owned();
    let program = Program::new(name, text, binary)
        .map_err(|error| format!("{}: {error}", schema.display()))?;
    Ok((program, generation))
}

/// Whether a program in BMv2 JSON is for Tofino 2.
fn is_tofino_2(json: &[u8]) -> bool {
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(json);
    parsed.is_ok_and(|program| program["architecture"] == "t2na")
}
