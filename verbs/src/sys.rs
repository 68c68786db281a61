//! Bindings of libibverbs through `shim.c`: owned handles and errors. The only module with declarations of foreign
//! functions.
//!
//! A queue pair and a memory region keep their device open; the device is closed when the last of them is dropped.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use alfirk_roce::verbs::DeviceError;

mod raw {
    use super::{c_char, c_int, c_void};

    #[repr(C)]
    pub(super) struct Device {
        _opaque: [u8; 0],
    }
    #[repr(C)]
    pub(super) struct Mr {
        _opaque: [u8; 0],
    }
    #[repr(C)]
    pub(super) struct Qp {
        _opaque: [u8; 0],
    }

    #[repr(C)]
    pub(super) struct Ah {
        _opaque: [u8; 0],
    }

    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Info {
        pub(super) gid: [u8; 16],
        pub(super) gid_index: u32,
        pub(super) mtu: u32,
        pub(super) max_qp_wr: u32,
        pub(super) max_cqe: u32,
        pub(super) max_mr_size: u64,
        pub(super) active: u8,
    }

    #[repr(C)]
    pub(super) struct Path {
        pub(super) gid: [u8; 16],
        pub(super) dest_qpn: u32,
        pub(super) rq_psn: u32,
        pub(super) sq_psn: u32,
        pub(super) mtu: u32,
        pub(super) timeout: u8,
        pub(super) retry_cnt: u8,
        pub(super) rnr_retry: u8,
        pub(super) min_rnr_timer: u8,
    }

    #[repr(C)]
    pub(super) struct Send {
        pub(super) wr_id: u64,
        pub(super) address: u64,
        pub(super) len: u32,
        pub(super) lkey: u32,
        pub(super) opcode: u32,
        pub(super) rkey: u32,
        pub(super) remote_va: u64,
        pub(super) immediate: u32,
        pub(super) has_immediate: u8,
        pub(super) is_inline: u8,
    }

    #[repr(C)]
    pub(super) struct Datagram {
        pub(super) wr_id: u64,
        pub(super) address: u64,
        pub(super) len: u32,
        pub(super) lkey: u32,
        pub(super) qpn: u32,
        pub(super) qkey: u32,
        pub(super) immediate: u32,
        pub(super) has_immediate: u8,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    pub(super) struct Completion {
        pub(super) wr_id: u64,
        pub(super) status: u32,
        pub(super) len: u32,
        pub(super) immediate: u32,
        pub(super) flags: u32,
        pub(super) source_qpn: u32,
    }

