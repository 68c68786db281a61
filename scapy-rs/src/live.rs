//! Packets on network interfaces: send, sniff, send and receive. Needs the right to open packet sockets (root, or the
//! capability `CAP_NET_RAW`).
//!
//! `pnet_datalink` lists interfaces and sends. Frames are received by `alfirk_packet_io`, which inserts the VLAN tags that
//! the kernel removes, completes checksums that the kernel leaves to the network card, and splits segments that it
//! merged.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use alfirk_packet_io::{monotonic, PacketSocket, Poller, ReceiveBatch, TakeOutcome};
use pnet_datalink::{Channel, Config, DataLinkSender, NetworkInterface};

use crate::field::nearest;
use crate::layer::FieldError;
use crate::protocols::{ARP, BTH, ICMP, ICMPV6, IP, IPV6, TCP, UDP};
use crate::{dissect, Filter, Layer, Packet};

/// Size of pnet's buffer for a frame, in bytes: more than the largest frame of a packet socket.
const BUFFER: usize = 65_536 + 256;

/// Error of an interface.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no interface of this name; holds the message with the names that exist.
    #[error("{0}")]
    NoInterface(String),
    /// A packet socket cannot be opened.
    #[error("cannot open a packet socket on {interface}: {error}{hint}")]
    Open {
        /// Name of the interface.
        interface: String,
        /// Reason.
        error: io::Error,
        /// Remedy, after a separator; may be empty.
        hint: &'static str,
    },
    /// A frame cannot be sent or received.
    #[error("cannot {action} on {interface}: {error}")]
    Io {
        /// `send` or `receive`.
        action: &'static str,
        /// Name of the interface.
        interface: String,
        /// Reason.
        error: io::Error,
    },
    /// A packet cannot be built.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// A network interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// MAC address as text, if it has one.
    pub mac: Option<String>,
    /// IP addresses with the lengths of their prefixes.
    pub addresses: Vec<String>,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it has a carrier: the other end of a veth pair is up.
    pub has_carrier: bool,
}

/// The network interfaces of this machine (of this network namespace), in the order of the system.
pub fn interfaces() -> Vec<Interface> {
    let all = pnet_datalink::interfaces().into_iter();
    all.map(|interface| Interface {
        mac: interface.mac.map(|mac| mac.to_string()),
        addresses: interface.ips.iter().map(ToString::to_string).collect(),
        is_up: interface.is_up(),
        has_carrier: interface.is_running() || interface.is_lower_up(),
        name: interface.name,
    })
    .collect()
}

/// A message about an interface that does not exist: its name, a similar one, and all that exist.
pub fn missing_interface(name: &str) -> String {
    let names: Vec<String> = pnet_datalink::interfaces()
        .into_iter()
        .map(|interface| interface.name)
        .collect();
    let similar = nearest(name, names.iter().map(String::as_str));
    let hint = match similar {
        Some(similar) => format!("; did you mean {similar}?"),
        None => String::new(),
    };
    let all = match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    format!("interface {name} does not exist in this network namespace, which has {all}{hint}")
}

fn interface(name: &str) -> Result<NetworkInterface, LiveError> {
    let all = pnet_datalink::interfaces().into_iter();
    let mut found = all.filter(|interface| interface.name == name);
    found
        .next()
        .ok_or_else(|| LiveError::NoInterface(missing_interface(name)))
}

fn refused(interface: &str, error: io::Error) -> LiveError {
    LiveError::Open {
        interface: interface.to_owned(),
        hint: match error.kind() {
            io::ErrorKind::PermissionDenied => "; run it as root, or with CAP_NET_RAW",
            _ => "",
        },
        error,
    }
}

/// Sender of frames on an interface.
pub struct Sender {
    name: String,
    channel: Box<dyn DataLinkSender>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({})", self.name)
    }
}

