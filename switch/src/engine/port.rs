//! One port: its interface, its link, and what waits for either.

use std::{io, os::fd::AsRawFd, path::Path};

use alfirk_packet_io::{
    interface_index,
    link::{Link, LinkOptions},
    loss_filter::LossFilter,
    wall_clock, PacketSocket, PcapFile, Poller, SendOutcome, BATCH,
};
use tracing::{debug, info, warn};

use crate::{
    files,
    helper::{Done, Helper},
    queue::PortQueues,
};
use alfirk_bmv2::{QueueState, Queued};
use alfirk_p4rt::Server;

/// Frames for which it is worth to wake a thread up that sends them.
const WORTH_HELP: usize = 24;

/// In the token of a port of which the poller reports that it takes frames again.
pub(super) const WRITABLE: u64 = 1 << 34;

/// Frames counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortCounters {
    pub received: u64,
    /// Came when the receive ring was full.
    pub not_received: u64,
    pub sent: u64,
    /// Given to the kernel and not taken, or to a port that is down.
    pub unsent: u64,
    /// Contradictory offload data.
    pub malformed: u64,
}

pub(super) struct Port {
    pub(super) number: u32,
    pub(super) interface: String,
    pub(super) socket: Option<PacketSocket>,
    /// Bytes of its receive ring.
    pub(super) ring: usize,
    pub(super) index: u32,
    pub(super) running: bool,
    /// The interface's queueing discipline, as far as it is known yet.
    discipline: Option<String>,
    /// Frames pass a queueing discipline, which may take its time; so it is taken for granted until known.
    pub(super) is_shaped: bool,
    pub(super) link: Link,
    /// Packets that wait for the link, or for the interface.
    pub(super) queues: PortQueues<Queued>,
    /// Bytes that may wait in the queues together; any number without.
    queue_bytes: Option<u64>,
    /// Bytes that wait.
    queued_bytes: u64,
    /// Since when the packet has waited that the link takes next.
    pub(super) since: Option<u64>,
    /// To be sent at the end of the turn, or when the interface takes frames again.
    pub(super) sending: Vec<Vec<u8>>,
    /// The interface takes no frames now; the poller reports when it does.
    pub(super) is_held: bool,
    /// Batches that the helper has.
    under_way: usize,
    pub(super) capture: Option<(PcapFile, PcapFile)>,
    /// What frames are written to in place of an interface.
    pub(super) file: Option<PcapFile>,
    pub(super) counters: PortCounters,
}

/// A port to attach.
pub struct PortSetup<'a> {
    pub number: u32,
    pub interface: &'a str,
    pub link: LinkOptions,
    /// Frames to lose on purpose.
    pub chosen: Vec<LossFilter>,
    /// Used when the link does not take all packets at once.
    pub priority_queues: usize,
    pub queue_depth: usize,
    /// Bytes that may wait in place of that number of packets.
    pub queue_bytes: Option<u64>,
    pub seed: u64,
    /// Bytes of the receive ring; 0 for none.
    pub ring: usize,
    /// Directory of captures.
    pub pcap: Option<&'a Path>,
}

impl PortSetup<'_> {
    fn depth(&self) -> usize {
        match self.queue_bytes {
            Some(_) => usize::MAX,
            None => self.queue_depth,
        }
    }
}

impl Port {
    /// Opens the interface, and has the poller watch it.
    ///
    /// # Errors
    /// `NotFound` without such an interface, `PermissionDenied` without CAP_NET_RAW.
    pub(super) fn open(setup: PortSetup<'_>, poller: &Poller) -> io::Result<Port> {
        let index = interface_index(setup.interface)?;
        let depth = setup.depth();
        let socket = PacketSocket::with_ring(index, setup.ring)?;
        poller.add(socket.as_raw_fd(), setup.number.into())?;
        let capture = match setup.pcap {
            Some(dir) => {
                let file = |way: &str| {
                    PcapFile::create(&dir.join(format!("{}_{way}.pcap", setup.interface)))
                };
                Some((file("in")?, file("out")?))
            }
            None => None,
        };
        Ok(Port {
            number: setup.number,
            interface: setup.interface.to_owned(),
            socket: Some(socket),
            ring: setup.ring,
            index,
            running: true,
            discipline: None,
            is_shaped: true,
            link: Link::new(setup.link, setup.seed, setup.number).with_loss_filters(setup.chosen),
            queues: PortQueues::new(setup.priority_queues, depth),
            queue_bytes: setup.queue_bytes,
            queued_bytes: 0,
            since: None,
            sending: Vec::with_capacity(BATCH),
            is_held: false,
            under_way: 0,
            capture,
            file: None,
            counters: PortCounters::default(),
        })
    }

