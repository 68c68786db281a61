//! Posts and events of a host's application, and its reports to the orchestrator.

use std::sync::Arc;

use alfirk_experiment::{MemberEvent, TransferId};
use alfirk_roce::host::HostEvent;

use super::HostNode;
use crate::network::Ctx;

impl HostNode {
    /// Processes a post of the application that has reached the NIC.
    pub(super) fn started(&mut self, id: TransferId, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        // The application began to post at this earlier time.
        let posting = self.model.posting_ns(data.len() as u64);
        let posted_at = ctx.now().saturating_sub(posting);
        self.application
            .start_posted(&mut self.host, posted_at, id, data);
        self.collect(ctx.now(), ctx);
    }

    /// Processes an event that the application has handled at `seen_at`. The posts that result reach the NIC now.
    pub(super) fn handled(&mut self, event: &HostEvent, seen_at: u64, ctx: &mut Ctx<'_>) {
        let (host, now) = (&mut self.host, ctx.now());
        self.application.handle_event(host, now, seen_at, event);
        self.collect(seen_at, ctx);
    }

    /// Collects the events of the application. `seen_at`: time at which the application processed their cause.
    pub(super) fn collect(&mut self, seen_at: u64, ctx: &mut Ctx<'_>) {
        self.collect_datagrams(seen_at, ctx);
        while let Some((id, event)) = self.application.poll() {
            self.report(id, event, ctx);
        }
    }

    /// Stores an event of a transfer for the caller, and adds a note to the trace.
    pub(super) fn report(&mut self, id: TransferId, event: MemberEvent, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        // The time of the note is left out of its text.
        let at_time = |at: u64| match at == now {
            true => String::new(),
            false => format!(" at {at} ns of the fabric's clock"),
        };
        ctx.note(|| {
            let text = match &event {
                MemberEvent::Ready => "ready".to_string(),
                MemberEvent::Done { at, .. } => format!("done{}", at_time(*at)),
                MemberEvent::PartDone { part, at } => {
                    format!("part {part} done{}", at_time(*at))
                }
                MemberEvent::Finished => "finished".to_string(),
                MemberEvent::Left { held, beyond } => {
                    format!("left with {} slices", *held as usize + beyond.len())
                }
                MemberEvent::Failed { why } => format!("failed: {why}"),
                MemberEvent::Group(event) => format!("group: {event:?}"),
            };
            match id {
                TransferId::MAIN => text,
                TransferId(number) => format!("transfer {number}: {text}"),
            }
        });
        self.events.push_back((id, event));
        ctx.notify();
    }
}