impl Sender {
    /// Opens an interface.
    ///
    /// # Errors
    /// If there is no such interface, or this process may not open packet sockets.
    pub fn open(name: &str) -> Result<Sender, LiveError> {
        let interface = interface(name)?;
        let config = Config {
            write_buffer_size: BUFFER,
            ..Config::default()
        };
        match pnet_datalink::channel(&interface, config).map_err(|error| refused(name, error))? {
            Channel::Ethernet(channel, _) => Ok(Sender {
                name: name.to_owned(),
                channel,
            }),
            _ => Err(refused(name, io::Error::other("not an Ethernet interface"))),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the interface is down, or the frame is longer than its MTU allows.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), LiveError> {
        let sent = self.channel.send_to(frame, None);
        let sent = sent.unwrap_or_else(|| Err(io::Error::other("the frame is too long")));
        sent.map_err(|error| LiveError::Io {
            action: "send",
            interface: self.name.clone(),
            error,
        })
    }
}

/// Receiver of the frames of an interface, in both directions.
pub struct Receiver {
    name: String,
    socket: PacketSocket,
    batch: ReceiveBatch,
    poller: Poller,
    /// Frames that were received together with an earlier one.
    frames: VecDeque<Vec<u8>>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({})", self.name)
    }
}

impl Receiver {
    /// Opens an interface.
    ///
    /// # Errors
    /// As for [`Sender::open`].
    pub fn open(name: &str) -> Result<Receiver, LiveError> {
        let interface = interface(name)?;
        let open = || -> io::Result<(PacketSocket, Poller)> {
            let socket = PacketSocket::with_outgoing(interface.index)?;
            let poller = Poller::new()?;
            poller.add(&socket, 0)?;
            Ok((socket, poller))
        };
        let (socket, poller) = open().map_err(|error| refused(name, error))?;
        Ok(Receiver {
            name: name.to_owned(),
            socket,
            batch: ReceiveBatch::default(),
            poller,
            frames: VecDeque::new(),
        })
    }

    /// Waits for the next frame; `None` at the end of the time.
    ///
    /// # Errors
    /// If the interface is removed or goes down.
    pub fn receive(&mut self, until: Option<Instant>) -> Result<Option<Vec<u8>>, LiveError> {
        let failed = |error: io::Error| LiveError::Io {
            action: "receive",
            interface: self.name.clone(),
            error,
        };
        let mut ready = Vec::new();
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(Some(frame));
            }
            let frames = &mut self.frames;
            let taken = self
                .socket
                .take(&mut self.batch, |frame| frames.push_back(frame.to_vec()));
            match taken.map_err(failed)? {
                TakeOutcome::Whole | TakeOutcome::Malformed => continue,
                TakeOutcome::Down => return Err(failed(io::ErrorKind::NetworkDown.into())),
                TakeOutcome::Nothing => {}
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let deadline = left.map(|left| {
                let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
                monotonic().saturating_add(left)
            });
            self.poller.wait(deadline, &mut ready).map_err(failed)?;
        }
    }
}

/// Sends a packet once.
///
/// # Errors
/// If the packet cannot be built, or the interface does not send it.
pub fn send(packet: &Packet, interface: &str) -> Result<(), LiveError> {
    let frame = packet.build()?;
    Sender::open(interface)?.send(&frame)
}

