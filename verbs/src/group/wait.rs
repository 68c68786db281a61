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
use super::{over, succeeded, Group, GroupError, Result, Way, LEADER};

/// The longest sleep.
pub(super) const NAP: Duration = Duration::from_millis(200);
/// The longest sleep of a caller that has something else to do.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// Waits until one of these is readable, so long at most.
pub(super) fn readable<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    longest: Duration,
    until: Instant,
) {
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let left = until.saturating_duration_since(Instant::now()).min(longest);
    // Rounded up: a wait of less than a millisecond is not a busy loop.
    let timeout = PollTimeout::from(left.as_micros().div_ceil(1000) as u16);
    // An error, or a signal, is found by whoever reads next.
    let _ = poll(&mut fds, timeout);
}

impl Group {
    pub(super) fn check_time(&self, deadline: Instant, what: &'static str) -> Result<()> {
        match Instant::now() > deadline {
            true => Err(GroupError::Timeout(what)),
            false => Ok(()),
        }
    }

    /// Sleeps until something comes, and takes it.
    pub(super) fn pump(&mut self, deadline: Instant, what: &'static str) -> Result<()> {
        self.pump_for(NAP, deadline, what)
    }

    /// The same, for so long at most.
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
            self.answer_leavers(deadline);
            self.stall(self.now());
        }
        Ok(())
    }

    /// Takes what is here.
    pub(super) fn handle_ready(&mut self) {
        self.device.handle_ready();
        self.take_events();
        let now = self.now();
        if self.registrar.poll_timeout().is_some_and(|at| at <= now) {
            self.registrar.handle_timeout(&mut self.device, now);
        }
        self.take_news();
        self.take_mail();
    }

    /// Sorts the device's events.
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

    fn take_news(&mut self) {
        while let Some(news) = self.registrar.poll() {
            if let LeaderEvent::Lost { members } = &news {
                let cards = self.cards.iter().enumerate();
                for (rank, _) in cards.filter(|(_, card)| members.contains(&card.ip)) {
                    tracing::warn!("member {rank} does not answer and is out of the group");
                    self.alive.remove(&(rank as u32));
                    self.links.remove(&(rank as u32));
                }
            }
            self.news.push_back(news);
        }
    }

    fn take_mail(&mut self) {
        let mut gone = Vec::new();
        for (rank, link) in &mut self.links {
            loop {
                match link.receive() {
                    Ok(Some(message)) => self.mail.push_back((*rank, message)),
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
            // Who ends without a word leaves as well as who says so.
            let last = match self.rank {
                LEADER => Message::Leave,
                _ => Message::Bye,
            };
            self.mail.push_back((rank, last));
        }
    }

    /// Takes members out that have asked for it.
    fn answer_leavers(&mut self, deadline: Instant) {
        let is_leaver = |(_, message): &&(u32, Message)| *message == Message::Leave;
        let leavers: Vec<u32> = self.mail.iter().filter(is_leaver).map(|m| m.0).collect();
        self.mail.retain(|(_, message)| *message != Message::Leave);
        for rank in leavers {
            if !self.alive.remove(&rank) {
                continue;
            }
            if self.way == Way::Multicast {
                let ip = self.cards[rank as usize].ip;
                let (now, device) = (self.started.elapsed().as_nanos() as u64, &mut self.device);
                let asked = self
                    .registrar
                    .leader()
                    .map(|leader| leader.leave(device, now, &[ip]));
                if let Some(Ok(())) = asked {
                    let left = self.until_news(deadline, "taking a member out", |news| {
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
            let _ = self.tell(rank, &Message::Bye);
            self.links.remove(&rank);
        }
    }

    /// Tells the fabric that nothing happens, so that it looks for the dead.
    fn stall(&mut self, now: u64) {
        if self.posted == 0 || self.patient || Instant::now() < self.next_stall {
            return;
        }
        self.next_stall = Instant::now() + self.stall_time();
        let mcst_id = self.config.address;
        self.registrar.stalled(&mut self.device, now, mcst_id);
    }

    /// How long nothing may be acknowledged until the fabric is asked to look for the dead.
    fn stall_time(&self) -> Duration {
        Duration::from_nanos(self.patience.stall_ns())
    }

    // ---- Completions ----

    /// The next completion of a queue pair.
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

    /// The next completion of a queue pair, if it is here.
    pub(super) fn completed(&mut self, qpn: QpNum) -> Result<Option<Completion>> {
        if let Some(at) = self.inbox.iter().position(|done| done.qpn == qpn) {
            let done = self.inbox.remove(at).expect("it was found there");
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
                return Ok(self.news.remove(at).expect("it was found there"));
            }
            self.pump(deadline, what)?;
        }
    }

    // ---- The others ----

    pub(super) fn tell(&mut self, rank: u32, message: &Message) -> Result<()> {
        let Some(link) = self.links.get_mut(&rank) else {
            return Err(over(match rank {
                LEADER => "the leader has gone",
                _ => "a member has gone",
            }));
        };
        link.send(message).map_err(|error| GroupError::Connection {
            what: format!("member {rank}"),
            error,
        })
    }

    /// The next message of a member.
    pub(super) fn mail_from(
        &mut self,
        rank: u32,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Message> {
        loop {
            if let Some(at) = self.mail.iter().position(|(from, _)| *from == rank) {
                let (_, message) = self.mail.remove(at).expect("it was found there");
                return Ok(message);
            }
            if !self.links.contains_key(&rank) {
                return Err(over(match rank {
                    LEADER => "the leader has gone",
                    _ => "a member has gone",
                }));
            }
            self.pump(deadline, what)?;
        }
    }

    /// At the leader: waits until every other member is ready; gives the first error that one has reported.
    pub(super) fn gather(
        &mut self,
        deadline: Instant,
        what: &'static str,
    ) -> Result<Option<String>> {
        let mut first = None;
        for rank in self.others() {
            // It may leave, or be lost, while it is waited for.
            while self.alive.contains(&rank) {
                let at = |(from, m): &(u32, Message)| {
                    *from == rank && matches!(m, Message::Ready { .. })
                };
                if let Some(at) = self.mail.iter().position(at) {
                    if let Some((_, Message::Ready { error: Some(why) })) = self.mail.remove(at) {
                        first.get_or_insert(format!("member {rank}: {why}"));
                    }
                    break;
                }
                self.pump(deadline, what)?;
            }
        }
        Ok(first)
    }

    /// At the leader: lets all others go on.
    pub(super) fn go(&mut self) -> Result<()> {
        let message = Message::Go {
            way: self.way,
            alive: self.alive.iter().copied().collect(),
        };
        for rank in self.others() {
            self.tell(rank, &message)?;
        }
        Ok(())
    }

    /// At the others: waits until the leader lets them go on.
    pub(super) fn until_go(&mut self, deadline: Instant) -> Result<()> {
        match self.mail_from(LEADER, deadline, "waiting for the other members")? {
            Message::Go { way, alive } => {
                self.way = way;
                self.alive = alive.into_iter().collect();
                Ok(())
            }
            Message::Bye => Err(over("the leader has ended it")),
            _ => Err(over("the leader does not speak our language")),
        }
    }

    /// All members wait here for each other.
    pub(super) fn meet(&mut self, deadline: Instant) -> Result<()> {
        if self.rank == LEADER {
            self.gather(deadline, "waiting for the other members")?;
            return self.go();
        }
        self.tell(LEADER, &Message::Ready { error: None })?;
        self.until_go(deadline)
    }
}
