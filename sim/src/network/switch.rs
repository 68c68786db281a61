//! A switch of the simulator: compiled pipelines and P4Runtime server, with the queues and buffers of [`super::ports`].

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_bmv2::{Output, QueueState, Queued};
use alfirk_ctrl::controller::{Request, Response};
use alfirk_ctrl::tables::Program;
use alfirk_p4rt::{ClientId, Event, Server};
use alfirk_p4runtime::Status;
use alfirk_roce::host::Packet;
use alfirk_roce::steady::StateVisitor;

use super::bf_runtime::BfRuntime;
use super::message::Message;
use super::packet_traces::{PacketTraces, TracedPacket};
use super::passes::PassRecorder;
use super::plane::{FastPlane, NeedsPipeline, QueuedPacket};
use super::ports::{NotQueued, PendingCharge, Ports};
use super::scratch;
use super::Ctx;
use crate::engine::NodeId;

/// A switch as a node of the simulator.
///
/// A frame passes the ingress pipeline and is queued at its output port. The egress pipeline runs when the link is
/// idle, so that queue depths and times in the packet's metadata are exact. Packets for ports without a link (CPU port,
/// recirculation) pass the egress at once.
pub struct SwitchNode {
    server: Server,
    /// The BfRuntime server of the switch; `None` if the controller uses P4Runtime.
    bf_runtime: Option<BfRuntime>,
    /// Fast data plane, which handles most packets in place of the pipelines. If not `fast`, it is used only to read
    /// groups for observers. `None` without a program, or if it is not needed.
    plane: Option<FastPlane>,
    /// Number of data flows that earlier fast data planes of this switch have numbered; new flows get higher numbers.
    past_flows: u64,
    /// Whether the fast data plane handles packets.
    uses_fast_plane: bool,
    /// Groups whose state observers have seen.
    shown_groups: BTreeSet<Ipv4Addr>,
    pipeline_latency: u64,
    control_latency: u64,
    ports: SwitchPorts,
    /// Packets that the ingress of the fast data plane has produced. Empty between packets; kept to reuse the memory,
    /// as are `claimed` and `sent`.
    waiting: Vec<QueuedPacket>,
    /// Ports of the packets that pass the egress at once, in order.
    claimed: Vec<u32>,
    /// Frames of the packets that have passed the egress at once.
    sent: Vec<Output>,
    controller: Option<Connection>,
    /// Number of times that the pipelines or the P4Runtime server may have been used.
    pipeline_uses: u64,
    /// Records passes through the pipelines for a debugger; `None` without one.
    recorder: Option<PassRecorder>,
    /// Traces of packets; `None` if they are not recorded.
    packet_traces: Option<PacketTraces>,
    /// Whether the switch is working. A failed switch neither forwards packets nor replies to the controller.
    alive: bool,
}

/// Control channel to the controller.
struct Connection {
    controller: NodeId,
    client: ClientId,
}

/// The ports of a switch, with the types of its packets and frames.
pub(super) type SwitchPorts = Ports<SwitchPacket, Packet>;

/// A packet in a queue between ingress and egress.
pub(super) enum SwitchPacket {
    Pipeline(Queued),
    Plane(QueuedPacket),
}

impl SwitchNode {
    /// Creates a switch that has no program yet.
    pub(super) fn new(
        server: Server,
        bf_runtime: Option<BfRuntime>,
        fast: bool,
        pipeline_latency: u64,
        control_latency: u64,
        ports: SwitchPorts,
    ) -> SwitchNode {
        SwitchNode {
            server,
            bf_runtime,
            plane: None,
            past_flows: 0,
            uses_fast_plane: fast,
            shown_groups: BTreeSet::new(),
            pipeline_latency,
            control_latency,
            ports,
            waiting: Vec::new(),
            claimed: Vec::new(),
            sent: Vec::new(),
            controller: None,
            pipeline_uses: 0,
            recorder: None,
            packet_traces: None,
            alive: true,
        }
    }

    /// Records all passes of packets through the pipelines from now on. The programs of the switch are loaded with notes.
    pub(super) fn record(&mut self, recorder: PassRecorder) {
        self.recorder = Some(recorder);
    }

    /// Exchanges the memory of the switch for that which all switches of this thread use in turn, or back. The fast data
    /// plane does not need it.
    fn exchange_scratch(&mut self) {
        if self.uses_fast_plane {
            return;
        }
        scratch::with(|scratch| {
            self.server.exchange_scratch(&mut scratch.server);
            std::mem::swap(&mut self.claimed, &mut scratch.claimed);
            std::mem::swap(&mut self.sent, &mut scratch.sent);
        });
    }

