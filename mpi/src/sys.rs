//! Rust bindings of the underlying MPI, through the functions of `shim.c`, which documents them.

use std::ffi::{c_char, c_int, c_void};

use crate::buffer::Buffer;

/// Handle of an MPI communicator, datatype or request; in Open MPI, an address.
pub(crate) type Handle = *mut c_void;

/// A Fortran INTEGER.
pub(crate) type Fint = c_int;

extern "C" {
    pub(crate) fn PMPI_Init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub(crate) fn PMPI_Finalize() -> c_int;
    pub(crate) fn PMPI_Bcast(
        buffer: *mut c_void,
        count: c_int,
        datatype: Handle,
        root: c_int,
        comm: Handle,
    ) -> c_int;
    pub(crate) fn PMPI_Ibcast(
        buffer: *mut c_void,
        count: c_int,
        datatype: Handle,
        root: c_int,
        comm: Handle,
        request: *mut Handle,
    ) -> c_int;
    pub(crate) fn PMPI_Barrier(comm: Handle) -> c_int;

    fn shim_success() -> c_int;
    fn shim_internal() -> c_int;
    fn shim_thread_multiple() -> c_int;
    fn shim_thread_single() -> c_int;
    fn shim_world() -> Handle;
    fn shim_is_intra(comm: Handle) -> c_int;
    fn shim_rank(comm: Handle, rank: *mut c_int) -> c_int;
    fn shim_size(comm: Handle, size: *mut c_int) -> c_int;
    fn shim_world_ranks(comm: Handle, size: c_int, ranks: *mut c_int) -> c_int;
    fn shim_duplicate(comm: Handle, tag: c_int, duplicate: *mut Handle) -> c_int;
    fn shim_on_host(comm: Handle, rank: c_int, host: *mut Handle) -> c_int;
    fn shim_subset(comm: Handle, is_member: c_int, rank: c_int, subset: *mut Handle) -> c_int;
    fn shim_free(comm: *mut Handle) -> c_int;
    fn shim_min(comm: Handle, value: *mut c_int) -> c_int;
    fn shim_gather(comm: Handle, own: u64, all: *mut u64) -> c_int;
    fn shim_bcast(comm: Handle, bytes: *mut c_void, len: c_int, root: c_int) -> c_int;
    fn shim_barrier(comm: Handle) -> c_int;
    fn shim_isend(
        comm: Handle,
        bytes: *const c_void,
        len: c_int,
        to: c_int,
        request: *mut Handle,
    ) -> c_int;
    fn shim_irecv(
        comm: Handle,
        bytes: *mut c_void,
        len: c_int,
        from: c_int,
        request: *mut Handle,
    ) -> c_int;
    fn shim_wait_any(count: c_int, requests: *mut Handle, which: *mut c_int) -> c_int;
    fn shim_wait_all(count: c_int, requests: *mut Handle) -> c_int;
    fn shim_cancel(count: c_int, requests: *mut Handle);
    fn shim_send_notice(comm: Handle, to: c_int, notice: u64) -> c_int;
    fn shim_has_notice(comm: Handle, here: *mut c_int) -> c_int;
    fn shim_receive_notice(comm: Handle, notice: *mut u64) -> c_int;
    fn shim_layout(datatype: Handle, size: *mut u64, plain: *mut c_int) -> c_int;
    fn shim_pack_size(count: c_int, datatype: Handle, comm: Handle, size: *mut c_int) -> c_int;
    fn shim_pack(
        from: *const c_void,
        count: c_int,
        datatype: Handle,
        to: *mut c_void,
        len: c_int,
        used: *mut c_int,
        comm: Handle,
    ) -> c_int;
    fn shim_unpack(
        from: *const c_void,
        len: c_int,
        to: *mut c_void,
        count: c_int,
        datatype: Handle,
        comm: Handle,
    ) -> c_int;
    fn shim_type_dup(datatype: Handle, dup: *mut Handle) -> c_int;
    fn shim_type_free(datatype: *mut Handle) -> c_int;
    fn shim_make_attribute() -> c_int;
    fn shim_attach(comm: Handle, value: *mut c_void) -> c_int;
    fn shim_attached(comm: Handle) -> *mut c_void;
    pub(crate) fn shim_comm_of(comm: Fint) -> Handle;
    pub(crate) fn shim_type_of(datatype: Fint) -> Handle;
    pub(crate) fn shim_request_to(request: Handle) -> Fint;
    pub(crate) fn shim_buffer_of(buffer: *mut c_void) -> *mut c_void;
    fn shim_request(request: *mut Handle) -> c_int;
    fn shim_complete(request: Handle) -> c_int;
}