    extern "C" {
        pub(super) fn shim_open(
            name: *const c_char,
            port: u8,
            device: *mut *mut Device,
            info: *mut Info,
            call: *mut *const c_char,
        ) -> c_int;
        pub(super) fn shim_close(device: *mut Device);
        pub(super) fn shim_completion_fd(device: *const Device) -> c_int;
        pub(super) fn shim_async_fd(device: *const Device) -> c_int;
        pub(super) fn shim_next_completion_event(device: *mut Device, cookie: *mut u64) -> c_int;
        pub(super) fn shim_next_async_event(
            device: *mut Device,
            event: *mut u32,
            qpn: *mut u32,
        ) -> c_int;
        pub(super) fn shim_register(
            device: *mut Device,
            address: *mut c_void,
            len: u64,
            local_write: c_int,
            remote_write: c_int,
            mr: *mut *mut Mr,
            lkey: *mut u32,
            rkey: *mut u32,
        ) -> c_int;
        pub(super) fn shim_deregister(mr: *mut Mr) -> c_int;
        pub(super) fn shim_create_qp(
            device: *mut Device,
            cookie: u64,
            sends: u32,
            receives: u32,
            inline_len: u32,
            qp: *mut *mut Qp,
            qpn: *mut u32,
            call: *mut *const c_char,
        ) -> c_int;
        pub(super) fn shim_create_ud_qp(
            device: *mut Device,
            cookie: u64,
            sends: u32,
            receives: u32,
            qkey: u32,
            sq_psn: u32,
            qp: *mut *mut Qp,
            qpn: *mut u32,
            call: *mut *const c_char,
        ) -> c_int;
        pub(super) fn shim_create_ah(
            device: *mut Device,
            gid: *const u8,
            ah: *mut *mut Ah,
        ) -> c_int;
        pub(super) fn shim_destroy_ah(ah: *mut Ah);
        pub(super) fn shim_attach_multicast(qp: *mut Qp, gid: *const u8) -> c_int;
        pub(super) fn shim_send_datagram(
            qp: *mut Qp,
            ah: *mut Ah,
            request: *const Datagram,
        ) -> c_int;
        pub(super) fn shim_destroy_qp(qp: *mut Qp);
        pub(super) fn shim_connect(
            qp: *mut Qp,
            path: *const Path,
            call: *mut *const c_char,
        ) -> c_int;
        pub(super) fn shim_reset(qp: *mut Qp, call: *mut *const c_char) -> c_int;
        pub(super) fn shim_query_rq_psn(qp: *mut Qp, rq_psn: *mut u32) -> c_int;
        pub(super) fn shim_send(qp: *mut Qp, request: *const Send) -> c_int;
        pub(super) fn shim_receive(
            qp: *mut Qp,
            wr_id: u64,
            address: u64,
            len: u32,
            lkey: u32,
        ) -> c_int;
        pub(super) fn shim_arm(qp: *mut Qp) -> c_int;
        pub(super) fn shim_poll(qp: *mut Qp, completions: *mut Completion, count: c_int) -> c_int;
    }
}

type Result<T> = std::result::Result<T, DeviceError>;

/// Converts the result of a function of `shim.c`. On failure, the function has set `call` to the name of the libibverbs
/// call that failed; `otherwise` is the name if it has not.
fn check(result: c_int, call: *const c_char, otherwise: &'static str) -> Result<()> {
    if result >= 0 {
        return Ok(());
    }
    let call = match call.is_null() {
        true => otherwise,
        // SAFETY: the shim names calls by string literals, which live as long as the program and are ASCII.
        false => unsafe { CStr::from_ptr(call) }
            .to_str()
            .unwrap_or(otherwise),
    };
    let errno = -result;
    Err(DeviceError::System { call, errno })
}

fn check_call(result: c_int, call: &'static str) -> Result<()> {
    check(result, std::ptr::null(), call)
}

/// Properties of a device and its port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Info {
    /// IPv4 address of the port's RoCEv2 entry in the GID table.
    pub(crate) ip: Ipv4Addr,
    /// Index of the port's RoCEv2 entry in the GID table.
    pub(crate) gid_index: u32,
    /// Largest path MTU of the link, in bytes.
    pub(crate) mtu: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_mr_size: u64,
    /// Whether the port is active.
    pub(crate) active: bool,
}

/// An open device with its protection domain and completion channel; closed when dropped.
#[derive(Debug)]
struct Handle(NonNull<raw::Device>);

// SAFETY: libibverbs is thread-safe (ibv_open_device(3) and the rdma-core documentation say so of all verbs), and the shim's own
// fields are constant after opening.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened by `shim_open`; everything created from it holds an `Arc` of this and has been dropped.
        unsafe { raw::shim_close(self.0.as_ptr()) }
    }
}

/// An open device, shared by everything that was created from it.
#[derive(Debug, Clone)]
pub(crate) struct Context(Arc<Handle>);

impl Context {
    /// Opens the device called `name`, and returns it with the properties of port `port`.
    pub(crate) fn open(name: &str, port: u8) -> Result<(Context, Info)> {
        let no_name = DeviceError::System {
            call: "ibv_open_device",
            errno: libc::ENODEV,
        };
        let name = CString::new(name).map_err(|_| no_name)?;
        let mut device = std::ptr::null_mut();
        let mut info = raw::Info::default();
        let mut call = std::ptr::null();
        // SAFETY: every pointer is to a live variable of the type that the shim writes.
        let result =
            unsafe { raw::shim_open(name.as_ptr(), port, &mut device, &mut info, &mut call) };
        check(result, call, "calloc")?;
        let device = NonNull::new(device).expect("shim_open sets the device on success");
        let [.., a, b, c, d] = info.gid;
        let found = Info {
            ip: Ipv4Addr::new(a, b, c, d),
            gid_index: info.gid_index,
            mtu: info.mtu,
            max_qp_wr: info.max_qp_wr,
            max_cqe: info.max_cqe,
            max_mr_size: info.max_mr_size,
            active: info.active != 0,
        };
        Ok((Context(Arc::new(Handle(device))), found))
    }

    fn ptr(&self) -> *mut raw::Device {
        self.0 .0.as_ptr()
    }

    /// File descriptor that is readable when an armed completion queue has a completion.
    pub(crate) fn completion_fd(&self) -> RawFd {
        // SAFETY: the device is open.
        unsafe { raw::shim_completion_fd(self.ptr()) }
    }

    /// File descriptor that is readable when the device has an asynchronous event.
    pub(crate) fn async_fd(&self) -> RawFd {
        // SAFETY: the device is open.
        unsafe { raw::shim_async_fd(self.ptr()) }
    }