/// Passes the frames of an interface that match a filter to a function, until it returns false or the time ends.
/// Frames that this machine sends are included.
///
/// # Errors
/// As for [`Receiver::open`] and [`Receiver::receive`].
pub fn sniff(
    interface: &str,
    filter: Option<&Filter>,
    limit: Option<Duration>,
    mut each: impl FnMut(&[u8], &Packet) -> bool,
) -> Result<(), LiveError> {
    let mut receiver = Receiver::open(interface)?;
    let until = limit.map(|limit| Instant::now() + limit);
    while let Some(frame) = receiver.receive(until)? {
        let packet = dissect(&frame);
        if filter.is_none_or(|filter| filter.matches(&packet)) && !each(&frame, &packet) {
            break;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    Ok(())
}

/// Sends a packet and returns the first reply to it; `None` if there is none within the time.
///
/// # Errors
/// As for [`send`] and [`sniff`].
pub fn srp1(
    packet: &Packet,
    interface: &str,
    limit: Duration,
) -> Result<Option<Packet>, LiveError> {
    let sent = packet.built()?;
    let frame = packet.build()?;
    let mut receiver = Receiver::open(interface)?;
    Sender::open(interface)?.send(&frame)?;
    let until = Instant::now() + limit;
    while let Some(received) = receiver.receive(Some(until))? {
        let received = dissect(&received);
        if is_reply(&sent, &received) {
            return Ok(Some(received));
        }
        if Instant::now() >= until {
            break;
        }
    }
    Ok(None)
}

/// Whether a packet is a reply to another: addresses, ports and identifiers are exchanged or equal.
pub fn is_reply(sent: &Packet, received: &Packet) -> bool {
    let pairs = sent.layers().iter().zip(received.layers());
    let mut is_checked = false;
    for (ours, theirs) in pairs {
        if ours.name() != theirs.name() {
            break;
        }
        let exchanged = |a: &str, b: &str| {
            ours.number(a) == theirs.number(b) && ours.number(b) == theirs.number(a)
        };
        let equal = |field: &str| ours.number(field) == theirs.number(field);
        let is_match = match ours {
            layer if layer.is(&IP) || layer.is(&IPV6) => exchanged("src", "dst"),
            layer if layer.is(&TCP) => exchanged("sport", "dport"),
            // The source port of a RoCEv2 packet is chosen freely.
            layer if layer.is(&UDP) => {
                exchanged("sport", "dport") || sent.layers().iter().any(|l| l.is(&BTH))
            }
            layer if layer.is(&ARP) => {
                theirs.number("op") == Some(2) && ours.number("pdst") == theirs.number("psrc")
            }
            layer if layer.is(&ICMP) => is_echo(layer, theirs, 8, 0),
            layer if layer.is(&ICMPV6) => is_echo(layer, theirs, 128, 129),
            layer if layer.is(&BTH) => equal("psn") && !equal("opcode"),
            _ => continue,
        };
        if !is_match {
            return false;
        }
        is_checked = true;
    }
    is_checked
}

fn is_echo(ours: &Layer, theirs: &Layer, request: u128, reply: u128) -> bool {
    ours.number("type") == Some(request)
        && theirs.number("type") == Some(reply)
        && ours.number("id") == theirs.number("id")
        && ours.number("seq") == theirs.number("seq")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arp, Ether, Icmp, Ipv4};

    #[test]
    fn a_reply_exchanges_addresses() {
        let echo = |from: &str, to: &str, kind: u8, seq: u8| -> Packet {
            Ether::new() / Ipv4::to(to).src(from) / Icmp::new().icmp_type(kind).seq(seq)
        };
        let sent = echo("10.0.0.1", "10.0.0.2", 8, 1);
        assert!(is_reply(&sent, &echo("10.0.0.2", "10.0.0.1", 0, 1)));
        assert!(!is_reply(&sent, &echo("10.0.0.2", "10.0.0.1", 0, 2)));
        assert!(!is_reply(&sent, &sent));
        let request = Ether::new() / Arp::who_has("10.0.0.2");
        let reply = Ether::new() / Arp::new().op("is-at").psrc("10.0.0.2");
        assert!(is_reply(&request, &reply));
        assert!(!is_reply(&request, &request));
    }

    #[test]
    fn a_missing_interface_is_named_beside_those_that_exist() {
        let message = missing_interface("l0");
        assert!(
            message.starts_with("interface l0 does not exist"),
            "{message}"
        );
        assert!(message.contains("did you mean lo?"), "{message}");
        assert!(interfaces().iter().any(|interface| interface.name == "lo"));
    }
}
