//! System calls on packet sockets, for sending and receiving.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// Maximum number of frames received or sent by one system call.
pub const BATCH: usize = 64;
/// Size of socket buffers in bytes, in each direction; longer bursts are dropped by the kernel. With a queueing discipline the send
/// buffer has the system's default, as in BMv2.
pub(crate) const SOCKET_BUFFER: libc::c_int = 8 << 20;

/// Opens a packet socket that is not bound to an interface, and so receives nothing.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers; the descriptor is owned from here on.
    unsafe {
        let fd = check(libc::socket(libc::AF_PACKET, kind, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Binds a socket to an interface and an EtherType, which is in network byte order; 0 receives nothing.
pub(crate) fn bind(fd: &OwnedFd, interface: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, and zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = interface as i32;
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

/// Reads a socket option; `T` must consist of plain integers.
pub(crate) fn get<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = mem::size_of::<T>() as u32;
    // SAFETY: the kernel writes at most the given size, and any bytes are a valid T, as required above.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            ptr::from_mut(value).cast(),
            &mut len,
        )
    })?;
    Ok(())
}

/// Sets a socket option.
pub(crate) fn set<T>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value is a T of the given size.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as u32,
        )
    })?;
    Ok(())
}

/// Sets the size of a socket's buffer in bytes. A size above the system's limit needs CAP_NET_ADMIN; without it,
/// the limit applies.
pub(crate) fn set_buffer(
    fd: &OwnedFd,
    force: libc::c_int,
    plain: libc::c_int,
    size: libc::c_int,
) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, force, &size).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &size))
}

/// An I/O vector without bytes.
pub(crate) const EMPTY_PART: libc::iovec = libc::iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

/// Converts the result of a system call, of which a negative one is an error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