    /// Returns the cookie (number) of a queue pair whose completion queue has an event; `None` if there are no more
    /// events.
    pub(crate) fn next_completion_event(&self) -> Option<u64> {
        let mut cookie = 0;
        // SAFETY: the device is open, its channel does not block, and the pointer is to a live variable.
        let result = unsafe { raw::shim_next_completion_event(self.ptr(), &mut cookie) };
        (result == 0).then_some(cookie)
    }

    /// Returns the next asynchronous event, and the number of its queue pair (0 if it has none); `None` if there are no
    /// more events.
    pub(crate) fn next_async_event(&self) -> Option<(u32, u32)> {
        let (mut event, mut qpn) = (0, 0);
        // SAFETY: the device is open, its file does not block, and the pointers are to live variables.
        let result = unsafe { raw::shim_next_async_event(self.ptr(), &mut event, &mut qpn) };
        (result == 0).then_some((event, qpn))
    }
}

/// A registered memory region.
#[derive(Debug)]
pub(crate) struct Mr {
    mr: Option<NonNull<raw::Mr>>,
    lkey: u32,
    rkey: u32,
    _context: Context,
}

// SAFETY: as for `Handle`; a region is only freed, once.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers memory with the device.
    ///
    /// # Safety
    /// The `len` bytes at `address` must stay allocated until this is dropped. Unless both flags are false, the device writes
    /// to them, so no reference may exist to bytes that a message can still reach.
    pub(crate) unsafe fn register(
        context: &Context,
        address: *mut u8,
        len: u64,
        local_write: bool,
        remote_write: bool,
    ) -> Result<Mr> {
        let (mut mr, mut lkey, mut rkey) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the device is open, pointers are to live variables, and the caller guarantees valid memory.
        let result = unsafe {
            raw::shim_register(
                context.ptr(),
                address.cast(),
                len,
                local_write.into(),
                remote_write.into(),
                &mut mr,
                &mut lkey,
                &mut rkey,
            )
        };
        check_call(result, "ibv_reg_mr")?;
        Ok(Mr {
            mr: Some(NonNull::new(mr).expect("shim_register sets the region on success")),
            lkey,
            rkey,
            _context: context.clone(),
        })
    }

    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Mr {
    /// Deregisters the memory. Returns false if the device may still access it.
    pub(crate) fn deregister(&mut self) -> bool {
        // SAFETY: registered by `shim_register`, and ended once.
        let end = |mr: NonNull<raw::Mr>| unsafe { raw::shim_deregister(mr.as_ptr()) } == 0;
        self.mr.take().is_none_or(end)
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        self.deregister();
    }
}

/// An address handle: the destination of datagrams.
#[derive(Debug)]
pub(crate) struct Ah {
    ah: NonNull<raw::Ah>,
    _context: Context,
}

// SAFETY: as for `Handle`; a handle is only freed, once.
unsafe impl Send for Ah {}
// SAFETY: as above.
unsafe impl Sync for Ah {}

impl Ah {
    /// Creates a handle for a host or a multicast group. Blocks until the host's MAC address is resolved, at most a few
    /// seconds.
    pub(crate) fn create(context: &Context, ip: Ipv4Addr) -> Result<Ah> {
        let gid = ip.to_ipv6_mapped().octets();
        let mut ah = std::ptr::null_mut();
        // SAFETY: the device is open, and the pointers are to live variables of the sizes that the shim reads and writes.
        let result = unsafe { raw::shim_create_ah(context.ptr(), gid.as_ptr(), &mut ah) };
        check_call(result, "ibv_create_ah")?;
        Ok(Ah {
            ah: NonNull::new(ah).expect("shim_create_ah sets the handle on success"),
            _context: context.clone(),
        })
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: created by `shim_create_ah`, and dropped once. Posted datagrams have a copy of the address.
        unsafe { raw::shim_destroy_ah(self.ah.as_ptr()) }
    }
}

/// A datagram to send, from registered memory at `address`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) wr_id: u64,
    pub(crate) address: *const u8,
    pub(crate) len: u32,
    pub(crate) lkey: u32,
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
    pub(crate) immediate: Option<u32>,
}

/// The remote end of a queue pair, with the queue pair's PSNs and timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) ip: Ipv4Addr,
    pub(crate) dest_qpn: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) mtu: u32,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
}

/// A message to send, from memory at `address`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) wr_id: u64,
    pub(crate) address: *const u8,
    pub(crate) len: u32,
    /// Local key of the memory; `None` if the bytes are copied into the work request.
    pub(crate) lkey: Option<u32>,
    /// Remote address and R_Key of a WRITE; `None` for a SEND.
    pub(crate) write: Option<(u64, u32)>,
    pub(crate) immediate: Option<u32>,
}

