//! Forwards frames between packet sockets and the underlay: two threads, one for each direction.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use alfirk_packet_io::{
    interface_index, FrameSender, PacketSocket, Poller, ReceiveBatch, TakeOutcome, BATCH,
};
use alfirk_roce::wire::vxlan::{self, Repr, View};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::SockaddrIn;

use super::underlay::{check_mtu, Incoming, Outgoing, Underlay};
use super::LinkSpec;
use crate::exit::{print, Failure, Outcome};

/// Token of epoll for signals. The tokens of links are their indexes.
const SIGNALS: u64 = u64::MAX - 1;
const OTHER_THREAD: u64 = u64::MAX - 2;
const UNDERLAY: u64 = 0;

/// Local end of a link, from which frames are sent to another machine.
struct Port {
    spec: LinkSpec,
    /// Index of the interface at the start.
    index: u32,
    socket: PacketSocket,
    /// VXLAN header of all frames of the link.
    header: [u8; vxlan::HEADER_LEN],
    remote: SockaddrIn,
}

/// Local end of a link, to which the receiving thread sends frames from another machine.
struct LocalEnd {
    remote: Ipv4Addr,
    frame_sender: Arc<FrameSender>,
    /// Frames of the current batch that will be sent to the interface.
    frames: Vec<Vec<u8>>,
    interface: String,
}

/// Forwards frames until a signal arrives.
pub fn run(local: Ipv4Addr, port: u16, links: &[LinkSpec], fragments: bool) -> Outcome {
    // Blocked before the other thread starts, which inherits the mask.
    let mask = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    let signals = mask
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC));
    let signals = signals.map_err(|error| Failure::failed(format_args!("signals: {error}")))?;

    let mut ports = Vec::new();
    for link in links {
        let port = Port::open(link, port)?;
        if !fragments {
            let mtu = interface_mtu(&link.interface)?;
            let checked = check_mtu(local, link.remote, mtu, "fragments");
            let checked = checked
                .map_err(|error| Failure::failed(format_args!("no route for {link}: {error}")))?;
            checked.map_err(Failure::failed)?;
        }
        ports.push(port);
    }
    let underlay = Underlay::bind(local, port, fragments).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; the kernel or another program uses this VXLAN port; give another --port on all machines",
            io::ErrorKind::AddrNotAvailable => "; --local must be an address of this machine",
            _ => "",
        };
        Failure::failed(format_args!("UDP {local}:{port}: {error}{hint}"))
    })?;
    let underlay = Arc::new(underlay);
    let local_ends = ports.iter().map(|port| {
        let local_end = LocalEnd {
            remote: port.spec.remote,
            frame_sender: Arc::clone(port.socket.frame_sender()),
            frames: Vec::new(),
            interface: port.spec.interface.clone(),
        };
        (port.spec.vni, local_end)
    });
    let receiver = Receiver::start(Arc::clone(&underlay), local_ends.collect())?;
    // The parent process waits for this line.
    let count = ports.len();
    print(format_args!("{count} links at {local}:{port}\n"))?;
    send(&mut ports, &underlay, &signals, receiver)
}

impl Port {
    fn open(spec: &LinkSpec, port: u16) -> Result<Port, Failure> {
        let name = &spec.interface;
        let opened = interface_index(name)
            .and_then(|index| PacketSocket::open(index).map(|socket| (index, socket)));
        let (index, socket) = opened.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => " in this network namespace",
                io::ErrorKind::PermissionDenied => " (packet sockets need root: try sudo)",
                _ => "",
            };
            Failure::failed(format_args!("interface {name}: {error}{hint}"))
        })?;
        Ok(Port {
            index,
            socket,
            header: Repr { vni: spec.vni }.bytes(),
            remote: SockaddrIn::from(SocketAddrV4::new(spec.remote, port)),
            spec: spec.clone(),
        })
    }

    /// Whether the interface still exists, with the same index.
    fn is_unchanged(&self) -> bool {
        interface_index(&self.spec.interface).is_ok_and(|index| index == self.index)
    }
}

fn interface_mtu(name: &str) -> Result<u32, Failure> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu"));
    let mtu = text.ok().and_then(|text| text.trim().parse().ok());
    mtu.ok_or_else(|| Failure::failed(format_args!("interface {name}: cannot read its MTU")))
}

