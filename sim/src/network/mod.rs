//! A fabric in virtual time: switches that run compiled P4 pipelines behind their P4Runtime servers, hosts with RC
//! endpoints, and the controller.
//!
//! The controller and the switches exchange the P4Runtime messages that gRPC would carry. Each message takes
//! [`Model::control_latency`].

mod bf_runtime;
mod buffer;
mod build;
mod controller;
mod crossbar;
mod host;
mod message;
mod model;
mod packet_traces;
mod passes;
mod pfc;
mod plane;
mod ports;
mod run_handle;
mod scratch;
mod switch;

pub use build::{BuildError, Network};
pub use host::HostNode;
pub use model::{Fidelity, Model, NamedModel};
pub use packet_traces::TracedPacket;
pub use passes::Pass;
pub use run_handle::RunHandle;
pub use switch::SwitchNode;

use alfirk_roce::host::Packet;
use alfirk_roce::steady::{StateVisitor, Stream};

use crate::engine::{Context, Node, NodeId};
use controller::ControllerNode;
use message::Message;

/// Context of the handlers of a network's nodes.
type Ctx<'a> = Context<'a, Message, Packet>;

/// A node of a [`Network`].
pub enum Element {
    /// A switch.
    Switch(Box<SwitchNode>),
    /// A host.
    Host(Box<HostNode>),
    /// The controller.
    Controller(Box<ControllerNode>),
}

impl Node for Element {
    type Message = Message;
    type Frame = Packet;

    fn reception_delay(&self) -> u64 {
        match self {
            Element::Switch(node) => node.reception_delay(),
            Element::Host(node) => node.reception_delay(),
            Element::Controller(_) => 0,
        }
    }

    /// Shortest delay in nanoseconds after which a message affects a switch; `None` for nodes that may not run ahead. A
    /// switch may: frames and messages reach it with a delay, and its actions affect other nodes with a delay.
    fn runs_ahead(&self) -> Option<u64> {
        match self {
            Element::Switch(node) => Some(node.control_latency()),
            Element::Host(_) | Element::Controller(_) => None,
        }
    }

    fn expects_followers(&self) -> bool {
        match self {
            Element::Host(node) => node.expects_followers(),
            Element::Switch(_) | Element::Controller(_) => false,
        }
    }

    fn on_followers(&mut self, times: impl ExactSizeIterator<Item = u64>, first: &Packet) {
        if let Element::Host(node) = self {
            node.on_followers(times.len(), first);
        }
    }

    fn may_pass_wakes(&self) -> bool {
        match self {
            // After each event a host sends all frames that it can.
            Element::Host(_) => true,
            Element::Switch(_) | Element::Controller(_) => false,
        }
    }

    fn streams(&self) -> Vec<Stream> {
        match self {
            Element::Host(node) => node.host().streams().collect(),
            Element::Switch(_) | Element::Controller(_) => Vec::new(),
        }
    }

    fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        match self {
            Element::Switch(node) => node.visit_state(visitor),
            Element::Host(node) => node.visit_state(visitor),
            Element::Controller(_) => visitor.unsupported(),
        }
    }

    fn on_frame(&mut self, port: u32, frame: Packet, ctx: &mut Ctx<'_>) {
        match self {
            Element::Switch(node) => node.on_frame(port, frame, ctx),
            Element::Host(node) => node.on_frame(frame, ctx),
            Element::Controller(_) => unreachable!("the controller has no ports"),
        }
    }

    fn on_idle(&mut self, port: u32, ctx: &mut Ctx<'_>) {
        match self {
            Element::Switch(node) => node.on_idle(port, ctx),
            Element::Host(node) => node.on_idle(ctx),
            Element::Controller(_) => unreachable!("the controller has no ports"),
        }
    }

    fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        match self {
            Element::Switch(node) => node.on_wake(ctx),
            Element::Host(node) => node.on_wake(ctx),
            Element::Controller(node) => node.on_wake(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, ctx: &mut Ctx<'_>) {
        match self {
            Element::Switch(node) => node.on_message(from, message, ctx),
            Element::Host(node) => node.on_message(message, ctx),
            Element::Controller(node) => node.on_message(from, message, ctx),
        }
    }
}
