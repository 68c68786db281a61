//! Event loop of `alfirk host`: one thread that serves the network, the timers and the clients of the control socket.

mod requests;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use alfirk_packet_io::{monotonic, Clock, Poller};
use alfirk_roce::application::{Application, MemberEvent, TransferId};
use alfirk_roce::collective::Progress;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use self::requests::Post;
use super::attack::Attack;
use super::control::Control;
use super::protocol::{Event, Line};
use super::station::Station;
use crate::exit::{Failure, Outcome};

/// Tokens of epoll: the source of input that is ready.
const STATION: u64 = 0;
const SIGNALS: u64 = 1;
const LISTENER: u64 = 2;
const FIRST_CLIENT: u64 = 3;

/// Minimum time between two progress events of a transfer, in nanoseconds of the system's clock.
const PROGRESS_INTERVAL: u64 = 200_000_000;
/// Time until output is retried that the interface or a client did not accept, in nanoseconds of the system's clock.
const RETRY_INTERVAL: u64 = 200_000;
/// Time between two polls for a client of a control device, in nanoseconds of the system's clock.
const DEVICE_POLL_INTERVAL: u64 = 50_000_000;

/// Runs the event loop until a signal or the request `stop`.
pub(super) fn run(station: Box<dyn Station>, control: &Path, clock: Clock) -> Outcome {
    Driver::new(station, control, clock)?.run()
}

/// State of the event loop.
struct Driver {
    station: Box<dyn Station>,
    /// Clock of the host and its application.
    clock: Clock,
    /// Requests to send data that the application has posted and that have not reached the NIC yet.
    posts: Vec<Post>,
    control: Control,
    signals: SignalFd,
    poller: Poller,
    application: Application,
    /// Progress of each transfer that was last reported.
    progress: BTreeMap<TransferId, Progress>,
    /// The sender of harmful packets, and the transfer for whose duration it runs; `None` if it is off.
    attack: Option<(TransferId, Attack)>,
    /// Earliest time of the next progress events, in nanoseconds of the host's clock.
    next_progress: u64,
    stopping: bool,
}

impl Driver {
    fn new(station: Box<dyn Station>, control: &Path, clock: Clock) -> Result<Driver, Failure> {
        let system = |what: &str, error: io::Error| {
            Failure::failed(format_args!("cannot set up {what}: {error}"))
        };
        let mask = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        mask.thread_block()
            .map_err(|e| system("signals", e.into()))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals =
            SignalFd::with_flags(&mask, flags).map_err(|e| system("signals", e.into()))?;
        let control = Control::open(control, FIRST_CLIENT).map_err(|error| {
            Failure::failed(format_args!("--control {}: {error}", control.display()))
        })?;
        let poller = Poller::new().map_err(|e| system("epoll", e))?;
        let listener = control.listener_fd().map(|fd| (fd, LISTENER));
        let own = [(station.as_fd(), STATION), (signals.as_fd(), SIGNALS)];
        for (fd, token) in own.into_iter().chain(listener) {
            poller.add(fd, token).map_err(|e| system("epoll", e))?;
        }
        Ok(Driver {
            station,
            clock,
            posts: Vec::new(),
            control,
            signals,
            poller,
            application: Application::default(),
            progress: BTreeMap::new(),
            attack: None,
            next_progress: 0,
            stopping: false,
        })
    }