/// An error class of MPI, to be returned to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorClass(pub(crate) c_int);

impl ErrorClass {
    /// The error class for a bug in this library.
    pub(crate) fn internal() -> ErrorClass {
        // SAFETY: the function returns a constant.
        ErrorClass(unsafe { shim_internal() })
    }
}

pub(crate) type Result<T> = std::result::Result<T, ErrorClass>;

/// Converts the return code of an MPI function to a result.
pub(crate) fn check(code: c_int) -> Result<()> {
    // SAFETY: the function returns a constant.
    match code == unsafe { shim_success() } {
        true => Ok(()),
        false => Err(ErrorClass(code)),
    }
}

/// Converts a result to the return code of an MPI function.
pub(crate) fn code_of(result: Result<()>) -> c_int {
    match result {
        // SAFETY: the function returns a constant.
        Ok(()) => unsafe { shim_success() },
        Err(ErrorClass(code)) => code,
    }
}

pub(crate) fn thread_multiple() -> c_int {
    // SAFETY: the function returns a constant.
    unsafe { shim_thread_multiple() }
}

pub(crate) fn thread_single() -> c_int {
    // SAFETY: the function returns a constant.
    unsafe { shim_thread_single() }
}

/// Creates the MPI attribute by which state of this library is attached to communicators.
pub(crate) fn make_attribute() -> Result<()> {
    // SAFETY: MPI is initialised.
    check(unsafe { shim_make_attribute() })
}

/// An MPI communicator. It must not be used after it was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comm(pub(crate) Handle);

// SAFETY: any thread may use handles; concurrent use requires MPI_THREAD_MULTIPLE, which the callers request.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// Pending MPI requests. They must be completed before the memory that they use is freed.
#[derive(Debug, Default)]
pub(crate) struct Requests(Vec<Handle>);

// SAFETY of all calls below: handles are valid while their owner lives, and each pointer refers to memory of the given
// length.
impl Comm {
    pub(crate) fn world() -> Comm {
        Comm(unsafe { shim_world() })
    }

    /// Whether the communicator is an intracommunicator.
    pub(crate) fn is_intra(self) -> bool {
        unsafe { shim_is_intra(self.0) != 0 }
    }

    pub(crate) fn rank(self) -> Result<u32> {
        let mut rank = 0;
        check(unsafe { shim_rank(self.0, &mut rank) })?;
        Ok(rank as u32)
    }

    pub(crate) fn size(self) -> Result<u32> {
        let mut size = 0;
        check(unsafe { shim_size(self.0, &mut size) })?;
        Ok(size as u32)
    }

    /// Ranks of the members in MPI_COMM_WORLD; `None` if a member is not in it.
    pub(crate) fn world_ranks(self) -> Result<Option<Vec<u32>>> {
        let mut ranks: Vec<c_int> = vec![0; self.size()? as usize];
        check(unsafe { shim_world_ranks(self.0, ranks.len() as c_int, ranks.as_mut_ptr()) })?;
        Ok(ranks.into_iter().map(|rank| rank.try_into().ok()).collect())
    }

    /// Creates a communicator with the same members, for messages of this library. Collective.
    pub(crate) fn duplicate(self, tag: c_int) -> Result<Comm> {
        let mut duplicate = std::ptr::null_mut();
        check(unsafe { shim_duplicate(self.0, tag, &mut duplicate) })?;
        Ok(Comm(duplicate))
    }

    /// Creates the communicator of the members on the same host, ordered by rank. Collective.
    pub(crate) fn on_host(self, rank: u32) -> Result<Comm> {
        let mut host = std::ptr::null_mut();
        check(unsafe { shim_on_host(self.0, rank as c_int, &mut host) })?;
        Ok(Comm(host))
    }

