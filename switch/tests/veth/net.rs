//! Network namespaces, veth pairs and raw frames.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::Command,
    ptr,
    time::{Duration, Instant},
};

/// Moves this process into a new network namespace.
pub fn enter_own_namespace() -> Result<(), String> {
    // SAFETY: unshare takes no pointers, and there are no other threads yet.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
        return Err(format!(
            "cannot make a network namespace: {}",
            io::Error::last_os_error()
        ));
    }
    ip("link set lo up")
}

/// Runs `ip` with these arguments.
pub fn ip(line: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .map_err(|error| format!("cannot run ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "ip {line}: {}",
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Creates a veth pair with both ends up, on which the kernel sends no frames of its own.
pub fn make_pair(near: &str, far: &str) {
    ip(&format!("link add {near} type veth peer name {far}")).unwrap();
    for end in [near, far] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
        ip(&format!("link set {end} up")).unwrap();
    }
}

/// Turns offloads off, so that the kernel sends complete frames.
pub fn offloads_off(interface: &str) {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const SET: [(&str, u32); 4] = [
        ("checksums", 0x17),
        ("TCP segments", 0x1f),
        ("segments", 0x24),
        ("super-frames", 0x2c),
    ];
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (what, command) in SET {
        let mut value = [command, 0];
        // SAFETY: ifreq is plain data and zero is valid; the value is that of these commands.
        let set = unsafe {
            let mut request: libc::ifreq = mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
            libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request)
        };
        assert_eq!(set, 0, "{what}: {}", io::Error::last_os_error());
    }
}

/// A packet socket on the far end of a port.
pub struct Wire {
    fd: OwnedFd,
}

impl Wire {
    pub fn open(interface: &str) -> Wire {
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: plain system calls on a descriptor that is owned immediately. Zero is valid for sockaddr_ll, and the
        // pointers outlive their calls.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            assert_ne!(index, 0, "{interface} exists");
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
            assert!(fd >= 0);
            let fd = OwnedFd::from_raw_fd(fd);
            // A large buffer, so that a burst is not lost at this end.
            let buffer: libc::c_int = 8 << 20;
            for (level, option, value) in [
                (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
                (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer),
            ] {
                let set = libc::setsockopt(
                    fd.as_raw_fd(),
                    level,
                    option,
                    ptr::from_ref(&value).cast(),
                    mem::size_of_val(&value) as u32,
                );
                assert_eq!(set, 0);
            }
            let mut address: libc::sockaddr_ll = mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index as i32;
            let bound = libc::bind(
                fd.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                mem::size_of_val(&address) as u32,
            );
            assert_eq!(bound, 0);
            Wire { fd }
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the frame has the given length.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// Receives the next frame; `None` on a timeout.
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let mut frame = vec![0; 65_536];
        let len = self.receive_into(&mut frame, timeout)?;
        frame.truncate(len);
        Some(frame)
    }

    /// Receives into a buffer; returns the frame's length, at most that of the buffer.
    pub fn receive_into(&self, frame: &mut [u8], timeout: Duration) -> Option<usize> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut poll = libc::pollfd {
                fd: self.fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor, and a buffer of the given length.
            let len = unsafe {
                if libc::poll(&mut poll, 1, left.as_millis() as i32) == 0 {
                    return None;
                }
                libc::recv(
                    self.fd.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if let Ok(len) = usize::try_from(len) {
                return Some(len);
            }
        }
    }
}
