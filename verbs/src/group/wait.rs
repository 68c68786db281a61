//! Waiting: for completions, for the other members, and for the fabric.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use alfirk_roce::host::HostEvent;
use alfirk_roce::rc::Completion;
use alfirk_roce::registration::LeaderEvent;
use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::QpNum;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::link::Message;
use super::{ended, succeeded, Group, GroupError, Result, Transport, LEADER};

/// Longest sleep while waiting for events.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(200);
/// Longest sleep between two calls of a function that the caller of [`Group::signal`] supplies.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until one of the descriptors is readable, but not longer than `longest`, and not beyond `until`.
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
    pub(super) fn check_time(&self, deadline: Instant, what: &'static str) -> Result<()> {
        match Instant::now() > deadline {
            true => Err(GroupError::Timeout(what)),
            false => Ok(()),
        }
    }

    /// Sleeps until there is an event, and handles it. `what`: what the caller waits for, for the timeout error.
    pub(super) fn pump(&mut self, deadline: Instant, what: &'static str) -> Result<()> {
        self.pump_for(MAX_SLEEP, deadline, what)
    }

    /// Like [`Group::pump`], with a limit for the sleep.
    pub(super) fn pump_for(
        &mut self,
        longest: Duration,
        deadline: Instant,
        what: &'static str,
    ) -> Result<()> {
        self.check_time(deadline, what)?;
        let mut until = deadline;
        if let Some(at) = self.registrar.poll_timeout() {
            until = until.min(self.started + Duration::from_nanos(at));
        }
        let links = self.links.values().map(AsFd::as_fd);
        readable(links.chain([self.device.as_fd()]), longest, until);
        self.handle_ready();
        if self.rank == LEADER {
            self.remove_leavers(deadline);
            self.stall(self.now());
        }
        Ok(())
    }

    /// Handles all pending events.
    pub(super) fn handle_ready(&mut self) {
        self.device.handle_ready();
        self.take_events();
        let now = self.now();
        if self.registrar.poll_timeout().is_some_and(|at| at <= now) {
            self.registrar.handle_timeout(&mut self.device, now);
        }
        self.take_leader_events();
        self.take_messages();
    }

    /// Distributes the events of the device.
    pub(super) fn take_events(&mut self) {
        let now = self.now();
        while let Some(event) = self.device.poll_event() {
            if self.registrar.handle_event(&mut self.device, now, &event) {
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

    fn take_leader_events(&mut self) {
        while let Some(news) = self.registrar.poll() {
            if let LeaderEvent::Lost { members } = &news {
                let cards = self.cards.iter().enumerate();
                for (rank, _) in cards.filter(|(_, card)| members.contains(&card.ip)) {
                    tracing::warn!("member {rank} does not respond and was removed from the group");
                    self.alive.remove(&(rank as u32));
                    self.links.remove(&(rank as u32));
                }
            }
            self.news.push_back(news);
        }
    }

    fn take_messages(&mut self) {
        let mut gone = Vec::new();
        for (rank, link) in &mut self.links {
            loop {
                match link.receive() {
                    Ok(Some(message)) => self.messages.push_back((*rank, message)),
                    Ok(None) => break,
                    Err(_) => {
                        gone.push(*rank);
                        break;
                    }
                }
            }
        }
        for rank in gone {
            self.links.remove(&rank);
            // A closed connection counts as a request to leave.
            let last = match self.rank {
                LEADER => Message::Leave,
                _ => Message::Bye,
            };
            self.messages.push_back((rank, last));
        }
    }

    /// At the leader: removes the members that have requested it.
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
            if self.way == Transport::Multicast {
                let ip = self.cards[rank as usize].ip;
                let (now, device) = (self.started.elapsed().as_nanos() as u64, &mut self.device);
                let requested = self
                    .registrar
                    .leader()
                    .map(|leader| leader.leave(device, now, &[ip]));
                if let Some(Ok(())) = requested {
                    let left = self.until_news(deadline, "removing a member", |news| {
                        matches!(
                            news,
                            LeaderEvent::Left
                                | LeaderEvent::GaveUp { .. }
                                | LeaderEvent::Refused { .. }
                        )
                    });
                    if !matches!(left, Ok(LeaderEvent::Left)) {
                        tracing::warn!("member {rank} leaves: {left:?}");
                    }
                }
            }
            let _ = self.send_message(rank, &Message::Bye);
            self.links.remove(&rank);
        }
    }

    /// Reports to the fabric that the group makes no progress, so that it checks the members.
    fn stall(&mut self, now: u64) {
        if self.posted == 0 || self.has_no_deadline || Instant::now() < self.next_stall {
            return;
        }
        self.next_stall = Instant::now() + self.stall_time();
        let mcst_id = self.config.address;
        self.registrar.stalled(&mut self.device, now, mcst_id);
    }

    /// Time without an acknowledgement after which the fabric is requested to check the members.
    fn stall_time(&self) -> Duration {
        Duration::from_nanos(self.patience.stall_ns())
    }

    // ---- Completions ----

    /// Waits for the next completion of a queue pair.
    pub(super) fn completion(
        &mut self,
        qpn: QpNum,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Completion> {
        loop {
            if let Some(done) = self.completed(qpn)? {
                return Ok(done);
            }
            self.pump(deadline, what)?;
        }
    }

    /// Removes and returns the next completion of a queue pair, without waiting; `None` if there is none.
    pub(super) fn completed(&mut self, qpn: QpNum) -> Result<Option<Completion>> {
        if let Some(at) = self.inbox.iter().position(|done| done.qpn == qpn) {
            let done = self.inbox.remove(at).expect("the index was just found");
            succeeded(done)?;
            return Ok(Some(done));
        }
        self.check_failures(qpn)?;
        Ok(None)
    }

    pub(super) fn check_failures(&self, qpn: QpNum) -> Result<()> {
        match self.failures.iter().find(|(of, _)| *of == qpn) {
            Some((_, failure)) => Err((*failure).into()),
            None => Ok(()),
        }
    }

    // ---- The fabric ----

    pub(super) fn until_news(
        &mut self,
        deadline: Instant,
        what: &'static str,
        is_right: impl Fn(&LeaderEvent) -> bool,
    ) -> Result<LeaderEvent> {
        loop {
            if let Some(at) = self.news.iter().position(&is_right) {
                return Ok(self.news.remove(at).expect("the index was just found"));
            }
            self.pump(deadline, what)?;
        }
    }

    // ---- The others ----

    pub(super) fn send_message(&mut self, rank: u32, message: &Message) -> Result<()> {
        let Some(link) = self.links.get_mut(&rank) else {
            return Err(ended(match rank {
                LEADER => "the leader has left",
                _ => "a member has left",
            }));
        };
        link.send(message).map_err(|error| GroupError::Connection {
            what: format!("member {rank}"),
            error,
        })
    }

    /// Waits for the next message of a member.
    pub(super) fn message_from(
        &mut self,
        rank: u32,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Message> {
        loop {
            if let Some(at) = self.messages.iter().position(|(from, _)| *from == rank) {
                let (_, message) = self.messages.remove(at).expect("the index was just found");
                return Ok(message);
            }
            if !self.links.contains_key(&rank) {
                return Err(ended(match rank {
                    LEADER => "the leader has left",
                    _ => "a member has left",
                }));
            }
            self.pump(deadline, what)?;
        }
    }

    /// At the leader: waits until every other member is ready. Returns the first error that a member has reported.
    pub(super) fn gather(
        &mut self,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Option<String>> {
        let mut first = None;
        for rank in self.others() {
            // The member may leave or fail meanwhile.
            while self.alive.contains(&rank) {
                let at = |(from, m): &(u32, Message)| {
                    *from == rank && matches!(m, Message::Ready { .. })
                };
                if let Some(at) = self.messages.iter().position(at) {
                    if let Some((_, Message::Ready { error: Some(why) })) = self.messages.remove(at)
                    {
                        first.get_or_insert(format!("member {rank}: {why}"));
                    }
                    break;
                }
                self.pump(deadline, what)?;
            }
        }
        Ok(first)
    }

    /// At the leader: sends all others the message to continue.
    pub(super) fn go(&mut self) -> Result<()> {
        let message = Message::Go {
            way: self.way,
            alive: self.alive.iter().copied().collect(),
        };
        for rank in self.others() {
            self.send_message(rank, &message)?;
        }
        Ok(())
    }

    /// At members other than the leader: waits for the leader's message to continue.
    pub(super) fn until_go(&mut self, deadline: Instant) -> Result<()> {
        match self.message_from(LEADER, deadline, "waiting for the other members")? {
            Message::Go { way, alive } => {
                self.way = way;
                self.alive = alive.into_iter().collect();
                Ok(())
            }
            Message::Bye => Err(ended("the leader has ended it, or removed this member")),
            _ => Err(ended("unexpected message from the leader: expected `go`")),
        }
    }

    /// Waits until all members have reached this point.
    pub(super) fn synchronize(&mut self, deadline: Instant) -> Result<()> {
        if self.rank == LEADER {
            self.gather(deadline, "waiting for the other members")?;
            return self.go();
        }
        self.send_message(LEADER, &Message::Ready { error: None })?;
        self.until_go(deadline)
    }
}
