//! The P4Runtime server of one switch, without I/O (P4Runtime 1.5).
//!
//! [`Server`] owns a [`Switch`] and everything that P4Runtime adds to it: ids and their checks ([`schema`]), the
//! controllers' sessions ([`arbitration`]), packet-in and packet-out, digest lists and idle timeouts. Requests are
//! method calls with messages, and their results are returned. [`Server::poll`] returns all other effects. Time is
//! a parameter, so the simulator and the driver of real interfaces run the same code.

mod actions;
pub mod arbitration;
mod arrays;
mod data;
mod device;
mod digests;
mod direct;
mod entry_resources;
pub mod error;
mod event;
mod external;
mod keys;
mod metadata;
mod packet_io;
pub mod packet_trace;
mod pipeline;
mod pre;
mod profiles;
mod programs;
mod read;
mod resources;
mod schema;
mod scope;
mod scratch;
mod stream;
mod tables;
mod translation;
mod value_sets;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alfirk_p4runtime::{
    p4::v1::{
        CapabilitiesRequest, CapabilitiesResponse, ForwardingPipelineConfig,
        GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse, ReadRequest,
        ReadResponse, SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse,
    },
    Code, Status,
};

use self::{
    arbitration::{Arbitration, RoleKey},
    device::Device,
    pipeline::ConfigRef,
};
pub use self::{
    event::{ClientId, Event},
    external::SwitchWriter,
    programs::Programs,
    read::PendingRead,
    scratch::Scratch,
    write::PendingWrite,
};
use alfirk_bmv2::{
    steps::LogLine, trace::TraceLine, Digest, Effects, Output, QueueState, Queued, Switch,
};
use alfirk_packet_io::frame::SplitFrame;

/// Maximum number of [`Event::Enqueue`] events that wait for [`Server::poll`]. Without this limit, a program that
/// copies its copies would exhaust the memory.
const MAX_WAITING: usize = 1 << 16;

/// Maximum number of digests that wait for [`Server::take_digests`].
const MAX_DIGESTS: usize = 1 << 16;

/// Maximum number of used frame buffers that are kept for reuse.
const MAX_SPARE: usize = 256;

/// The P4Runtime version in the reply to Capabilities.
pub const API_VERSION: &str = "1.5.0";

/// The P4Runtime server of one switch.
#[derive(Debug)]
pub struct Server {
    /// The device that processes packets.
    active: Device,
    /// Device that was saved by VERIFY_AND_SAVE, if any. Reads and writes refer to it until COMMIT.
    saved: Option<Device>,
    arbitration: Arbitration,
    streams: BTreeSet<ClientId>,
    next_client: u64,
    /// Ports whose link is down. Members with such a watch port get no packets, and backups replace such replicas.
    down: BTreeSet<u32>,
    /// Wall-clock time at which the server's time is 0, in nanoseconds since the Unix epoch.
    epoch: u64,
    events: VecDeque<Event>,
    /// Number of [`Event::Enqueue`] events that wait for [`Server::poll`].
    waiting: usize,
    /// Packets that pass egress in [`Server::dequeue_all`]; empty between calls.
    leaving: VecDeque<Queued>,
    effects: Effects,
    counters: Counters,
    programs: Programs,
    /// Digests for another control service; `None` if none takes them.
    digests: Option<Vec<Digest>>,
}

/// Packet counters of the server; those of the P4 program are in the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent to controllers, one per packet and controller.
    pub packet_ins: u64,
    /// Packets that controllers sent and the server accepted.
    pub packet_outs: u64,
    /// Packets sent to the CPU port that could not be delivered to a controller, because there is no primary or no
    /// pipeline, or the packet is shorter than the packet_in header.
    pub packet_ins_lost: u64,
    /// Packets that the pipeline dropped, by [`DropReason::name`](alfirk_bmv2::DropReason::name).
    pub drops: BTreeMap<&'static str, u64>,
}

impl Server {
    /// Creates a server for a switch, with or without a program. A program loaded without a P4Info cannot be controlled
    /// before a pipeline config is set.
    pub fn new(switch: Switch) -> Server {
        Server::with_programs(switch, Programs::default())
    }

    /// Creates a server that loads programs through a cache, which several servers can share.
    pub fn with_programs(switch: Switch, programs: Programs) -> Server {
        let arbitration = Arbitration::new(switch.options().device_id);
        Server {
            active: Device {
                switch,
                pipeline: None,
            },
            saved: None,
            arbitration,
            streams: BTreeSet::new(),
            next_client: 1,
            down: BTreeSet::new(),
            epoch: 0,
            events: VecDeque::new(),
            waiting: 0,
            leaving: VecDeque::new(),
            effects: Effects::default(),
            counters: Counters::default(),
            programs,
            digests: None,
        }
    }

