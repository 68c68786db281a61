//! Notifications of the kernel about interfaces (rtnetlink): up, down, added, removed, or with another queueing
//! discipline.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        bind, netlink::SocketAddrNetlink, recv, send, socket_with, AddressFamily, RecvFlags,
        SendFlags, SocketType,
    },
};

use super::sys::SOCKET_FLAGS;

/// A change of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// The interface exists.
    Present {
        /// Name, such as `eth0`.
        name: String,
        /// Interface index in this network namespace.
        index: u32,
        /// Whether the interface is up and has a carrier.
        running: bool,
        /// Kind of the root queueing discipline, such as `htb`, or `noqueue`; `None` if the kernel does not report it.
        discipline: Option<String>,
    },
    /// The queueing disciplines of an interface have changed; [`LinkWatch::request`] requests the current ones.
    Disciplines {
        /// Interface index.
        index: u32,
    },
    /// The interface was removed, or moved to another namespace.
    Removed {
        /// Name that the interface had.
        name: String,
        /// Interface index that the interface had.
        index: u32,
    },
}

/// A netlink socket that receives link changes.
#[derive(Debug)]
pub struct LinkWatch {
    fd: OwnedFd,
}

impl LinkWatch {
    /// Subscribes to changes in this network namespace.
    pub fn open() -> io::Result<LinkWatch> {
        // Without a protocol, a netlink socket is one of NETLINK_ROUTE.
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SOCKET_FLAGS, None)?;
        let groups = (libc::RTMGRP_LINK | libc::RTMGRP_TC) as u32;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(LinkWatch { fd })
    }

    /// Requests a [`LinkChange::Present`] of an interface, as if it had changed.
    pub fn request(&self, index: u32) -> io::Result<()> {
        let mut message = [0u8; MESSAGE_HEADER + LINK_HEADER];
        message[..4].copy_from_slice(&((MESSAGE_HEADER + LINK_HEADER) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
        message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        message[MESSAGE_HEADER + 4..MESSAGE_HEADER + 8].copy_from_slice(&index.to_ne_bytes());
        send(&self.fd, &message, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Takes all pending notifications. `None` if the kernel dropped some, so that every interface must be examined again.
    pub fn receive(&self) -> Option<Vec<LinkChange>> {
        let mut changes = Vec::new();
        let mut buffer = vec![0u8; 32 << 10];
        loop {
            match recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => parse(&buffer[..len], &mut changes),
                Err(Errno::NOBUFS) => return None,
                Err(_) => return Some(changes),
            }
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const MESSAGE_HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// Parses `nlmsghdr`, `ifinfomsg` (or `tcmsg`, which has the index in the same place) and the relevant attributes, all in host byte
/// order.
fn parse(mut bytes: &[u8], changes: &mut Vec<LinkChange>) {
    while bytes.len() >= MESSAGE_HEADER {
        let len = long(bytes, 0) as usize;
        let kind = short(bytes, 4);
        if len < MESSAGE_HEADER || len > bytes.len() {
            return;
        }
        let body = &bytes[MESSAGE_HEADER..len];
        bytes = &bytes[aligned(len).min(bytes.len())..];
        // Bridges send messages of another family about their ports.
        if body.len() < LINK_HEADER || i32::from(body[0]) != libc::AF_UNSPEC {
            continue;
        }
        let index = long(body, 4);
        if matches!(kind, libc::RTM_NEWQDISC | libc::RTM_DELQDISC) {
            changes.push(LinkChange::Disciplines { index });
            continue;
        }
        let attributes = &body[LINK_HEADER..];
        let Some(name) = text_of(libc::IFLA_IFNAME, attributes) else {
            continue;
        };
        let flags = long(body, 8);
        match kind {
            libc::RTM_NEWLINK => {
                let both = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
                let running = flags & both == both;
                changes.push(LinkChange::Present {
                    name,
                    index,
                    running,
                    discipline: text_of(libc::IFLA_QDISC, attributes),
                });
            }
            libc::RTM_DELLINK => changes.push(LinkChange::Removed { name, index }),
            _ => {}
        }
    }
}

/// Returns the value of the first attribute of this kind, a C string.
fn text_of(kind: u16, mut attributes: &[u8]) -> Option<String> {
    while attributes.len() >= ATTRIBUTE_HEADER {
        let len = usize::from(short(attributes, 0));
        if len < ATTRIBUTE_HEADER || len > attributes.len() {
            return None;
        }
        if short(attributes, 2) == kind {
            let text = &attributes[ATTRIBUTE_HEADER..len];
            let text = text.split(|&b| b == 0).next()?;
            return String::from_utf8(text.to_vec()).ok();
        }
        attributes = &attributes[aligned(len).min(attributes.len())..];
    }
    None
}

fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, index: u32, flags: u32, name: &str) -> Vec<u8> {
        let mut body = vec![0; LINK_HEADER];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        // Another attribute first, of odd length.
        for (kind, value) in [
            (99u16, &b"x"[..]),
            (libc::IFLA_IFNAME, name.as_bytes()),
            (libc::IFLA_QDISC, b"htb"),
        ] {
            let len = ATTRIBUTE_HEADER + value.len() + 1;
            body.extend((len as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
            body.push(0);
            body.resize(aligned(body.len()), 0);
        }
        let mut message = ((MESSAGE_HEADER + body.len()) as u32)
            .to_ne_bytes()
            .to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(MESSAGE_HEADER, 0);
        message.extend(body);
        message
    }

    #[test]
    fn link_messages_are_parsed() {
        let up = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
        let mut bytes = message(libc::RTM_NEWLINK, 7, up, "veth0");
        bytes.extend(message(libc::RTM_NEWLINK, 7, libc::IFF_UP as u32, "veth0"));
        bytes.extend(message(libc::RTM_DELLINK, 7, 0, "veth0"));
        bytes.extend(message(libc::RTM_NEWQDISC, 7, 0, ""));
        let mut changes = Vec::new();
        parse(&bytes, &mut changes);
        let present = |running| LinkChange::Present {
            name: "veth0".into(),
            index: 7,
            running,
            discipline: Some("htb".into()),
        };
        let removed = LinkChange::Removed {
            name: "veth0".into(),
            index: 7,
        };
        let disciplines = LinkChange::Disciplines { index: 7 };
        assert_eq!(
            changes,
            [present(true), present(false), removed, disciplines]
        );
    }

    #[test]
    fn truncated_messages_are_ignored() {
        let bytes = message(libc::RTM_NEWLINK, 7, 1, "veth0");
        for len in 0..bytes.len() {
            let mut changes = Vec::new();
            parse(&bytes[..len], &mut changes);
            assert_eq!(changes, []);
        }
    }
}
