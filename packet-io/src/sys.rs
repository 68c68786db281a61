//! Packet sockets: what `rustix` has no call for, and what sending and receiving share.

use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use rustix::{
    ioctl::{ioctl, Opcode, Updater},
    net::{
        netdevice::index_to_name_inlined,
        socket_with,
        sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force},
        AddressFamily, SocketFlags, SocketType,
    },
};

/// Maximum number of frames received or sent by one system call.
pub const BATCH: usize = 64;
/// Size of socket buffers in bytes, in each direction; longer bursts are dropped by the kernel. With a queueing discipline the send
/// buffer has the system's default, as in BMv2.
pub(crate) const SOCKET_BUFFER: usize = 8 << 20;
/// Flags of all sockets of this crate.
pub(crate) const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Opens a packet socket that is not bound to an interface, and so receives nothing.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SOCKET_FLAGS, None)?;
    Ok(socket)
}

/// Binds a packet socket to an interface and an EtherType, which is in network byte order; 0 receives nothing.
pub(crate) fn bind(fd: &OwnedFd, interface: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a sockaddr_ll of the given size.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            mem::size_of_val(&address) as u32,
        )
    })?;
    Ok(())
}

/// Sets an option of packet sockets (`SOL_PACKET`).
pub(crate) fn set<T: Copy>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value is a T of the given size.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as u32,
        )
    })?;
    Ok(())
}

/// Sets the size of a socket's send buffer in bytes. A size above the system's limit needs CAP_NET_ADMIN; without it,
/// the limit applies.
pub(crate) fn set_send_buffer(fd: &OwnedFd, size: usize) -> io::Result<()> {
    set_socket_send_buffer_size_force(fd, size)
        .or_else(|_| set_socket_send_buffer_size(fd, size))?;
    Ok(())
}

/// Returns the numbers of received and dropped frames of a packet socket since the last call.
pub(crate) fn statistics(fd: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut len = mem::size_of_val(&statistics) as u32;
    // SAFETY: the kernel writes at most the given size, and any bytes are valid integers.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            ptr::from_mut(&mut statistics).cast(),
            &mut len,
        )
    })?;
    Ok(statistics)
}

/// Returns the MTU of an interface in bytes. `fd` is any socket.
pub(crate) fn mtu(fd: &OwnedFd, interface: u32) -> io::Result<usize> {
    let mut request = interface_request(fd, interface)?;
    // SAFETY: SIOCGIFMTU takes an ifreq with a name, and sets the field that is read.
    let mtu = unsafe {
        ioctl(
            fd,
            Updater::<{ libc::SIOCGIFMTU as Opcode }, _>::new(&mut request),
        )?;
        request.ifr_ifru.ifru_mtu
    };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Returns a property of an interface that an `ETHTOOL_G...` command reads as an `ethtool_value`. `fd` is any socket.
pub(crate) fn ethtool(fd: &OwnedFd, interface: u32, command: EthtoolValue) -> io::Result<u32> {
    let mut value = [command as u32, 0];
    // SAFETY: the command requires an ethtool_value, which is two numbers of 32 bits.
    unsafe { call_ethtool(fd, interface, &mut value) }?;
    Ok(value[1])
}

/// Calls an ethtool command on an interface. `fd` is any socket.
///
/// # Safety
/// `value` begins with the number of a command, and has the layout that this command requires.
unsafe fn call_ethtool<T>(fd: &OwnedFd, interface: u32, value: &mut T) -> io::Result<()> {
    let mut request = interface_request(fd, interface)?;
    request.ifr_ifru.ifru_data = ptr::from_mut(value).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq with a name and a pointer to a value, as the caller promises.
    unsafe {
        ioctl(
            fd,
            Updater::<{ libc::SIOCETHTOOL as Opcode }, _>::new(&mut request),
        )?
    };
    Ok(())
}

/// Commands of [`ethtool`].
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum EthtoolValue {
    /// `ETHTOOL_GTXCSUM`: whether the interface computes checksums.
    Checksums = 0x16,
    /// `ETHTOOL_GTSO`: whether the interface segments TCP.
    Segments = 0x1e,
}

/// Whether a driver of this name handles an interface. `fd` is any socket.
pub(crate) fn has_driver(fd: &OwnedFd, interface: u32, name: &str) -> io::Result<bool> {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        others: [0; 160],
    };
    // SAFETY: the command requires an ethtool_drvinfo.
    unsafe { call_ethtool(fd, interface, &mut info) }?;
    let driver = info.driver.split(|byte| *byte == 0).next();
    Ok(driver == Some(name.as_bytes()))
}

const ETHTOOL_GDRVINFO: u32 = 0x03;

/// A `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    others: [u8; 160],
}

/// Returns an `ifreq` with the name of an interface.
fn interface_request(fd: &OwnedFd, interface: u32) -> io::Result<libc::ifreq> {
    let name = index_to_name_inlined(fd, interface)?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

/// Converts the result of a system call, of which a negative one is an error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
