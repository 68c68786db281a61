//! One port: its interface, its link, and what waits for either.

use std::{io, os::fd::AsRawFd, path::Path};

use tracing::{debug, info, warn};

use crate::{
    driver::{
        chosen::Chosen,
        link::{Link, LinkOptions},
        pcap::PcapFile,
        poller::{wall_clock, Poller},
        queue::PortQueues,
        socket::{interface_index, PacketSocket, BATCH},
    },
    Queued,
};

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
    pub(super) link: Link,
    /// Packets that wait for a link with a rate.
    pub(super) queues: PortQueues<Queued>,
    /// To be sent at the end of the turn.
    pub(super) sending: Vec<Vec<u8>>,
    pub(super) capture: Option<(PcapFile, PcapFile)>,
    pub(super) counters: PortCounters,
}

/// A port to attach.
pub struct PortSetup<'a> {
    pub number: u32,
    pub interface: &'a str,
    pub link: LinkOptions,
    /// Frames to lose on purpose.
    pub chosen: Vec<Chosen>,
    /// Used when the link has a rate.
    pub priority_queues: usize,
    pub queue_depth: usize,
    pub seed: u64,
    /// Bytes of the receive ring; 0 for none.
    pub ring: usize,
    /// Directory of captures.
    pub pcap: Option<&'a Path>,
}

impl Port {
    /// Opens the interface, and has the poller watch it.
    ///
    /// # Errors
    /// `NotFound` without such an interface, `PermissionDenied` without CAP_NET_RAW.
    pub(super) fn open(setup: PortSetup<'_>, poller: &Poller) -> io::Result<Port> {
        let index = interface_index(setup.interface)?;
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
            link: Link::new(setup.link, setup.seed, setup.number).with_chosen(setup.chosen),
            queues: PortQueues::new(setup.priority_queues, setup.queue_depth),
            sending: Vec::with_capacity(BATCH),
            capture,
            counters: PortCounters::default(),
        })
    }

    /// Whether frames can come and go.
    pub(super) fn is_up(&self) -> bool {
        self.running && !self.link.options().down
    }

    /// When the link has something to do.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let next = (!self.queues.is_empty()).then(|| self.link.idle_at());
        next.into_iter().chain(self.link.poll_timeout()).min()
    }

    /// Sends what there is to send.
    pub(super) fn send(&mut self) {
        if let Some((_, capture)) = &mut self.capture {
            let now = wall_clock();
            for frame in &self.sending {
                log_failure(capture.write(now, frame));
            }
        }
        let sent = match &self.socket {
            Some(socket) => socket.send(&self.sending).unwrap_or_else(|error| {
                debug!(
                    port = self.number,
                    interface = self.interface,
                    "cannot send: {error}"
                );
                0
            }),
            None => 0,
        };
        self.counters.sent += sent as u64;
        self.counters.unsent += (self.sending.len() - sent) as u64;
    }

    /// Counts the frames that the receive ring had no room for since the last look.
    pub(super) fn count_not_received(&mut self) {
        let frames = self.socket.as_ref().map_or(0, PacketSocket::not_received);
        self.counters.not_received += u64::from(frames);
    }

    /// The interface exists (again), perhaps as another one of the same name.
    pub(super) fn come_back(&mut self, index: u32, poller: &Poller) {
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
                // It was renamed or removed again; the next news will tell.
                debug!(
                    port = self.number,
                    interface = self.interface,
                    "cannot attach: {error}"
                );
                self.socket = None;
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
