//! The stream channel: packet I/O, digest lists, idle timeouts, errors (P4Runtime § 16).

use alfirk_p4runtime::{
    p4::v1::{
        stream_error, stream_message_request::Update as Request,
        stream_message_response::Update as Response, DigestList, DigestListAck, DigestListAckError,
        IdleTimeoutNotification, PacketOut, PacketOutError, StreamError, StreamMessageRequest,
        StreamMessageResponse, StreamOtherError,
    },
    Code, Status,
};

use super::{
    arbitration::StreamAction,
    device::no_pipeline,
    digests::ReadyList,
    error::invalid,
    event::{ClientId, Event},
    tables, translation, Server, MAX_WAITING,
};
use alfirk_bmv2::DropReason;

impl Server {
    /// Handles a new stream of a client, and returns the client's id.
    pub fn stream_open(&mut self) -> ClientId {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        self.streams.insert(client);
        client
    }

    /// Handles the end of a client's stream. Table entries and other objects that the client wrote remain.
    pub fn stream_close(&mut self, client: ClientId) {
        if self.streams.remove(&client) {
            let actions = self.arbitration.close(client);
            self.execute(actions);
        }
    }

    /// Handles a message that was received on a client's stream.
    pub fn stream_message(&mut self, client: ClientId, message: StreamMessageRequest, now: u64) {
        if !self.streams.contains(&client) {
            return;
        }
        match message.update {
            Some(Request::Arbitration(update)) => {
                let before: Vec<ClientId> = self.arbitration.primaries().collect();
                let actions = self.arbitration.update(client, &update);
                if !self.arbitration.primaries().eq(before) {
                    if let Some(pipeline) = &mut self.active.pipeline {
                        pipeline.digests.discard_sent();
                    }
                }
                self.execute(actions);
            }
            Some(Request::Packet(packet)) => {
                if let Err(status) = self.packet_out(client, &packet, now) {
                    let packet_out = Some(packet);
                    let details = stream_error::Details::PacketOut(PacketOutError { packet_out });
                    self.send_error(client, status, details);
                }
            }
            Some(Request::DigestAck(ack)) => {
                if let Err(status) = self.digest_ack(client, &ack) {
                    let digest_list_ack = Some(ack);
                    let details = stream_error::Details::DigestListAck(DigestListAckError {
                        digest_list_ack,
                    });
                    self.send_error(client, status, details);
                }
            }
            Some(Request::Other(other)) => {
                let status = Status::new(
                    Code::Unimplemented,
                    "this architecture has no stream messages of its own",
                );
                let other = Some(other);
                let details = stream_error::Details::Other(StreamOtherError { other });
                self.send_error(client, status, details);
            }
            None => {
                let status = invalid("stream message: update is unset or of an unknown kind");
                let details = stream_error::Details::Other(StreamOtherError { other: None });
                self.send_error(client, status, details);
            }
        }
    }

    /// Handles a link change of a port: groups exclude members whose watch port is down, and backups replace replicas.
    pub fn set_port(&mut self, port: u32, up: bool) {
        let changed = if up {
            self.down.remove(&port)
        } else {
            self.down.insert(port)
        };
        if !changed {
            return;
        }
        for device in std::iter::once(&mut self.active).chain(&mut self.saved) {
            device.refresh_watched(port, &self.down);
            device.refresh_replicas(&self.down);
        }
    }

    /// Returns the time in nanoseconds at which [`Server::handle_timeout`] must be called next; `None` if nothing is
    /// due.
    pub fn poll_timeout(&self) -> Option<u64> {
        let pipeline = self.active.pipeline.as_ref()?;
        let digests = pipeline.digests.poll_timeout();
        digests.into_iter().chain(pipeline.idle_check).min()
    }

    /// Handles timeouts: sends digest lists that are due, and notifications of idle entries.
    pub fn handle_timeout(&mut self, now: u64) {
        let Some(pipeline) = &mut self.active.pipeline else {
            return;
        };
        let lists = pipeline.digests.handle_timeout(now);
        for list in lists {
            self.send_digest(list, now);
        }
        self.notify_idle(now);
    }

    fn execute(&mut self, actions: Vec<StreamAction>) {
        for notice in actions {
            match notice {
                StreamAction::Send(client, update) => {
                    self.send(client, Response::Arbitration(update))
                }
                StreamAction::Close(client, status) => {
                    self.streams.remove(&client);
                    self.events.push_back(Event::Close { client, status });
                }
            }
        }
    }

    fn send(&mut self, client: ClientId, update: Response) {
        let message = Box::new(StreamMessageResponse {
            update: Some(update),
        });
        self.events.push_back(Event::Stream { client, message });
    }

    fn send_error(&mut self, client: ClientId, status: Status, details: stream_error::Details) {
        let error = StreamError {
            canonical_code: status.code,
            message: status.message,
            details: Some(details),
            ..Default::default()
        };
        self.send(client, Response::Error(error));
    }

    fn packet_out(&mut self, client: ClientId, packet: &PacketOut, now: u64) -> Result<(), Status> {
        self.check_primary(client)?;
        let pipeline = self.active.pipeline.as_ref().ok_or_else(no_pipeline)?;
        let cpu_port = self.active.switch.options().cpu_port.ok_or_else(|| {
            Status::new(
                Code::FailedPrecondition,
                "the switch was started without a CPU port (--cpu-port)",
            )
        })?;
        let frame = match &pipeline.schema.packet_out {
            Some(header) => match header.encode(packet) {
                Err(status)
                    if status.canonical_code() == Code::ResourceExhausted
                        && translation::collect::collect(&self.active) =>
                {
                    header.encode(packet)?
                }
                encoded => encoded?,
            },
            None if packet.metadata.is_empty() => packet.payload.clone(),
            None => return Err(invalid("packet-out: the program has no packet_out header")),
        };
        self.counters.packet_outs += 1;
        self.active
            .switch
            .ingress(cpu_port, &frame, now, &mut self.effects);
        self.take_effects(now);
        Ok(())
    }

