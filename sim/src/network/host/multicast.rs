//! Multicast by acknowledged datagrams at a host, which belongs to no transfer.

use std::sync::Arc;

use alfirk_roce::binomial_ack::{Endpoint, EndpointEvent};
use alfirk_roce::host::Host;

use super::HostNode;
use crate::network::message::Message;
use crate::network::Ctx;

impl HostNode {
    /// Sets the endpoint of a datagram group, in place of an earlier one.
    pub(in crate::network) fn set_multicaster(&mut self, endpoint: Endpoint) {
        self.application.join_datagrams(endpoint);
        self.multicast_events.clear();
    }

    /// Calls a function on the datagram endpoint now; `None` if the host has none.
    pub(in crate::network) fn on_multicaster<R>(
        &mut self,
        act: impl FnOnce(&mut Endpoint, &mut Host, u64) -> R,
        ctx: &mut Ctx<'_>,
    ) -> Option<R> {
        let endpoint = self.application.datagrams_mut()?;
        let result = act(endpoint, &mut self.host, ctx.now());
        self.collect_datagrams(ctx.now(), ctx);
        self.finish_event(ctx);
        Some(result)
    }

    /// Makes the application begin to post a message to all members of the datagram group. The message reaches the NIC
    /// after the time that posting takes.
    pub(in crate::network) fn broadcast(&mut self, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        let delay = self.model.posting_ns(data.len() as u64);
        ctx.send(ctx.node(), Message::PostMulticast { data }, delay);
    }

    /// Collects the events of the datagram endpoint. `seen_at`: time at which the application processed their cause.
    pub(super) fn collect_datagrams(&mut self, seen_at: u64, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.application.poll_datagrams() {
            ctx.note(|| match &event {
                EndpointEvent::Delivered { id, .. } => format!("{id:?} delivered"),
                EndpointEvent::Completed { message } => format!("message {message} completed"),
                EndpointEvent::Silent { member } => format!("member {member} is silent"),
                EndpointEvent::ManagerFailed => "the manager has failed".to_owned(),
            });
            self.multicast_events.push_back((seen_at, event));
            ctx.notify();
        }
    }

    /// Removes and returns the next event of the datagram endpoint, with the time at which the application processed
    /// its cause.
    pub(in crate::network) fn next_multicast_event(&mut self) -> Option<(u64, EndpointEvent)> {
        self.multicast_events.pop_front()
    }
}
