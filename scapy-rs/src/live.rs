//! Packets on network interfaces, by `pnet_datalink`: send, sniff, send and receive. Needs the right to open packet
//! sockets (root, or the capability `CAP_NET_RAW`).

use std::io;
use std::time::{Duration, Instant};

use pnet_datalink::{Channel, Config, DataLinkReceiver, DataLinkSender, NetworkInterface};

use crate::field::nearest;
use crate::layer::FieldError;
use crate::protocols::{ARP, BTH, ICMP, ICMPV6, IP, IPV6, TCP, UDP};
use crate::{dissect, Filter, Layer, Packet};

/// Size of a frame buffer in bytes: the largest frame of a packet socket.
const BUFFER: usize = 65_536;
/// Time after which a waiting receiver checks its time limit.
const POLL: Duration = Duration::from_millis(50);

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

/// An open interface.
pub struct Socket {
    name: String,
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Socket({})", self.name)
    }
}

impl Socket {
    /// Opens an interface for frames in both directions.
    ///
    /// # Errors
    /// If there is no such interface, or this process may not open packet sockets.
    pub fn open(name: &str) -> Result<Socket, LiveError> {
        let found = pnet_datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == name);
        let interface: NetworkInterface =
            found.ok_or_else(|| LiveError::NoInterface(missing_interface(name)))?;
        let config = Config {
            write_buffer_size: BUFFER,
            read_buffer_size: BUFFER,
            read_timeout: Some(POLL),
            ..Config::default()
        };
        let refused = |error: io::Error| LiveError::Open {
            interface: name.to_owned(),
            hint: match error.kind() {
                io::ErrorKind::PermissionDenied => "; run it as root, or with CAP_NET_RAW",
                _ => "",
            },
            error,
        };
        match pnet_datalink::channel(&interface, config).map_err(refused)? {
            Channel::Ethernet(sender, receiver) => Ok(Socket {
                name: name.to_owned(),
                sender,
                receiver,
            }),
            _ => Err(refused(io::Error::other("not an Ethernet interface"))),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the interface is down, or the frame is longer than its MTU allows.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), LiveError> {
        let sent = self.sender.send_to(frame, None);
        let sent = sent.unwrap_or_else(|| Err(io::Error::other("the frame is too long")));
        sent.map_err(|error| self.error("send", error))
    }

    /// Waits for the next frame; `None` at the end of the time.
    ///
    /// # Errors
    /// If the interface is removed or goes down.
    pub fn receive(&mut self, until: Option<Instant>) -> Result<Option<Vec<u8>>, LiveError> {
        loop {
            match self.receiver.next() {
                Ok(frame) => return Ok(Some(frame.to_vec())),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(self.error("receive", error)),
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }

    fn error(&self, action: &'static str, error: io::Error) -> LiveError {
        LiveError::Io {
            action,
            interface: self.name.clone(),
            error,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Sends a packet once.
///
/// # Errors
/// If the packet cannot be built, or the interface does not send it.
pub fn send(packet: &Packet, interface: &str) -> Result<(), LiveError> {
    let frame = packet.build()?;
    Socket::open(interface)?.send(&frame)
}

/// Passes the frames of an interface that match a filter to a function, until it returns false or the time ends.
/// Frames that this machine sends are included.
///
/// # Errors
/// As for [`Socket::open`] and [`Socket::receive`].
pub fn sniff(
    interface: &str,
    filter: Option<&Filter>,
    limit: Option<Duration>,
    mut each: impl FnMut(&[u8], &Packet) -> bool,
) -> Result<(), LiveError> {
    let mut socket = Socket::open(interface)?;
    let until = limit.map(|limit| Instant::now() + limit);
    while let Some(frame) = socket.receive(until)? {
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
    let mut socket = Socket::open(interface)?;
    socket.send(&frame)?;
    let until = Instant::now() + limit;
    while let Some(received) = socket.receive(Some(until))? {
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
