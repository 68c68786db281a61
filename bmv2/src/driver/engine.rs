//! The thread that owns the switch: takes frames and commands, runs each to its end.

mod links;
mod port;
mod runtime;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
    io, mem,
    os::fd::AsRawFd,
    sync::Arc,
};

use alfirk_p4runtime::{
    p4::v1::{ReadResponse, WriteResponse},
    Code, Status,
};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, trace, warn};

pub use self::port::PortSetup;
use self::port::{log_failure, Port, PortCounters, WRITABLE};
pub use self::runtime::PortDefaults;
use super::{
    args::TraceFormat,
    chosen::Way,
    command::{Command, CommandReceiver},
    dump::Dump,
    helper::{Done, Helper},
    logging,
    metrics::Exposition,
    poller::{wall_clock, Clock, Poller},
    socket::{interface_index, ReceiveBatch, Received, Taken, BATCH},
    stream_queue::{NotSent, StreamSender},
    thrift::{self, Begun, Long},
    trace::TracePrinter,
    watch::{LinkNews, LinkWatch},
};
use crate::{
    p4rt::{ClientId, Event, PendingRead, PendingWrite, Server},
    QueueState, Queued,
};

/// Token of the command queue; ports have their numbers.
const COMMANDS: u64 = 1 << 32;
/// Token of the link watch.
const WATCH: u64 = 1 << 33;
/// Commands handled between two looks at the ports.
const COMMANDS_PER_TURN: usize = 64;
/// Updates of a batch between two looks at the ports; they take a few microseconds each.
const UPDATES_PER_TURN: usize = 64;
/// Entities that a read looks at between two looks at the ports; they take about a microsecond each.
const ENTITIES_PER_TURN: usize = 256;
/// Events carried out between two looks at the ports.
const EVENTS_PER_TURN: usize = 100_000;
/// Frames between two looks at the clock, which costs as much as a table lookup.
const CLOCK: usize = 4;
/// Clients at a time.
const MAX_STREAMS: usize = 1024;

/// A request under way, and where its answer goes.
enum Work {
    Write(PendingWrite, oneshot::Sender<Result<WriteResponse, Status>>),
    Read(
        PendingRead,
        mpsc::UnboundedSender<Result<ReadResponse, Status>>,
    ),
    Thrift(Long, oneshot::Sender<thrift::Answer>),
}

/// The switch with its ports and clients.
pub struct Engine {
    server: Server,
    poller: Poller,
    /// None where there is no processor for it.
    helper: Option<Helper>,
    commands: CommandReceiver,
    watch: LinkWatch,
    ports: BTreeMap<u32, Port>,
    clients: FxHashMap<ClientId, StreamSender>,
    clock: Clock,
    /// What the clock said at the start; the switch counts from there, as BMv2 does.
    start: u64,
    batch: ReceiveBatch,
    trace: Option<TracePrinter>,
    logs: bool,
    dump: Dump,
    /// How ports are made that come while the switch runs.
    defaults: PortDefaults,
    thrift: thrift::Settings,
    /// The JSON text of the program, for Thrift clients; P4Runtime keeps its own.
    config: Option<Arc<str>>,
    /// Ports whose link may take a packet from their queues.
    runnable: VecDeque<u32>,
    /// A request that takes several turns. Other commands wait.
    work: Option<Work>,
    /// There is more to do than one turn may take.
    unfinished: bool,
    running: bool,
}

impl Engine {
    /// An engine without ports, which makes those that come later by `defaults`.
    pub fn new(
        server: Server,
        commands: CommandReceiver,
        defaults: PortDefaults,
    ) -> io::Result<Engine> {
        let poller = Poller::new()?;
        let watch = LinkWatch::open()?;
        poller.add(commands.as_raw_fd(), COMMANDS)?;
        poller.add(watch.as_raw_fd(), WATCH)?;
        let clock = Clock::default();
        let mut server = server;
        server.set_epoch(wall_clock());
        Ok(Engine {
            server,
            poller,
            helper: Helper::start(),
            commands,
            watch,
            ports: BTreeMap::new(),
            clients: FxHashMap::default(),
            start: clock.now(),
            clock,
            batch: ReceiveBatch::default(),
            trace: None,
            logs: false,
            dump: Dump::default(),
            defaults,
            thrift: thrift::Settings::default(),
            config: None,
            runnable: VecDeque::new(),
            work: None,
            unfinished: false,
            running: true,
        })
    }

