//! The event loop: one thread that moves frames, time and requests between the system and the host.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use alfirk_bmv2::driver::packet_io::{
    interface_index, monotonic, wall_clock, PacketSocket, PcapFile, Poller, ReceiveBatch, Received,
    BATCH,
};
use alfirk_roce::collective::{Progress, Transfer, TransferEvent};
use alfirk_roce::host::Host;
use alfirk_roce::registration::{LeaderTiming, Registrar};
use alfirk_roce::wire::udp::{PORT_MRP, PORT_ROCE};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing::info;

use super::control::{Control, Incoming};
use super::protocol::{EdgeStatus, Event, Info, Line, Reply, Request, Status};
use super::HostArgs;
use crate::exit::{Failure, Outcome};

const SOCKET: u64 = 0;
const SIGNALS: u64 = 1;
const LISTENER: u64 = 2;
const FIRST_CLIENT: u64 = 3;

/// Nanoseconds between two progress events of a transfer.
const PROGRESS_INTERVAL: u64 = 200_000_000;
/// Nanoseconds until the next try when the interface or a client takes nothing.
const RETRY_INTERVAL: u64 = 200_000;

/// Runs until a signal or the request `stop`.
pub(super) fn run(host: Host, args: &HostArgs) -> Outcome {
    let mut driver = Driver::new(host, args)?;
    info!(
        "{}: {} on {}",
        driver.host.name(),
        driver.host.ip(),
        args.interface
    );
    driver.run()
}

struct Driver {
    host: Host,
    socket: PacketSocket,
    batch: ReceiveBatch,
    pcap: Option<PcapFile>,
    control: Control,
    signals: SignalFd,
    poller: Poller,
    /// Frames that the interface has not taken yet.
    unsent: Vec<Vec<u8>>,
    transfers: BTreeMap<u32, Running>,
    registrar: Registrar,
    next_progress: u64,
    stopping: bool,
    /// Keeps the kernel quiet about the ports.
    _ports: Vec<UdpSocket>,
}

struct Running {
    transfer: Transfer,
    told: Progress,
    finished_told: bool,
}

