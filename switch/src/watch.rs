//! Traces of packets in a running switch: a gRPC stream of the packets that a client chooses.

use std::convert::Infallible;
use std::sync::Arc;

use alfirk_bmv2::{
    trace::{FrameFilter, TraceLine},
    LoadedProgram,
};
use alfirk_p4rt::{packet_trace::CopyTrace, Programs};
use alfirk_p4runtime::{
    alfirk::trace::v1::{
        trace_message::Trace as Part, trace_server::Trace, CopyTrace as CopyMessage, Format,
        TraceMessage, WatchRequest,
    },
    Status as SwitchStatus,
};
use tokio::{sync::oneshot, task};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status};

use super::{
    command::Command,
    grpc::{stopping, ResponseStream, Service},
    stream_queue::{stream_queue, NotSent, StreamSender},
    trace::{frame_filter, text_of, TraceSink},
    trailer_limit::TrailerLimit,
};

/// Limit of a client's queue in bytes.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Length in bytes from which on a message takes no further line. gRPC's usual limit of messages is 4 MiB.
const MESSAGE_BYTES: usize = 256 << 10;

/// The program of a switch, for a client that is going to watch traces.
pub struct WatchedProgram {
    /// BMv2 JSON of the program; `None` if the switch does not have it.
    pub json: Option<String>,
    /// Number of the load of the program ([`alfirk_bmv2::Switch::load_number`]).
    pub load: u64,
}

/// The traces that a client has requested.
pub struct NewWatch {
    /// The program, loaded with notes; `None` if the program that runs is not to be exchanged.
    pub notes: Option<Arc<LoadedProgram>>,
    /// Number of the load of the program for which the filter and the notes are.
    pub load: u64,
    /// Condition on received frames; `None` for all frames.
    pub filter: Option<FrameFilter>,
    /// Maximum number of received packets that are traced; `None` for no limit.
    pub count: Option<u64>,
    /// The client.
    pub client: WatchSender,
}

/// The switch's end of a stream of traces.
pub struct WatchSender {
    queue: StreamSender<TraceMessage>,
    format: Format,
    /// Whether text has colours.
    colors: bool,
    /// Number of messages since the last one in the queue that were not queued.
    lost: u64,
    is_open: bool,
}

impl WatchSender {
    /// Creates the switch's end of a stream. `colors`: whether text has colours.
    pub fn new(queue: StreamSender<TraceMessage>, format: Format, colors: bool) -> WatchSender {
        WatchSender {
            queue,
            format,
            colors,
            lost: 0,
            is_open: true,
        }
    }

    /// Ends the stream: with a status, or without an error.
    pub fn end(mut self, status: Option<SwitchStatus>) {
        // A client that has disconnected needs no end.
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let rest = TraceMessage { trace: None, lost };
            let _ = self.queue.try_send_without_limit(Ok(rest));
        }
        if let Some(status) = status {
            let _ = self.queue.try_send_without_limit(Err(status));
        }
    }

    fn send(&mut self, trace: Part) {
        let message = TraceMessage {
            trace: Some(trace),
            lost: self.lost,
        };
        match self.queue.try_send(message, MAX_QUEUED_BYTES) {
            Ok(()) => self.lost = 0,
            Err(NotSent::Full) => self.lost += 1,
            Err(NotSent::Closed) => self.is_open = false,
        }
    }

    fn send_lines(&mut self, texts: impl Iterator<Item = String>, part: fn(String) -> Part) {
        let mut message = String::new();
        for text in texts {
            message += &text;
            if message.len() >= MESSAGE_BYTES {
                self.send(part(std::mem::take(&mut message)));
            }
        }
        if !message.is_empty() {
            self.send(part(message));
        }
    }
}

impl TraceSink for WatchSender {
    fn lines(&mut self, lines: &[&TraceLine]) {
        let colors = self.colors;
        match self.format {
            Format::Text => self.send_lines(text_of(lines, |line| line.text(colors)), Part::Text),
            Format::Json => self.send_lines(text_of(lines, TraceLine::json), Part::Json),
            Format::PacketTrace => {}
        }
    }

    fn complete(&mut self, packets: Vec<CopyTrace>) {
        if self.format == Format::PacketTrace {
            for CopyTrace { copy, trace } in packets {
                let trace = Some(trace);
                self.send(Part::Packet(CopyMessage { copy, trace }));
            }
        }
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

/// Parses the filter of a request, and loads the program with notes from the cache `notes`.
fn prepare(
    filter: &str,
    notes: Option<&Programs>,
    json: Option<&str>,
) -> Result<(Option<FrameFilter>, Option<Arc<LoadedProgram>>), Status> {
    let filter = match filter {
        "" => None,
        text => {
            let filter = frame_filter(text, json);
            let wrong = |why| Status::invalid_argument(format!("filter: {why}"));
            Some(filter.map_err(wrong)?)
        }
    };
    // A running program has been loaded before, so that this does not fail.
    let notes = notes.zip(json).map(|(programs, json)| programs.load(json));
    Ok((filter, notes.and_then(Result::ok)))
}

#[tonic::async_trait]
impl Trace for Service {
    type WatchStream = ResponseStream<TraceMessage>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let limit = TrailerLimit::of(&request);
        let WatchRequest {
            filter,
            count,
            format,
            colors,
        } = request.into_inner();
        let unknown = |_| Status::invalid_argument(format!("format {format} is not known"));
        let format = Format::try_from(format).map_err(unknown)?;
        let program = self.request(limit, Command::PrepareWatch).await?;
        let WatchedProgram { json, load } = program.into_inner();
        let programs = self.notes().cloned();
        let prepared =
            task::spawn_blocking(move || prepare(&filter, programs.as_ref(), json.as_deref()));
        let prepared = prepared.await.map_err(|_| stopping())?;
        let (filter, notes) = prepared.map_err(|status| limit.shorten(status))?;

        let (queue, receiver) = stream_queue();
        let watch = Box::new(NewWatch {
            notes,
            load,
            filter,
            count: Some(count).filter(|count| *count > 0),
            client: WatchSender::new(queue, format, colors),
        });
        let started = self.request(limit, |reply| Command::Watch(watch, reply));
        let id = started.await?.into_inner();
        let (connected, disconnected) = oneshot::channel::<Infallible>();
        let commands = self.commands().clone();
        tokio::spawn(async move {
            // The other end is dropped with the stream.
            let _ = disconnected.await;
            commands.send(Command::EndWatch(id)).await;
        });
        let stream = receiver.map(move |message| {
            let _connected = &connected;
            message.map_err(|status| limit.shorten(status))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
