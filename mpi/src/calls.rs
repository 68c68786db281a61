//! The MPI functions that this library defines in place of the underlying MPI's.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::communicator::Communicator;
use crate::job::{self, job};
use crate::sys::{self, check, code_of, Comm, Elements, Handle};

/// Communicators that have state of this library, which MPI_Finalize ends.
static COMMUNICATORS: Mutex<Vec<Arc<Communicator>>> = Mutex::new(Vec::new());

fn all() -> std::sync::MutexGuard<'static, Vec<Arc<Communicator>>> {
    COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that this library attaches to a communicator, created at the communicator's first call; `None` if the library
/// does not support the communicator.
fn communicator(comm: Handle) -> Option<Arc<Communicator>> {
    let (job, comm) = (job()?, Comm(comm));
    if !comm.is_intra() {
        return None;
    }
    let attached = comm.attached().cast::<Communicator>().cast_const();
    if !attached.is_null() {
        // SAFETY: the pointer is from `into_raw` below; the attached value is not freed before it is detached.
        unsafe {
            Arc::increment_strong_count(attached);
            return Some(Arc::from_raw(attached));
        }
    }
    let made = Arc::new(Communicator::new(job, comm).ok()?);
    let attached = Arc::into_raw(Arc::clone(&made)).cast_mut();
    comm.attach(attached.cast()).ok()?;
    all().push(Arc::clone(&made));
    Some(made)
}

/// Callback that MPI calls when the program frees a communicator: drops the attached state.
#[no_mangle]
extern "C" fn alfirk_mpi_detach(attached: *mut c_void) {
    // SAFETY: the pointer was attached once, by `communicator`.
    let communicator = unsafe { Arc::from_raw(attached.cast::<Communicator>().cast_const()) };
    all().retain(|other| !Arc::ptr_eq(other, &communicator));
    communicator.end();
}

/// Interval at which groups make progress while the program makes no calls.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the background thread, in which groups make progress. The thread does not call MPI.
fn make_progress() {
    loop {
        std::thread::sleep(PROGRESS_INTERVAL);
        let communicators = all().clone();
        communicators
            .iter()
            .for_each(|communicator| communicator.make_progress());
    }
}

fn init(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: &mut c_int,
) -> c_int {
    let wanted = required.max(sys::thread_multiple());
    // SAFETY: the program guarantees valid arguments.
    let begun = check(unsafe { sys::PMPI_Init_thread(argc, argv, wanted, provided) });
    let begun = begun.and_then(|()| job::begin(*provided));
    let over_groups = job().and_then(|job| job.settings.algorithm);
    if over_groups.is_some_and(|algorithm| algorithm.needs_group()) {
        let thread = std::thread::Builder::new().name("alfirk-mpi-tend".to_owned());
        // Without the thread, the fabric may remove groups that are idle for long. Their communicators then fall back
        // to MPI.
        let _ = thread.spawn(make_progress);
    }
    code_of(begun)
}

/// Initialises the underlying MPI and this library.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    init(argc, argv, sys::thread_single(), &mut 0)
}

/// Initialises the underlying MPI, with at least the thread support that the program requests, and this library.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let mut given = 0;
    let code = init(argc, argv, required, &mut given);
    // SAFETY: the program guarantees valid arguments.
    if let Some(provided) = unsafe { provided.as_mut() } {
        *provided = given;
    }
    code
}

/// Ends all groups, then the underlying MPI.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    let mut communicators = std::mem::take(&mut *all());
    // Leaders of groups wait for the other members, so all ranks must end the groups in the same order.
    communicators.sort_by_key(|communicator| communicator.sort_key());
    for communicator in communicators {
        communicator.end();
    }
    // SAFETY: the program calls it once.
    unsafe { sys::PMPI_Finalize() }
}

/// Broadcasts by this library's transport, or by the underlying MPI if the library does not support the call.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Bcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    let ours = communicator(comm).and_then(|communicator| {
        let elements = Elements::new(buffer, count, datatype)?;
        communicator.broadcast(elements, root)
    });
    match ours {
        Some(done) => code_of(done),
        // SAFETY: the program guarantees valid arguments, or gets an error.
        None => unsafe { sys::PMPI_Bcast(buffer, count, datatype, root, comm) },
    }
}

/// Starts a non-blocking broadcast by this library's transport, or by the underlying MPI if the library does not
/// support the call.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Ibcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let ours = communicator(comm).and_then(|communicator| {
        let elements = Elements::new(buffer, count, datatype)?;
        communicator.begin_broadcast(elements, root)
    });
    match ours {
        Some(Ok(promise)) => {
            // SAFETY: guaranteed by the program.
            unsafe { *request = promise.0 };
            code_of(Ok(()))
        }
        Some(Err(code)) => code_of(Err(code)),
        // SAFETY: as for MPI_Bcast.
        None => unsafe { sys::PMPI_Ibcast(buffer, count, datatype, root, comm, request) },
    }
}

/// Executes a barrier by this library's transport, or by the underlying MPI if the library does not support the call.
///
/// # Safety
///
/// The requirements of the MPI function of the same name.
#[no_mangle]
pub unsafe extern "C" fn MPI_Barrier(comm: Handle) -> c_int {
    match communicator(comm).and_then(|communicator| communicator.barrier()) {
        Some(done) => code_of(done),
        // SAFETY: as for MPI_Bcast.
        None => unsafe { sys::PMPI_Barrier(comm) },
    }
}
