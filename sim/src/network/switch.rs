//! A switch: compiled pipelines and P4Runtime server, with the queues and buffers of [`super::ports`].

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_bmv2::{QueueState, Queued};
use alfirk_ctrl::controller::{Request, Response};
use alfirk_ctrl::tables::Program;
use alfirk_p4rt::{ClientId, Event, Server};
use alfirk_p4runtime::Status;
use alfirk_roce::host::Packet;

use super::message::Message;
use super::plane::{NotTaken, Plane, Waiting};
use super::ports::{AtOnce, Ports, Ticket};
use super::Ctx;
use crate::engine::NodeId;

/// A switch in the simulator.
///
/// A frame passes the ingress pipeline and is queued at its output port. The egress pipeline runs when the link is idle,
/// so that queue depths and times in the packet's metadata are exact. Ports without a link (CPU port,
/// recirculation) drain at once.
pub struct SwitchNode {
    server: Server,
    /// Fast data plane, which handles most packets instead of the pipelines, or only reads groups from registers for observers.
    plane: Option<Plane>,
    /// Number of data flows of earlier planes.
    past_flows: u64,
    /// The plane handles packets.
    fast: bool,
    /// Groups shown to observers.
    shown: BTreeSet<Ipv4Addr>,
    pipeline_latency: u64,
    control_latency: u64,
    ports: SwitchPorts,
    /// Empty between packets, as the next two; its memory is used again.
    waiting: Vec<Waiting>,
    /// What passes the egress as it comes from the ingress,
    passing: Vec<Queued>,
    /// and what has, with the frames that leave.
    passed: Vec<(u32, Option<Packet>)>,
    controller: Option<Connection>,
    /// False for a failed switch, which neither forwards packets nor replies to the controller.
    alive: bool,
}

/// Control channel to the controller.
struct Connection {
    controller: NodeId,
    client: ClientId,
}

/// The ports of a switch.
pub(super) type SwitchPorts = Ports<Stored, Packet>;

/// A packet between ingress and egress.
pub(super) enum Stored {
    Pipeline(Queued),
    Plane(Waiting),
}

impl SwitchNode {
    /// Creates a switch without a program.
    pub(super) fn new(
        server: Server,
        fast: bool,
        pipeline_latency: u64,
        control_latency: u64,
        ports: SwitchPorts,
    ) -> SwitchNode {
        SwitchNode {
            server,
            plane: None,
            past_flows: 0,
            fast,
            shown: BTreeSet::new(),
            pipeline_latency,
            control_latency,
            ports,
            waiting: Vec::new(),
            passing: Vec::new(),
            passed: Vec::new(),
            controller: None,
            alive: true,
        }
    }

    /// P4Runtime server, to read its state.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Ends the switch: its state is lost, and the controller's connection breaks.
    pub fn kill(&mut self, ctx: &mut Ctx<'_>) {
        self.alive = false;
        self.ports.clear();
        if let Some(connection) = &self.controller {
            self.server.stream_close(connection.client);
        }
        self.disconnect("the switch has ended", ctx);
    }

    /// Restarts the switch without state; the controller is notified.
    fn begin(&mut self, controller: NodeId, ctx: &mut Ctx<'_>) {
        self.server = self.server.fresh_copy();
        self.past_flows = self.flows();
        self.plane = None;
        self.shown.clear();
        self.alive = true;
        ctx.send(controller, Message::Listening, self.control_latency);
    }

