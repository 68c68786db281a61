//! A port: its interface, its emulated link, and the queues before the link.

use std::{io, path::Path};

use alfirk_packet_io::{
    interface_index,
    link::{Link, LinkOptions},
    loss_filter::LossFilter,
    wall_clock, PacketSocket, PcapFile, Poller, SendOutcome, SendSocket, BATCH,
};
use tracing::{debug, info, warn};

use crate::{
    files,
    queue::PortQueues,
    send_thread::{is_for_thread, SendThread, SentBatch},
};
use alfirk_bmv2::{QueueState, Queued};
use alfirk_p4rt::Server;

/// Bit in a poller token which means that the port's interface accepts frames again.
pub(super) const WRITABLE: u64 = 1 << 34;

/// Frame counters of a port since the switch started.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortCounters {
    /// Frames received from the interface.
    pub received: u64,
    /// Bytes of valid frames received from the interface.
    pub received_bytes: u64,
    /// Frames dropped because the receive ring was full.
    pub not_received: u64,
    /// Frames sent to the interface.
    pub sent: u64,
    /// Bytes of frames handed to the interface.
    pub sent_bytes: u64,
    /// Frames that the kernel rejected, or that were sent to a port that is down.
    pub unsent: u64,
    /// Frames dropped because their offload metadata (`virtio_net_hdr`) contradicted their contents.
    pub malformed: u64,
}

/// A port of the switch, with its interface, emulated link and queues.
pub(super) struct Port {
    pub(super) number: u32,
    pub(super) interface: String,
    pub(super) socket: Option<PacketSocket>,
    /// Size in bytes of the receive ring.
    pub(super) ring: usize,
    /// Sockets that send frames.
    pub(super) send_socket: SendSocket,
    pub(super) index: u32,
    pub(super) running: bool,
    /// Name of the interface's queueing discipline; `None` until the kernel has reported it.
    discipline: Option<String>,
    /// Whether frames pass a queueing discipline that may delay them; true until the kernel has reported the
    /// discipline.
    pub(super) is_shaped: bool,
    pub(super) link: Link,
    /// Packets waiting for the link or the interface.
    pub(super) queues: PortQueues<Queued>,
    /// Maximum number of queued bytes; `None` for no limit.
    queue_bytes: Option<u64>,
    /// Current number of queued bytes.
    queued_bytes: u64,
    /// Time in nanoseconds at which the next packet for the link was queued; `None` without a packet.
    pub(super) queued_since: Option<u64>,
    /// Frames to send at the end of the turn, or when the interface accepts frames again.
    pub(super) sending: Vec<Vec<u8>>,
    /// Whether the interface cannot accept frames now; the poller reports when it can.
    pub(super) is_blocked: bool,
    /// Number of batches that the sender thread holds.
    batches_in_thread: usize,
    pub(super) capture: Option<(PcapFile, PcapFile)>,
    /// Capture file to which sent frames are written, if the port has files instead of an interface.
    pub(super) file: Option<PcapFile>,
    pub(super) counters: PortCounters,
}

/// Options of ports added at run time, from the command line.
#[derive(Clone, Debug)]
pub struct PortDefaults {
    /// Options of the emulated link.
    pub link: LinkOptions,
    /// Number of queues.
    pub priority_queues: usize,
    /// Depth of each queue in packets.
    pub queue_depth: usize,
    /// Rate of each queue in packets per second; 0 for no limit.
    pub queue_rate: u64,
    /// Seed of the links' random numbers.
    pub seed: u64,
    /// Size of the receive ring in bytes; 0 for none.
    pub ring: usize,
    /// Sockets that send frames.
    pub send_socket: SendSocket,
    /// Port numbers that cannot be attached: the CPU port and the drop port.
    pub reserved: Vec<u32>,
}

