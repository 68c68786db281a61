//! Commands of the orchestrator to the application of a host. They take no virtual time, except for posts.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_experiment::{MemberEvent, TransferId};
use alfirk_roce::application::CommandError;
use alfirk_roce::collective::{Endpoint, ExpectedData, LegCommand, LegReply, TransferSpec};
use alfirk_roce::host::Host;
use alfirk_roce::registration::{ExpectedGroup, GroupSpec, LeaderTiming};
use alfirk_roce::wire::mrp::{Node, TooManyNodes};
use alfirk_roce::wire::QpNum;

use super::HostNode;
use crate::network::message::Message;
use crate::network::Ctx;

impl HostNode {
    /// Creates the queue pairs of a transfer. An earlier transfer with the same id is closed.
    pub(in crate::network) fn prepare(
        &mut self,
        id: TransferId,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, CommandError> {
        self.close(id);
        self.application.prepare(&mut self.host, id, spec)
    }

    /// Connects the queue pairs of a transfer at this host.
    pub(in crate::network) fn connect(
        &mut self,
        id: TransferId,
        peers: &[Endpoint],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), CommandError> {
        self.application
            .connect(&mut self.host, ctx.now(), id, peers)?;
        self.collect(ctx.now(), ctx);
        self.finish_event(ctx);
        Ok(())
    }

    /// Sets the data that this host should receive, with which the received data is compared.
    pub(in crate::network) fn set_expected_data(
        &mut self,
        id: TransferId,
        original: &Arc<ExpectedData>,
    ) {
        // Hosts that take no part in the transfer receive nothing.
        let _ = self
            .application
            .set_expected_data(&mut self.host, id, Arc::clone(original));
    }

    /// Makes the application begin to post the data of a transfer. The data reaches the NIC after the time that posting
    /// takes.
    pub(in crate::network) fn start(&mut self, id: TransferId, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        ctx.note(|| format!("post {} B", data.len()));
        let delay = self.model.posting_ns(data.len() as u64);
        ctx.send(ctx.node(), Message::PostFirst { id, data }, delay);
    }

    // ---- Legs of a transfer ----

    /// Executes a command in a transfer. After [`LegCommand::Leave`],
    /// [`MemberEvent::Left`] is reported once the application has processed what the queue pairs of the leg delivered.
    /// A leg is the part of a transfer that one algorithm carries.
    pub(in crate::network) fn execute_leg_command(
        &mut self,
        id: TransferId,
        command: LegCommand,
        ctx: &mut Ctx<'_>,
    ) -> Result<LegReply, CommandError> {
        let (leaves, resumes) = match command {
            LegCommand::Leave => (true, false),
            LegCommand::Resume { .. } => (false, true),
            _ => (false, false),
        };
        if leaves {
            ctx.note(|| "leave".to_string());
        }
        let reply = self.application.act(&mut self.host, ctx.now(), id, command);
        if !leaves && !resumes {
            // A leg without connections ends at once.
            self.collect(ctx.now(), ctx);
        }
        self.finish_event(ctx);
        if leaves {
            let seen = self.free_at.max(ctx.now()) - ctx.now();
            let message = Message::LegHandled { id };
            ctx.send(ctx.node(), message, seen + self.model.post_delay);
        }
        reply
    }

    /// Removes and returns the next event of a transfer.
    pub(in crate::network) fn next_event(&mut self) -> Option<(TransferId, MemberEvent)> {
        self.events.pop_front()
    }

    /// Ends a transfer, destroys its queue pairs and releases its memory.
    pub(in crate::network) fn close(&mut self, id: TransferId) {
        // A host that takes no part in the transfer has nothing to close.
        let _ = self.application.close(&mut self.host, id);
        self.hostile = None;
        self.events.retain(|(of, _)| *of != id);
    }

    /// Calls a function on the NIC now, outside of any transfer.
    pub(in crate::network) fn on_nic<R>(
        &mut self,
        act: impl FnOnce(&mut Host, u64) -> R,
        ctx: &mut Ctx<'_>,
    ) -> R {
        let result = act(&mut self.host, ctx.now());
        self.finish_event(ctx);
        result
    }

    // ---- Registration in band ----

    /// Allows the leader of a group (the host that registers it in band) to register one of this host's queue pairs.
    pub(in crate::network) fn allow_registration(&mut self, qpn: QpNum, group: ExpectedGroup) {
        self.application.expect(&mut self.host, qpn, group);
    }

    /// Registers a group with this host as the leader; [`MemberEvent::Group`] reports the result.
    pub(in crate::network) fn register_in_band(
        &mut self,
        spec: GroupSpec,
        timing: LeaderTiming,
        nodes: &[Node],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), TooManyNodes> {
        let now = ctx.now();
        self.application
            .lead(&mut self.host, now, spec, timing, nodes)?;
        self.finish_event(ctx);
        Ok(())
    }

    /// Deregisters the in-band group that this host leads.
    pub(in crate::network) fn deregister_in_band(&mut self, ctx: &mut Ctx<'_>) {
        self.application.deregister(&mut self.host, ctx.now());
        self.finish_event(ctx);
    }

    /// Reports to the fabric that a group to which this host sends makes no progress.
    pub(in crate::network) fn report_stall(&mut self, mcst_id: Ipv4Addr, ctx: &mut Ctx<'_>) {
        self.application
            .report_stall(&mut self.host, ctx.now(), mcst_id);
        self.finish_event(ctx);
    }
}
