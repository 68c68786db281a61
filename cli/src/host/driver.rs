//! Event loop of `alfirk host`: one thread that serves the network, the timers and the clients of the control socket.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use alfirk_packet_io::{monotonic, Clock, Poller};
use alfirk_roce::collective::{LegCommand, Progress, Transfer, TransferEvent};
use alfirk_roce::hostile::Hostile;
use alfirk_roce::registration::{LeaderTiming, Registrar};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::attack::Attack;
use super::control::{Control, Incoming};
use super::protocol::{EdgeStatus, Event, Line, Reply, Request, Status};
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
    transfers: BTreeMap<u32, RunningTransfer>,
    registrar: Registrar,
    /// The sender of harmful packets, and the number of the transfer for whose duration it runs; `None` if it is off.
    attack: Option<(u32, Attack)>,
    /// Earliest time of the next progress events, in nanoseconds of the host's clock.
    next_progress: u64,
    stopping: bool,
}

/// An application's request to send its data (a post), on its way to the NIC. Times are in nanoseconds of the host's
/// clock.
struct Post {
    transfer: u32,
    data: Arc<[u8]>,
    posted_at: u64,
    /// Time at which the post reaches the NIC.
    due: u64,
}

/// A transfer, with what has been reported about it.
struct RunningTransfer {
    transfer: Transfer,
    last_progress: Progress,
    is_finished_sent: bool,
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
            transfers: BTreeMap::new(),
            registrar: Registrar::default(),
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
                let (host, group) = (self.station.poll_timeout(), self.registrar.poll_timeout());
                let transfers = self.transfers.values();
                let transfers = transfers.filter_map(|r| r.transfer.poll_timeout()).min();
                let knock = self
                    .control
                    .needs_polling()
                    .then_some(now + self.host_nanoseconds(DEVICE_POLL_INTERVAL));
                let attack = self
                    .attack
                    .as_ref()
                    .map(|(_, attack)| attack.next_send_at());
                let attack = attack.map(|at| self.host_nanoseconds(at));
                let post = self.posts.iter().map(|post| post.due).min();
                [host, group, transfers, stuck, progress, knock, attack, post]
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
            for running in self.transfers.values_mut() {
                let transfer = &mut running.transfer;
                if transfer.poll_timeout().is_some_and(|at| at <= now) {
                    self.station.advance_clock(now);
                    transfer.handle_timeout(self.station.verbs_mut(), now);
                }
            }
            if self.registrar.poll_timeout().is_some_and(|at| at <= now) {
                self.station.advance_clock(now);
                self.registrar.handle_timeout(self.station.verbs_mut(), now);
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

    // ---- Transfers ----

    /// Starts the transfers whose post has reached the NIC by `now`.
    fn start_due_posts(&mut self, now: u64) {
        while let Some(index) = self.posts.iter().position(|post| post.due <= now) {
            let post = self.posts.remove(index);
            let transfer = post.transfer;
            // The client may have closed the transfer meanwhile.
            let Some(running) = self.transfers.get_mut(&transfer) else {
                continue;
            };
            self.station.advance_clock(post.due);
            let host = self.station.verbs_mut();
            let started = running.transfer.start(host, post.posted_at, post.data);
            if let Err(error) = started {
                let error = error.to_string();
                self.control
                    .broadcast(&Line::Event(Event::Failed { transfer, error }));
            }
        }
    }

    /// Passes the host's events to its transfers, and sends the transfers' events to the clients.
    fn dispatch_events(&mut self) {
        let now = self.clock.now();
        while let Some((at, event)) = self.station.poll_event(now) {
            let host = self.station.verbs_mut();
            if self.registrar.handle_event(host, now, &event) {
                continue;
            }
            for running in self.transfers.values_mut() {
                if running.transfer.handle_event(host, at, &event) {
                    break;
                }
            }
        }
        while let Some(report) = self.registrar.poll() {
            self.control
                .broadcast(&Line::Event(Event::Group { report }));
        }
        let report_progress = now >= self.next_progress;
        for (transfer, running) in &mut self.transfers {
            let transfer = *transfer;
            if report_progress {
                let progress = running.transfer.progress(self.station.verbs());
                if progress != running.last_progress {
                    running.last_progress = progress;
                    self.control
                        .broadcast(&Line::Event(Event::Progress { transfer, progress }));
                }
            }
            while let Some(event) = running.transfer.poll() {
                let event = match event {
                    TransferEvent::Ready => Event::Ready { transfer },
                    TransferEvent::Done { sha256, bytes, at } => Event::Done {
                        transfer,
                        sha256,
                        bytes,
                        at,
                    },
                    TransferEvent::PartDone { part, at } => Event::PartDone { transfer, part, at },
                    TransferEvent::Failed(error) => Event::Failed {
                        transfer,
                        error: error.to_string(),
                    },
                };
                self.control.broadcast(&Line::Event(event));
            }
            if running.transfer.is_finished()
                && !std::mem::replace(&mut running.is_finished_sent, true)
            {
                self.control
                    .broadcast(&Line::Event(Event::Finished { transfer }));
            }
        }
        if report_progress {
            self.next_progress = now + self.host_nanoseconds(PROGRESS_INTERVAL);
        }
    }

    /// Whether a client is connected and a transfer has made progress that has not been reported.
    fn has_unreported_progress(&self) -> bool {
        let under_way = |r: &RunningTransfer| {
            !r.is_finished_sent
                && !r.transfer.has_failed()
                && r.last_progress != r.transfer.progress(self.station.verbs())
        };
        self.control.has_clients() && self.transfers.values().any(under_way)
    }

    // ---- Requests ----

    fn accept(&mut self) -> Outcome {
        for (fd, token) in self.control.accept() {
            self.poller
                .add(fd, token)
                .map_err(|e| Failure::failed(format_args!("epoll: {e}")))?;
        }
        Ok(())
    }

    fn reply(&mut self, incoming: Incoming) {
        let line = match incoming.request {
            Err(error) => Line::Error { id: 0, error },
            Ok(numbered) => {
                let id = numbered.id;
                match self.execute(numbered.request) {
                    Ok(reply) => Line::Reply { id, reply },
                    Err(error) => Line::Error { id, error },
                }
            }
        };
        self.control.send(incoming.client, &line);
    }

    /// Executes a request and returns the reply, or a message for the client.
    fn execute(&mut self, request: Request) -> Result<Reply, String> {
        let now = self.clock.now();
        self.station.advance_clock(now);
        match request {
            Request::Info => Ok(Reply::Info(self.station.info())),
            Request::Clock => Ok(Reply::Clock { at: now }),
            Request::Prepare { transfer, spec } => {
                if self.transfers.contains_key(&transfer) {
                    return Err(format!(
                        "transfer {transfer} exists already; close it first"
                    ));
                }
                let (machine, endpoints) =
                    Transfer::prepare(self.station.verbs_mut(), *spec).map_err(text)?;
                let last_progress = machine.progress(self.station.verbs());
                let running = RunningTransfer {
                    transfer: machine,
                    last_progress,
                    is_finished_sent: false,
                };
                self.transfers.insert(transfer, running);
                Ok(Reply::Prepared { endpoints })
            }
            Request::Connect { transfer, peers } => {
                let running = find(&mut self.transfers, transfer)?;
                running
                    .transfer
                    .connect(self.station.verbs_mut(), now, &peers)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Start { transfer, file } => {
                let running = find(&mut self.transfers, transfer)?;
                let data: Arc<[u8]> = fs::read(&file)
                    .map_err(|error| format!("cannot read {}: {error}", file.display()))?
                    .into();
                // The application starts only when the file has been read.
                let at = self.clock.now();
                match self.station.post_delay(data.len() as u64) {
                    0 => {
                        let host = self.station.verbs_mut();
                        running.transfer.start(host, at, data).map_err(text)?;
                    }
                    posting => self.posts.push(Post {
                        transfer,
                        data,
                        posted_at: at,
                        due: at + posting,
                    }),
                }
                Ok(Reply::Started { at })
            }
            Request::Leg { transfer, verb } => {
                let leaves = verb == LegCommand::Leave;
                let running = find(&mut self.transfers, transfer)?;
                running.is_finished_sent &= !matches!(verb, LegCommand::Resume { .. });
                let host = self.station.verbs_mut();
                let acted = running.transfer.act(host, now, verb);
                let reply = acted.map_err(text)?;
                if leaves {
                    // Process delivered data that is still queued as events.
                    self.dispatch_events();
                    let machine = &find(&mut self.transfers, transfer)?.transfer;
                    let (held, beyond) = (machine.held(), machine.held_beyond());
                    self.control.broadcast(&Line::Event(Event::Left {
                        transfer,
                        held,
                        beyond,
                    }));
                }
                Ok(Reply::Acted { answer: reply })
            }
            Request::Status { transfer } => {
                let machine = &find(&mut self.transfers, transfer)?.transfer;
                Ok(Reply::Status(Status {
                    progress: machine.progress(self.station.verbs()),
                    held: machine.held(),
                    requests: machine.request_times().map(Box::new),
                    ready: machine.is_ready(),
                    finished: machine.is_finished(),
                    failed: machine.has_failed(),
                    edges: machine
                        .qp_stats(self.station.verbs())
                        .map(|(edge, stats)| EdgeStatus { edge, stats })
                        .collect(),
                    host: self.station.verbs().stats(),
                }))
            }
            Request::Save { transfer, file } => {
                let machine = &find(&mut self.transfers, transfer)?.transfer;
                fs::write(&file, machine.data(self.station.verbs()))
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                Ok(Reply::Accepted)
            }
            Request::Close { transfer } => {
                let running = self
                    .transfers
                    .remove(&transfer)
                    .ok_or_else(|| missing(transfer))?;
                running.transfer.close(self.station.verbs_mut());
                self.attack.take_if(|(of, _)| *of == transfer);
                Ok(Reply::Accepted)
            }
            Request::TurnHostile {
                transfer,
                target,
                seed,
            } => {
                find(&mut self.transfers, transfer)?;
                let info = self.station.info();
                let hostile = Hostile::new(info.ip, info.mac, target, seed);
                let interface = self.station.interface();
                let attack = Attack::open(interface, hostile, monotonic())
                    .map_err(|error| format!("interface {interface}: {error}"))?;
                self.attack = Some((transfer, attack));
                Ok(Reply::Accepted)
            }
            Request::Expect { qpn, group } => {
                self.registrar.expect(self.station.verbs_mut(), qpn, group);
                Ok(Reply::Accepted)
            }
            Request::Lead { group, nodes } => {
                let timing = LeaderTiming::default();
                self.registrar
                    .lead(self.station.verbs_mut(), now, group, timing, &nodes)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Dissolve => {
                let leader = self.registrar.leader().ok_or_else(no_group)?;
                leader.deregister(self.station.verbs_mut(), monotonic());
                Ok(Reply::Accepted)
            }
            Request::Stalled { mcst_id } => {
                let verbs = self.station.verbs_mut();
                self.registrar.stalled(verbs, now, mcst_id);
                Ok(Reply::Accepted)
            }
            Request::Stop => {
                self.stopping = true;
                Ok(Reply::Accepted)
            }
        }
    }
}

fn find(
    transfers: &mut BTreeMap<u32, RunningTransfer>,
    transfer: u32,
) -> Result<&mut RunningTransfer, String> {
    transfers
        .get_mut(&transfer)
        .ok_or_else(|| missing(transfer))
}

fn missing(transfer: u32) -> String {
    format!("there is no transfer {transfer}; prepare it first")
}

fn no_group() -> String {
    "this host does not lead a group; send the request `lead` first".to_owned()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
