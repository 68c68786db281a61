//! Requests to the hosts of a Mininet network, their clocks, and their events.

use std::time::{Duration, Instant};

use alfirk_ctrl::topology::HostIndex;
use alfirk_experiment::{Fabric, FabricError, MemberEvent};
use alfirk_roce::application::TransferId;
use alfirk_roce::registration::LeaderEvent;

use super::{MininetFabric, GROUP_LIMIT};
use crate::host::protocol::{Event, Info, Reply, Request, Status};

/// Number of queries of a host's clock to measure its offset; the one with the shortest round trip is used.
const CLOCK_QUERIES: usize = 5;

impl MininetFabric {
    pub(super) fn request(
        &mut self,
        host: HostIndex,
        request: Request,
    ) -> Result<Reply, FabricError> {
        match self.hosts[host.0].request(request) {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Converts an error of a host's connection. If the network reports within half a second that a process has failed,
    /// returns that failure instead.
    pub(super) fn explain(&mut self, error: anyhow::Error) -> FabricError {
        let news = self.wait_for_input(Duration::from_millis(500), false);
        news.err()
            .unwrap_or_else(|| FabricError::Broken(format!("{error:#}")))
    }

    pub(super) fn unexpected(&self, host: HostIndex, reply: &Reply) -> FabricError {
        FabricError::Host {
            host: self.topology.host(host).name.clone(),
            why: format!("unexpected reply {reply:?}"),
        }
    }

    /// Sends a request that has no result to a host, and waits for its reply.
    pub(super) fn request_without_result(
        &mut self,
        host: HostIndex,
        request: Request,
    ) -> Result<(), FabricError> {
        match self.request(host, request)? {
            Reply::Accepted => Ok(()),
            other => Err(self.unexpected(host, &other)),
        }
    }

    pub(super) fn status(&mut self, host: HostIndex) -> Result<Status, FabricError> {
        let transfer = self.transfer;
        match self.request(host, Request::Status { transfer })? {
            Reply::Status(status) => Ok(status),
            other => Err(self.unexpected(host, &other)),
        }
    }

    pub(super) fn info(&mut self, host: HostIndex) -> Result<Info, FabricError> {
        match self.request(host, Request::Info)? {
            Reply::Info(info) => Ok(info),
            other => Err(self.unexpected(host, &other)),
        }
    }

    /// Measures the clock offset of a host that does not use this machine's clock. Called for each transfer, because
    /// clocks drift.
    pub(super) fn measure_clock_offset(&mut self, host: HostIndex) -> Result<(), FabricError> {
        let mut best: Option<(u64, i64)> = None;
        for _ in 0..CLOCK_QUERIES {
            let asked = self.now();
            let at = match self.request(host, Request::Clock)? {
                Reply::Clock { at } => at,
                other => return Err(self.unexpected(host, &other)),
            };
            let took = self.now() - asked;
            let behind = (asked + took / 2).wrapping_sub(at) as i64;
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, behind));
            }
        }
        if let Some((took, behind)) = best {
            self.clock_offsets.insert(host, behind);
            self.clock_error = self.clock_error.max(took.div_ceil(2));
        }
        Ok(())
    }

    /// Converts a time of a host's clock to this machine's clock, both in nanoseconds.
    pub(super) fn to_local_time(&self, host: HostIndex, at: u64) -> u64 {
        at.wrapping_add_signed(self.clock_offsets.get(&host).copied().unwrap_or(0))
    }

    /// A group's leader in messages, such as `leader h1`.
    pub(super) fn leader_name(&self, leader: HostIndex) -> String {
        format!("leader {}", self.topology.host(leader).name)
    }

    /// Waits until the leader of a group (the host that registers it) reports the result of its request.
    pub(super) fn wait_for_leader(
        &mut self,
        leader: HostIndex,
        what: &str,
    ) -> Result<LeaderEvent, FabricError> {
        let limit = self.to_network_time(GROUP_LIMIT);
        let deadline = self.now() + limit;
        // Events stay deferred until the leader has replied.
        let mut deferred_events = std::mem::take(&mut self.deferred_events);
        let led = loop {
            match self.next_event(deadline) {
                Err(error) => break Err(error),
                Ok(Some((host, MemberEvent::Group(event)))) if host == leader => break Ok(event),
                Ok(Some(other)) => deferred_events.push_back(other),
                Ok(None) => {
                    break Err(FabricError::Timeout {
                        what: what.to_string(),
                        seconds: GROUP_LIMIT.as_secs_f64(),
                    })
                }
            }
        };
        self.deferred_events = deferred_events;
        led
    }

    /// Returns the next event that a host has already reported, without waiting; `None` if there is none.
    pub(super) fn reported_event(
        &mut self,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        for _ in 0..self.hosts.len() {
            let host = HostIndex(self.next_polled_host);
            self.next_polled_host = (self.next_polled_host + 1) % self.hosts.len();
            while !self.killed.contains(&host) {
                let event = match self.hosts[host.0].next_event(Instant::now()) {
                    Ok(event) => event,
                    Err(error) => return Err(self.explain(error)),
                };
                let Some(event) = event else { break };
                if let Some(mut event) = member_event(event, self.transfer) {
                    if let MemberEvent::Done { at, .. } | MemberEvent::PartDone { at, .. } =
                        &mut event
                    {
                        *at = self.to_local_time(host, *at);
                    }
                    return Ok(Some((host, event)));
                }
            }
        }
        Ok(None)
    }
}

/// Converts an event of the host protocol to one of the fabric. `None` if the event belongs to another transfer than
/// `current`, or reports progress.
fn member_event(event: Event, current: u32) -> Option<MemberEvent> {
    let (of, event) = event.into_member_event()?;
    let is_current = of == TransferId(current) || matches!(event, MemberEvent::Group(_));
    is_current.then_some(event)
}
