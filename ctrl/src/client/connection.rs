//! Connection to one switch: reconnects with exponential backoff.

use std::sync::Arc;
use std::time::Duration;

use alfirk_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use alfirk_p4runtime::p4::v1::{
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse,
};
use alfirk_p4runtime::Status;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

use super::files::SwitchAddress;
use crate::controller::{Request, RequestId, Response};
use crate::topology::SwitchIndex;

/// Timeout of one attempt to connect to a switch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the first reconnection; doubled after each failed attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Maximum size of a received gRPC message in bytes; reads of large tables need more than tonic's default of 4 MiB.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Maximum number of queued reports of all connections together. It bounds memory when hosts cause many PacketIns.
pub(super) const MAX_QUEUED_REPORTS: usize = 8_192;

/// Command of the runner to a connection: a unary P4Runtime call, or a message for the switch's stream.
#[derive(Debug)]
pub(super) enum Command {
    Request(RequestId, Request),
    Stream(StreamMessageRequest),
}

/// Report of the connection task of a switch to the runner.
#[derive(Debug)]
pub(super) enum Report {
    /// The switch is connected. The sender accepts commands for this connection; dropping it closes the connection.
    Up(mpsc::UnboundedSender<Command>),
    /// An attempt to connect failed, or a connection ended. `was_up`: whether the switch had been connected.
    Down { was_up: bool, why: String },
    /// Result of a call, with the id of its request.
    Reply(RequestId, Result<Response, Status>),
    /// A message received on the switch's stream.
    Stream(StreamMessageResponse),
}

/// Keeps a switch connected, with reconnection and backoff, until the runner has ended.
pub(super) async fn maintain(target: SwitchAddress, reports: mpsc::Sender<(SwitchIndex, Report)>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (was_up, why) = match connect(&target.address).await {
            Ok(channel) => {
                pause = FIRST_PAUSE;
                (true, serve(target.switch, channel, &reports).await)
            }
            Err(why) => (false, why),
        };
        let report = Report::Down { was_up, why };
        if reports.send((target.switch, report)).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

async fn connect(address: &str) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("{address} is not an address: {error}"))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        // Not HTTP/2 pings: gRPC servers close connections that ping more often than every five minutes.
        .tcp_keepalive(Some(Duration::from_secs(10)));
    let attempt = tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect()).await;
    match attempt {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(format!(
            "cannot connect to {address}: {}",
            root_cause(&error)
        )),
        Err(_) => Err(format!(
            "cannot connect to {address}: no response within {} s",
            CONNECT_TIMEOUT.as_secs()
        )),
    }
}

/// Forwards messages in both directions until the connection ends, and returns the reason.
async fn serve(
    switch: SwitchIndex,
    channel: Channel,
    reports: &mpsc::Sender<(SwitchIndex, Report)>,
) -> String {
    let client = P4RuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let (to_stream, stream_messages) = mpsc::unbounded_channel();
    let (command_tx, mut commands) = mpsc::unbounded_channel();
    let (reply_tx, mut reply_rx) = mpsc::unbounded_channel();
    let shutting_down = || "the controller is shutting down".to_owned();
    if reports
        .send((switch, Report::Up(command_tx)))
        .await
        .is_err()
    {
        return shutting_down();
    }

    // A switch may open its side of the stream only with its first message, which is the reply to ours. So commands must
    // be processed before the call returns.
    let mut opener = client.clone();
    let opening = opener.stream_channel(UnboundedReceiverStream::new(stream_messages));
    tokio::pin!(opening);
    let mut inbound = None;
    loop {
        let report = tokio::select! {
            command = commands.recv() => match command {
                None => return "closed after an error".to_owned(),
                Some(Command::Stream(message)) => {
                    if to_stream.send(message).is_err() {
                        return "the switch closed the stream".to_owned();
                    }
                    continue;
                }
                Some(Command::Request(id, request)) => {
                    let (client, reply_tx) = (client.clone(), reply_tx.clone());
                    tokio::spawn(async move {
                        let result = call(client, request).await.map_err(Status::from);
                        // The receiver is closed if the connection has ended meanwhile.
                        let _ = reply_tx.send((id, result));
                    });
                    continue;
                }
            },
            Some((id, result)) = reply_rx.recv() => Report::Reply(id, result),
            opened = &mut opening, if inbound.is_none() => match opened {
                Ok(stream) => {
                    inbound = Some(stream.into_inner());
                    continue;
                }
                Err(status) => return ended(&status),
            },
            message = next(&mut inbound), if inbound.is_some() => match message {
                Some(Ok(message)) => Report::Stream(message),
                Some(Err(status)) => return ended(&status),
                None => return "the switch closed the stream".to_owned(),
            },
        };
        // Backpressure: while the queue of reports is full, the stream is not read, so the switch must wait or drop.
        if reports.send((switch, report)).await.is_err() {
            return shutting_down();
        }
    }
}

type Inbound = tonic::Streaming<StreamMessageResponse>;

async fn next(
    stream: &mut Option<Inbound>,
) -> Option<Result<StreamMessageResponse, tonic::Status>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn call(
    mut client: P4RuntimeClient<Channel>,
    request: Request,
) -> Result<Response, tonic::Status> {
    match request {
        Request::GetPipeline(request) => {
            let response = client.get_forwarding_pipeline_config(request).await?;
            let cookie = response
                .into_inner()
                .config
                .and_then(|config| config.cookie);
            Ok(Response::Pipeline(cookie.map(|cookie| cookie.cookie)))
        }
        Request::SetPipeline(request, config) => {
            let request = SetForwardingPipelineConfigRequest {
                config: Some(Arc::unwrap_or_clone(config)),
                ..*request
            };
            client.set_forwarding_pipeline_config(request).await?;
            Ok(Response::SetPipeline)
        }
        Request::Write(request) => {
            client.write(Arc::unwrap_or_clone(request)).await?;
            Ok(Response::Write)
        }
        Request::Read(request) => {
            let mut stream = client.read(request).await?.into_inner();
            let mut messages = Vec::new();
            while let Some(message) = stream.message().await? {
                messages.push(message);
            }
            Ok(Response::Read(messages))
        }
    }
}

fn ended(status: &tonic::Status) -> String {
    format!("the stream ended: {}", status.message())
}

/// Message of the innermost source of an error; tonic's outer transport errors only say "transport error".
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
