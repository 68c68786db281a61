//! The controller as a node of the simulator, which exchanges P4Runtime messages with the switches.
//!
//! Messages that arrive at the same time are handled together, as by a real controller that finds several in its
//! sockets.

use std::collections::VecDeque;

use alfirk_ctrl::controller::{
    ApiReply, ApiRequest, ConfigError, Controller, ControllerConfig, Effect, Event,
};
use alfirk_ctrl::topology::{SwitchIndex, Topology};

use super::message::Message;
use super::Ctx;
use crate::engine::NodeId;

/// The controller as a node of the simulator.
pub struct ControllerNode {
    controller: Controller,
    /// Configuration of the controller, which a replacement after a restart also gets.
    config: ControllerConfig,
    /// Node of each switch, by index in the topology.
    switches: Vec<NodeId>,
    /// Whether each switch is connected, by index in the topology. Messages of an earlier connection are dropped.
    connected: Vec<bool>,
    control_latency: u64,
    /// Events that have arrived at the current time, and are handled together.
    inbox: Vec<Event>,
    replies: VecDeque<ApiReply>,
}

impl ControllerNode {
    pub(super) fn new(
        topology: Topology,
        config: ControllerConfig,
        switches: Vec<NodeId>,
        control_latency: u64,
    ) -> Result<ControllerNode, ConfigError> {
        Ok(ControllerNode {
            controller: Controller::new(topology, config.clone())?,
            config,
            connected: vec![false; switches.len()],
            switches,
            control_latency,
            inbox: Vec::new(),
            replies: VecDeque::new(),
        })
    }

    /// Connects to every switch.
    pub(super) fn connect_all(&mut self, ctx: &mut Ctx<'_>) {
        for &switch in &self.switches {
            ctx.send(switch, Message::Connect, self.control_latency);
        }
    }

    /// Replaces the controller by a new one, which connects to every switch again.
    fn restart(&mut self, keeps_state: bool, ctx: &mut Ctx<'_>) {
        let topology = self.controller.topology().clone();
        self.config.virtual_qpn_seed = self.config.virtual_qpn_seed.wrapping_add(1);
        let next = Controller::new(topology, self.config.clone());
        let mut next = next.expect("the first controller accepted the same topology");
        if keeps_state {
            let restored = next.restore(&self.controller.save());
            restored.expect("a controller restores the state that another saved");
        }
        self.controller = next;
        self.connected.fill(false);
        self.inbox.clear();
        self.connect_all(ctx);
    }

    /// Passes a client's request to the controller. [`ControllerNode::next_reply`] returns the reply.
    pub(super) fn handle_request(&mut self, request: ApiRequest, ctx: &mut Ctx<'_>) {
        self.handle([Event::Api(request)], ctx);
    }

    pub(super) fn next_reply(&mut self) -> Option<ApiReply> {
        self.replies.pop_front()
    }

    pub(super) fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        if self
            .controller
            .poll_timeout()
            .is_some_and(|at| at <= ctx.now())
        {
            self.handle([Event::Timeout], ctx);
        } else {
            self.set_alarm(ctx);
        }
    }

    pub(super) fn on_message(&mut self, from: NodeId, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::ReplaceController { keeps_state } => return self.restart(keeps_state, ctx),
            Message::HandleInbox => {
                let events = std::mem::take(&mut self.inbox);
                return self.handle(events, ctx);
            }
            _ => {}
        }
        let position = self.switches.iter().position(|&node| node == from);
        let switch = SwitchIndex(position.expect("only switches write to the controller"));
        if let Message::Listening = message {
            return ctx.send(from, Message::Connect, self.control_latency);
        }
        if let Message::Connected = message {
            self.connected[switch.0] = true;
        }
        if !self.connected[switch.0] {
            return;
        }
        let event = match message {
            Message::Connected => Event::SwitchUp { switch },
            Message::Disconnected { why } => Event::SwitchDown { switch, why },
            Message::Reply { id, result } => Event::Reply {
                switch,
                request: id,
                result: *result,
            },
            Message::StreamResponse(message) => Event::Stream {
                switch,
                message: *message,
            },
            _ => unreachable!("no node sends this to the controller"),
        };
        if self.inbox.is_empty() {
            ctx.send(ctx.node(), Message::HandleInbox, 0);
        }
        self.inbox.push(event);
    }

    fn handle(&mut self, events: impl IntoIterator<Item = Event>, ctx: &mut Ctx<'_>) {
        let events: Vec<Event> = events.into_iter().collect();
        for event in &events {
            note(ctx, || self.controller.describe_event(event));
        }
        self.controller.handle_all(ctx.now(), events);
        while let Some(effect) = self.controller.poll() {
            note(ctx, || self.controller.describe_effect(&effect));
            match effect {
                Effect::Request {
                    switch,
                    request: id,
                    body,
                } => {
                    let body = Box::new(body);
                    let message = Message::Request { id, body };
                    ctx.send(self.switches[switch.0], message, self.control_latency);
                }
                Effect::Stream { switch, message } => {
                    let message = Message::StreamRequest(Box::new(message));
                    ctx.send(self.switches[switch.0], message, self.control_latency);
                }
                Effect::Api(reply) => {
                    self.replies.push_back(reply);
                    ctx.notify();
                }
            }
        }
        self.set_alarm(ctx);
    }

    /// Schedules the call of [`ControllerNode::on_wake`] at the controller's next timeout.
    fn set_alarm(&self, ctx: &mut Ctx<'_>) {
        if let Some(at) = self.controller.poll_timeout() {
            ctx.wake_at(at);
        }
    }
}

/// Adds a note to the trace, if `text` returns one.
fn note(ctx: &mut Ctx<'_>, text: impl FnOnce() -> Option<String>) {
    if ctx.wants_notes() {
        if let Some(text) = text() {
            ctx.note(|| text);
        }
    }
}
