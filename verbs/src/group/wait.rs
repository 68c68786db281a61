//! Waiting: for completions and for the fabric.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use alfirk_roce::application::MemberEvent;
use alfirk_roce::host::HostEvent;
use alfirk_roce::rc::Completion;
use alfirk_roce::registration::LeaderEvent;
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::QpNum;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::link::Message;
use super::{check_completion, Group, GroupError, Result, Transport, LEADER};

/// Maximum time of a sleep that waits for events.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(200);
/// Maximum time between two calls of the function that the caller of [`Group::signal`] supplies.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until one of the descriptors is readable, or `longest` has passed, or the time `until` is reached.
pub(super) fn readable<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    longest: Duration,
    until: Instant,
) {
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let left = until.saturating_duration_since(Instant::now()).min(longest);
    // Rounded up, so that a wait of less than a millisecond does not become a busy loop.
    let timeout = PollTimeout::from(left.as_micros().div_ceil(1000) as u16);
    // An error or a signal shows at the next read.
    let _ = poll(&mut fds, timeout);
}

impl Group {
    /// Fails if the deadline has passed. `what`: what the caller waits for, for the error.
    pub(super) fn check_time(&self, deadline: Instant, what: &'static str) -> Result<()> {
        match Instant::now() > deadline {
            true => Err(GroupError::Timeout(what)),
            false => Ok(()),
        }
    }

    /// Waits until there is an event, and handles it. `what`: what the caller waits for, for the timeout error.
    pub(super) fn wait_for_event(&mut self, deadline: Instant, what: &'static str) -> Result<()> {
        self.wait_for_event_within(MAX_SLEEP, deadline, what)
    }

    /// Waits for an event as [`Group::wait_for_event`] does, but for at most `longest`.
    pub(super) fn wait_for_event_within(
        &mut self,
        longest: Duration,
        deadline: Instant,
        what: &'static str,
    ) -> Result<()> {
        self.check_time(deadline, what)?;
        let mut until = deadline;
        if let Some(at) = self.application.poll_timeout() {
            until = until.min(self.started + Duration::from_nanos(at));
        }
        let links = self.links.values().map(AsFd::as_fd);
        readable(links.chain([self.device.as_fd()]), longest, until);
        self.handle_ready();
        if self.rank == LEADER {
            self.remove_leavers(deadline);
            self.report_stall(self.now());
        }
        Ok(())
    }

    /// Handles all pending events of device and TCP connections, without waiting.
    pub(super) fn handle_ready(&mut self) {
        self.device.handle_ready();
        self.take_events();
        let now = self.now();
        if self.application.poll_timeout().is_some_and(|at| at <= now) {
            self.application.handle_timeout(&mut self.device, now);
        }
        self.take_leader_events();
        self.take_messages();
    }

    /// Passes the events of the device to the application. Completions and failures that belong to neither a
    /// registration nor a transfer are those of the group's own messages.
    pub(super) fn take_events(&mut self) {
        let now = self.now();
        while let Some(event) = self.device.poll_event() {
            let device = &mut self.device;
            if self.application.handle_event(device, now, now, &event) {
                continue;
            }
            match event {
                HostEvent::Completion(done) => {
                    self.next_stall = Instant::now() + self.stall_time();
                    self.inbox.push_back(done);
                }
                HostEvent::QpFailed { qpn, failure } => self.failures.push((qpn, failure)),
                HostEvent::Connected { .. }
                | HostEvent::Datagram(_)
                | HostEvent::Resolved { .. }
                | HostEvent::Udp { .. } => {}
            }
        }
    }

    /// Handles the events of the group's in-band registration, and removes members that the fabric has lost.
    fn take_leader_events(&mut self) {
        while let Some((_, event)) = self.application.poll() {
            // A group takes part in no transfer.
            let MemberEvent::Group(event) = event else {
                continue;
            };
            if let LeaderEvent::Lost { members } = &event {
                let infos = self.member_infos.iter().enumerate();
                for (rank, _) in infos.filter(|(_, info)| members.contains(&info.ip)) {
                    tracing::warn!("member {rank} does not respond and was removed from the group");
                    self.alive.remove(&(rank as u32));
                    self.links.remove(&(rank as u32));
                }
            }
            self.leader_events.push_back(event);
        }
    }