/// A completed work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) wr_id: u64,
    /// Result of the work request; on failure, a status code of `enum ibv_wc_status`.
    pub(crate) outcome: std::result::Result<WorkResult, u32>,
}

/// Result of a successful work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkResult {
    /// Number of bytes received; undefined for sends.
    pub(crate) len: u32,
    /// Whether a remote WRITE was received.
    pub(crate) is_write: bool,
    pub(crate) immediate: Option<u32>,
    /// Number of the sender's queue pair, for a datagram.
    pub(crate) source_qpn: u32,
}

/// A queue pair with a completion queue of its own.
#[derive(Debug)]
pub(crate) struct Qp {
    qp: NonNull<raw::Qp>,
    _context: Context,
}

// SAFETY: as for `Handle`; the shim's fields are constant.
unsafe impl Send for Qp {}

impl Qp {
    /// Creates a queue pair in the state INIT; returns its number.
    pub(crate) fn create(
        context: &Context,
        cookie: u64,
        sends: u32,
        receives: u32,
        inline_len: u32,
    ) -> Result<(Qp, u32)> {
        let (mut qp, mut qpn, mut call) = (std::ptr::null_mut(), 0, std::ptr::null());
        // SAFETY: the device is open and the pointers are to live variables.
        let result = unsafe {
            raw::shim_create_qp(
                context.ptr(),
                cookie,
                sends,
                receives,
                inline_len,
                &mut qp,
                &mut qpn,
                &mut call,
            )
        };
        check(result, call, "calloc")?;
        let qp = NonNull::new(qp).expect("shim_create_qp sets the queue pair on success");
        let _context = context.clone();
        Ok((Qp { qp, _context }, qpn))
    }

    /// Creates a UD queue pair in the state RTS; returns its number.
    pub(crate) fn create_ud(
        context: &Context,
        cookie: u64,
        (sends, receives): (u32, u32),
        qkey: u32,
        sq_psn: u32,
    ) -> Result<(Qp, u32)> {
        let (mut qp, mut qpn, mut call) = (std::ptr::null_mut(), 0, std::ptr::null());
        // SAFETY: the device is open and the pointers are to live variables.
        let result = unsafe {
            raw::shim_create_ud_qp(
                context.ptr(),
                cookie,
                sends,
                receives,
                qkey,
                sq_psn,
                &mut qp,
                &mut qpn,
                &mut call,
            )
        };
        check(result, call, "calloc")?;
        let qp = NonNull::new(qp).expect("shim_create_ud_qp sets the queue pair on success");
        let _context = context.clone();
        Ok((Qp { qp, _context }, qpn))
    }

    /// Attaches the queue pair to a multicast group.
    pub(crate) fn attach_multicast(&mut self, group: Ipv4Addr) -> Result<()> {
        let gid = group.to_ipv6_mapped().octets();
        // SAFETY: the queue pair is alive, and a GID has the length that the shim reads.
        let result = unsafe { raw::shim_attach_multicast(self.ptr(), gid.as_ptr()) };
        check_call(result, "ibv_attach_mcast")
    }

    /// Posts a datagram.
    ///
    /// # Safety
    /// The bytes must stay registered under the key, and unchanged, until the datagram completes or the queue pair is dropped.
    pub(crate) unsafe fn send_datagram(&mut self, ah: &Ah, datagram: &Datagram) -> Result<()> {
        let request = raw::Datagram {
            wr_id: datagram.wr_id,
            address: datagram.address as u64,
            len: datagram.len,
            lkey: datagram.lkey,
            qpn: datagram.qpn,
            qkey: datagram.qkey,
            immediate: datagram.immediate.unwrap_or(0),
            has_immediate: datagram.immediate.is_some().into(),
        };
        // SAFETY: the queue pair and the handle are alive, and the caller guarantees valid memory.
        let result = unsafe { raw::shim_send_datagram(self.ptr(), ah.ah.as_ptr(), &request) };
        check_call(result, "ibv_post_send")
    }

    fn ptr(&self) -> *mut raw::Qp {
        self.qp.as_ptr()
    }

