//! Two threads, one for each direction, between packet sockets and the underlay.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use alfirk_packet_io::{
    interface_index, Outlet, PacketSocket, Poller, ReceiveBatch, TakeOutcome, BATCH,
};
use alfirk_roce::wire::vxlan::{self, Repr, View};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::SockaddrIn;

use super::underlay::{check_mtu, Incoming, Outgoing, Underlay};
use super::LinkSpec;
use crate::exit::{print, Failure, Outcome};

/// Tokens of what is waited for; links have their index.
const SIGNALS: u64 = u64::MAX - 1;
const OTHER_THREAD: u64 = u64::MAX - 2;
const UNDERLAY: u64 = 0;

/// A link's end at this machine.
struct Port {
    spec: LinkSpec,
    index: u32,
    socket: PacketSocket,
    header: [u8; vxlan::HEADER_LEN],
    remote: SockaddrIn,
}

/// What the way back needs of a link.
struct Exit {
    remote: Ipv4Addr,
    outlet: Arc<Outlet>,
    /// Frames for the interface, of the batch that was received last.
    frames: Vec<Vec<u8>>,
    interface: String,
}

/// Carries frames until a signal comes.
pub fn run(local: Ipv4Addr, port: u16, links: &[LinkSpec], fragments: bool) -> Outcome {
    // Before the other thread starts, which is not to be interrupted either.
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
                .map_err(|error| Failure::failed(format_args!("no way to {link}: {error}")))?;
            checked.map_err(Failure::failed)?;
        }
        ports.push(port);
    }
    let underlay = Underlay::bind(local, port, fragments).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; the kernel or another program ends VXLAN there: give another --port on all machines",
            io::ErrorKind::AddrNotAvailable => "; --local is an address of this machine",
            _ => "",
        };
        Failure::failed(format_args!("UDP {local}:{port}: {error}{hint}"))
    })?;
    let underlay = Arc::new(underlay);
    let exits = ports.iter().map(|port| {
        let exit = Exit {
            remote: port.spec.remote,
            outlet: Arc::clone(port.socket.outlet()),
            frames: Vec::new(),
            interface: port.spec.interface.clone(),
        };
        (port.spec.vni, exit)
    });
    let receiver = Receiver::start(Arc::clone(&underlay), exits.collect())?;
    // Whoever has started it waits for this line.
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

    /// Whether the interface is still the one that it was.
    fn is_there(&self) -> bool {
        interface_index(&self.spec.interface).is_ok_and(|index| index == self.index)
    }
}

fn interface_mtu(name: &str) -> Result<u32, Failure> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu"));
    let mtu = text.ok().and_then(|text| text.trim().parse().ok());
    mtu.ok_or_else(|| Failure::failed(format_args!("interface {name}: its MTU cannot be read")))
}

/// From interfaces to the underlay, until a signal comes or the other thread fails.
fn send(
    ports: &mut [Port],
    underlay: &Underlay,
    signals: &SignalFd,
    receiver: Receiver,
) -> Outcome {
    let broken = |error: io::Error| Failure::failed(format_args!("VXLAN: {error}"));
    let mut poller = Poller::new().map_err(broken)?;
    for (number, port) in ports.iter().enumerate() {
        let fd = port.socket.as_raw_fd();
        poller.add(fd, number as u64).map_err(broken)?;
    }
    let own = [
        (signals.as_raw_fd(), SIGNALS),
        (receiver.ended.as_raw_fd(), OTHER_THREAD),
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
                OTHER_THREAD => return Err(broken(receiver.why())),
                number => {
                    let port = &mut ports[number as usize];
                    let (header, remote) = (port.header, port.remote);
                    for _ in 0..BATCH {
                        let taken = port.socket.take(&mut batch, |frame| {
                            outgoing.push(&header, frame, remote);
                        });
                        match taken.map_err(broken)? {
                            taken if taken.is_frame() => {}
                            TakeOutcome::Down if !port.is_there() => {
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
                "frames are lost: the way to another machine does not carry them in VXLAN; see --fragments"
            );
        }
    }
}

/// What carries frames from the underlay to interfaces, in a thread of its own.
struct Receiver {
    thread: JoinHandle<io::Result<()>>,
    /// A pipe that is at its end when the thread is.
    ended: File,
}

impl Receiver {
    fn start(underlay: Arc<Underlay>, exits: BTreeMap<u32, Exit>) -> Result<Receiver, Failure> {
        let (ended, alive) = nix::unistd::pipe()
            .map_err(|error| Failure::failed(format_args!("cannot make a pipe: {error}")))?;
        let started = thread::Builder::new()
            .name("receiver".into())
            .spawn(move || {
                let _alive = alive;
                receive(&underlay, exits)
            });
        let thread = started
            .map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))?;
        Ok(Receiver {
            thread,
            ended: File::from(ended),
        })
    }

    /// Why it has ended.
    fn why(self) -> io::Error {
        match self.thread.join() {
            Ok(Err(error)) => error,
            _ => io::Error::other("the thread that receives has ended"),
        }
    }
}

fn receive(underlay: &Underlay, mut exits: BTreeMap<u32, Exit>) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(underlay.as_raw_fd(), UNDERLAY)?;
    let mut incoming = Incoming::default();
    let (mut ready, mut spare) = (Vec::new(), Vec::new());
    loop {
        poller.wait(None, &mut ready)?;
        loop {
            let count = underlay.receive(&mut incoming, |from, datagram| {
                let Ok(view) = View::new_checked(datagram) else {
                    return;
                };
                // What no link of ours is about is dropped, from whomever it comes.
                let exit = exits.get_mut(&view.vni());
                if let Some(exit) = exit.filter(|exit| exit.remote == from) {
                    let mut frame: Vec<u8> = spare.pop().unwrap_or_default();
                    frame.extend_from_slice(view.frame());
                    exit.frames.push(frame);
                }
            })?;
            for exit in exits.values_mut().filter(|exit| !exit.frames.is_empty()) {
                deliver(exit);
                for mut frame in exit.frames.drain(..) {
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

/// Gives an interface its frames. What it does not take is lost, as it is behind a cable that is cut or a queue that is full.
fn deliver(exit: &Exit) {
    if let Err(error) = exit.outlet.send(&exit.frames) {
        tracing::debug!("interface {}: {error}", exit.interface);
    }
}
