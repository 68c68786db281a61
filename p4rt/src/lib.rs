//! The P4Runtime server of one switch, without I/O (P4Runtime 1.5).
//!
//! [`Server`] owns a [`Switch`] and everything P4Runtime adds to it: ids and their checks
//! ([`schema`]), the controllers' sessions ([`arbitration`]), packet-in and packet-out, digest lists
//! and idle timeouts. Requests come in as messages and are answered at once; whatever happens
//! besides comes out of [`Server::poll`]. Time is passed in, so that the simulator and the real
//! driver run the same code.

mod actions;
pub mod arbitration;
mod arrays;
mod books;
mod data;
mod device;
mod digests;
mod direct;
mod entry_resources;
mod error;
mod event;
mod foreign;
mod keys;
mod packet_io;
mod pipeline;
mod pre;
mod profiles;
mod programs;
mod read;
mod resources;
mod schema;
mod scope;
mod stream;
mod tables;
mod translation;
mod value_sets;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use alfirk_p4runtime::{
    p4::v1::{
        CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
        GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse,
        SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse,
    },
    Code, Status,
};

use self::{
    arbitration::{Arbitration, RoleKey},
    device::Device,
};
pub use self::{
    event::{ClientId, Event},
    programs::Programs,
    read::PendingRead,
    write::PendingWrite,
};
use alfirk_bmv2::{steps::LogLine, trace::TraceLine, Effects, QueueState, Queued, Switch};
use alfirk_packet_io::frame::SplitFrame;

/// Packets on their way to queues. A program that makes copies of copies would fill the memory.
const MAX_WAITING: usize = 1 << 16;

/// Used frames kept for the next ones.
const MAX_SPARE: usize = 256;

/// The version that Capabilities announces.
pub const API_VERSION: &str = "1.5.0";

/// The P4Runtime server of one switch.
#[derive(Debug)]
pub struct Server {
    /// Handles packets.
    active: Device,
    /// Saved by VERIFY_AND_SAVE, and what reads and writes mean from then on until COMMIT.
    saved: Option<Device>,
    arbitration: Arbitration,
    streams: BTreeSet<ClientId>,
    next_client: u64,
    /// Ports known to be down, for watch ports.
    down: BTreeSet<u32>,
    /// Nanoseconds since the Unix epoch at time 0.
    epoch: u64,
    events: VecDeque<Event>,
    /// How many of them are packets for queues.
    waiting: usize,
    effects: Effects,
    counters: Counters,
    programs: Programs,
}

/// What happened to packets beyond what the program counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent to controllers, one per packet and controller.
    pub packet_ins: u64,
    /// Packets taken from controllers.
    pub packet_outs: u64,
    /// Packets for the CPU port that nobody could take: no primary, no pipeline, or too short for
    /// the packet_in header.
    pub packet_ins_lost: u64,
    /// Packets that the pipeline dropped, by [`DropReason::name`](alfirk_bmv2::DropReason::name).
    pub drops: BTreeMap<&'static str, u64>,
}

impl Server {
    /// A server for a switch, with or without a program. Without a P4Info even a loaded program
    /// cannot be controlled before a pipeline config is set.
    pub fn new(switch: Switch) -> Server {
        Server::sharing(switch, Programs::default())
    }

    /// The same; programs that other servers with the same `programs` run are not loaded again.
    pub fn sharing(switch: Switch, programs: Programs) -> Server {
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
            effects: Effects::default(),
            counters: Counters::default(),
            programs,
        }
    }

    /// The same switch as it begins: without program, entries, registers and clients.
    pub fn begun_anew(&self) -> Server {
        let switch = Switch::new(self.switch().options().clone());
        Server::sharing(switch, self.programs.clone())
    }

    /// The switch that handles packets.
    pub fn switch(&self) -> &Switch {
        &self.active.switch
    }

    /// The same, to be changed behind P4Runtime's back (tests, STF). Entries made so are seen by
    /// reads, but have no metadata.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.active.switch
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Says which wall-clock time, in nanoseconds since the Unix epoch, is time 0. Only timestamps
    /// of stream messages depend on it.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Answers a Capabilities request (§ 17).
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

    /// Checks or sets a pipeline (§ 14).
    ///
    /// # Errors
    /// As the specification lists them.
    pub fn set_forwarding_pipeline_config(
        &mut self,
        request: &SetForwardingPipelineConfigRequest,
        now: u64,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        self.check_device(request.device_id)?;
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration
            .authorize(&role, request.election_id.as_ref())?;
        self.set_pipeline(request, now)?;
        Ok(SetForwardingPipelineConfigResponse {})
    }

    /// Shows the pipeline that reads and writes refer to (§ 15).
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

    /// Reads entities, all in one answer (§ 13).
    ///
    /// # Errors
    /// As [`Server::read_parts`], without what could be read.
    pub fn read(&self, request: &ReadRequest, now: u64) -> Result<ReadResponse, Status> {
        let mut all = ReadResponse::default();
        self.read_parts(request, now, &mut |part| all.entities.extend(part.entities))?;
        Ok(all)
    }

    /// A frame has come in from the wire.
    pub fn frame_in(&mut self, port: u32, frame: &[u8], now: u64) {
        self.active
            .switch
            .ingress(port, frame, now, &mut self.effects);
        self.take_effects(now);
    }

    /// The same, without copying the frame; its memory becomes that of a frame that leaves, and its tail is shared.
    pub fn take_frame_in(&mut self, port: u32, frame: impl Into<SplitFrame>, now: u64) {
        self.active
            .switch
            .ingress_owned(port, frame, now, &mut self.effects);
        self.take_effects(now);
    }

    /// A packet of [`Event::Enqueue`] has come to the head of its queue.
    pub fn dequeue(&mut self, packet: Queued, now: u64, queue: QueueState) {
        self.active
            .switch
            .egress(packet, now, queue, &mut self.effects);
        self.take_effects(now);
    }

    /// Takes back frames of [`Event::Output`] that are done with, so that the next ones need no
    /// memory. Optional.
    pub fn recycle(&mut self, frames: &mut Vec<Vec<u8>>) {
        let room = MAX_SPARE.saturating_sub(self.effects.spare.len());
        frames.truncate(room);
        self.effects.spare.append(frames);
    }

    /// The next thing to do, until there is none.
    pub fn poll(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.waiting -= usize::from(matches!(event, Some(Event::Enqueue(_))));
        event
    }

    /// What [`Server::poll`] is going to give, in order.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.events.iter()
    }

    /// What happened to packets since the last call, when the switch traces; see
    /// [`Switch::set_trace`].
    pub fn take_trace(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.effects.trace)
    }

    /// The same for the log; see [`Switch::set_log`].
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
            format!("device {device_id} is not here; this is device {ours}"),
        ))
    }

    /// What reads and writes refer to.
    fn target(&self) -> &Device {
        self.saved.as_ref().unwrap_or(&self.active)
    }

    fn target_mut(&mut self) -> &mut Device {
        self.saved.as_mut().unwrap_or(&mut self.active)
    }
}