    /// Changes the queue pair's state from INIT to RTS. Blocks until the remote MAC address is resolved, about a second
    /// at most.
    pub(crate) fn connect(&mut self, path: &Path) -> Result<()> {
        let path = raw::Path {
            gid: path.ip.to_ipv6_mapped().octets(),
            dest_qpn: path.dest_qpn,
            rq_psn: path.rq_psn,
            sq_psn: path.sq_psn,
            mtu: path.mtu,
            timeout: path.timeout,
            retry_cnt: path.retry_cnt,
            rnr_retry: path.rnr_retry,
            min_rnr_timer: path.min_rnr_timer,
        };
        let mut call = std::ptr::null();
        // SAFETY: the queue pair is alive and the pointers are to live variables.
        let result = unsafe { raw::shim_connect(self.ptr(), &path, &mut call) };
        check(result, call, "ibv_modify_qp")
    }

    /// Changes the queue pair's state back to INIT, which discards every work request.
    pub(crate) fn reset(&mut self) -> Result<()> {
        let mut call = std::ptr::null();
        // SAFETY: the queue pair is alive and the pointer is to a live variable.
        let result = unsafe { raw::shim_reset(self.ptr(), &mut call) };
        check(result, call, "ibv_modify_qp")
    }

    /// Returns the PSN that the responder expects next.
    pub(crate) fn rq_psn(&self) -> Result<u32> {
        let mut psn = 0;
        // SAFETY: the queue pair is alive and the pointer is to a live variable.
        let result = unsafe { raw::shim_query_rq_psn(self.ptr(), &mut psn) };
        check_call(result, "ibv_query_qp").map(|()| psn)
    }

    /// Posts a message.
    ///
    /// # Safety
    /// With a key, the bytes must stay registered under it, and unchanged, until the message completes or the queue pair is reset or
    /// dropped. Without a key, they must be readable now.
    pub(crate) unsafe fn send(&mut self, send: &Message) -> Result<()> {
        let (remote_va, rkey) = send.write.unwrap_or_default();
        let request = raw::Send {
            wr_id: send.wr_id,
            address: send.address as u64,
            len: send.len,
            lkey: send.lkey.unwrap_or(0),
            opcode: send.write.is_some().into(),
            rkey,
            remote_va,
            immediate: send.immediate.unwrap_or(0),
            has_immediate: send.immediate.is_some().into(),
            is_inline: (send.lkey.is_none() && send.len > 0).into(),
        };
        // SAFETY: the queue pair is alive, and the caller guarantees valid memory.
        let result = unsafe { raw::shim_send(self.ptr(), &request) };
        check_call(result, "ibv_post_send")
    }

    /// Posts a receive buffer.
    ///
    /// # Safety
    /// The bytes must stay registered under `lkey`, without a reference to them, until a message completes in them or the queue pair
    /// is reset or dropped.
    pub(crate) unsafe fn receive(
        &mut self,
        wr_id: u64,
        address: *mut u8,
        len: u32,
        lkey: u32,
    ) -> Result<()> {
        // SAFETY: the queue pair is alive, and the caller guarantees valid memory.
        let result = unsafe { raw::shim_receive(self.ptr(), wr_id, address as u64, len, lkey) };
        check_call(result, "ibv_post_recv")
    }

    /// Arms the completion queue, so that the next completion causes an event.
    pub(crate) fn arm(&mut self) -> Result<()> {
        // SAFETY: the queue pair is alive.
        check_call(unsafe { raw::shim_arm(self.ptr()) }, "ibv_req_notify_cq")
    }

    /// Appends the pending completions to `found`; none if there are none.
    pub(crate) fn poll(&mut self, found: &mut Vec<Completion>) -> Result<()> {
        const BATCH: usize = 16;
        let mut batch = [raw::Completion::default(); BATCH];
        // SAFETY: the queue pair is alive, and the array has space for that many completions.
        let result = unsafe { raw::shim_poll(self.ptr(), batch.as_mut_ptr(), BATCH as c_int) };
        check_call(result, "ibv_poll_cq")?;
        found.extend(batch[..result as usize].iter().map(|raw| Completion {
            wr_id: raw.wr_id,
            outcome: match raw.status {
                0 => Ok(WorkResult {
                    len: raw.len,
                    is_write: raw.flags & 2 != 0,
                    immediate: (raw.flags & 4 != 0).then_some(raw.immediate),
                    source_qpn: raw.source_qpn,
                }),
                status => Err(status),
            },
        }));
        Ok(())
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: created by `shim_create_qp`, and dropped once.
        unsafe { raw::shim_destroy_qp(self.qp.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_device_is_reported() {
        let error = Context::open("no-such-device", 1).unwrap_err();
        let DeviceError::System { errno, .. } = error else {
            panic!("{error}");
        };
        // ENOSYS if the kernel has no RDMA support.
        assert!([libc::ENODEV, libc::ENOSYS].contains(&errno), "{error}");
        assert!(Context::open("a\0b", 1).is_err());
    }
}
