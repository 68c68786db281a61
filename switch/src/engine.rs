//! Event loop of the thread that owns the switch. It receives frames and commands, and executes each completely before
//! the next.

mod bfrt;
mod busy_polling;
mod commands;
mod debugging;
mod exposition;
mod interfaces;
mod links;
mod port;
mod runtime;
mod traces;

use std::{
    collections::{BTreeMap, VecDeque},
    hint, io, mem,
    sync::Arc,
};

use alfirk_packet_io::{
    loss_filter::Direction, monotonic, wall_clock, Clock, LinkWatch, PacketSocket, Poller,
    ReceiveBatch, TakeOutcome, BATCH,
};
use rustc_hash::FxHashMap;
use tracing::{debug, error, info, trace, warn};

pub use self::port::{PortDefaults, PortSetup};
use self::{
    bfrt::BfRt,
    busy_polling::{BusyPolling, POLLING_TIME},
    commands::RequestInProgress,
    debugging::Debugging,
    port::{log_failure, Port, PortCounters, WRITABLE},
    traces::Traces,
};
use super::{
    command::CommandReceiver,
    logging::{self, Dump},
    send_thread::{SendThread, SentBatch},
    stream_queue::StreamSender,
    thrift,
};
use alfirk_bmv2::coverage::Covered;
use alfirk_bmv2::{QueueState, Queued};
use alfirk_p4rt::{ClientId, Event, Server};
use alfirk_p4runtime::p4::v1::StreamMessageResponse;

/// Poller token of the command queue. The tokens of ports are their numbers.
const COMMANDS: u64 = 1 << 32;
/// Poller token of the link watch.
const WATCH: u64 = 1 << 33;
/// Maximum number of events between two polls of the ports.
const EVENTS_PER_TURN: usize = 100_000;
/// Maximum number of turns that follow polling before the poller is asked for other events.
const POLLED_TURNS: usize = 16;
/// Number of frames after which the clock is read again; a reading takes as long as a table lookup.
const FRAMES_PER_CLOCK_READ: usize = 4;

/// The event loop, with the switch, its ports and its clients.
pub struct Engine {
    server: Server,
    poller: Poller,
    busy_polling: BusyPolling,
    /// Thread that sends large batches of TCP; `None` on a machine with a single processor.
    send_thread: Option<SendThread>,
    commands: CommandReceiver,
    watch: LinkWatch,
    ports: BTreeMap<u32, Port>,
    clients: FxHashMap<ClientId, StreamSender<StreamMessageResponse>>,
    clock: Clock,
    /// Time of the clock in nanoseconds at the start of the switch. The switch's time counts from it, as in BMv2.
    started_at: u64,
    batch: ReceiveBatch,
    traces: Traces,
    logs: bool,
    dump: Dump,
    /// Options of ports added at run time.
    defaults: PortDefaults,
    thrift: thrift::Settings,
    /// JSON text of the program, for Thrift clients; P4Runtime stores its own copy.
    config: Option<Arc<str>>,
    /// JSON text of the program from the command line.
    json: Option<Arc<str>>,
    /// The BfRuntime server, if it is enabled.
    bfrt: Option<BfRt>,
    /// Ports whose link may accept a packet from their queues.
    runnable: VecDeque<u32>,
    /// Request that is processed in several steps; `None` if there is none. Other commands wait for its end.
    request_in_progress: Option<RequestInProgress>,
    debugging: Debugging,
    /// Whether the server still has events to execute, in the next turn of the loop.
    has_more_events: bool,
    running: bool,
}