    /// Creates the communicator of the members that pass `is_member` as true, ordered by rank; `None` for other
    /// callers. Collective.
    pub(crate) fn subset(self, is_member: bool, rank: u32) -> Result<Option<Comm>> {
        let mut subset = std::ptr::null_mut();
        check(unsafe { shim_subset(self.0, is_member.into(), rank as c_int, &mut subset) })?;
        Ok((!subset.is_null()).then_some(Comm(subset)))
    }

    /// Frees the communicator. Collective.
    pub(crate) fn free(mut self) {
        // A failure only leaks the communicator.
        let _ = check(unsafe { shim_free(&mut self.0) });
    }

    /// Returns the minimum of the values of all members. Collective.
    pub(crate) fn min(self, own: i32) -> Result<i32> {
        let mut value = own;
        check(unsafe { shim_min(self.0, &mut value) })?;
        Ok(value)
    }

    /// Returns the values of all members, by rank. Collective.
    pub(crate) fn gather(self, own: u64) -> Result<Vec<u64>> {
        let mut all = vec![0; self.size()? as usize];
        check(unsafe { shim_gather(self.0, own, all.as_mut_ptr()) })?;
        Ok(all)
    }

    /// Broadcasts the bytes of the rank `root`, which alone may have a [`Buffer::Source`].
    pub(crate) fn bcast(self, bytes: &mut Buffer<'_>, root: u32) -> Result<()> {
        let len = c_int::try_from(bytes.len()).map_err(|_| ErrorClass::internal())?;
        check(unsafe { shim_bcast(self.0, bytes.as_mut_ptr().cast(), len, root as c_int) })
    }

    pub(crate) fn barrier(self) -> Result<()> {
        check(unsafe { shim_barrier(self.0) })
    }

    /// Starts to send bytes to rank `to`.
    ///
    /// # Safety
    ///
    /// The bytes must stay valid and unchanged until the request completes.
    pub(crate) unsafe fn isend(self, to: u32, bytes: &[u8], requests: &mut Requests) -> Result<()> {
        let mut request = std::ptr::null_mut();
        let (start, len) = (bytes.as_ptr().cast(), bytes.len() as c_int);
        check(unsafe { shim_isend(self.0, start, len, to as c_int, &mut request) })?;
        requests.0.push(request);
        Ok(())
    }

    /// Starts to receive `len` bytes from rank `from`.
    ///
    /// # Safety
    ///
    /// The memory must be valid for that many bytes until the request completes.
    pub(crate) unsafe fn irecv(
        self,
        from: u32,
        start: *mut u8,
        len: usize,
        requests: &mut Requests,
    ) -> Result<()> {
        let mut request = std::ptr::null_mut();
        let (start, len) = (start.cast(), len as c_int);
        check(unsafe { shim_irecv(self.0, start, len, from as c_int, &mut request) })?;
        requests.0.push(request);
        Ok(())
    }

    /// Sends a notice to a member, for which that member checks from time to time.
    pub(crate) fn send_notice(self, to: u32, notice: u64) -> Result<()> {
        check(unsafe { shim_send_notice(self.0, to as c_int, notice) })
    }

    /// Whether a notice has arrived that was not received yet.
    pub(crate) fn has_notice(self) -> bool {
        let mut here = 0;
        check(unsafe { shim_has_notice(self.0, &mut here) }).is_ok() && here != 0
    }

    /// Receives a notice from any member; waits until one arrives.
    pub(crate) fn receive_notice(self) -> Result<u64> {
        let mut notice = 0;
        check(unsafe { shim_receive_notice(self.0, &mut notice) })?;
        Ok(notice)
    }

    /// Attaches a value to the communicator. MPI calls `alfirk_mpi_detach` with it when the program frees the
    /// communicator.
    pub(crate) fn attach(self, value: *mut c_void) -> Result<()> {
        check(unsafe { shim_attach(self.0, value) })
    }

    /// Returns the value that is attached to the communicator; null if there is none.
    pub(crate) fn attached(self) -> *mut c_void {
        unsafe { shim_attached(self.0) }
    }
}

