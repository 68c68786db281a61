//! C interface of groups. The functions are documented in `include/alfirk.h`.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::net::Ipv4Addr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use crate::group::{Group, GroupConfig, GroupError, Transport};

const INTERNAL: c_int = 8;

thread_local! {
    /// The message of this thread's last failed call, for `alfirk_last_error`.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Parameters of a group, with the layout of `struct alfirk_config` in `include/alfirk.h`.
#[repr(C)]
pub struct Config {
    device: *const c_char,
    address: *const c_char,
    leader: *const c_char,
    port: u16,
    members: u32,
    buffer_size: u64,
    timeout_ms: u32,
    fallback: u32,
}

impl GroupError {
    /// The error's code for C, a value of `enum alfirk_status`.
    fn code(&self) -> c_int {
        match self {
            GroupError::Argument(_) => 1,
            GroupError::Device(_) => 2,
            GroupError::Connection { .. } => 3,
            GroupError::Timeout(_) => 4,
            GroupError::NotRegistered(_) => 5,
            GroupError::Verbs(_) => 6,
            GroupError::Over(_) => 7,
        }
    }
}

/// Stores the message of a failed call for this thread.
fn set_last_error(error: &str) {
    let text: Vec<u8> = error.bytes().filter(|b| *b != 0).collect();
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
}

/// Executes `act`, stores the message of its error, and returns the error code. Catches panics, which must not unwind
/// into C.
fn run(act: impl FnOnce() -> Result<(), GroupError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            set_last_error(&error.to_string());
            error.code()
        }
        Err(_) => {
            set_last_error("bug in alfirk: a panic, whose message is on standard error");
            INTERNAL
        }
    }
}

/// Creates the error for an invalid argument.
fn argument_error(text: impl Into<String>) -> GroupError {
    GroupError::Argument(text.into())
}

/// Reads a C string. `name`: name of the argument for the error message.
///
/// # Safety
///
/// `text` is null, or a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, GroupError> {
    if text.is_null() {
        return Err(argument_error(format!("{name} is missing")));
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| argument_error(format!("{name} is not valid UTF-8")))
}

/// Reads a C string that holds an IPv4 address. `name`: name of the argument for the error message.
///
/// # Safety
///
/// As for [`text`].
unsafe fn address(of: *const c_char, name: &str) -> Result<Ipv4Addr, GroupError> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(of, name)? };
    text.parse()
        .map_err(|_| argument_error(format!("{name} `{text}` is not an IPv4 address")))
}

/// Converts the parameters of a group from their C form.
///
/// # Safety
///
/// The strings of `config` are null or end with a zero byte.
unsafe fn config(config: &Config) -> Result<GroupConfig, GroupError> {
    // SAFETY: the caller guarantees valid strings.
    let (device, address, leader) = unsafe {
        (
            text(config.device, "device")?,
            address(config.address, "address")?,
            address(config.leader, "leader")?,
        )
    };
    Ok(GroupConfig {
        device: device.to_owned(),
        address,
        leader,
        port: config.port,
        members: config.members,
        buffer: config.buffer_size,
        timeout: Duration::from_millis(config.timeout_ms.into()),
        fallback: match config.fallback {
            0 => Transport::Multicast,
            1 => Transport::Chain,
            2 => Transport::Unicast,
            other => {
                return Err(argument_error(format!(
                    "fallback {other} is not a value of enum alfirk_way (0 to 2)"
                )))
            }
        },
    })
}

/// Executes `act` on a group, as [`run`] does; an error if `group` is null.
///
/// # Safety
///
/// `group` is null, or a group of [`alfirk_join`] that was not left and is not used by another thread.
unsafe fn call_on_group(
    group: *mut Group,
    act: impl FnOnce(&mut Group) -> Result<(), GroupError>,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    match unsafe { group.as_mut() } {
        Some(group) => run(|| act(group)),
        None => run(|| Err(argument_error("group is a null pointer"))),
    }
}

/// Joins a group: see `include/alfirk.h`.
///
/// # Safety
///
/// `given` and `group` are null or point to valid values, as defined in the header.
#[no_mangle]
pub unsafe extern "C" fn alfirk_join(given: *const Config, group: *mut *mut Group) -> c_int {
    run(|| {
        // SAFETY: guaranteed by the caller.
        let (given, group) = unsafe { (given.as_ref(), group.as_mut()) };
        let (Some(given), Some(group)) = (given, group) else {
            return Err(argument_error("config or group is a null pointer"));
        };
        *group = std::ptr::null_mut();
        // SAFETY: the caller guarantees valid strings.
        let joined = Group::join(unsafe { config(given)? })?;
        *group = Box::into_raw(Box::new(joined));
        Ok(())
    })
}

/// Returns this member's rank: see `include/alfirk.h`.
///
/// # Safety
///
/// `group` is from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_rank(group: *const Group) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { group.as_ref() }.map_or(0, Group::rank)
}

/// Returns the transport in use: see `include/alfirk.h`.
///
/// # Safety
///
/// `group` is from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_way_of(group: *const Group) -> u32 {
    // SAFETY: guaranteed by the caller.
    match unsafe { group.as_ref() }.map(Group::transport) {
        None | Some(Transport::Multicast) => 0,
        Some(Transport::Chain) => 1,
        Some(Transport::Unicast) => 2,
    }
}

/// Returns the address of the buffer: see `include/alfirk.h`.
///
/// # Safety
///
/// `group` is from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_buffer(group: *mut Group) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    match unsafe { group.as_ref() } {
        Some(group) => group.buffer_address() as *mut c_void,
        None => std::ptr::null_mut(),
    }
}

/// Broadcasts a part of the buffer by SEND: see `include/alfirk.h`.
///
/// # Safety
///
/// `group` is from [`alfirk_join`], was not left, and is not used by another thread.
#[no_mangle]
pub unsafe extern "C" fn alfirk_broadcast(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { call_on_group(group, |group| group.broadcast(source, offset, len)) }
}

/// Broadcasts a part of the buffer by WRITE: see `include/alfirk.h`.
///
/// # Safety
///
/// As for [`alfirk_broadcast`].
#[no_mangle]
pub unsafe extern "C" fn alfirk_write(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { call_on_group(group, |group| group.write(source, offset, len)) }
}

/// Starts a broadcast by SEND: see `include/alfirk.h`.
///
/// # Safety
///
/// As for [`alfirk_broadcast`].
#[no_mangle]
pub unsafe extern "C" fn alfirk_post_broadcast(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { call_on_group(group, |group| group.post_broadcast(source, offset, len)) }
}

/// Waits for all started broadcasts: see `include/alfirk.h`.
///
/// # Safety
///
/// As for [`alfirk_broadcast`].
#[no_mangle]
pub unsafe extern "C" fn alfirk_wait(group: *mut Group) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { call_on_group(group, Group::wait) }
}

/// Leaves a group and frees it: see `include/alfirk.h`.
///
/// # Safety
///
/// As for [`alfirk_broadcast`]; `group` must not be used again.
#[no_mangle]
pub unsafe extern "C" fn alfirk_leave(group: *mut Group) -> c_int {
    run(|| {
        if group.is_null() {
            return Err(argument_error("group is a null pointer"));
        }
        // SAFETY: `alfirk_join` created the pointer from a box, and the caller does not use it again.
        unsafe { Box::from_raw(group) }.leave()
    })
}

#[no_mangle]
pub extern "C" fn alfirk_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}