    /// At the leader: removes the members that have sent [`Message::Leave`].
    fn remove_leavers(&mut self, deadline: Instant) {
        let is_leaver = |(_, message): &&(u32, Message)| *message == Message::Leave;
        let leavers: Vec<u32> = self
            .messages
            .iter()
            .filter(is_leaver)
            .map(|m| m.0)
            .collect();
        self.messages
            .retain(|(_, message)| *message != Message::Leave);
        for rank in leavers {
            if !self.alive.remove(&rank) {
                continue;
            }
            if self.transport == Transport::Multicast {
                let ip = self.member_infos[rank as usize].ip;
                let now = self.now();
                let device = &mut self.device;
                if self.application.remove_members(device, now, &[ip]) {
                    let left = self.wait_for_leader_event(deadline, "removing a member", |event| {
                        matches!(
                            event,
                            LeaderEvent::Left
                                | LeaderEvent::GaveUp { .. }
                                | LeaderEvent::Refused { .. }
                        )
                    });
                    if !matches!(left, Ok(LeaderEvent::Left)) {
                        tracing::warn!("member {rank} leaves, but the fabric has not removed it from the group: {left:?}");
                    }
                }
            }
            let _ = self.send_message(rank, &Message::Bye);
            self.links.remove(&rank);
        }
    }

    /// If the group makes no progress, reports that to the fabric, which then checks the members.
    fn report_stall(&mut self, now: u64) {
        if self.posted == 0 || self.has_no_deadline || Instant::now() < self.next_stall {
            return;
        }
        self.next_stall = Instant::now() + self.stall_time();
        let mcst_id = self.config.address;
        self.application
            .report_stall(&mut self.device, now, mcst_id);
    }

    /// Time without a completion after which a lack of progress is reported to the fabric.
    fn stall_time(&self) -> Duration {
        Duration::from_nanos(self.retry_timeout.stall_ns())
    }

    // ---- Completions ----

    /// Waits for the next completion of a queue pair.
    pub(super) fn wait_for_completion(
        &mut self,
        qpn: QpNum,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Completion> {
        loop {
            if let Some(done) = self.take_completion(qpn)? {
                return Ok(done);
            }
            self.wait_for_event(deadline, what)?;
        }
    }

    /// Removes and returns the next completion of a queue pair, without waiting; `None` if there is none.
    pub(super) fn take_completion(&mut self, qpn: QpNum) -> Result<Option<Completion>> {
        if let Some(at) = self.inbox.iter().position(|done| done.qpn == qpn) {
            let done = self.inbox.remove(at).expect("the index was just found");
            check_completion(done)?;
            return Ok(Some(done));
        }
        self.check_failures(qpn)?;
        Ok(None)
    }

    /// Fails if the queue pair has failed.
    pub(super) fn check_failures(&self, qpn: QpNum) -> Result<()> {
        match self.failures.iter().find(|(of, _)| *of == qpn) {
            Some((_, failure)) => Err((*failure).into()),
            None => Ok(()),
        }
    }

    // ---- The fabric ----

    /// Waits for an event of the group's in-band registration for which `is_expected` is true, and removes and returns
    /// it.
    pub(super) fn wait_for_leader_event(
        &mut self,
        deadline: Instant,
        what: &'static str,
        is_expected: impl Fn(&LeaderEvent) -> bool,
    ) -> Result<LeaderEvent> {
        loop {
            if let Some(at) = self.leader_events.iter().position(&is_expected) {
                return Ok(self
                    .leader_events
                    .remove(at)
                    .expect("the index was just found"));
            }
            self.wait_for_event(deadline, what)?;
        }
    }
}
