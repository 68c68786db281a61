//! The controller as a node: its effects travel to the switches, their answers travel back.

use std::collections::VecDeque;

use alfirk_ctrl::controller::{ApiReply, ApiRequest, Controller, Effect, Event};
use alfirk_ctrl::topology::SwitchIndex;

use super::message::Message;
use crate::engine::{Context, NodeId};

/// The controller in the simulator.
pub struct ControllerNode {
    controller: Controller,
    /// The node of each switch, by the topology's index.
    switches: Vec<NodeId>,
    control_latency: u64,
    replies: VecDeque<ApiReply>,
}

impl ControllerNode {
    pub(super) fn new(
        controller: Controller,
        switches: Vec<NodeId>,
        control_latency: u64,
    ) -> ControllerNode {
        ControllerNode {
            controller,
            switches,
            control_latency,
            replies: VecDeque::new(),
        }
    }

    /// Connects to every switch.
    pub(super) fn connect_all(&mut self, ctx: &mut Context<'_, Message>) {
        for &switch in &self.switches {
            ctx.send(switch, Message::Connect, self.control_latency);
        }
    }

    /// A user's request; its answer comes out of [`ControllerNode::next_reply`].
    pub(super) fn ask(&mut self, request: ApiRequest, ctx: &mut Context<'_, Message>) {
        self.handle(Event::Api(request), ctx);
    }

    pub(super) fn next_reply(&mut self) -> Option<ApiReply> {
        self.replies.pop_front()
    }

    pub(super) fn on_wake(&mut self, ctx: &mut Context<'_, Message>) {
        if self
            .controller
            .poll_timeout()
            .is_some_and(|at| at <= ctx.now())
        {
            self.handle(Event::Timeout, ctx);
        } else {
            self.set_alarm(ctx);
        }
    }

    pub(super) fn on_message(
        &mut self,
        from: NodeId,
        message: Message,
        ctx: &mut Context<'_, Message>,
    ) {
        let position = self.switches.iter().position(|&node| node == from);
        let switch = SwitchIndex(position.expect("only switches write to the controller"));
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
            _ => unreachable!("nobody sends this to the controller"),
        };
        self.handle(event, ctx);
    }

    fn handle(&mut self, event: Event, ctx: &mut Context<'_, Message>) {
        self.controller.handle(ctx.now(), event);
        while let Some(effect) = self.controller.poll() {
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

    fn set_alarm(&self, ctx: &mut Context<'_, Message>) {
        if let Some(at) = self.controller.poll_timeout() {
            ctx.wake_at(at);
        }
    }
}