/// Options of a port to attach.
pub struct PortSetup<'a> {
    /// Port number.
    pub number: u32,
    /// Name of the interface.
    pub interface: &'a str,
    /// Options of the emulated link.
    pub link: LinkOptions,
    /// Filters of frames to drop.
    pub loss_filters: Vec<LossFilter>,
    /// Number of queues, which hold packets while the link is busy.
    pub priority_queues: usize,
    /// Depth of each queue in packets.
    pub queue_depth: usize,
    /// Maximum number of queued bytes, in place of the depth in packets; `None` to use the depth.
    pub queue_bytes: Option<u64>,
    /// Seed of the link's random numbers.
    pub seed: u64,
    /// Size of the receive ring in bytes; 0 for none.
    pub ring: usize,
    /// Sockets that send frames.
    pub send_socket: SendSocket,
    /// Directory of capture files; `None` to capture nothing.
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
    /// Opens the interface and adds it to the poller.
    ///
    /// # Errors
    /// `NotFound` for an unknown interface, `PermissionDenied` without CAP_NET_RAW.
    pub(super) fn open(setup: PortSetup<'_>, poller: &Poller) -> io::Result<Port> {
        let index = interface_index(setup.interface)?;
        let socket = PacketSocket::with_ring(index, setup.ring)?;
        poller.add(&socket, setup.number.into())?;
        let capture = match setup.pcap {
            Some(dir) => {
                let file = |way: &str| {
                    PcapFile::create(&dir.join(format!("{}_{way}.pcap", setup.interface)))
                };
                Some((file("in")?, file("out")?))
            }
            None => None,
        };
        let ring = setup.ring;
        Ok(Port {
            socket: Some(socket),
            ring,
            index,
            is_shaped: true,
            capture,
            ..Port::detached(setup)
        })
    }

    /// Creates a port that writes sent frames to a file.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(super) fn with_file(setup: PortSetup<'_>) -> io::Result<Port> {
        let file = files::output(setup.interface)?;
        Ok(Port {
            file: Some(file),
            ..Port::detached(setup)
        })
    }

    /// Creates a port without an interface or a file. Frames sent to it are lost.
    fn detached(setup: PortSetup<'_>) -> Port {
        let depth = setup.depth();
        Port {
            number: setup.number,
            interface: setup.interface.to_owned(),
            socket: None,
            ring: 0,
            send_socket: setup.send_socket,
            index: 0,
            running: true,
            discipline: None,
            is_shaped: false,
            link: Link::new(setup.link, setup.seed, setup.number)
                .with_loss_filters(setup.loss_filters),
            queues: PortQueues::new(setup.priority_queues, depth),
            queue_bytes: setup.queue_bytes,
            queued_bytes: 0,
            queued_since: None,
            sending: Vec::with_capacity(BATCH),
            is_blocked: false,
            batches_in_thread: 0,
            capture: None,
            file: None,
            counters: PortCounters::default(),
        }
    }

    /// Returns whether frames can be sent and received.
    pub(super) fn is_up(&self) -> bool {
        self.running && !self.link.options().down
    }

    /// Returns whether the next packet must be queued, because it may have to wait or because other packets are queued.
    pub(super) fn has_queue(&self) -> bool {
        self.link.has_rate()
            || self.is_shaped
            || self.queues.is_limited()
            || !self.queues.is_empty()
    }

    /// Queues a packet. A packet that exceeds the limit is counted and returned.
    pub(super) fn enqueue(&mut self, packet: Queued, now: u64) -> Option<Queued> {
        let len = packet.len as u64;
        let limit = self.queue_bytes.unwrap_or(u64::MAX);
        if self.queued_bytes.saturating_add(len) > limit {
            self.queues.dropped += 1;
            return Some(packet);
        }
        let dropped = self.queues.push(packet.priority, packet, now);
        if dropped.is_none() {
            self.queued_bytes += len;
        }
        dropped
    }

    /// Takes the next queued packet, if the link can accept it now. If this thread woke up late, the transmission
    /// starts in the past, when the link became idle.
    pub(super) fn next(&mut self, now: u64) -> Option<(Queued, QueueState)> {
        if self.is_blocked || !self.link.is_idle(now) {
            return None;
        }
        let (packet, state) = self.queues.pop(now)?;
        self.queued_bytes = self.queued_bytes.saturating_sub(packet.len as u64);
        self.queued_since = Some(state.enq_timestamp);
        Some((packet, state))
    }

    /// Returns the time in nanoseconds of the next event of the queues or of the link; `None` if none is pending.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let next = self.queues.due_at().filter(|_| !self.is_blocked);
        let next = next.map(|due| due.max(self.link.idle_at()));
        next.into_iter().chain(self.link.poll_timeout()).min()
    }

    /// Records the queueing discipline of the interface, which determines how frames are sent.
    pub(super) fn set_discipline(&mut self, discipline: String) {
        if self.discipline.as_ref() == Some(&discipline) {
            return;
        }
        // `noop` is the discipline of an interface that is down.
        let is_shaped = !matches!(discipline.as_str(), "noqueue" | "noop");
        self.is_shaped = is_shaped;
        let before = self.discipline.replace(discipline);
        let (port, interface) = (self.number, &self.interface);
        if let Some(socket) = &self.socket {
            if let Err(error) = socket.frame_sender().set_bypass(!is_shaped) {
                warn!(port, interface, "cannot change the qdisc bypass: {error}");
            }
        }
        let discipline = self.discipline.as_deref().unwrap_or_default();
        if is_shaped {
            info!(
                port,
                interface,
                discipline,
                "frames pass the interface's queueing discipline; while it is full, packets wait in the port's queues"
            );
        } else if before.is_some() {
            info!(
                port,
                interface,
                discipline,
                "the interface has no queueing discipline any more; frames are sent directly to the device"
            );
        }
    }

    /// Sends the frames of `sending`. Frames that the queueing discipline does not accept now are kept; the buffers of
    /// the others return to the server. The sender thread sends large batches of TCP, and all frames that follow a batch.
    pub(super) fn send(
        &mut self,
        poller: &Poller,
        server: &mut Server,
        send_thread: &mut Option<SendThread>,
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
        let is_for_thread = self.batches_in_thread > 0 || is_for_thread(&self.sending);
        if let (Some(_), Some(send_thread), true) =
            (&self.socket, send_thread, is_for_thread && !self.is_shaped)
        {
            self.capture_first(self.sending.len());
            if let Some(socket) = &self.socket {
                self.batches_in_thread += 1;
                return send_thread.send(self.number, socket.frame_sender(), &mut self.sending);
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
        let done = match sent.is_full && self.is_shaped && self.wait_until_writable(poller) {
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

    /// Writes the first `count` frames of `sending` to the port's capture.
    fn capture_first(&mut self, count: usize) {
        if let Some((_, capture)) = &mut self.capture {
            let now = wall_clock();
            for frame in &self.sending[..count] {
                log_failure(capture.write(now, frame));
            }
        }
    }

    /// Counts the frames that the sender thread has sent, and returns their buffers to the server.
    pub(super) fn frames_sent(&mut self, done: &mut SentBatch, server: &mut Server) {
        self.batches_in_thread -= 1;
        self.counters.sent += done.sent.taken as u64;
        self.counters.unsent += (done.frames.len() - done.sent.taken) as u64;
        server.recycle(&mut done.frames);
    }

    /// Makes the poller report when the interface accepts frames again. Returns false if that fails.
    fn wait_until_writable(&mut self, poller: &Poller) -> bool {
        if let (false, Some(socket)) = (self.is_blocked, &self.socket) {
            let token = WRITABLE | u64::from(self.number);
            self.is_blocked = match poller.add_writer(socket.frame_sender().writer(), token) {
                Ok(()) => true,
                Err(error) => {
                    warn!(
                        port = self.number,
                        "cannot wait until the interface accepts frames: {error}"
                    );
                    false
                }
            };
        }
        self.is_blocked
    }

    /// Handles the event that the interface accepts frames again.
    pub(super) fn on_writable(&mut self, poller: &Poller) {
        if let (true, Some(socket)) = (self.is_blocked, &self.socket) {
            // This cannot fail, since the descriptor is in the set.
            let _ = poller.remove(socket.frame_sender().writer());
        }
        self.is_blocked = false;
    }

    /// Adds the number of frames that the kernel has dropped since the last call, because the receive ring was full.
    pub(super) fn count_not_received(&mut self) {
        let frames = self.socket.as_ref().map_or(0, PacketSocket::not_received);
        self.counters.not_received += u64::from(frames);
    }

    /// Handles the removal of the port's interface.
    pub(super) fn interface_removed(&mut self) {
        self.socket = None;
        self.is_blocked = false;
        self.discipline = None;
        self.is_shaped = true;
    }

    /// Handles the addition of an interface with the port's name. Its index may differ from the earlier one.
    pub(super) fn interface_added(&mut self, index: u32, poller: &Poller) {
        self.interface_removed();
        let opened = PacketSocket::with_ring(index, self.ring).and_then(|socket| {
            poller.add(&socket, self.number.into())?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                info!(
                    port = self.number,
                    interface = self.interface,
                    "interface exists again"
                );
                self.socket = Some(socket);
                self.index = index;
            }
            Err(error) => {
                // The interface was renamed or removed again; another event will follow.
                debug!(
                    port = self.number,
                    interface = self.interface,
                    "cannot attach: {error}"
                );
            }
        }
    }
}

/// Logs the failure of a capture. Failures such as a full disk do not stop the switch.
pub(super) fn log_failure(result: io::Result<()>) {
    if let Err(error) = result {
        warn!("cannot write a capture: {error}");
    }
}
