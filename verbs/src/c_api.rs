//! Implements `include/alfirk.h`, which documents the functions.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::net::Ipv4Addr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use crate::group::{Group, GroupConfig, GroupError, Way};

const INTERNAL: c_int = 8;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// `struct alfirk_config`.
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
    /// `enum alfirk_status`.
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

fn set_last_error(error: &str) {
    let text: Vec<u8> = error.bytes().filter(|b| *b != 0).collect();
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
}

/// Runs a call and records its error. Catches panics, which must not reach C.
fn run(act: impl FnOnce() -> Result<(), GroupError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            set_last_error(&error.to_string());
            error.code()
        }
        Err(_) => {
            set_last_error("bug in alfirk: a panic");
            INTERNAL
        }
    }
}

fn argument(text: impl Into<String>) -> GroupError {
    GroupError::Argument(text.into())
}

/// # Safety
/// `text` is null, or a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, GroupError> {
    if text.is_null() {
        return Err(argument(format!("{name} is missing")));
    }
    // SAFETY: the caller vouches for it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| argument(format!("{name} is not valid UTF-8")))
}

/// # Safety
/// As for [`text`].
unsafe fn address(of: *const c_char, name: &str) -> Result<Ipv4Addr, GroupError> {
    // SAFETY: the caller vouches for it.
    let text = unsafe { text(of, name)? };
    text.parse()
        .map_err(|_| argument(format!("{name} `{text}` is not an IPv4 address")))
}

/// # Safety
/// The strings of `config` are null or end with a zero byte.
unsafe fn config(config: &Config) -> Result<GroupConfig, GroupError> {
    // SAFETY: the caller vouches for the strings.
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
            0 => Way::Multicast,
            1 => Way::Chain,
            2 => Way::Unicast,
            other => {
                return Err(argument(format!(
                    "fallback {other} is not an enum alfirk_way"
                )))
            }
        },
    })
}

/// # Safety
/// `group` is null, or a group of [`alfirk_join`] that was not left and is not used by another thread.
unsafe fn with(group: *mut Group, act: impl FnOnce(&mut Group) -> Result<(), GroupError>) -> c_int {
    // SAFETY: the caller vouches for it.
    match unsafe { group.as_mut() } {
        Some(group) => run(|| act(group)),
        None => run(|| Err(argument("group is missing"))),
    }
}

/// # Safety
/// `given` and `group` are null or point to valid values, as defined in the header.
#[no_mangle]
pub unsafe extern "C" fn alfirk_join(given: *const Config, group: *mut *mut Group) -> c_int {
    run(|| {
        // SAFETY: the caller vouches for it.
        let (given, group) = unsafe { (given.as_ref(), group.as_mut()) };
        let (Some(given), Some(group)) = (given, group) else {
            return Err(argument("config or group is missing"));
        };
        *group = std::ptr::null_mut();
        // SAFETY: the caller vouches for the strings.
        let joined = Group::join(unsafe { config(given)? })?;
        *group = Box::into_raw(Box::new(joined));
        Ok(())
    })
}

/// # Safety
/// `group` came from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_rank(group: *const Group) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { group.as_ref() }.map_or(0, Group::rank)
}

/// # Safety
/// `group` came from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_way_of(group: *const Group) -> u32 {
    // SAFETY: the caller vouches for it.
    match unsafe { group.as_ref() }.map(Group::way) {
        None | Some(Way::Multicast) => 0,
        Some(Way::Chain) => 1,
        Some(Way::Unicast) => 2,
    }
}

/// # Safety
/// `group` came from [`alfirk_join`] and was not left.
#[no_mangle]
pub unsafe extern "C" fn alfirk_buffer(group: *mut Group) -> *mut c_void {
    // SAFETY: the caller vouches for it.
    match unsafe { group.as_ref() } {
        Some(group) => group.buffer_address() as *mut c_void,
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// As for all: the group is from [`alfirk_join`], was not left, and is not used by another thread.
#[no_mangle]
pub unsafe extern "C" fn alfirk_broadcast(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { with(group, |group| group.broadcast(source, offset, len)) }
}

/// # Safety
/// As for all.
#[no_mangle]
pub unsafe extern "C" fn alfirk_write(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { with(group, |group| group.write(source, offset, len)) }
}

/// # Safety
/// As for all.
#[no_mangle]
pub unsafe extern "C" fn alfirk_post_broadcast(
    group: *mut Group,
    source: u32,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { with(group, |group| group.post_broadcast(source, offset, len)) }
}

/// # Safety
/// As for all.
#[no_mangle]
pub unsafe extern "C" fn alfirk_wait(group: *mut Group) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { with(group, Group::wait) }
}

/// # Safety
/// As for all; the group is freed.
#[no_mangle]
pub unsafe extern "C" fn alfirk_leave(group: *mut Group) -> c_int {
    run(|| {
        if group.is_null() {
            return Err(argument("group is missing"));
        }
        // SAFETY: `alfirk_join` created the pointer from a box, and the caller does not use it again.
        unsafe { Box::from_raw(group) }.leave()
    })
}

#[no_mangle]
pub extern "C" fn alfirk_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}