    pub(super) fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        if self.alive {
            self.server.handle_timeout(ctx.now());
            self.ports.handle_timeout(ctx);
            self.pump(ctx);
        }
    }

    /// Frames that are counted nowhere on their way in come when they have passed the ingress.
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
        let Some(ticket) = self.ports.receive(port, &frame, ctx) else {
            return self.pump(ctx);
        };
        let tells = self.ports.is_runnable();
        if self.pipeline_latency == 0 || !self.ports.counts_at_input() {
            self.ingress(port, frame, ticket, ctx);
        } else {
            let message = Message::Ingress {
                port,
                frame,
                ticket,
            };
            ctx.send(ctx.node(), message, self.pipeline_latency);
            if tells {
                self.pump(ctx);
            }
        }
    }

    pub(super) fn on_idle(&mut self, port: u32, ctx: &mut Ctx<'_>) {
        self.ports.idle(port);
        self.pump(ctx);
    }

    pub(super) fn on_message(&mut self, from: NodeId, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::End {
                downtime,
                controller,
            } => {
                self.kill(ctx);
                return ctx.send(ctx.node(), Message::Begin { controller }, downtime);
            }
            Message::Begin { controller } => return self.begin(controller, ctx),
            _ => {}
        }
        if !self.alive {
            return;
        }
        match message {
            Message::Ingress {
                port,
                frame,
                ticket,
            } => self.ingress(port, frame, ticket, ctx),
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
                self.hand_over();
                let result = Box::new(self.call(*body, ctx));
                ctx.send(from, Message::Reply { id, result }, self.control_latency);
                self.pump(ctx);
                self.show_groups(ctx);
            }
            Message::StreamRequest(message) => {
                self.hand_over();
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

    fn ingress(&mut self, port: u32, frame: Packet, ticket: Ticket, ctx: &mut Ctx<'_>) {
        self.ports.begin(ticket);
        let watched = match ctx.wants_groups() {
            true => frame.destination(),
            false => None,
        };
        let mut waiting = std::mem::take(&mut self.waiting);
        let taken = match &mut self.plane {
            Some(plane) if self.fast => {
                let (now, ports) = (ctx.now(), &mut self.ports);
                // In one instant it cannot be seen which of these leave before others.
                let goes = |port, len, place| {
                    let goes = ports.is_clear(port) && ctx.transmit_follower(port, len, place);
                    if goes {
                        ports.gone(port);
                    }
                    goes
                };
                plane.ingress(&mut self.server, port, frame, now, goes, &mut waiting)
            }
            _ => Err(NotTaken(frame)),
        };
        for waiting in waiting.drain(..) {
            self.forward(waiting, ctx);
        }
        self.waiting = waiting;
        if let Err(NotTaken(frame)) = taken {
            self.hand_over();
            self.server
                .take_frame_in(port, frame.into_split(), ctx.now());
        }
        self.pump(ctx);
        if let Some(mcst_id) = watched {
            self.show_group(mcst_id, ctx);
        }
    }

    /// Queues a packet of the plane, or puts it on its link at once if that is idle and nothing waits for it. What the egress only learns from
    /// it learns at once, if no difference can be seen.
    fn forward(&mut self, waiting: Waiting, ctx: &mut Ctx<'_>) {
        let port = waiting.port;
        match &mut self.plane {
            Some(plane)
                if waiting.is_note() && self.ports.is_first(port) && !ctx.wants_groups() =>
            {
                let is_its_turn = self.ports.is_free(port, ctx);
                let left = plane.egress(&mut self.server, waiting);
                debug_assert!(left.is_none(), "there is nothing to leave");
                if !is_its_turn {
                    self.ports.note(port);
                }
            }
            Some(plane) if self.ports.is_free(port, ctx) => {
                let Some(leaving) = plane.egress(&mut self.server, waiting) else {
                    return;
                };
                let follower = leaving.follower();
                let is_on_its_way =
                    follower.is_some_and(|(len, place)| ctx.transmit_follower(port, len, place));
                if !is_on_its_way {
                    ctx.transmit(port, plane.rewrite(&mut self.server, leaving, 0));
                }
            }
            _ => self.enqueue(port, 0, waiting.len, Stored::Plane(waiting), ctx),
        }
    }

    /// Shows all current and removed groups, if there are observers.
    fn show_groups(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.wants_groups() {
            return;
        }
        let groups = self.plane.as_ref().map(Plane::groups);
        let groups = groups.unwrap_or_default();
        self.shown.retain(|mcst_id| {
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

    /// Shows a group, if it is one.
    fn show_group(&mut self, mcst_id: Ipv4Addr, ctx: &mut Ctx<'_>) {
        let plane = self.plane.as_ref();
        let group = plane.and_then(|plane| plane.look(&self.server, mcst_id, ctx.now()));
        if let Some(group) = group {
            ctx.show_group(mcst_id, Some(&group));
            self.shown.insert(mcst_id);
        }
    }

    /// Number of data flows of all fast planes so far.
    fn flows(&self) -> u64 {
        let plane = self.plane.as_ref();
        plane.map_or(self.past_flows, Plane::flows)
    }

    /// Writes the state of the fast plane back, before the pipelines run.
    fn hand_over(&mut self) {
        if let Some(plane) = &mut self.plane {
            plane.hand_over(&mut self.server);
        }
    }

    /// Executes a unary call of the P4Runtime server.
    fn call(&mut self, body: Request, ctx: &Ctx<'_>) -> Result<Response, Status> {
        let now = ctx.now();
        let server = &mut self.server;
        match body {
            Request::GetPipeline(request) => {
                let answer = server.get_forwarding_pipeline_config(&request)?;
                let cookie = answer.config.and_then(|config| config.cookie);
                Ok(Response::Pipeline(cookie.map(|cookie| cookie.cookie)))
            }
            Request::SetPipeline(request) => {
                let set = server.set_forwarding_pipeline_config(&request, now);
                let p4info = request.config.as_ref().and_then(|c| c.p4info.as_ref());
                let program = p4info.and_then(|p4info| Program::resolve(p4info).ok());
                let is_used = self.fast || ctx.wants_groups();
                self.past_flows = self.flows();
                let flows = self.past_flows;
                self.plane = program
                    .filter(|_| is_used && set.is_ok())
                    .map(|program| Plane::new(program, flows));
                set.map(|_| Response::SetPipeline)
            }
            Request::Write(request) => {
                let written = server.write(&request, now);
                if let Some(plane) = &mut self.plane {
                    match &written {
                        Ok(_) => plane.written(&request),
                        Err(_) => plane.reread(server, now),
                    }
                }
                written.map(|_| Response::Write)
            }
            Request::Read(request) => server
                .read(&request, now)
                .map(|all| Response::Read(vec![all])),
        }
    }

    /// Has the packets that the ingress has made pass the egress at once and go on their links, if each of them would leave its queue as soon
    /// as it was there: its port is free, and nothing else is for it. In every order that can be seen this is as if they had been in queues.
    fn pass_through(&mut self, ctx: &mut Ctx<'_>) {
        if !self.are_free(ctx) {
            return;
        }
        let now = ctx.now();
        let mut passing = std::mem::take(&mut self.passing);
        let mut passed = std::mem::take(&mut self.passed);
        passing.extend(std::iter::from_fn(|| match self.server.poll() {
            Some(Event::Enqueue(packet)) => Some(packet),
            _ => None,
        }));
        let mut packets = passing.drain(..);
        let unusual = packets.by_ref().find_map(|packet| {
            let port = packet.port;
            self.hand_over();
            self.server.dequeue(packet, now, unqueued(now));
            let is_usual = {
                let mut events = self.server.pending();
                let is_frame = |event| matches!(event, &Event::Output { .. });
                events.len() <= 1 && events.all(is_frame)
            };
            if !is_usual {
                return Some(port);
            }
            let frame = match self.server.poll() {
                Some(Event::Output { frame, .. }) => Some(frame.into()),
                _ => None,
            };
            passed.push((port, frame));
            None
        });
        match unusual {
            None => {
                for (port, frame) in passed.drain(..) {
                    if let Some(frame) = frame {
                        ctx.transmit(port, frame);
                    }
                }
            }
            // More came of it than a frame: that has its turn while the others are in their queues.
            Some(port) => {
                for packet in packets.by_ref() {
                    let (port, priority, len) = (packet.port, packet.priority, packet.len);
                    self.enqueue(port, priority, len, Stored::Pipeline(packet), ctx);
                }
                for (port, frame) in passed.drain(..) {
                    self.ports.turned(port, frame);
                }
                self.ports.turned(port, None);
            }
        }
        drop(packets);
        (self.passing, self.passed) = (passing, passed);
    }

    /// Whether all that the server wants is that packets are queued, each alone for its port, and that is free.
    fn are_free(&mut self, ctx: &Ctx<'_>) -> bool {
        let (server, ports) = (&self.server, &mut self.ports);
        let mut pending = server.pending();
        if pending.len() == 0 {
            return false;
        }
        ports.begin_batch();
        pending.all(|event| match event {
            Event::Enqueue(packet) => ports.claim(packet.port, ctx),
            _ => false,
        })
    }

    /// Executes the server's outputs, until neither the server nor idle ports have further work.
    fn pump(&mut self, ctx: &mut Ctx<'_>) {
        self.pass_through(ctx);
        loop {
            while let Some(event) = self.server.poll() {
                self.carry_out(event, ctx);
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

    fn carry_out(&mut self, event: Event, ctx: &mut Ctx<'_>) {
        match event {
            Event::Enqueue(packet) => {
                let (port, priority, len) = (packet.port, packet.priority, packet.len);
                self.enqueue(port, priority, len, Stored::Pipeline(packet), ctx);
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

    /// Notifies the controller that its connection has ended.
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
        packet: Stored,
        ctx: &mut Ctx<'_>,
    ) {
        let queued = self.ports.enqueue(number, priority, len, packet, ctx);
        if let Err(AtOnce(packet)) = queued {
            self.egress(packet, unqueued(ctx.now()), ctx);
        }
    }

    /// A packet leaves its queue: it passes the egress, and what goes on is ready then.
    fn egress(&mut self, packet: Stored, state: QueueState, ctx: &mut Ctx<'_>) {
        match packet {
            Stored::Pipeline(packet) => {
                self.hand_over();
                self.server.dequeue(packet, ctx.now(), state);
            }
            Stored::Plane(waiting) => {
                let Some(plane) = &mut self.plane else {
                    return;
                };
                let number = waiting.port;
                let Some(leaving) = plane.egress(&mut self.server, waiting) else {
                    return;
                };
                // One that no observer sees has no place in the order of those that leave now.
                let follower = leaving.follower();
                let follower = follower.filter(|_| self.ports.passes_on(number, ctx));
                let is_on_its_way =
                    follower.is_some_and(|(len, place)| ctx.transmit_follower(number, len, place));
                if !is_on_its_way {
                    let packet = plane.rewrite(&mut self.server, leaving, state.deq_qdepth);
                    self.ports.finish(number, packet);
                }
            }
        }
    }
}

/// Queue state of a packet that leaves its queue at once.
fn unqueued(now: u64) -> QueueState {
    QueueState {
        enq_timestamp: now,
        enq_qdepth: 0,
        deq_qdepth: 0,
    }
}
