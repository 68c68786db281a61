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

/// Maximum number of commands that are executed between two polls of the ports.
const COMMANDS_PER_TURN: usize = 64;
/// Maximum number of updates of a Write request that are executed between two polls of the ports; each takes a few
/// microseconds.
const UPDATES_PER_TURN: usize = 64;
/// Maximum number of entities of a Read request that are read between two polls of the ports; each takes about a
/// microsecond.
pub(super) const ENTITIES_PER_TURN: usize = 256;
/// Maximum number of P4Runtime clients.
const MAX_STREAMS: usize = 1024;
/// Maximum number of queued bytes of all P4Runtime clients together; each client has an equal share.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// A request that is processed in several steps, with the channel of its reply.
pub(super) enum RequestInProgress {
    Write(PendingWrite, oneshot::Sender<Result<WriteResponse, Status>>),
    Read(
        PendingRead,
        mpsc::UnboundedSender<Result<ReadResponse, Status>>,
    ),
    Thrift(LongRequest, oneshot::Sender<thrift::Response>),
}

impl Engine {
    /// Executes queued commands, up to a limit.
    pub(super) fn take_commands(&mut self) {
        self.commands.clear_event();
        if self.request_in_progress.is_some() {
            let now = self.now();
            self.continue_request_in_progress(now);
            self.check_program();
            self.drain(now);
        }
        for _ in 0..COMMANDS_PER_TURN {
            if self.request_in_progress.is_some() {
                break;
            }
            let Some(command) = self.commands.try_recv() else {
                return;
            };
            let now = self.now();
            self.handle(command, now);
            self.check_program();
            self.update_queued_ports();
            self.drain(now);
            if !self.running {
                return;
            }
        }
        self.commands.signal_again();
    }

    /// Ends the sessions of clients that follow the program of the switch, if the last command has loaded another one.
    fn check_program(&mut self) {
        if self.is_traced() {
            self.check_traced_program();
        }
        if self.is_debugged() {
            self.check_debugged_program();
        }
    }

    /// Executes the next step of the request in progress, if there is one.
    fn continue_request_in_progress(&mut self, now: u64) {
        match self.request_in_progress.take() {
            Some(RequestInProgress::Write(mut batch, reply)) => {
                let result = self
                    .server
                    .continue_write(&mut batch, UPDATES_PER_TURN, now);
                match result {
                    Some(result) => drop(reply.send(result)),
                    None => self.request_in_progress = Some(RequestInProgress::Write(batch, reply)),
                }
            }
            // The client has disconnected.
            Some(RequestInProgress::Read(_, parts)) if parts.is_closed() => {}
            Some(RequestInProgress::Read(mut read, parts)) => {
                let take = &mut |part| drop(parts.send(Ok(part)));
                let result = self
                    .server
                    .continue_read(&mut read, ENTITIES_PER_TURN, now, take);
                match result {
                    Some(Ok(())) => {}
                    Some(Err(status)) => drop(parts.send(Err(status))),
                    None => self.request_in_progress = Some(RequestInProgress::Read(read, parts)),
                }
            }
            // The client has disconnected; a write is completed, a read is aborted.
            Some(RequestInProgress::Thrift(
                LongRequest::Entries { .. } | LongRequest::ReadCells { .. },
                reply,
            )) if reply.is_closed() => {}
            Some(RequestInProgress::Thrift(mut long, reply)) => {
                match self.continue_thrift(&mut long, now) {
                    Some(done) => drop(reply.send(done)),
                    None => self.request_in_progress = Some(RequestInProgress::Thrift(long, reply)),
                }
            }
            None => {}
        }
    }

    /// Executes a command. Replies to clients that have disconnected are dropped.
    fn handle(&mut self, command: Command, now: u64) {
        match command {
            Command::Write(request, reply) => match self.server.begin_write(request) {
                Ok(batch) => {
                    self.request_in_progress = Some(RequestInProgress::Write(batch, reply));
                    self.continue_request_in_progress(now);
                }
                Err(status) => drop(reply.send(Err(status))),
            },
            Command::Read(request, parts) => match self.server.begin_read(request) {
                Ok(read) => {
                    self.request_in_progress = Some(RequestInProgress::Read(read, parts));
                    self.continue_request_in_progress(now);
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
                self.wait_for_send_thread();
                self.count_not_received();
                let _ = reply.send(self.list_links(&request));
            }
            Command::ChangeLinks(request, reply) => {
                self.wait_for_send_thread();
                let _ = reply.send(self.change_links(&request, now));
            }
            Command::Thrift(request, reply) => match self.start_thrift(request, now) {
                Started::Done(done) => drop(reply.send(done)),
                Started::LongRequest(long) => {
                    self.request_in_progress = Some(RequestInProgress::Thrift(long, reply));
                    self.continue_request_in_progress(now);
                }
            },
            Command::BfRt(command) => self.handle_bfrt(command, now),
            Command::Frame(number, frame) => {
                if let Some(port) = self.ports.get_mut(&number) {
                    port.counters.received += 1;
                    port.counters.received_bytes += frame.len() as u64;
                    self.dump.received(number, &frame);
                    trace!(port = number, bytes = frame.len(), "frame in");
                    if !(self.is_debugged() && self.record_frame(number, &frame, now)) {
                        self.server.take_frame_in(number, frame, now);
                    }
                }
            }
            Command::AttachDebugger(editor, peer, attached) => {
                self.attach_debugger(editor, peer, attached);
            }
            Command::DebugMessage(id, json) => self.debug_message(id, &json, now),
            Command::DetachDebugger(id) => self.detach_debugger(id),
            Command::PrepareWatch(reply) => {
                let _ = reply.send(self.watched_program());
            }
            Command::Watch(watch, started) => self.start_watch(*watch, started),
            Command::EndWatch(id) => self.end_watch(id),
            Command::Metrics(reply) => {
                self.wait_for_send_thread();
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
                let share = MAX_QUEUED_BYTES / self.clients.len().max(1);
                (false, sender.try_send(message, share))
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