impl Driver {
    fn new(host: Host, args: &HostArgs) -> Result<Driver, Failure> {
        let name = &args.interface;
        let system = |what: &str, error: io::Error| {
            Failure::failed(format_args!("cannot set up {what}: {error}"))
        };
        let socket = interface_index(name)
            .and_then(PacketSocket::open)
            .map_err(|error| {
                let hint = match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        " (packet sockets need root or CAP_NET_RAW: try sudo)"
                    }
                    _ => "",
                };
                Failure::failed(format_args!("interface {name}: {error}{hint}"))
            })?;
        let pcap = match &args.pcap {
            Some(path) => Some(PcapFile::create(path).map_err(|error| {
                Failure::bad_input(format_args!("--pcap {}: {error}", path.display()))
            })?),
            None => None,
        };
        let mask = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        mask.thread_block()
            .map_err(|e| system("signals", e.into()))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals =
            SignalFd::with_flags(&mask, flags).map_err(|e| system("signals", e.into()))?;
        let control = Control::listen(&args.control, FIRST_CLIENT).map_err(|error| {
            Failure::failed(format_args!(
                "--control {}: {error}",
                args.control.display()
            ))
        })?;
        let poller = Poller::new().map_err(|e| system("epoll", e))?;
        for (fd, token) in [
            (socket.as_raw_fd(), SOCKET),
            (signals.as_raw_fd(), SIGNALS),
            (control.listener_fd(), LISTENER),
        ] {
            poller.add(fd, token).map_err(|e| system("epoll", e))?;
        }
        Ok(Driver {
            host,
            socket,
            batch: ReceiveBatch::default(),
            pcap,
            control,
            signals,
            poller,
            unsent: Vec::new(),
            transfers: BTreeMap::new(),
            registrar: Registrar::default(),
            next_progress: 0,
            stopping: false,
            _ports: hold_ports(),
        })
    }

    fn run(&mut self) -> Outcome {
        let mut ready = Vec::new();
        while !self.stopping {
            // What events bring about, a relay for instance passing a slice on, is sent at once.
            self.events();
            let more = self.transmit()?;
            let unread = self.control.flush();
            let now = monotonic();
            let deadline = if more {
                Some(now)
            } else {
                let stuck = (unread || !self.unsent.is_empty()).then_some(now + RETRY_INTERVAL);
                let progress = self.wants_progress().then_some(self.next_progress);
                let (host, group) = (self.host.poll_timeout(), self.registrar.poll_timeout());
                [host, group, stuck, progress].into_iter().flatten().min()
            };
            self.poller
                .wait(deadline, &mut ready)
                .map_err(|e| Failure::failed(format_args!("epoll: {e}")))?;
            for token in std::mem::take(&mut ready) {
                match token {
                    SOCKET => self.receive()?,
                    SIGNALS => self.stopping |= matches!(self.signals.read_signal(), Ok(Some(_))),
                    LISTENER => self.accept()?,
                    client => {
                        for incoming in self.control.read(client) {
                            self.answer(incoming);
                        }
                    }
                }
            }
            let now = monotonic();
            if self.host.poll_timeout().is_some_and(|at| at <= now) {
                self.host.handle_timeout(now);
            }
            if self.registrar.poll_timeout().is_some_and(|at| at <= now) {
                self.registrar.handle_timeout(&mut self.host, now);
            }
        }
        self.control.flush();
        if let Some(pcap) = &mut self.pcap {
            pcap.flush()
                .map_err(|e| Failure::failed(format_args!("cannot write the capture: {e}")))?;
        }
        Ok(())
    }

    // ---- Frames ----

    /// Sends one batch, and says whether there may be more to send at once.
    fn transmit(&mut self) -> Result<bool, Failure> {
        let now = monotonic();
        while self.unsent.len() < BATCH {
            match self.host.poll_transmit(now) {
                Some(frame) => {
                    self.capture(&frame)?;
                    self.unsent.push(frame);
                }
                None => break,
            }
        }
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let full = self.unsent.len() == BATCH;
        match self.socket.send(&self.unsent) {
            Ok(count) => {
                self.unsent.drain(..count);
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {}
                // Without carrier frames go where they go on a real cable.
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => self.unsent.clear(),
                _ => return Err(Failure::failed(format_args!("cannot send: {error}"))),
            },
        }
        Ok(full && self.unsent.is_empty())
    }

    fn receive(&mut self) -> Outcome {
        let received = self
            .socket
            .receive(&mut self.batch)
            .map_err(|e| Failure::failed(format_args!("cannot receive: {e}")))?;
        let Received::Frames(count) = received else {
            return Ok(());
        };
        let now = monotonic();
        let (host, pcap) = (&mut self.host, &mut self.pcap);
        let mut result = Ok(());
        for index in 0..count {
            self.batch.frames(index, |frame| {
                if let Some(pcap) = pcap {
                    result = std::mem::replace(&mut result, Ok(()))
                        .and_then(|()| pcap.write(wall_clock(), frame));
                }
                host.handle_frame(now, frame);
            });
        }
        result.map_err(|e| Failure::failed(format_args!("cannot write the capture: {e}")))
    }

    fn capture(&mut self, frame: &[u8]) -> Outcome {
        match &mut self.pcap {
            Some(pcap) => pcap
                .write(wall_clock(), frame)
                .map_err(|e| Failure::failed(format_args!("cannot write the capture: {e}"))),
            None => Ok(()),
        }
    }

    // ---- Transfers ----

    /// Brings the host's events to the transfers, and the transfers' to the clients.
    fn events(&mut self) {
        let now = monotonic();
        while let Some(event) = self.host.poll_event() {
            if self.registrar.handle_event(&mut self.host, now, &event) {
                continue;
            }
            for running in self.transfers.values_mut() {
                if running.transfer.handle_event(&mut self.host, now, &event) {
                    break;
                }
            }
        }
        while let Some(told) = self.registrar.poll() {
            self.control.broadcast(&Line::Event(Event::Group { told }));
        }
        let report_progress = now >= self.next_progress;
        for (transfer, running) in &mut self.transfers {
            let transfer = *transfer;
            if report_progress {
                let progress = running.transfer.progress(&self.host);
                if progress != running.told {
                    running.told = progress;
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
                && !std::mem::replace(&mut running.finished_told, true)
            {
                self.control
                    .broadcast(&Line::Event(Event::Finished { transfer }));
            }
        }
        if report_progress {
            self.next_progress = now + PROGRESS_INTERVAL;
        }
    }

    /// Whether a progress event may be due soon.
    fn wants_progress(&self) -> bool {
        let under_way = |r: &Running| {
            !r.finished_told
                && !r.transfer.has_failed()
                && r.told != r.transfer.progress(&self.host)
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

    fn answer(&mut self, incoming: Incoming) {
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

    fn execute(&mut self, request: Request) -> Result<Reply, String> {
        match request {
            Request::Info => Ok(Reply::Info(self.info())),
            Request::Prepare { transfer, spec } => {
                if self.transfers.contains_key(&transfer) {
                    return Err(format!(
                        "transfer {transfer} exists already: close it first"
                    ));
                }
                let (machine, endpoints) = Transfer::prepare(&mut self.host, spec).map_err(text)?;
                let told = machine.progress(&self.host);
                let running = Running {
                    transfer: machine,
                    told,
                    finished_told: false,
                };
                self.transfers.insert(transfer, running);
                Ok(Reply::Prepared { endpoints })
            }
            Request::Connect { transfer, peers } => {
                let running = find(&mut self.transfers, transfer)?;
                running
                    .transfer
                    .connect(&mut self.host, monotonic(), &peers)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Start { transfer, file } => {
                let running = find(&mut self.transfers, transfer)?;
                let data: Arc<[u8]> = fs::read(&file)
                    .map_err(|error| format!("cannot read {}: {error}", file.display()))?
                    .into();
                let at = monotonic();
                running
                    .transfer
                    .start(&mut self.host, at, data)
                    .map_err(text)?;
                Ok(Reply::Started { at })
            }
            Request::Status { transfer } => {
                let machine = &find(&mut self.transfers, transfer)?.transfer;
                Ok(Reply::Status(Status {
                    progress: machine.progress(&self.host),
                    ready: machine.is_ready(),
                    finished: machine.is_finished(),
                    failed: machine.has_failed(),
                    edges: machine
                        .qp_stats(&self.host)
                        .map(|(edge, stats)| EdgeStatus { edge, stats })
                        .collect(),
                    host: self.host.stats(),
                }))
            }
            Request::Save { transfer, file } => {
                let machine = &find(&mut self.transfers, transfer)?.transfer;
                fs::write(&file, machine.data(&self.host))
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                Ok(Reply::Accepted)
            }
            Request::Close { transfer } => {
                let running = self
                    .transfers
                    .remove(&transfer)
                    .ok_or_else(|| missing(transfer))?;
                running.transfer.close(&mut self.host);
                Ok(Reply::Accepted)
            }
            Request::Expect { qpn } => {
                self.registrar.expect(&mut self.host, qpn);
                Ok(Reply::Accepted)
            }
            Request::Lead { group, nodes } => {
                let timing = LeaderTiming::default();
                self.registrar
                    .lead(&mut self.host, monotonic(), group, timing, &nodes)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Dissolve => {
                let leader = self.registrar.leader().ok_or_else(no_group)?;
                leader.deregister(&mut self.host, monotonic());
                Ok(Reply::Accepted)
            }
            Request::Stalled => {
                let leader = self.registrar.leader().ok_or_else(no_group)?;
                leader.stalled(&mut self.host, monotonic());
                Ok(Reply::Accepted)
            }
            Request::Stop => {
                self.stopping = true;
                Ok(Reply::Accepted)
            }
        }
    }

    fn info(&self) -> Info {
        let config = self.host.config();
        Info {
            name: config.name.clone(),
            mac: config.mac,
            ip: config.ip,
            prefix_len: config.prefix_len,
            mtu: config.mtu,
            path_mtu: self.host.default_rc().mtu.into(),
            stats: self.host.stats(),
        }
    }
}

fn find(transfers: &mut BTreeMap<u32, Running>, transfer: u32) -> Result<&mut Running, String> {
    transfers
        .get_mut(&transfer)
        .ok_or_else(|| missing(transfer))
}

fn missing(transfer: u32) -> String {
    format!("there is no transfer {transfer}: prepare it first")
}

fn no_group() -> String {
    "this host leads no group: ask it to `lead` one first".to_owned()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Sockets that keep the kernel from answering packets for our ports with "port unreachable". Where another process has a
/// port already, the kernel is quiet about it anyway.
fn hold_ports() -> Vec<UdpSocket> {
    [PORT_ROCE, PORT_MRP]
        .into_iter()
        .filter_map(|port| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
            // The smallest buffer there is: nobody reads.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1);
            Some(socket)
        })
        .collect()
}