/// Forwards frames from interfaces to the underlay, until a signal arrives or the other thread fails.
fn send(
    ports: &mut [Port],
    underlay: &Underlay,
    signals: &SignalFd,
    receiver: Receiver,
) -> Outcome {
    let broken = |error: io::Error| Failure::failed(format_args!("VXLAN: {error}"));
    let mut poller = Poller::new().map_err(broken)?;
    for (number, port) in ports.iter().enumerate() {
        poller.add(&port.socket, number as u64).map_err(broken)?;
    }
    let own = [
        (signals.as_fd(), SIGNALS),
        (receiver.ended.as_fd(), OTHER_THREAD),
    ];
    for (fd, token) in own {
        poller.add(fd, token).map_err(broken)?;
    }
    let (mut batch, mut outgoing, mut ready) =
        (ReceiveBatch::default(), Outgoing::default(), Vec::new());
    let mut warned = false;
    loop {
        poller.wait(None, &mut ready).map_err(broken)?;
        for &token in &ready {
            match token {
                SIGNALS => return Ok(()),
                OTHER_THREAD => return Err(broken(receiver.into_error())),
                number => {
                    let port = &mut ports[number as usize];
                    let (header, remote) = (port.header, port.remote);
                    for _ in 0..BATCH {
                        let taken = port.socket.take(&mut batch, |frame| {
                            outgoing.push(&header, frame, remote);
                        });
                        match taken.map_err(broken)? {
                            taken if taken.is_frame() => {}
                            TakeOutcome::Down if !port.is_unchanged() => {
                                let name = &port.spec.interface;
                                return Err(Failure::failed(format_args!(
                                    "interface {name} is gone"
                                )));
                            }
                            _ => break,
                        }
                    }
                }
            }
        }
        let too_long = underlay.send(&mut outgoing).map_err(broken)?;
        if too_long > 0 && !std::mem::replace(&mut warned, true) {
            tracing::warn!(
                "frames are lost: in VXLAN they exceed the MTU of the path to another machine; see --fragments"
            );
        }
    }
}

/// The thread that forwards frames from the underlay to interfaces.
struct Receiver {
    thread: JoinHandle<io::Result<()>>,
    /// Read end of a pipe, which is readable when the thread has ended.
    ended: File,
}

impl Receiver {
    fn start(
        underlay: Arc<Underlay>,
        local_ends: BTreeMap<u32, LocalEnd>,
    ) -> Result<Receiver, Failure> {
        let (ended, alive) = nix::unistd::pipe()
            .map_err(|error| Failure::failed(format_args!("cannot create a pipe: {error}")))?;
        let started = thread::Builder::new()
            .name("receiver".into())
            .spawn(move || {
                let _alive = alive;
                receive(&underlay, local_ends)
            });
        let thread = started
            .map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))?;
        Ok(Receiver {
            thread,
            ended: File::from(ended),
        })
    }

    /// Waits for the end of the thread and returns its error.
    fn into_error(self) -> io::Error {
        match self.thread.join() {
            Ok(Err(error)) => error,
            _ => io::Error::other("the receiving thread ended"),
        }
    }
}

fn receive(underlay: &Underlay, mut local_ends: BTreeMap<u32, LocalEnd>) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(underlay, UNDERLAY)?;
    let mut incoming = Incoming::default();
    let (mut ready, mut spare) = (Vec::new(), Vec::new());
    loop {
        poller.wait(None, &mut ready)?;
        loop {
            let count = underlay.receive(&mut incoming, |from, datagram| {
                let Ok(view) = View::new_checked(datagram) else {
                    return;
                };
                // Datagrams of unknown links or senders are dropped.
                let local_end = local_ends.get_mut(&view.vni());
                if let Some(local_end) = local_end.filter(|local_end| local_end.remote == from) {
                    let mut frame: Vec<u8> = spare.pop().unwrap_or_default();
                    frame.extend_from_slice(view.frame());
                    local_end.frames.push(frame);
                }
            })?;
            for local_end in local_ends
                .values_mut()
                .filter(|local_end| !local_end.frames.is_empty())
            {
                deliver(local_end);
                for mut frame in local_end.frames.drain(..) {
                    frame.clear();
                    spare.push(frame);
                }
            }
            if count < BATCH {
                break;
            }
        }
    }
}

/// Sends the frames of a batch to their interface. Frames that it does not accept are lost, as on a link that is down
/// or has a full queue.
fn deliver(local_end: &LocalEnd) {
    if let Err(error) = local_end.frame_sender.send(&local_end.frames) {
        tracing::debug!("interface {}: {error}", local_end.interface);
    }
}