    /// Goes by this clock, before anything is done.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.start = clock.now();
    }

    /// Prints the way of every packet from now on.
    pub fn trace(&mut self, format: TraceFormat) {
        self.server.switch_mut().set_trace(true);
        self.trace = Some(TracePrinter::new(format));
    }

    /// Logs the way of every packet from now on, as BMv2 does.
    pub fn log_packets(&mut self) {
        self.server.switch_mut().set_log(true);
        self.logs = true;
    }

    /// Logs so many bytes of every frame.
    pub fn dump_packet_data(&mut self, bytes: usize) {
        self.dump = Dump(bytes);
    }

    /// Answers Thrift clients so; `config` is the text of the program that runs.
    pub fn serve_thrift(&mut self, settings: thrift::Settings, config: Option<Arc<str>>) {
        self.thrift = settings;
        self.config = config;
    }

    /// Adds a port that writes a file instead of an interface.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn attach_file(&mut self, setup: PortSetup<'_>) -> io::Result<()> {
        let port = Port::of_file(setup)?;
        info!(port = port.number, file = port.interface, "port of files");
        self.ports.insert(port.number, port);
        Ok(())
    }

    /// Attaches an interface.
    ///
    /// # Errors
    /// `NotFound` without such an interface, `PermissionDenied` without CAP_NET_RAW.
    pub fn attach(&mut self, setup: PortSetup<'_>) -> io::Result<()> {
        let port = Port::open(setup, &self.poller)?;
        info!(
            port = port.number,
            interface = port.interface,
            "port attached"
        );
        // The answer comes with the other news, before any frame leaves.
        self.watch.ask(port.index)?;
        self.ports.insert(port.number, port);
        Ok(())
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        let mut ready = Vec::new();
        while self.running {
            let deadline = self.deadline();
            let deadline = deadline.map(|at| self.clock.system(self.start.saturating_add(at)));
            if let Err(error) = self.poller.wait(deadline, &mut ready) {
                error!("cannot wait for packets: {error}");
                break;
            }
            self.take_back();
            for &token in &ready {
                match token {
                    COMMANDS => self.take_commands(),
                    WATCH => self.take_link_news(),
                    port if port & WRITABLE != 0 => self.resume(port as u32),
                    port => self.receive(port as u32),
                }
            }
            let now = self.now();
            if self.server.poll_timeout().is_some_and(|at| at <= now) {
                self.server.handle_timeout(now);
                self.drain(now);
            }
            if mem::take(&mut self.unfinished) {
                self.drain(now);
            }
            self.serve_links(now);
            self.send_all();
            self.flush_captures();
        }
        self.finish();
    }

    /// Takes back the memory of frames that the helper has sent.
    fn take_back(&mut self) {
        while let Some(done) = self.helper.as_mut().and_then(Helper::done) {
            self.has_sent(done);
        }
    }

    /// Waits until the helper has sent what it has: frames of a port stay in order, and are counted
    /// before anybody asks.
    fn settle(&mut self) {
        while let Some(done) = self.helper.as_mut().and_then(Helper::wait) {
            self.has_sent(done);
        }
    }

    fn has_sent(&mut self, mut done: Done) {
        if let Some(port) = self.ports.get_mut(&done.port) {
            port.has_sent(&mut done, &mut self.server);
        }
        if let Some(helper) = &mut self.helper {
            helper.recycle(done.frames);
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().saturating_sub(self.start)
    }

    fn deadline(&self) -> Option<u64> {
        if self.unfinished {
            return Some(0);
        }
        let links = self.ports.values().filter_map(Port::poll_timeout);
        links.chain(self.server.poll_timeout()).min()
    }

    fn receive(&mut self, number: u32) {
        let dump = self.dump;
        let Some(port) = self.ports.get_mut(&number) else {
            return;
        };
        let Some(socket) = &port.socket else {
            return;
        };
        if socket.has_ring() {
            return self.receive_from_ring(number);
        }
        let count = match socket.receive(&mut self.batch) {
            Ok(Received::Frames(count)) => count,
            Ok(Received::Down) => {
                debug!(
                    port = number,
                    interface = port.interface,
                    "interface is down"
                );
                return;
            }
            Err(error) => {
                warn!(
                    port = number,
                    interface = port.interface,
                    "cannot receive: {error}"
                );
                return;
            }
        };
        for i in 0..count {
            let now = self.now();
            let Some(port) = self.ports.get_mut(&number) else {
                return;
            };
            port.counters.received += 1;
            let server = &mut self.server;
            let whole = self.batch.frames(i, |frame| {
                if port.link.loses(Way::In, frame) {
                    return;
                }
                if let Some((capture, _)) = &mut port.capture {
                    log_failure(capture.write(wall_clock(), frame));
                }
                dump.received(number, frame);
                server.frame_in(number, frame, now);
            });
            port.counters.malformed += u64::from(!whole);
            self.drain(now);
        }
    }

    fn receive_from_ring(&mut self, number: u32) {
        let dump = self.dump;
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
            let taken = socket.take(&mut self.batch, |frame| {
                if link.loses(Way::In, frame) {
                    return;
                }
                if let Some((capture, _)) = capture {
                    log_failure(capture.write(wall_clock(), frame));
                }
                dump.received(number, frame);
                server.frame_in(number, frame, now);
            });
            match taken {
                Ok(Taken::Whole) => {}
                Ok(Taken::Malformed) => counters.malformed += 1,
                Ok(Taken::Nothing) => return,
                Ok(Taken::Down) => {
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
            if turn % CLOCK == 0 {
                now = self.now();
            }
        }
    }

    /// Carries out what the server wants, until it wants nothing, or so much that other things
    /// must have a turn (a program may recirculate for ever).
    fn drain(&mut self, now: u64) {
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.server.poll() else {
                match self.runnable.pop_front() {
                    Some(number) => self.serve(number, now),
                    None => return self.print_trace(),
                }
                continue;
            };
            match event {
                Event::Enqueue(packet) => self.enqueue(packet, now),
                Event::Output { port, frame } => {
                    // What the log tells of it comes first.
                    if self.logs {
                        self.print_trace();
                    }
                    self.output(port, frame, now);
                }
                Event::Stream { client, message } => self.tell(client, Ok(*message)),
                Event::Close { client, status } => {
                    self.tell(client, Err(status));
                    self.clients.remove(&client);
                }
            }
        }
        self.unfinished = true;
        self.print_trace();
    }

    fn print_trace(&mut self) {
        if let Some(printer) = &mut self.trace {
            printer.print(&self.server.take_trace());
        }
        if self.logs {
            logging::log_packets(&self.server.take_log());
        }
    }

    fn enqueue(&mut self, packet: Queued, now: u64) {
        match self.ports.get_mut(&packet.port) {
            Some(port) if port.has_queue() => {
                port.enqueue(packet, now);
                self.runnable.push_back(port.number);
            }
            // The packet leaves before the next one comes.
            _ => {
                let state = QueueState {
                    enq_timestamp: now,
                    ..QueueState::default()
                };
                self.server.dequeue(packet, now, state);
            }
        }
    }

    /// Lets an idle link take the next packet. One that egress drops takes no time on it.
    fn serve(&mut self, number: u32, now: u64) {
        let next = self.ports.get_mut(&number).and_then(|port| port.next(now));
        if let Some((packet, state)) = next {
            self.server.dequeue(packet, now, state);
            self.runnable.push_back(number);
        }
    }

    /// Goes on with a port whose interface takes frames again.
    fn resume(&mut self, number: u32) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.release(&self.poller);
            port.send(&self.poller, &mut self.server, &mut self.helper);
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
        if !port.link.is_plain() {
            let since = port.since.take().unwrap_or(now);
            port.link.push(since, frame);
        } else if !port.link.loses(Way::Out, &frame) {
            port.sending.push(frame);
            // Whether a discipline takes it decides about the next packet.
            let is_due = port.is_shaped || port.sending.len() >= BATCH;
            if is_due && !port.is_held {
                port.send(&self.poller, &mut self.server, &mut self.helper);
            }
        }
    }

    /// Moves what waits on links and before them.
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
        for port in ports.filter(|port| !port.sending.is_empty() && !port.is_held) {
            port.send(&self.poller, &mut self.server, &mut self.helper);
        }
    }

    /// The kernel counts what its rings have no room for; that is asked for when somebody wants to know.
    fn count_not_received(&mut self) {
        for port in self.ports.values_mut() {
            port.count_not_received();
        }
    }

    /// Messages that a slow client does not take are lost, but never a status or an arbitration.
    fn tell(
        &mut self,
        client: ClientId,
        message: Result<alfirk_p4runtime::p4::v1::StreamMessageResponse, Status>,
    ) {
        use alfirk_p4runtime::p4::v1::stream_message_response::Update;
        let Some(sender) = self.clients.get(&client) else {
            return;
        };
        let (vital, sent) = match message {
            Ok(message) if !matches!(message.update, Some(Update::Arbitration(_))) => {
                (false, sender.try_send(message, self.clients.len()))
            }
            vital => (true, sender.try_send_vital(vital)),
        };
        match sent {
            Err(NotSent::Full) if vital => {
                warn!(
                    ?client,
                    "client does not read its stream; it is disconnected"
                );
                self.clients.remove(&client);
                self.server.stream_close(client);
            }
            Err(NotSent::Full) => debug!(?client, "stream is full; a message is dropped"),
            _ => {}
        }
    }

    fn take_commands(&mut self) {
        self.commands.silence();
        if self.work.is_some() {
            let now = self.now();
            self.work_on(now);
            self.drain(now);
        }
        for _ in 0..COMMANDS_PER_TURN {
            if self.work.is_some() {
                break;
            }
            let Some(command) = self.commands.try_recv() else {
                return;
            };
            let now = self.now();
            self.handle(command, now);
            self.drain(now);
            if !self.running {
                return;
            }
        }
        self.commands.ring_again();
    }

    /// Goes on with the request at work, if any. The rest of it waits until the ports had a turn.
    fn work_on(&mut self, now: u64) {
        match self.work.take() {
            Some(Work::Write(mut batch, answer)) => {
                let result = self
                    .server
                    .continue_write(&mut batch, UPDATES_PER_TURN, now);
                match result {
                    Some(result) => drop(answer.send(result)),
                    None => self.work = Some(Work::Write(batch, answer)),
                }
            }
            // Nobody is left to take it.
            Some(Work::Read(_, parts)) if parts.is_closed() => {}
            Some(Work::Read(mut read, parts)) => {
                let take = &mut |part| drop(parts.send(Ok(part)));
                let result = self
                    .server
                    .continue_read(&mut read, ENTITIES_PER_TURN, now, take);
                match result {
                    Some(Ok(())) => {}
                    Some(Err(status)) => drop(parts.send(Err(status))),
                    None => self.work = Some(Work::Read(read, parts)),
                }
            }
            // Nobody is left to take it; what was to be written is written.
            Some(Work::Thrift(Long::Entries { .. } | Long::ReadCells { .. }, answer))
                if answer.is_closed() => {}
            Some(Work::Thrift(mut long, answer)) => match self.continue_thrift(&mut long, now) {
                Some(done) => drop(answer.send(done)),
                None => self.work = Some(Work::Thrift(long, answer)),
            },
            None => {}
        }
    }

    /// Answers to clients that have gone away are dropped.
    fn handle(&mut self, command: Command, now: u64) {
        match command {
            Command::Write(request, answer) => match self.server.begin_write(request) {
                Ok(batch) => {
                    self.work = Some(Work::Write(batch, answer));
                    self.work_on(now);
                }
                Err(status) => drop(answer.send(Err(status))),
            },
            Command::Read(request, parts) => match self.server.begin_read(request) {
                Ok(read) => {
                    self.work = Some(Work::Read(read, parts));
                    self.work_on(now);
                }
                Err(status) => drop(parts.send(Err(status))),
            },
            Command::SetPipeline(request, answer) => {
                let result = self.server.set_forwarding_pipeline_config(&request, now);
                match &result {
                    Ok(_) => info!(action = request.action().as_str_name(), "pipeline set"),
                    Err(status) => warn!("pipeline refused: {status}"),
                }
                let _ = answer.send(result);
            }
            Command::GetPipeline(request, answer) => {
                let _ = answer.send(self.server.get_forwarding_pipeline_config(&request));
            }
            Command::Capabilities(request, answer) => {
                let _ = answer.send(self.server.capabilities(&request));
            }
            Command::StreamOpen(sender, opened) => {
                if self.clients.len() >= MAX_STREAMS {
                    let why = format!("{MAX_STREAMS} streams are open already");
                    let _ = opened.send(Err(Status::new(Code::ResourceExhausted, why)));
                    return;
                }
                let client = self.server.stream_open();
                self.clients.insert(client, sender);
                if opened.send(Ok(client)).is_err() {
                    self.clients.remove(&client);
                    self.server.stream_close(client);
                }
            }
            Command::StreamMessage(client, message) => {
                self.server.stream_message(client, message, now);
            }
            Command::StreamClose(client) => {
                self.clients.remove(&client);
                self.server.stream_close(client);
            }
            Command::ListLinks(request, answer) => {
                self.settle();
                self.count_not_received();
                let _ = answer.send(self.list_links(&request));
            }
            Command::ChangeLinks(request, answer) => {
                self.settle();
                let _ = answer.send(self.change_links(&request, now));
            }
            Command::Thrift(request, answer) => match self.begin_thrift(request, now) {
                Begun::Done(done) => drop(answer.send(done)),
                Begun::Long(long) => {
                    self.work = Some(Work::Thrift(long, answer));
                    self.work_on(now);
                }
            },
            Command::Frame(number, frame) => {
                if let Some(port) = self.ports.get_mut(&number) {
                    port.counters.received += 1;
                    self.dump.received(number, &frame);
                    trace!(port = number, bytes = frame.len(), "frame in");
                    self.server.take_frame_in(number, frame, now);
                }
            }
            Command::Metrics(answer) => {
                self.settle();
                self.count_not_received();
                let _ = answer.send(self.metrics(now));
            }
            Command::Shutdown => self.running = false,
        }
    }

    fn take_link_news(&mut self) {
        self.settle();
        let Some(news) = self.watch.receive() else {
            warn!("news of interfaces were lost; looking at all of them");
            for port in self.ports.values_mut().filter(|p| p.file.is_none()) {
                if let Ok(index) = interface_index(&port.interface) {
                    port.come_back(index, &self.poller);
                    ask(&self.watch, index);
                }
            }
            return;
        };
        for item in news {
            match item {
                LinkNews::Present {
                    name,
                    index,
                    running,
                    discipline,
                } => {
                    let of_name = |p: &&mut Port| p.file.is_none() && p.interface == name;
                    let Some(port) = self.ports.values_mut().find(of_name) else {
                        continue;
                    };
                    if port.socket.is_none() || port.index != index {
                        port.come_back(index, &self.poller);
                    }
                    if let Some(discipline) = discipline {
                        port.set_discipline(discipline);
                    }
                    if let Some(socket) = &port.socket {
                        socket.outlet().look_at_offloads();
                    }
                    let running = running && port.socket.is_some();
                    if port.running != running {
                        port.running = running;
                        let state = if running { "up" } else { "down" };
                        info!(port = port.number, interface = name, "interface is {state}");
                        self.server.set_port(port.number, port.is_up());
                    }
                }
                LinkNews::Gone { name, index } => {
                    let gone = |p: &&mut Port| p.interface == name && p.index == index;
                    if let Some(port) = self.ports.values_mut().find(gone) {
                        warn!(
                            port = port.number,
                            interface = name,
                            "interface is gone; waiting for it"
                        );
                        port.go();
                        port.running = false;
                        self.server.set_port(port.number, false);
                    }
                }
                LinkNews::Disciplines { index } => {
                    if self.ports.values().any(|port| port.index == index) {
                        ask(&self.watch, index);
                    }
                }
            }
        }
        let now = self.now();
        self.drain(now);
    }

    /// Others may read the files while the switch runs.
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

    fn metrics(&self, now: u64) -> String {
        let mut out = Exposition::default();
        let name = "alfirk_switch_uptime_seconds";
        out.gauge(name, "Time since the switch started.")
            .sample(name, &[], now as f64 / 1e9);
        let name = "alfirk_switch_streams";
        out.gauge(name, "Clients with an open stream channel.")
            .sample(name, &[], self.clients.len());

        let name = "alfirk_port_up";
        out.gauge(name, "Whether the port's interface is up.");
        for port in self.ports.values() {
            let labels: [(&str, &dyn Display); 2] =
                [("port", &port.number), ("interface", &port.interface)];
            out.sample(name, &labels, u8::from(port.running));
        }
        let name = "alfirk_port_frames_total";
        out.counter(name, "Frames that came in or went out.");
        for port in self.ports.values() {
            let PortCounters { received, sent, .. } = port.counters;
            for (way, frames) in [("in", received), ("out", sent)] {
                out.sample(name, &[("port", &port.number), ("way", &way)], frames);
            }
        }
        let name = "alfirk_port_lost_total";
        out.counter(name, "Frames that a port lost, by what lost them.");
        for port in self.ports.values() {
            let lost = [
                ("emulated_link", port.link.lost),
                ("not_received", port.counters.not_received),
                ("queue_full", port.queues.dropped),
                ("not_sent", port.counters.unsent),
                ("malformed", port.counters.malformed),
            ];
            for (by, frames) in lost {
                out.sample(name, &[("port", &port.number), ("by", &by)], frames);
            }
        }

        let counters = self.server.counters();
        let name = "alfirk_dropped_total";
        out.counter(name, "Packets that the program or the switch dropped.");
        for (reason, packets) in &counters.drops {
            out.sample(name, &[("reason", reason)], packets);
        }
        let name = "alfirk_controller_packets_total";
        out.counter(
            name,
            "Packets to and from controllers, and those nobody took.",
        );
        let ways = [
            ("in", counters.packet_ins),
            ("out", counters.packet_outs),
            ("in_lost", counters.packet_ins_lost),
        ];
        for (way, packets) in ways {
            out.sample(name, &[("way", &way)], packets);
        }
        let name = "alfirk_register_accesses_total";
        out.counter(name, "Reads and writes of registers by packets.")
            .sample(name, &[], self.server.switch().register_accesses());
        out.into_text()
    }

    fn finish(mut self) {
        self.send_all();
        self.settle();
        self.count_not_received();
        self.flush_captures();
        for port in self.ports.values() {
            let PortCounters {
                received,
                not_received,
                sent,
                unsent,
                malformed,
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

fn ask(watch: &LinkWatch, index: u32) {
    if let Err(error) = watch.ask(index) {
        warn!("cannot ask for the state of interface {index}: {error}");
    }
}
