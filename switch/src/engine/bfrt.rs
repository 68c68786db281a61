//! Requests of BfRuntime on the thread that owns the switch.

use alfirk_bfrt::{Port as BfRtPort, PortCounters as BfRtCounters, Service, StreamId};
use alfirk_p4runtime::bfrt_proto::StreamMessageResponse;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::{Engine, PortCounters};
use crate::bfrt::BfRtCommand;

/// The BfRuntime server with the queues of its streams.
pub(super) struct BfRt {
    pub service: Service,
    streams: FxHashMap<StreamId, mpsc::Sender<StreamMessageResponse>>,
}

impl Engine {
    /// Serves BfRuntime.
    pub fn serve_bfrt(&mut self, service: Service) {
        self.server.observe_digests();
        self.bfrt = Some(BfRt {
            service,
            streams: FxHashMap::default(),
        });
    }

    /// The ports as BfRuntime shows them.
    fn bfrt_ports(&self) -> Vec<BfRtPort> {
        let ports = self.ports.values();
        ports
            .map(|port| BfRtPort {
                number: port.number,
                interface: port.interface.clone(),
                is_up: !self.server.is_down(port.number),
                counters: counters(port.counters),
            })
            .collect()
    }

    /// Executes a request. Replies to clients that have disconnected are dropped.
    pub(super) fn handle_bfrt(&mut self, command: BfRtCommand, now: u64) {
        if matches!(command, BfRtCommand::Read(..)) {
            // Port statistics are up to date.
            self.wait_for_send_thread();
            self.count_not_received();
        }
        let ports = self.bfrt_ports();
        let Some(BfRt { service, streams }) = &mut self.bfrt else {
            return;
        };
        let server = &mut self.server;
        match command {
            BfRtCommand::Write(request, options, reply) => {
                let _ = reply.send(service.write(server, &request, options, &ports, now));
            }
            BfRtCommand::Read(request, options, reply) => {
                let _ = reply.send(service.read(server, &request, options, &ports, now));
            }
            BfRtCommand::SetPipeline(request, reply) => {
                let result = service.set_pipeline(server, &request);
                match &result {
                    Ok(_) => info!(
                        action = request.action().as_str_name(),
                        "BfRuntime pipeline"
                    ),
                    Err(status) => warn!("BfRuntime pipeline rejected: {status}"),
                }
                let _ = reply.send(result);
            }
            BfRtCommand::GetPipeline(reply) => drop(reply.send(service.get_pipeline())),
            BfRtCommand::StreamOpen(sender, reply) => {
                let stream = service.stream_open();
                streams.insert(stream, sender);
                if reply.send(stream).is_err() {
                    streams.remove(&stream);
                    service.stream_close(stream);
                }
            }
            BfRtCommand::StreamMessage(stream, message) => service.stream_message(stream, message),
            BfRtCommand::StreamClose(stream) => {
                streams.remove(&stream);
                service.stream_close(stream);
            }
        }
        self.send_bfrt();
    }

    /// Sends digests and other messages to the clients of BfRuntime. A client that is too slow loses messages.
    pub(super) fn send_bfrt(&mut self) {
        let Some(BfRt { service, streams }) = &mut self.bfrt else {
            return;
        };
        for digest in self.server.take_digests() {
            service.digest(&digest);
        }
        while let Some(message) = service.poll() {
            if let Some(sender) = streams.get(&message.stream) {
                if sender.try_send(message.message).is_err() {
                    debug!(stream = ?message.stream, "a message for a BfRuntime client is dropped");
                }
            }
        }
    }
}

/// The counters of a port as BfRuntime shows them.
fn counters(port: PortCounters) -> BfRtCounters {
    BfRtCounters {
        received: port.received.saturating_sub(port.malformed),
        received_bytes: port.received_bytes,
        malformed: port.malformed,
        not_received: port.not_received,
        sent: port.sent,
        sent_bytes: port.sent_bytes,
        unsent: port.unsent,
    }
}