impl Requests {
    /// Waits until one of the requests has completed, and returns its index; `None` if all requests have completed
    /// before.
    pub(crate) fn wait_any(&mut self) -> Result<Option<usize>> {
        let mut which = -1;
        check(unsafe { shim_wait_any(self.0.len() as c_int, self.0.as_mut_ptr(), &mut which) })?;
        Ok(usize::try_from(which).ok())
    }

    /// Cancels the receives that have not completed. None of them writes to its memory afterwards.
    pub(crate) fn cancel(&mut self) {
        unsafe { shim_cancel(self.0.len() as c_int, self.0.as_mut_ptr()) }
    }

    pub(crate) fn wait_all(&mut self) -> Result<()> {
        check(unsafe { shim_wait_all(self.0.len() as c_int, self.0.as_mut_ptr()) })
    }
}

/// Elements of an MPI datatype in the memory of a program, as passed to a broadcast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) start: *mut c_void,
    pub(crate) count: c_int,
    pub(crate) datatype: Handle,
    /// Length in bytes of the elements' data, without gaps.
    pub(crate) bytes: u64,
    /// Whether the elements are contiguous in memory, so that they need no packing.
    pub(crate) is_contiguous: bool,
}

// SAFETY: the program does not access them during the operation.
unsafe impl Send for Elements {}

impl Elements {
    /// Describes the elements that a call has passed; `None` for arguments that MPI rejects.
    pub(crate) fn new(start: *mut c_void, count: c_int, datatype: Handle) -> Option<Elements> {
        let (mut size, mut plain) = (0, 0);
        let many = u64::try_from(count).ok()?;
        check(unsafe { shim_layout(datatype, &mut size, &mut plain) }).ok()?;
        Some(Elements {
            start,
            count,
            datatype,
            bytes: size.checked_mul(many)?,
            is_contiguous: plain != 0,
        })
    }

    /// Returns the same elements with a duplicate of their datatype, which stays valid when the program frees its own.
    /// The caller must free the duplicate.
    pub(crate) fn with_duplicate_type(self) -> Result<Elements> {
        let mut datatype = std::ptr::null_mut();
        check(unsafe { shim_type_dup(self.datatype, &mut datatype) })?;
        Ok(Elements { datatype, ..self })
    }

    /// Frees the duplicate of the datatype.
    pub(crate) fn free(mut self) {
        let _ = check(unsafe { shim_type_free(&mut self.datatype) });
    }

    /// Packs the elements into contiguous bytes.
    pub(crate) fn pack(self, comm: Comm) -> Result<Vec<u8>> {
        let (mut room, mut used) = (0, 0);
        check(unsafe { shim_pack_size(self.count, self.datatype, comm.0, &mut room) })?;
        let mut bytes = vec![0u8; room as usize];
        let to = bytes.as_mut_ptr().cast();
        check(unsafe {
            shim_pack(
                self.start,
                self.count,
                self.datatype,
                to,
                room,
                &mut used,
                comm.0,
            )
        })?;
        bytes.truncate(used as usize);
        // Between members of the same architecture MPI adds nothing to the data.
        match bytes.len() as u64 == self.bytes {
            true => Ok(bytes),
            false => Err(ErrorClass::internal()),
        }
    }

    /// Unpacks contiguous bytes into the elements.
    pub(crate) fn unpack(self, bytes: &[u8], comm: Comm) -> Result<()> {
        let (from, len) = (bytes.as_ptr().cast(), bytes.len() as c_int);
        check(unsafe { shim_unpack(from, len, self.start, self.count, self.datatype, comm.0) })
    }
}

/// An MPI generalized request, which this library completes by a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeneralizedRequest(pub(crate) Handle);

// SAFETY: any thread may complete the request.
unsafe impl Send for GeneralizedRequest {}

impl GeneralizedRequest {
    pub(crate) fn new() -> Result<GeneralizedRequest> {
        let mut request = std::ptr::null_mut();
        check(unsafe { shim_request(&mut request) })?;
        Ok(GeneralizedRequest(request))
    }

    pub(crate) fn complete(self) {
        // The failure cannot be reported to a caller.
        let _ = check(unsafe { shim_complete(self.0) });
    }
}