impl Engine {
    /// Creates an engine without ports; ports added later get the options `defaults`.
    pub fn new(
        server: Server,
        commands: CommandReceiver,
        defaults: PortDefaults,
    ) -> io::Result<Engine> {
        let poller = Poller::new()?;
        let watch = LinkWatch::open()?;
        poller.add(&commands, COMMANDS)?;
        poller.add(&watch, WATCH)?;
        let clock = Clock::default();
        let mut server = server;
        server.set_epoch(wall_clock());
        Ok(Engine {
            server,
            poller,
            busy_polling: BusyPolling::default(),
            send_thread: SendThread::start(),
            commands,
            watch,
            ports: BTreeMap::new(),
            clients: FxHashMap::default(),
            started_at: clock.now(),
            clock,
            batch: ReceiveBatch::default(),
            traces: Traces::default(),
            logs: false,
            dump: Dump::default(),
            defaults,
            thrift: thrift::Settings::default(),
            config: None,
            json: None,
            bfrt: None,
            runnable: VecDeque::new(),
            request_in_progress: None,
            debugging: Debugging::default(),
            has_more_events: false,
            running: true,
        })
    }

    /// Sets the clock of the switch; must be called before [`Engine::run`].
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.started_at = clock.now();
    }

    /// Enables logging of packets in BMv2's format.
    pub fn log_packets(&mut self) {
        self.server.switch_mut().set_log(true);
        self.logs = true;
    }

    /// Enables logging of the first `bytes` bytes of every frame.
    pub fn dump_packet_data(&mut self, bytes: usize) {
        self.dump = Dump(bytes);
    }

    /// Sets the JSON text of the program from the command line.
    pub fn set_program_json(&mut self, json: Option<Arc<str>>) {
        self.json = json;
    }

    /// Sets the settings of the Thrift server. `config`: JSON text of the running program.
    pub fn serve_thrift(&mut self, settings: thrift::Settings, config: Option<Arc<str>>) {
        self.thrift = settings;
        self.config = config;
    }

    /// Adds a port that writes a file instead of an interface.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn attach_file(&mut self, setup: PortSetup<'_>) -> io::Result<()> {
        let port = Port::with_file(setup)?;
        info!(
            port = port.number,
            file = port.interface,
            "port attached to files"
        );
        self.ports.insert(port.number, port);
        Ok(())
    }

    /// Attaches an interface to a port.
    ///
    /// # Errors
    /// `NotFound` for an unknown interface, `PermissionDenied` without CAP_NET_RAW.
    pub fn attach(&mut self, setup: PortSetup<'_>) -> io::Result<()> {
        let port = Port::open(setup, &self.poller)?;
        info!(
            port = port.number,
            interface = port.interface,
            "port attached"
        );
        // The reply is handled with the other link events, before any frame is sent.
        self.watch.request(port.index)?;
        self.ports.insert(port.number, port);
        Ok(())
    }

    /// Runs the event loop until a shutdown command arrives. Returns the coverage of the programs.
    pub fn run(mut self) -> Vec<Covered> {
        let mut ready = Vec::new();
        let mut polled_turns = 0;
        while self.running {
            let deadline = self.deadline();
            let deadline = deadline.map(|at| self.clock.system(self.started_at.saturating_add(at)));
            if polled_turns < POLLED_TURNS && self.poll_ports(&mut ready, deadline) {
                polled_turns += 1;
            } else {
                polled_turns = 0;
                let slept_at = monotonic();
                if let Err(error) = self.poller.wait(deadline, &mut ready) {
                    error!("cannot wait for packets: {error}");
                    break;
                }
                self.busy_polling.slept(monotonic() - slept_at);
            }
            self.reclaim_buffers();
            self.update_queued_ports();
            for &token in &ready {
                match token {
                    COMMANDS => self.take_commands(),
                    WATCH => {
                        self.handle_link_changes();
                        self.update_queued_ports();
                    }
                    port if port & WRITABLE != 0 => self.resume(port as u32),
                    port => self.receive(port as u32),
                }
            }
            let now = self.now();
            if self.server.poll_timeout().is_some_and(|at| at <= now) {
                self.server.handle_timeout(now);
                self.drain(now);
            }
            if let Some(BfRt { service, .. }) = &mut self.bfrt {
                self.has_more_events |= service.handle_timeout(&mut self.server, now);
            }
            if self.is_debugged() {
                self.send_expired(now);
            }
            if mem::take(&mut self.has_more_events) {
                self.drain(now);
            }
            self.send_bfrt();
            self.serve_links(now);
            self.send_all();
            self.flush_captures();
        }
        let covered = self.server.switch().coverage();
        self.finish();
        covered
    }

    /// Polls the ports among the tokens `ready`, from which the last frames came, if that is due. Returns whether one has a
    /// frame; then `ready` has only ports.
    fn poll_ports(&mut self, ready: &mut Vec<u64>, deadline: Option<u64>) -> bool {
        let end = monotonic() + POLLING_TIME;
        // The sender thread may need this processor.
        let is_sending = self.send_thread.as_ref().is_some_and(SendThread::is_busy);
        if is_sending || !self.busy_polling.is_due() || deadline.is_some_and(|at| at < end) {
            return false;
        }
        ready.retain(|token| u32::try_from(*token).is_ok());
        let sockets = ready
            .iter()
            .filter_map(|token| self.ports.get(&(*token as u32))?.socket.as_ref());
        if sockets.clone().next().is_none() {
            return false;
        }
        let has_found = loop {
            if sockets.clone().any(PacketSocket::has_frame) {
                break true;
            }
            if monotonic() >= end {
                break false;
            }
            hint::spin_loop();
        };
        self.busy_polling.polled(has_found);
        has_found
    }

    /// Reclaims the buffers of frames that the sender thread has sent.
    fn reclaim_buffers(&mut self) {
        while let Some(done) = self.send_thread.as_mut().and_then(SendThread::next_sent) {
            self.frames_sent(done);
        }
    }

    /// Waits until the sender thread has sent all its frames, so that each port's frames stay in order and the counters
    /// are up to date.
    fn wait_for_send_thread(&mut self) {
        while let Some(done) = self.send_thread.as_mut().and_then(SendThread::wait) {
            self.frames_sent(done);
        }
    }

    fn frames_sent(&mut self, mut done: SentBatch) {
        if let Some(port) = self.ports.get_mut(&done.port) {
            port.frames_sent(&mut done, &mut self.server);
        }
        if let Some(send_thread) = &mut self.send_thread {
            send_thread.recycle(done.frames);
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().saturating_sub(self.started_at)
    }

    fn deadline(&self) -> Option<u64> {
        if self.has_more_events {
            return Some(0);
        }
        let links = self.ports.values().filter_map(Port::poll_timeout);
        let bfrt = self.bfrt.as_ref();
        let bfrt = bfrt.and_then(|bfrt| bfrt.service.poll_timeout());
        let links = links.chain(self.held_until());
        links.chain(self.server.poll_timeout()).chain(bfrt).min()
    }

    /// Receives frames as [`Engine::receive`] does, while a debugger is attached. Each frame is copied, since the debugger may
    /// hold it.
    fn receive_debugged(&mut self, number: u32) {
        self.batch.clear();
        for _ in 0..BATCH {
            let Some(port) = self.ports.get_mut(&number) else {
                return;
            };
            let Some(socket) = &mut port.socket else {
                return;
            };
            let mut received = None;
            let taken = socket.take(&mut self.batch, |frame| received = Some(frame.to_vec()));
            match taken {
                Ok(TakeOutcome::Whole) => {}
                Ok(TakeOutcome::Malformed) => port.counters.malformed += 1,
                Ok(TakeOutcome::Nothing | TakeOutcome::Down) => return,
                Err(error) => {
                    let interface = &port.interface;
                    warn!(port = number, interface, "cannot receive: {error}");
                    return;
                }
            }
            port.counters.received += 1;
            let now = self.now();
            if let Some(frame) = received {
                self.take_frame(number, frame, now);
            }
            self.drain(now);
        }
    }

    /// Processes a received frame: link, capture, log, and the pipeline.
    fn take_frame(&mut self, number: u32, frame: Vec<u8>, now: u64) {
        let Some(Port {
            link,
            capture,
            counters,
            ..
        }) = self.ports.get_mut(&number)
        else {
            return;
        };
        counters.received_bytes += frame.len() as u64;
        if link.loses(Direction::In, &frame) {
            return;
        }
        if let Some((capture, _)) = capture {
            log_failure(capture.write(wall_clock(), &frame));
        }
        self.dump.received(number, &frame);
        if !self.record_frame(number, &frame, now) {
            self.server.frame_in(number, &frame, now);
        }
    }

    /// Receives up to one batch of frames from the interface of a port, and processes each frame completely.
    fn receive(&mut self, number: u32) {
        if self.is_debugged() {
            return self.receive_debugged(number);
        }
        let dump = self.dump;
        self.batch.clear();
        let mut now = self.now();
        for turn in 1..=BATCH {
            let Some(Port {
                socket: Some(socket),
                link,
                capture,
                counters,
                interface,
                ..
            }) = self.ports.get_mut(&number)
            else {
                return;
            };
            let server = &mut self.server;
            let received_bytes = &mut counters.received_bytes;
            let taken = socket.take(&mut self.batch, |frame| {
                *received_bytes += frame.len() as u64;
                if link.loses(Direction::In, frame) {
                    return;
                }
                if let Some((capture, _)) = capture {
                    log_failure(capture.write(wall_clock(), frame));
                }
                dump.received(number, frame);
                server.frame_in(number, frame, now);
            });
            match taken {
                Ok(TakeOutcome::Whole) => {}
                Ok(TakeOutcome::Malformed) => counters.malformed += 1,
                Ok(TakeOutcome::Nothing) => return,
                Ok(TakeOutcome::Down) => {
                    debug!(port = number, interface = *interface, "interface is down");
                    return;
                }
                Err(error) => {
                    warn!(
                        port = number,
                        interface = *interface,
                        "cannot receive: {error}"
                    );
                    return;
                }
            }
            counters.received += 1;
            self.drain(now);
            if turn % FRAMES_PER_CLOCK_READ == 0 {
                now = self.now();
            }
        }
    }

    /// Informs the switch which ports have queues now; packets for the others need no queue entry. Called once a turn, and
    /// after what may change the queues.
    fn update_queued_ports(&mut self) {
        let queued = self.ports.values().filter(|port| port.has_queue());
        let numbers = queued.map(|port| port.number);
        self.server.set_queued_ports(numbers);
    }

    /// Executes the server's events until there are none, or up to a limit: a program may recirculate packets
    /// endlessly.
    fn drain(&mut self, now: u64) {
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.server.poll() else {
                match self.runnable.pop_front() {
                    Some(number) => self.serve(number, now),
                    None => return self.print_trace(),
                }
                continue;
            };
            self.execute(event, now);
        }
        self.has_more_events = true;
        self.print_trace();
    }

    fn execute(&mut self, event: Event, now: u64) {
        match event {
            Event::Enqueue(packet) => self.enqueue(packet, now),
            Event::Output { port, frame } => {
                // Log lines of the packet precede those of the sent frame.
                if self.logs {
                    self.print_trace();
                }
                self.output(port, frame.into_bytes(), now);
            }
            Event::Stream { client, message } => self.send_to_client(client, Ok(*message)),
            Event::Close { client, status } => {
                self.send_to_client(client, Err(status));
                self.clients.remove(&client);
            }
        }
    }

    fn print_trace(&mut self) {
        if self.is_traced() {
            self.write_traces();
        }
        if self.logs {
            logging::log_packets(&self.server.take_log());
        }
    }

    fn enqueue(&mut self, packet: Queued, now: u64) {
        match self.ports.get_mut(&packet.port) {
            Some(port) if port.has_queue() => {
                if let Some(dropped) = port.enqueue(packet, now) {
                    self.server.drop_queued(&dropped);
                }
                self.runnable.push_back(port.number);
            }
            // Frames are sent in order, before the next packet is processed.
            _ => {
                let state = QueueState {
                    enq_timestamp: now,
                    ..QueueState::default()
                };
                self.server.dequeue(packet, now, state);
            }
        }
    }

    /// Takes the next queued packet of a port whose link is idle, and processes it in the egress pipeline. A packet
    /// that egress drops does not occupy the link.
    fn serve(&mut self, number: u32, now: u64) {
        let next = self.ports.get_mut(&number).and_then(|port| port.next(now));
        if let Some((packet, state)) = next {
            self.server.dequeue(packet, now, state);
            self.runnable.push_back(number);
        }
    }

    /// Continues sending on a port whose interface accepts frames again.
    fn resume(&mut self, number: u32) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.on_writable(&self.poller);
            port.send(&self.poller, &mut self.server, &mut self.send_thread);
            self.runnable.push_back(number);
            let now = self.now();
            self.drain(now);
        }
    }

    fn output(&mut self, number: u32, frame: Vec<u8>, now: u64) {
        let Some(port) = self.ports.get_mut(&number) else {
            trace!(
                port = number,
                "frame for a port without interface is dropped"
            );
            return;
        };
        self.dump.sending(number, &frame);
        port.counters.sent_bytes += frame.len() as u64;
        if !port.link.is_plain() {
            let since = port.queued_since.take().unwrap_or(now);
            port.link.push(since, frame);
        } else if !port.link.loses(Direction::Out, &frame) {
            port.sending.push(frame);
            // The queueing discipline must report whether it accepts the frame before the next packet is selected.
            let is_due = port.is_shaped || port.sending.len() >= BATCH;
            if is_due && !port.is_blocked {
                port.send(&self.poller, &mut self.server, &mut self.send_thread);
            }
        }
    }

    /// Starts the transmission of queued packets on idle links, and moves frames that have left an emulated link to the
    /// list of frames to send.
    fn serve_links(&mut self, now: u64) {
        let waiting = self.ports.values().filter(|port| !port.queues.is_empty());
        self.runnable.extend(waiting.map(|port| port.number));
        if !self.runnable.is_empty() {
            self.drain(now);
        }
        for port in self.ports.values_mut().filter(|port| !port.link.is_plain()) {
            while let Some(frame) = port.link.pop(now) {
                port.sending.push(frame);
            }
        }
    }

    fn send_all(&mut self) {
        let ports = self.ports.values_mut();
        for port in ports.filter(|port| !port.sending.is_empty() && !port.is_blocked) {
            port.send(&self.poller, &mut self.server, &mut self.send_thread);
        }
    }

    /// Adds the frames that the kernel has dropped since the last call, because receive rings were full, to the
    /// counters. Called only when counters are read.
    fn count_not_received(&mut self) {
        for port in self.ports.values_mut() {
            port.count_not_received();
        }
    }

    /// Flushes the capture files, which may be read while the switch runs.
    fn flush_captures(&mut self) {
        let captures = self
            .ports
            .values_mut()
            .filter_map(|port| port.capture.as_mut());
        for (incoming, outgoing) in captures {
            log_failure(incoming.flush());
            log_failure(outgoing.flush());
        }
    }

    fn finish(mut self) {
        self.send_all();
        self.finish_traces();
        self.wait_for_send_thread();
        self.count_not_received();
        self.flush_captures();
        for port in self.ports.values() {
            let PortCounters {
                received,
                not_received,
                sent,
                unsent,
                malformed,
                ..
            } = port.counters;
            info!(
                port = port.number,
                interface = port.interface,
                received,
                not_received,
                sent,
                unsent,
                malformed,
                lost = port.link.lost,
                queue_full = port.queues.dropped,
                "port closed"
            );
        }
    }
}