    /// Creates a server for a new switch with the same options. The new switch has neither program nor state, and the
    /// server has no clients.
    pub fn fresh_copy(&self) -> Server {
        let switch = Switch::new(self.switch().options().clone());
        Server::with_programs(switch, self.programs.clone())
    }

    /// Returns the switch that processes packets.
    pub fn switch(&self) -> &Switch {
        &self.active.switch
    }

    /// Returns a copy of the server and its switch, with their state but without events that wait for [`Server::poll`]. Clients
    /// of the server are clients of the copy.
    pub fn fork(&self) -> Server {
        Server {
            active: self.active.fork(),
            saved: self.saved.as_ref().map(Device::fork),
            arbitration: self.arbitration.clone(),
            streams: self.streams.clone(),
            next_client: self.next_client,
            down: self.down.clone(),
            epoch: self.epoch,
            events: VecDeque::new(),
            waiting: 0,
            leaving: VecDeque::new(),
            effects: Effects::default(),
            counters: self.counters.clone(),
            programs: self.programs.clone(),
            digests: None,
        }
    }

    /// Returns the packet counters since the start of the server.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets the wall-clock time at which the server's time is 0, in nanoseconds since the Unix epoch. Only timestamps
    /// of stream messages depend on it.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Returns the reply to a Capabilities request (§ 17).
    ///
    /// # Errors
    /// NOT_FOUND for another device's id.
    pub fn capabilities(
        &self,
        request: &CapabilitiesRequest,
    ) -> Result<CapabilitiesResponse, Status> {
        if request.device_id != 0 {
            self.check_device(request.device_id)?;
        }
        Ok(CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.into(),
            experimental: None,
        })
    }

    /// Handles SetForwardingPipelineConfig: verifies, saves or commits a pipeline (§ 14).
    ///
    /// # Errors
    /// Errors of § 14.
    pub fn set_forwarding_pipeline_config(
        &mut self,
        request: &SetForwardingPipelineConfigRequest,
        now: u64,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        let config = request.config.as_ref().map(ConfigRef::Own);
        self.set_pipeline_config(request, config, now)
    }

    /// As [`Server::set_forwarding_pipeline_config`], with `config` in place of the config in the request. Servers of one
    /// process can share it.
    ///
    /// # Errors
    /// As [`Server::set_forwarding_pipeline_config`].
    pub fn set_shared_pipeline_config(
        &mut self,
        request: &SetForwardingPipelineConfigRequest,
        config: &Arc<ForwardingPipelineConfig>,
        now: u64,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        self.set_pipeline_config(request, Some(ConfigRef::Shared(config)), now)
    }

    fn set_pipeline_config(
        &mut self,
        request: &SetForwardingPipelineConfigRequest,
        config: Option<ConfigRef<'_>>,
        now: u64,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        self.check_device(request.device_id)?;
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration
            .authorize(&role, request.election_id.as_ref())?;
        self.set_pipeline(request, config, now)?;
        Ok(SetForwardingPipelineConfigResponse {})
    }

    /// Returns the pipeline that reads and writes refer to (§ 15).
    ///
    /// # Errors
    /// NOT_FOUND for another device's id.
    pub fn get_forwarding_pipeline_config(
        &self,
        request: &GetForwardingPipelineConfigRequest,
    ) -> Result<GetForwardingPipelineConfigResponse, Status> {
        self.check_device(request.device_id)?;
        Ok(self.get_pipeline(request.response_type()))
    }

    /// Reads entities, all in one response (§ 13).
    ///
    /// # Errors
    /// As [`Server::read_parts`], but without a partial result.
    pub fn read(&self, request: &ReadRequest, now: u64) -> Result<ReadResponse, Status> {
        let mut all = ReadResponse::default();
        self.read_parts(request, now, &mut |part| match all.entities.is_empty() {
            true => all = part,
            false => all.entities.extend(part.entities),
        })?;
        Ok(all)
    }

    /// Processes a frame received on a port.
    pub fn frame_in(&mut self, port: u32, frame: &[u8], now: u64) {
        self.active
            .switch
            .ingress(port, frame, now, &mut self.effects);
        self.take_effects(now);
    }

    /// Processes a received frame without copying it. The frame's buffer is reused for a sent frame, and sent frames
    /// share its tail.
    pub fn take_frame_in(&mut self, port: u32, frame: impl Into<SplitFrame>, now: u64) {
        self.active
            .switch
            .ingress_owned(port, frame, now, &mut self.effects);
        self.take_effects(now);
    }

    /// Sets the ports that have queues; packets for other ports may be sent without [`Event::Enqueue`], see
    /// [`Switch::set_queued_ports`].
    pub fn set_queued_ports(&mut self, ports: impl IntoIterator<Item = u32>) {
        self.active.switch.set_queued_ports(ports);
    }

    /// Processes a packet of [`Event::Enqueue`] that leaves its queue.
    pub fn dequeue(&mut self, packet: Queued, now: u64, queue: QueueState) {
        self.active
            .switch
            .egress(packet, now, queue, &mut self.effects);
        self.take_effects(now);
    }

    /// Passes the packets of all pending events, which are [`Event::Enqueue`] with ports other than the CPU port, through egress,
    /// as [`Server::dequeue`] does with each, with empty queues. Adds the sent frames to `sent`.
    ///
    /// Stops after a packet that causes other events. These then follow the events of the packets that have not passed. Returns the
    /// number of those packets; `None` if all have passed.
    pub fn dequeue_all(&mut self, now: u64, sent: &mut Vec<Output>) -> Option<usize> {
        let packets = self.events.drain(..).filter_map(|event| match event {
            Event::Enqueue(packet) => Some(packet),
            _ => None,
        });
        self.leaving.extend(packets);
        self.waiting = 0;
        loop {
            let (switch, fx) = (&mut self.active.switch, &mut self.effects);
            let stopped = switch.egress_all(&mut self.leaving, now, fx);
            sent.extend(fx.output.drain(..stopped.unwrap_or(fx.output.len())));
            self.take_effects(now);
            stopped?;
            match self.events.pop_front() {
                None => {}
                Some(Event::Output { port, frame }) if self.events.is_empty() => {
                    sent.push(Output { port, frame });
                }
                Some(event) => {
                    self.events.push_front(event);
                    let left = self.leaving.len();
                    self.waiting += left;
                    while let Some(packet) = self.leaving.pop_back() {
                        self.events.push_front(Event::Enqueue(packet));
                    }
                    return Some(left);
                }
            }
        }
    }

    /// Records that a packet of [`Event::Enqueue`] is dropped because its queue is full, if the switch traces; see
    /// [`Switch::drop_queued`].
    pub fn drop_queued(&mut self, packet: &Queued) {
        self.active.switch.drop_queued(packet, &mut self.effects);
    }

    /// Sends frames to ports, as if the pipeline had sent them. Those to the CPU port become packets for controllers.
    pub fn send_frames(&mut self, frames: impl IntoIterator<Item = (u32, Vec<u8>)>, now: u64) {
        let outputs = frames.into_iter().map(|(port, frame)| Output {
            port,
            frame: frame.into(),
        });
        self.effects.output.extend(outputs);
        self.take_effects(now);
    }

    /// Takes over the buffers of frames that were sent ([`Event::Output`]), for reuse. Calling this is optional.
    pub fn recycle(&mut self, frames: &mut Vec<Vec<u8>>) {
        let room = MAX_SPARE.saturating_sub(self.effects.spare.len());
        frames.truncate(room);
        self.effects.spare.append(frames);
    }

    /// Returns the next event, or `None` when there are no more.
    pub fn poll(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.waiting -= usize::from(matches!(event, Some(Event::Enqueue(_))));
        event
    }

    /// Iterates over the events that [`Server::poll`] will return, in order.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.events.iter()
    }

    /// Returns the trace of packets since the last call, and clears it. It is empty unless tracing is on
    /// ([`Switch::set_trace`]).
    pub fn take_trace(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.effects.trace)
    }

    /// Returns the log lines since the last call, and clears them. See [`Switch::set_log`].
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.effects.log)
    }

    fn check_device(&self, device_id: u64) -> Result<(), Status> {
        let ours = self.active.switch.options().device_id;
        if device_id == ours {
            return Ok(());
        }
        Err(Status::new(
            Code::NotFound,
            format!("device_id is {device_id}, but this is device {ours}"),
        ))
    }

    /// Returns the device to which reads and writes refer.
    fn target(&self) -> &Device {
        self.saved.as_ref().unwrap_or(&self.active)
    }

    fn target_mut(&mut self) -> &mut Device {
        self.saved.as_mut().unwrap_or(&mut self.active)
    }
}