    fn run(&mut self) -> Outcome {
        let mut ready = Vec::new();
        while !self.stopping {
            // Packets that events cause, such as a relayed slice, are sent in the same iteration.
            self.dispatch_events();
            let more = self.station.transmit()?;
            let unread = self.control.flush();
            self.accept()?;
            let now = self.clock.now();
            let deadline = if more {
                Some(now)
            } else {
                let stuck = (unread || self.station.is_stuck())
                    .then_some(now + self.host_nanoseconds(RETRY_INTERVAL));
                let progress = self.has_unreported_progress().then_some(self.next_progress);
                let host = self.station.poll_timeout();
                let application = self.application.poll_timeout();
                let knock = self
                    .control
                    .needs_polling()
                    .then_some(now + self.host_nanoseconds(DEVICE_POLL_INTERVAL));
                let attack = self
                    .attack
                    .as_ref()
                    .map(|(_, attack)| attack.next_send_at());
                let attack = attack.map(|at| self.host_nanoseconds(at));
                let post = self.posts.iter().map(Post::due).min();
                [host, application, stuck, progress, knock, attack, post]
                    .into_iter()
                    .flatten()
                    .min()
            };
            let deadline = deadline.map(|at| self.clock.system(at));
            self.poller
                .wait(deadline, &mut ready)
                .map_err(|e| Failure::failed(format_args!("epoll: {e}")))?;
            for token in std::mem::take(&mut ready) {
                match token {
                    STATION => self.station.receive()?,
                    SIGNALS => self.stopping |= matches!(self.signals.read_signal(), Ok(Some(_))),
                    LISTENER => self.accept()?,
                    client => {
                        for incoming in self.control.read(client) {
                            self.reply(incoming);
                        }
                    }
                }
            }
            let now = self.clock.now();
            self.start_due_posts(now);
            if self.station.poll_timeout().is_some_and(|at| at <= now) {
                self.station.handle_timeout(now);
            }
            let application = &mut self.application;
            if application.poll_timeout().is_some_and(|at| at <= now) {
                self.station.advance_clock(now);
                application.handle_timeout(self.station.verbs_mut(), now);
            }
            if let Some((_, attack)) = &mut self.attack {
                attack
                    .send(monotonic())
                    .map_err(|e| Failure::failed(format_args!("hostile packets: {e}")))?;
            }
        }
        self.control.flush();
        self.station.finish()
    }

    /// Converts nanoseconds of the system's clock to nanoseconds of this host's clock.
    fn host_nanoseconds(&self, ns: u64) -> u64 {
        ns / self.clock.scale()
    }

    // ---- Application ----

    /// Passes the host's events to the application, and sends the application's events to the clients.
    fn dispatch_events(&mut self) {
        let now = self.clock.now();
        while let Some((seen_at, event)) = self.station.poll_event(now) {
            let host = self.station.verbs_mut();
            self.application.handle_event(host, now, seen_at, &event);
        }
        if now >= self.next_progress {
            self.report_progress();
            self.next_progress = now + self.host_nanoseconds(PROGRESS_INTERVAL);
        }
        while let Some((transfer, event)) = self.application.poll() {
            self.report(transfer, event);
        }
    }

    /// Sends an event of the application to the clients.
    fn report(&mut self, transfer: TransferId, event: MemberEvent) {
        let event = Event::of_member(transfer, event);
        self.control.broadcast(&Line::Event(event));
    }

    /// Reports the progress of each transfer if it has changed.
    fn report_progress(&mut self) {
        for (id, transfer) in self.application.transfers() {
            let progress = transfer.progress(self.station.verbs());
            if self.progress.insert(id, progress) != Some(progress) {
                let TransferId(transfer) = id;
                self.control
                    .broadcast(&Line::Event(Event::Progress { transfer, progress }));
            }
        }
    }

    /// Whether a client is connected and a transfer has made progress that has not been reported.
    fn has_unreported_progress(&self) -> bool {
        let host = self.station.verbs();
        let mut transfers = self.application.transfers();
        self.control.has_clients()
            && transfers.any(|(id, transfer)| {
                self.application.is_active(id)
                    && self.progress.get(&id) != Some(&transfer.progress(host))
            })
    }

    fn accept(&mut self) -> Outcome {
        for (fd, token) in self.control.accept() {
            self.poller
                .add(fd, token)
                .map_err(|e| Failure::failed(format_args!("epoll: {e}")))?;
        }
        Ok(())
    }
}