    /// A port that writes to a file what leaves it.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn of_file(setup: PortSetup<'_>) -> io::Result<Port> {
        let depth = setup.depth();
        Ok(Port {
            number: setup.number,
            interface: setup.interface.to_owned(),
            socket: None,
            ring: 0,
            index: 0,
            running: true,
            discipline: None,
            is_shaped: false,
            link: Link::new(setup.link, setup.seed, setup.number).with_loss_filters(setup.chosen),
            queues: PortQueues::new(setup.priority_queues, depth),
            queue_bytes: setup.queue_bytes,
            queued_bytes: 0,
            since: None,
            sending: Vec::with_capacity(BATCH),
            is_held: false,
            under_way: 0,
            capture: None,
            file: Some(files::output(setup.interface)?),
            counters: PortCounters::default(),
        })
    }

    /// Whether frames can come and go.
    pub(super) fn is_up(&self) -> bool {
        self.running && !self.link.options().down
    }

    /// Whether the next packet goes through the queues: it may have to wait there. Behind those that
    /// wait already, also when what they wait for has been taken away.
    pub(super) fn has_queue(&self) -> bool {
        self.link.has_rate()
            || self.is_shaped
            || self.queues.is_limited()
            || !self.queues.is_empty()
    }

    /// Has a packet wait for its turn; one without room is dropped and counted.
    pub(super) fn enqueue(&mut self, packet: Queued, now: u64) {
        let (len, before) = (packet.len as u64, self.queues.len());
        let room = self.queue_bytes.unwrap_or(u64::MAX);
        if self.queued_bytes.saturating_add(len) > room {
            self.queues.dropped += 1;
            return;
        }
        self.queues.push(packet.priority, packet, now);
        if self.queues.len() > before {
            self.queued_bytes += len;
        }
    }

    /// The packet that may leave the queues now. What it waited for without need, as this thread came late, the link gives back:
    /// it begins with the packet when it was free.
    pub(super) fn next(&mut self, now: u64) -> Option<(Queued, QueueState)> {
        if self.is_held || !self.link.is_idle(now) {
            return None;
        }
        let (packet, state) = self.queues.pop(now)?;
        self.queued_bytes = self.queued_bytes.saturating_sub(packet.len as u64);
        self.since = Some(state.enq_timestamp);
        Some((packet, state))
    }

    /// When the queues or the link have something to do.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let next = self.queues.due_at().filter(|_| !self.is_held);
        let next = next.map(|due| due.max(self.link.idle_at()));
        next.into_iter().chain(self.link.poll_timeout()).min()
    }

    /// Chooses how frames leave, by the interface's queueing discipline.
    pub(super) fn set_discipline(&mut self, discipline: String) {
        if self.discipline.as_ref() == Some(&discipline) {
            return;
        }
        // `noop` stands in while an interface is down.
        let is_shaped = !matches!(discipline.as_str(), "noqueue" | "noop");
        self.is_shaped = is_shaped;
        let before = self.discipline.replace(discipline);
        let (port, interface) = (self.number, &self.interface);
        if let Some(socket) = &self.socket {
            if let Err(error) = socket.outlet().set_bypass(!is_shaped) {
                warn!(port, interface, "cannot change how frames leave: {error}");
            }
        }
        let discipline = self.discipline.as_deref().unwrap_or_default();
        if is_shaped {
            info!(
                port,
                interface,
                discipline,
                "frames leave through the interface's queueing discipline; while it holds all it may, packets wait in the port's queues"
            );
        } else if before.is_some() {
            info!(
                port,
                interface,
                discipline,
                "the interface has no queueing discipline any more; frames leave straight to the device"
            );
        }
    }

    /// Sends what there is to send. What the queueing discipline has no room for is held until it has;
    /// the memory of the others goes back to the server. Many at once leave by the helper, and so do those
    /// behind them.
    pub(super) fn send(
        &mut self,
        poller: &Poller,
        server: &mut Server,
        helper: &mut Option<Helper>,
    ) {
        if let Some(file) = &mut self.file {
            let now = wall_clock();
            for frame in &self.sending {
                log_failure(file.write(now, frame));
            }
            log_failure(file.flush());
            self.counters.sent += self.sending.len() as u64;
            return server.recycle(&mut self.sending);
        }
        let is_much = self.under_way > 0 || self.sending.len() >= WORTH_HELP;
        if let (Some(_), Some(helper), true) = (&self.socket, helper, is_much && !self.is_shaped) {
            self.capture_first(self.sending.len());
            if let Some(socket) = &self.socket {
                self.under_way += 1;
                return helper.send(self.number, socket.outlet(), &mut self.sending);
            }
        }
        let sent = match &self.socket {
            Some(socket) => socket.send(&self.sending).unwrap_or_else(|error| {
                debug!(
                    port = self.number,
                    interface = self.interface,
                    "cannot send: {error}"
                );
                SendOutcome::default()
            }),
            None => SendOutcome::default(),
        };
        let all = self.sending.len();
        let done = match sent.is_full && self.is_shaped && self.hold(poller) {
            true => sent.done,
            false => all,
        };
        self.capture_first(done);
        self.counters.sent += sent.taken as u64;
        self.counters.unsent += (done - sent.taken) as u64;
        if done == all {
            server.recycle(&mut self.sending);
        } else {
            server.recycle(&mut self.sending.drain(..done).collect());
        }
    }

    /// Writes down so many of the frames to send.
    fn capture_first(&mut self, count: usize) {
        if let Some((_, capture)) = &mut self.capture {
            let now = wall_clock();
            for frame in &self.sending[..count] {
                log_failure(capture.write(now, frame));
            }
        }
    }

    /// Counts what the helper has sent, and gives its memory back to the server.
    pub(super) fn has_sent(&mut self, done: &mut Done, server: &mut Server) {
        self.under_way -= 1;
        self.counters.sent += done.sent.taken as u64;
        self.counters.unsent += (done.frames.len() - done.sent.taken) as u64;
        server.recycle(&mut done.frames);
    }

    /// Has the poller report when the interface takes frames again. False when it cannot.
    fn hold(&mut self, poller: &Poller) -> bool {
        if let (false, Some(socket)) = (self.is_held, &self.socket) {
            let token = WRITABLE | u64::from(self.number);
            self.is_held = match poller.add_writer(socket.outlet().writer(), token) {
                Ok(()) => true,
                Err(error) => {
                    warn!(port = self.number, "cannot wait for room: {error}");
                    false
                }
            };
        }
        self.is_held
    }

    /// The interface takes frames again.
    pub(super) fn release(&mut self, poller: &Poller) {
        if let (true, Some(socket)) = (self.is_held, &self.socket) {
            // It cannot fail for a descriptor that is in the set.
            let _ = poller.remove(socket.outlet().writer());
        }
        self.is_held = false;
    }

    /// Counts the frames that the receive ring had no room for since the last look.
    pub(super) fn count_not_received(&mut self) {
        let frames = self.socket.as_ref().map_or(0, PacketSocket::not_received);
        self.counters.not_received += u64::from(frames);
    }

    /// The interface is gone.
    pub(super) fn go(&mut self) {
        self.socket = None;
        self.is_held = false;
        self.discipline = None;
        self.is_shaped = true;
    }

    /// The interface exists (again), perhaps as another one of the same name.
    pub(super) fn come_back(&mut self, index: u32, poller: &Poller) {
        self.go();
        let opened = PacketSocket::with_ring(index, self.ring).and_then(|socket| {
            poller.add(socket.as_raw_fd(), self.number.into())?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                info!(
                    port = self.number,
                    interface = self.interface,
                    "interface is back"
                );
                self.socket = Some(socket);
                self.index = index;
            }
            Err(error) => {
                // It was renamed or removed again; the next report will say.
                debug!(
                    port = self.number,
                    interface = self.interface,
                    "cannot attach: {error}"
                );
            }
        }
    }
}

/// A full disk must not stop the switch.
pub(super) fn log_failure(result: io::Result<()>) {
    if let Err(error) = result {
        warn!("cannot write a capture: {error}");
    }
}