    fn digest_ack(&mut self, client: ClientId, ack: &DigestListAck) -> Result<(), Status> {
        self.check_primary(client)?;
        let pipeline = self.active.pipeline.as_mut().ok_or_else(no_pipeline)?;
        if !pipeline.schema.digests.contains_key(&ack.digest_id) {
            return Err(invalid(format!("no digest has id {:#010x}", ack.digest_id)));
        }
        // An ack for a digest that was disabled meanwhile is late, not an error.
        pipeline.digests.acknowledge(ack.digest_id, ack.list_id);
        Ok(())
    }

    fn check_primary(&self, client: ClientId) -> Result<(), Status> {
        if self.arbitration.is_primary(client) {
            return Ok(());
        }
        Err(Status::new(
            Code::PermissionDenied,
            "only the primary may send packet-outs and digest acknowledgements",
        ))
    }

    /// Converts the effects of processing a packet to events.
    pub(super) fn take_effects(&mut self, now: u64) {
        for packet in self.effects.enqueued.drain(..) {
            if self.waiting < MAX_WAITING {
                self.waiting += 1;
                self.events.push_back(Event::Enqueue(packet));
            } else {
                self.effects.dropped.push(DropReason::TooManyCopies);
            }
        }
        let cpu_port = self.active.switch.options().cpu_port;
        let mut to_cpu = Vec::new();
        for output in self.effects.output.drain(..) {
            if Some(output.port) == cpu_port {
                to_cpu.push(output.frame);
            } else {
                let (port, frame) = (output.port, output.frame);
                self.events.push_back(Event::Output { port, frame });
            }
        }
        for reason in self.effects.dropped.drain(..) {
            *self.counters.drops.entry(reason.name()).or_default() += 1;
        }
        let is_all = to_cpu.is_empty() && self.effects.logs.is_empty();
        if is_all && self.effects.digests.is_empty() {
            // Most packets have no effects other than frames, queue entries and drops.
            return;
        }
        for line in self.effects.logs.drain(..) {
            tracing::info!(target: "p4", "{line}");
        }
        let digests = std::mem::take(&mut self.effects.digests);
        for frame in to_cpu {
            self.packet_in(&frame.bytes());
        }
        for digest in digests {
            self.add_digest(digest, now);
        }
    }

    fn packet_in(&mut self, frame: &[u8]) {
        let packet =
            self.active
                .pipeline
                .as_ref()
                .and_then(|pipeline| match &pipeline.schema.packet_in {
                    Some(header) => header.decode(frame),
                    None => Some(alfirk_p4runtime::p4::v1::PacketIn {
                        payload: frame.to_vec(),
                        metadata: Vec::new(),
                    }),
                });
        let primaries: Vec<ClientId> = self.arbitration.primaries().collect();
        match packet {
            Some(packet) if !primaries.is_empty() => {
                for client in primaries {
                    self.counters.packet_ins += 1;
                    self.send(client, Response::Packet(packet.clone()));
                }
            }
            _ => self.counters.packet_ins_lost += 1,
        }
    }

    fn add_digest(&mut self, digest: alfirk_bmv2::Digest, now: u64) {
        if let Some(digests) = &mut self.digests {
            if digests.len() < super::MAX_DIGESTS {
                digests.push(digest.clone());
            }
        }
        let Some(pipeline) = &mut self.active.pipeline else {
            return;
        };
        let Some(id) = pipeline.schema.digest_id(&digest.name) else {
            return;
        };
        let message = digest
            .fields
            .iter()
            .map(|field| alfirk_p4runtime::bytestring::canonical(field).to_vec())
            .collect();
        if let Some(list) = pipeline.digests.add(id, message, now) {
            self.send_digest(list, now);
        }
    }

    fn send_digest(&mut self, list: ReadyList, now: u64) {
        let Some(pipeline) = &self.active.pipeline else {
            return;
        };
        let Some(Ok(ty)) = pipeline.schema.digests.get(&list.digest).map(|d| &d.data) else {
            return;
        };
        let data = list
            .messages
            .iter()
            .map(|message| ty.unflatten(&mut message.iter().map(Vec::as_slice)))
            .collect();
        let message = DigestList {
            digest_id: list.digest,
            list_id: list.list,
            data,
            timestamp: self.timestamp(now),
        };
        let primaries: Vec<ClientId> = self.arbitration.primaries().collect();
        for client in primaries {
            self.send(client, Response::Digest(message.clone()));
        }
    }

    fn notify_idle(&mut self, now: u64) {
        let Some(pipeline) = &mut self.active.pipeline else {
            return;
        };
        if pipeline.idle_check.is_none_or(|at| at > now) {
            return;
        }
        let (idle, next) = tables::take_idle(&mut self.active.switch, pipeline, now);
        pipeline.idle_check = next;
        let timestamp = self.timestamp(now);
        let primaries: Vec<ClientId> = self.arbitration.primaries().collect();
        for table_entry in idle {
            for &client in &primaries {
                let notification = IdleTimeoutNotification {
                    table_entry: table_entry.clone(),
                    timestamp,
                };
                self.send(client, Response::IdleTimeoutNotification(notification));
            }
        }
    }

    fn timestamp(&self, now: u64) -> i64 {
        i64::try_from(self.epoch.saturating_add(now)).unwrap_or(i64::MAX)
    }
}
