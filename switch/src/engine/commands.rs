//! Execution of commands: requests of P4Runtime, Thrift, the links service and Prometheus from their threads.

use alfirk_p4runtime::{
    p4::v1::{stream_message_response::Update, ReadResponse, StreamMessageResponse, WriteResponse},
    Code, Status,
};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, trace, warn};

use super::Engine;
use crate::{
    command::Command,
    stream_queue::NotSent,
    thrift::{self, LongRequest, Started},
};
use alfirk_p4rt::{ClientId, PendingRead, PendingWrite};

/// Maximum number of commands between two polls of the ports.
const COMMANDS_PER_TURN: usize = 64;
/// Maximum number of updates between two polls of the ports; each takes a few microseconds.
const UPDATES_PER_TURN: usize = 64;
/// Maximum number of read entities between two polls of the ports; each takes about a microsecond.
pub(super) const ENTITIES_PER_TURN: usize = 256;
/// Maximum number of clients.
const MAX_STREAMS: usize = 1024;

/// A request in progress, and the channel of its reply.
pub(super) enum Work {
    Write(PendingWrite, oneshot::Sender<Result<WriteResponse, Status>>),
    Read(
        PendingRead,
        mpsc::UnboundedSender<Result<ReadResponse, Status>>,
    ),
    Thrift(LongRequest, oneshot::Sender<thrift::Response>),
}

impl Engine {
    pub(super) fn take_commands(&mut self) {
        self.commands.clear_event();
        if self.work.is_some() {
            let now = self.now();
            self.work_on(now);
            self.drain(now);
        }
        for _ in 0..COMMANDS_PER_TURN {
            if self.work.is_some() {
                break;
            }
            let Some(command) = self.commands.try_recv() else {
                return;
            };
            let now = self.now();
            self.handle(command, now);
            self.drain(now);
            if !self.running {
                return;
            }
        }
        self.commands.signal_again();
    }

    /// Executes the next part of the request in progress, if any. Ports are polled before the part after it.
    fn work_on(&mut self, now: u64) {
        match self.work.take() {
            Some(Work::Write(mut batch, reply)) => {
                let result = self
                    .server
                    .continue_write(&mut batch, UPDATES_PER_TURN, now);
                match result {
                    Some(result) => drop(reply.send(result)),
                    None => self.work = Some(Work::Write(batch, reply)),
                }
            }
            // The client has disconnected.
            Some(Work::Read(_, parts)) if parts.is_closed() => {}
            Some(Work::Read(mut read, parts)) => {
                let take = &mut |part| drop(parts.send(Ok(part)));
                let result = self
                    .server
                    .continue_read(&mut read, ENTITIES_PER_TURN, now, take);
                match result {
                    Some(Ok(())) => {}
                    Some(Err(status)) => drop(parts.send(Err(status))),
                    None => self.work = Some(Work::Read(read, parts)),
                }
            }
            // The client has disconnected; a write is completed, a read is aborted.
            Some(Work::Thrift(
                LongRequest::Entries { .. } | LongRequest::ReadCells { .. },
                reply,
            )) if reply.is_closed() => {}
            Some(Work::Thrift(mut long, reply)) => match self.continue_thrift(&mut long, now) {
                Some(done) => drop(reply.send(done)),
                None => self.work = Some(Work::Thrift(long, reply)),
            },
            None => {}
        }
    }

    /// Executes a command. Replies to clients that have disconnected are dropped.
    fn handle(&mut self, command: Command, now: u64) {
        match command {
            Command::Write(request, reply) => match self.server.begin_write(request) {
                Ok(batch) => {
                    self.work = Some(Work::Write(batch, reply));
                    self.work_on(now);
                }
                Err(status) => drop(reply.send(Err(status))),
            },
            Command::Read(request, parts) => match self.server.begin_read(request) {
                Ok(read) => {
                    self.work = Some(Work::Read(read, parts));
                    self.work_on(now);
                }
                Err(status) => drop(parts.send(Err(status))),
            },
            Command::SetPipeline(request, reply) => {
                let result = self.server.set_forwarding_pipeline_config(&request, now);
                match &result {
                    Ok(_) => info!(action = request.action().as_str_name(), "pipeline set"),
                    Err(status) => warn!("pipeline rejected: {status}"),
                }
                let _ = reply.send(result);
            }
            Command::GetPipeline(request, reply) => {
                let _ = reply.send(self.server.get_forwarding_pipeline_config(&request));
            }
            Command::Capabilities(request, reply) => {
                let _ = reply.send(self.server.capabilities(&request));
            }
            Command::StreamOpen(sender, opened) => {
                if self.clients.len() >= MAX_STREAMS {
                    let why = format!("{MAX_STREAMS} streams are open already, which is the limit");
                    let _ = opened.send(Err(Status::new(Code::ResourceExhausted, why)));
                    return;
                }
                let client = self.server.stream_open();
                self.clients.insert(client, sender);
                if opened.send(Ok(client)).is_err() {
                    self.clients.remove(&client);
                    self.server.stream_close(client);
                }
            }
            Command::StreamMessage(client, message) => {
                self.server.stream_message(client, message, now);
            }
            Command::StreamClose(client) => {
                self.clients.remove(&client);
                self.server.stream_close(client);
            }
            Command::ListLinks(request, reply) => {
                self.settle();
                self.count_not_received();
                let _ = reply.send(self.list_links(&request));
            }
            Command::ChangeLinks(request, reply) => {
                self.settle();
                let _ = reply.send(self.change_links(&request, now));
            }
            Command::Thrift(request, reply) => match self.start_thrift(request, now) {
                Started::Done(done) => drop(reply.send(done)),
                Started::LongRequest(long) => {
                    self.work = Some(Work::Thrift(long, reply));
                    self.work_on(now);
                }
            },
            Command::Frame(number, frame) => {
                if let Some(port) = self.ports.get_mut(&number) {
                    port.counters.received += 1;
                    self.dump.received(number, &frame);
                    trace!(port = number, bytes = frame.len(), "frame in");
                    self.server.take_frame_in(number, frame, now);
                }
            }
            Command::Metrics(reply) => {
                self.settle();
                self.count_not_received();
                let _ = reply.send(self.metrics(now));
            }
            Command::Shutdown => self.running = false,
        }
    }

    /// Sends a message to a client. If the client is too slow, messages are dropped, but never a status or an
    /// arbitration.
    pub(super) fn send_to_client(
        &mut self,
        client: ClientId,
        message: Result<StreamMessageResponse, Status>,
    ) {
        let Some(sender) = self.clients.get(&client) else {
            return;
        };
        let (vital, sent) = match message {
            Ok(message) if !matches!(message.update, Some(Update::Arbitration(_))) => {
                (false, sender.try_send(message, self.clients.len()))
            }
            important => (true, sender.try_send_without_limit(important)),
        };
        match sent {
            Err(NotSent::Full) if vital => {
                warn!(?client, "client does not read its stream; disconnecting it");
                self.clients.remove(&client);
                self.server.stream_close(client);
            }
            Err(NotSent::Full) => debug!(?client, "stream is full; a message is dropped"),
            _ => {}
        }
    }
}
