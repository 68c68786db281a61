//! Connection to one switch: reconnects with exponential backoff.

use std::time::Duration;

use alfirk_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use alfirk_p4runtime::p4::v1::{StreamMessageRequest, StreamMessageResponse};
use alfirk_p4runtime::Status;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

use super::files::SwitchAddress;
use crate::controller::{Request, RequestId, Response};
use crate::topology::SwitchIndex;

/// How long to try to reach a switch before the attempt counts as failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the first failed attempt; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Reads of large tables come in large messages.
const LARGEST_MESSAGE: usize = 256 << 20;

/// Reports of all connections that wait for the runner: however many frames hosts can make switches hand up, no more are kept here.
pub(super) const MOST_REPORTS: usize = 8_192;

/// What the runner asks of a connection.
#[derive(Debug)]
pub(super) enum Command {
    Request(RequestId, Request),
    Stream(StreamMessageRequest),
}

/// What a connection reports to the runner.
#[derive(Debug)]
pub(super) enum Report {
    /// Connected; commands go this way until the next report of this kind.  Dropping the sender ends the connection.
    Up(mpsc::UnboundedSender<Command>),
    /// An attempt failed, or the connection ended.
    Down { was_up: bool, why: String },
    /// A call is answered.
    Reply(RequestId, Result<Response, Status>),
    /// A message on the stream.
    Stream(StreamMessageResponse),
}

/// Keeps a switch connected until the runner is gone.
pub(super) async fn keep(target: SwitchAddress, reports: mpsc::Sender<(SwitchIndex, Report)>) {
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
        pause = (pause * 2).min(LONGEST_PAUSE);
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
            "cannot connect to {address}: no answer within {} s",
            CONNECT_TIMEOUT.as_secs()
        )),
    }
}

/// Carries messages until something ends the connection; says what.
async fn serve(
    switch: SwitchIndex,
    channel: Channel,
    reports: &mpsc::Sender<(SwitchIndex, Report)>,
) -> String {
    let client = P4RuntimeClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let (to_stream, stream_messages) = mpsc::unbounded_channel();
    let (to_me, mut commands) = mpsc::unbounded_channel();
    let (answers_to, mut answers) = mpsc::unbounded_channel();
    let gone = || "the controller ends".to_owned();
    if reports.send((switch, Report::Up(to_me))).await.is_err() {
        return gone();
    }

    // A switch may open its side of the stream only with its first message, which answers our first: so commands must
    // flow before the call returns.
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
                    let (client, answers_to) = (client.clone(), answers_to.clone());
                    tokio::spawn(async move {
                        let result = call(client, request).await.map_err(Status::from);
                        // The receiver is closed if the connection has ended meanwhile.
                        let _ = answers_to.send((id, result));
                    });
                    continue;
                }
            },
            Some((id, result)) = answers.recv() => Report::Reply(id, result),
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
        // When the runner is behind, the stream is read no further: then its sender has to wait, or to drop.
        if reports.send((switch, report)).await.is_err() {
            return gone();
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
            let answer = client.get_forwarding_pipeline_config(request).await?;
            let cookie = answer.into_inner().config.and_then(|config| config.cookie);
            Ok(Response::Pipeline(cookie.map(|cookie| cookie.cookie)))
        }
        Request::SetPipeline(request) => {
            client.set_forwarding_pipeline_config(*request).await?;
            Ok(Response::SetPipeline)
        }
        Request::Write(request) => {
            client.write(request).await?;
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

/// Transport errors name their cause only at the end of the chain.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