    /// Processes a received frame in the ingress pipeline.
    fn run_ingress(&mut self, port: u32, frame: Packet, now: u64) {
        let frame = frame.into_split();
        match (&self.recorder, &mut self.packet_traces) {
            (Some(recorder), _) => recorder.record(&mut self.server, now, |server| {
                server.take_frame_in(port, frame, now);
            }),
            (None, Some(traces)) => {
                traces.add(self.server.take_trace());
                let copy = traces.has_space().then(|| frame.bytes().into_owned());
                self.server.take_frame_in(port, frame, now);
                if let Some(copy) = copy {
                    traces.add_frame(now, port, copy, self.server.take_trace());
                }
            }
            (None, None) => self.server.take_frame_in(port, frame, now),
        }
    }

    /// Processes a packet that leaves its queue in the egress pipeline.
    fn run_egress(&mut self, packet: Queued, now: u64, state: QueueState) {
        match &self.recorder {
            Some(recorder) => recorder.record(&mut self.server, now, |server| {
                server.dequeue(packet, now, state);
            }),
            None => self.server.dequeue(packet, now, state),
        }
    }

    /// Visits the state that frames change while the fast data plane processes all of them.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Some(plane) = self
            .plane
            .as_mut()
            .filter(|_| self.alive && self.uses_fast_plane)
        else {
            return visitor.unsupported();
        };
        visitor.constant(self.pipeline_uses);
        plane.visit_state(visitor);
        self.ports
            .visit_state(visitor, |packet, visitor| match packet {
                SwitchPacket::Plane(packet) => {
                    packet.visit_state(visitor, |group| plane.address(group));
                }
                SwitchPacket::Pipeline(_) => visitor.unsupported(),
            });
        let pending = self.server.poll_timeout();
        let unchanged = visitor.optional_time(pending);
        debug_assert_eq!(pending, unchanged, "a timer of the server limits the shift");
    }

    /// P4Runtime server of the switch, from which the state of the switch can be read.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Records traces of up to `limit` packets from now on. The programs of the switch are loaded with notes.
    pub(super) fn trace_packets(&mut self, limit: usize) {
        self.server.switch_mut().set_trace(true);
        self.server.switch_mut().set_block_trace(true);
        self.packet_traces = Some(PacketTraces::new(limit));
    }

    /// Removes and returns the packets whose traces were recorded.
    pub(super) fn take_packet_traces(&mut self) -> Vec<TracedPacket> {
        let Some(traces) = &mut self.packet_traces else {
            return Vec::new();
        };
        traces.add(self.server.take_trace());
        traces.take()
    }

    /// Makes the switch fail: its state is lost, and its connection to the controller breaks.
    pub fn kill(&mut self, ctx: &mut Ctx<'_>) {
        self.alive = false;
        self.ports.clear();
        if let Some(connection) = &self.controller {
            self.server.stream_close(connection.client);
        }
        self.disconnect("the switch has ended", ctx);
    }

    /// Restarts the switch without state, and reports to the controller that it accepts connections.
    fn restart(&mut self, controller: NodeId, ctx: &mut Ctx<'_>) {
        self.server = self.server.fresh_copy();
        if let Some(bf_runtime) = &mut self.bf_runtime {
            bf_runtime.restart();
        }
        self.past_flows = self.flows();
        self.plane = None;
        self.shown_groups.clear();
        self.alive = true;
        ctx.send(controller, Message::Listening, self.control_latency);
    }

    pub(super) fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        if self.alive {
            self.pipeline_uses += 1;
            self.server.handle_timeout(ctx.now());
            self.ports.handle_timeout(ctx);
            self.pump(ctx);
        }
    }

    /// Delay in nanoseconds from the arrival of a frame to its delivery: the latency of the pipeline. 0 if frames are
    /// charged to a buffer on arrival.
    pub(super) fn reception_delay(&self) -> u64 {
        match self.ports.counts_at_input() {
            true => 0,
            false => self.pipeline_latency,
        }
    }

    /// Latency of a message from the controller, in nanoseconds.
    pub(super) fn control_latency(&self) -> u64 {
        self.control_latency
    }

    pub(super) fn on_frame(&mut self, port: u32, frame: Packet, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        let Some(pending_charge) = self.ports.receive(port, &frame, ctx) else {
            return self.pump(ctx);
        };
        let has_pause = self.ports.is_runnable();
        if self.pipeline_latency == 0 || !self.ports.counts_at_input() {
            self.ingress(port, frame, pending_charge, ctx);
        } else {
            let message = Message::Ingress {
                port,
                frame,
                pending_charge,
            };
            ctx.send(ctx.node(), message, self.pipeline_latency);
            if has_pause {
                self.pump(ctx);
            }
        }
    }

    pub(super) fn on_idle(&mut self, port: u32, ctx: &mut Ctx<'_>) {
        self.ports.idle(port);
        self.exchange_scratch();
        self.pump(ctx);
        self.exchange_scratch();
    }

    pub(super) fn on_message(&mut self, from: NodeId, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::Fail {
                downtime,
                controller,
            } => {
                self.kill(ctx);
                return ctx.send(ctx.node(), Message::RestartSwitch { controller }, downtime);
            }
            Message::RestartSwitch { controller } => return self.restart(controller, ctx),
            _ => {}
        }
        if !self.alive {
            return;
        }
        match message {
            Message::Ingress {
                port,
                frame,
                pending_charge,
            } => self.ingress(port, frame, pending_charge, ctx),
            Message::Connect => {
                if let Some(former) = self.controller.take() {
                    self.server.stream_close(former.client);
                }
                let client = self.server.stream_open();
                self.controller = Some(Connection {
                    controller: from,
                    client,
                });
                ctx.send(from, Message::Connected, self.control_latency);
            }
            Message::Request { id, body } => {
                self.write_back();
                let result = Box::new(self.call(*body, ctx));
                ctx.send(from, Message::Reply { id, result }, self.control_latency);
                self.pump(ctx);
                self.show_groups(ctx);
            }
            Message::StreamRequest(message) => {
                self.write_back();
                if let Some(connection) = &self.controller {
                    self.server
                        .stream_message(connection.client, *message, ctx.now());
                    self.pump(ctx);
                    self.show_groups(ctx);
                }
            }
            _ => unreachable!("no node sends this to a switch"),
        }
    }

    fn ingress(
        &mut self,
        port: u32,
        frame: Packet,
        pending_charge: PendingCharge,
        ctx: &mut Ctx<'_>,
    ) {
        self.ports.begin(pending_charge);
        self.exchange_scratch();
        let watched = match ctx.wants_groups() {
            true => frame.destination(),
            false => None,
        };
        let mut waiting = std::mem::take(&mut self.waiting);
        let taken = match &mut self.plane {
            Some(plane) if self.uses_fast_plane => {
                let (now, ports) = (ctx.now(), &mut self.ports);
                // Copies that leave at the same time have no visible order.
                let goes = |port, len, place| {
                    let goes = ports.is_clear(port) && ctx.transmit_follower(port, len, place);
                    if goes {
                        ports.follower_sent(port);
                    }
                    goes
                };
                plane.ingress(&mut self.server, port, frame, now, goes, &mut waiting)
            }
            _ => Err(NeedsPipeline(frame)),
        };
        for waiting in waiting.drain(..) {
            self.forward(waiting, ctx);
        }
        self.waiting = waiting;
        if let Err(NeedsPipeline(frame)) = taken {
            self.write_back();
            self.run_ingress(port, frame, ctx.now());
        }
        self.pump(ctx);
        self.exchange_scratch();
        if let Some(mcst_id) = watched {
            self.show_group(mcst_id, ctx);
        }
    }

    /// Queues a packet of the fast data plane. Transmits it at once instead if its link is idle and nothing waits for
    /// that link. A packet that only updates the retransmission filter does so at once, if that makes no visible
    /// difference.
    fn forward(&mut self, waiting: QueuedPacket, ctx: &mut Ctx<'_>) {
        let port = waiting.port;
        match &mut self.plane {
            Some(plane)
                if waiting.is_filter_update()
                    && self.ports.may_pass_early(port)
                    && !ctx.wants_groups() =>
            {
                let is_its_turn = self.ports.is_free(port, ctx);
                let left = plane.egress(&mut self.server, waiting);
                debug_assert!(left.is_none(), "a filter update transmits nothing");
                if !is_its_turn {
                    self.ports.reserve_turn(port);
                }
            }
            Some(plane) if self.ports.is_free(port, ctx) => {
                let Some(leaving) = plane.egress(&mut self.server, waiting) else {
                    return;
                };
                let follower = leaving.follower();
                let is_transmitted =
                    follower.is_some_and(|(len, place)| ctx.transmit_follower(port, len, place));
                if !is_transmitted {
                    ctx.transmit(port, plane.rewrite(&mut self.server, leaving, 0));
                }
            }
            _ => self.enqueue(port, 0, waiting.len, SwitchPacket::Plane(waiting), ctx),
        }
    }

    /// Reports the state of all groups, and which groups were removed, to the observers, if there are any.
    fn show_groups(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.wants_groups() {
            return;
        }
        let groups = self.plane.as_ref().map(FastPlane::groups);
        let groups = groups.unwrap_or_default();
        self.shown_groups.retain(|mcst_id| {
            let is_there = groups.contains(mcst_id);
            if !is_there {
                ctx.show_group(*mcst_id, None);
            }
            is_there
        });
        for mcst_id in groups {
            self.show_group(mcst_id, ctx);
        }
    }

    /// Reports the state of the group with this address, if there is one, to the observers.
    fn show_group(&mut self, mcst_id: Ipv4Addr, ctx: &mut Ctx<'_>) {
        let plane = self.plane.as_ref();
        let group = plane.and_then(|plane| plane.read_group(&self.server, mcst_id, ctx.now()));
        if let Some(group) = group {
            ctx.show_group(mcst_id, Some(&group));
            self.shown_groups.insert(mcst_id);
        }
    }

    /// Number of data flows that the fast data planes of this switch have numbered so far.
    fn flows(&self) -> u64 {
        let plane = self.plane.as_ref();
        plane.map_or(self.past_flows, FastPlane::flows)
    }

    /// Writes the state of the fast data plane back to the registers, before the pipelines run.
    fn write_back(&mut self) {
        self.pipeline_uses += 1;
        if let Some(plane) = &mut self.plane {
            plane.write_back(&mut self.server);
        }
    }

    /// Executes a unary call of the controller, by P4Runtime or BfRuntime.
    fn call(&mut self, body: Request, ctx: &Ctx<'_>) -> Result<Response, Status> {
        let now = ctx.now();
        let server = &mut self.server;
        match body {
            Request::GetPipeline(request) => {
                let response = server.get_forwarding_pipeline_config(&request)?;
                let cookie = response.config.and_then(|config| config.cookie);
                Ok(Response::Pipeline(cookie.map(|cookie| cookie.cookie)))
            }
            Request::SetPipeline(request, config) => {
                let mut set = server
                    .set_shared_pipeline_config(&request, &config, now)
                    .map(drop);
                if let (Ok(()), Some(bf_runtime)) = (&set, &mut self.bf_runtime) {
                    set = bf_runtime.start(server, &config);
                }
                let is_used = self.uses_fast_plane || ctx.wants_groups();
                let p4info = config.p4info.as_ref().filter(|_| is_used && set.is_ok());
                let program = p4info.and_then(|p4info| Program::resolve(p4info).ok());
                self.past_flows = self.flows();
                let flows = self.past_flows;
                self.plane = program
                    .filter(FastPlane::supports)
                    .map(|program| FastPlane::new(program, flows));
                set.map(|()| Response::SetPipeline)
            }
            Request::Write(request) => {
                let written = match &mut self.bf_runtime {
                    Some(bf_runtime) => bf_runtime.write(server, &request, now),
                    None => server.write(&request, now).map(drop),
                };
                if let Some(plane) = &mut self.plane {
                    match &written {
                        Ok(()) => plane.apply_write(&request),
                        Err(_) => plane.read_all(server, now),
                    }
                }
                written.map(|()| Response::Write)
            }
            Request::Read(request) => {
                let read = match &mut self.bf_runtime {
                    Some(bf_runtime) => bf_runtime.read(server, &request, now),
                    None => server.read(&request, now),
                };
                read.map(|all| Response::Read(vec![all]))
            }
        }
    }

    /// Passes the packets from the ingress pipeline through the egress and to their links at once, if each would leave
    /// its queue immediately: its port is free, and no other packet is for that port. The visible effects are the same
    /// as with queueing.
    fn cut_through(&mut self, ctx: &mut Ctx<'_>) {
        // The passes of packets are recorded one by one.
        if self.recorder.is_some() || !self.can_cut_through(ctx) {
            return;
        }
        self.write_back();
        let mut sent = std::mem::take(&mut self.sent);
        match self.server.dequeue_all(ctx.now(), &mut sent) {
            None => {
                for Output { port, frame } in sent.drain(..) {
                    ctx.transmit(port, frame.into());
                }
            }
            // The egress produced something besides a frame, which must be handled while the other packets are in their
            // queues.
            Some(left) => {
                for _ in 0..left {
                    if let Some(event) = self.server.poll() {
                        self.execute(event, ctx);
                    }
                }
                let passed = self.claimed.len() - left;
                let mut sent = sent.drain(..).peekable();
                for port in self.claimed.drain(..passed) {
                    let output = sent.next_if(|output| output.port == port);
                    let frame = output.map(|output| output.frame.into());
                    self.ports.finish_turn(port, frame);
                }
            }
        }
        self.sent = sent;
    }

    /// Whether all pending outputs of the server are packets to enqueue, at most one for each port, and all these ports
    /// are free. Sets [`SwitchNode::claimed`] to the ports.
    fn can_cut_through(&mut self, ctx: &Ctx<'_>) -> bool {
        let (server, ports, claimed) = (&self.server, &mut self.ports, &mut self.claimed);
        let mut pending = server.pending();
        if pending.len() == 0 {
            return false;
        }
        ports.begin_batch();
        claimed.clear();
        pending.all(|event| match event {
            Event::Enqueue(packet) => {
                claimed.push(packet.port);
                ports.claim(packet.port, ctx)
            }
            _ => false,
        })
    }

    /// Executes the outputs of the server, until neither the server nor an idle port has further work.
    fn pump(&mut self, ctx: &mut Ctx<'_>) {
        self.cut_through(ctx);
        loop {
            while let Some(event) = self.server.poll() {
                self.execute(event, ctx);
            }
            let Some(next) = self.ports.next(ctx) else {
                break;
            };
            let state = QueueState {
                enq_timestamp: next.enqueued_at,
                enq_qdepth: next.depth_at_enqueue,
                deq_qdepth: next.depth_at_dequeue,
            };
            self.egress(next.packet, state, ctx);
        }
        let alarms = [
            self.server.poll_timeout(),
            self.ports.poll_timeout(ctx.now()),
        ];
        if let Some(at) = alarms.into_iter().flatten().min() {
            ctx.wake_at(at);
        }
    }

    fn execute(&mut self, event: Event, ctx: &mut Ctx<'_>) {
        match event {
            Event::Enqueue(packet) => {
                let (port, priority, len) = (packet.port, packet.priority, packet.len);
                self.enqueue(port, priority, len, SwitchPacket::Pipeline(packet), ctx);
            }
            Event::Output { port, frame } => self.ports.finish(port, frame.into()),
            Event::Stream { client, message } => {
                if let Some(connection) = &self.controller {
                    if connection.client == client {
                        let message = Message::StreamResponse(message);
                        ctx.send(connection.controller, message, self.control_latency);
                    }
                }
            }
            Event::Close { client, status } => {
                if self.controller.as_ref().is_some_and(|c| c.client == client) {
                    self.disconnect(&status.to_string(), ctx);
                }
            }
        }
    }

    /// Reports to the controller that its connection has ended, for the reason `why`.
    fn disconnect(&mut self, why: &str, ctx: &mut Ctx<'_>) {
        if let Some(connection) = self.controller.take() {
            let message = Message::Disconnected {
                why: why.to_string(),
            };
            ctx.send(connection.controller, message, self.control_latency);
        }
    }

    fn enqueue(
        &mut self,
        number: u32,
        priority: u8,
        len: usize,
        packet: SwitchPacket,
        ctx: &mut Ctx<'_>,
    ) {
        let queued = self.ports.enqueue(number, priority, len, packet, ctx);
        if let Err(NotQueued(packet)) = queued {
            self.egress(packet, unqueued(ctx.now()), ctx);
        }
    }

    /// Processes a packet that leaves its queue: runs the egress, and passes the resulting frame to the port.
    fn egress(&mut self, packet: SwitchPacket, state: QueueState, ctx: &mut Ctx<'_>) {
        match packet {
            SwitchPacket::Pipeline(packet) => {
                self.write_back();
                self.run_egress(packet, ctx.now(), state);
            }
            SwitchPacket::Plane(waiting) => {
                let Some(plane) = &mut self.plane else {
                    return;
                };
                let number = waiting.port;
                let Some(leaving) = plane.egress(&mut self.server, waiting) else {
                    return;
                };
                // A follower is not visible to observers, so its order among the frames that leave now does not matter.
                let follower = leaving.follower();
                let follower = follower.filter(|_| self.ports.may_transmit(number, ctx));
                let is_transmitted =
                    follower.is_some_and(|(len, place)| ctx.transmit_follower(number, len, place));
                if !is_transmitted {
                    let packet = plane.rewrite(&mut self.server, leaving, state.deq_qdepth);
                    self.ports.finish(number, packet);
                }
            }
        }
    }
}

/// Queue metadata for a packet that was not queued.
fn unqueued(now: u64) -> QueueState {
    QueueState {
        enq_timestamp: now,
        enq_qdepth: 0,
        deq_qdepth: 0,
    }
}
