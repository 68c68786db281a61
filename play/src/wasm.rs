//! The engine as a WebAssembly module: functions that the page's worker calls. Texts are UTF-8 in the module's memory.
//!
//! The worker allocates a buffer ([`alfirk_allocate`]), fills it, and passes it to one function, which frees it. A result is in the
//! module's memory until the next call: the function returns its address, and [`alfirk_result_bytes`] its length.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::engine::{encoded, Engine, Reply, Request};
use crate::files::Library;

/// State of the module.
#[derive(Default)]
struct State {
    library: Library,
    engine: Option<Engine>,
    result: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Allocates a buffer of this length in bytes.
#[no_mangle]
pub extern "C" fn alfirk_allocate(bytes: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; bytes].into_boxed_slice()).cast()
}

/// Returns the length of the last result in bytes.
#[no_mangle]
pub extern "C" fn alfirk_result_bytes() -> usize {
    STATE.with_borrow(|state| state.result.len())
}

/// Sets the library: a JSON object with the texts of files by their paths, which are relative to the root of the library. Returns its
/// examples as JSON.
///
/// # Safety
/// `text` is a buffer of [`alfirk_allocate`] with this length, which is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn alfirk_start(text: *mut u8, bytes: usize) -> *const u8 {
    // SAFETY: as the caller guarantees.
    let text = unsafe { taken(text, bytes) };
    result(|state| {
        let files: Result<BTreeMap<String, String>, _> = serde_json::from_slice(&text);
        match files {
            Ok(files) => {
                state.library = Library::new(files);
                state.engine = Some(Engine::new(state.library.clone()));
                serde_json::to_vec(&state.library.examples()).unwrap_or_default()
            }
            Err(error) => refusal(format!("library: {error}")),
        }
    })
}

/// Returns the text of a file of the library; empty if there is no such file.
///
/// # Safety
/// As for [`alfirk_start`].
#[no_mangle]
pub unsafe extern "C" fn alfirk_text(path: *mut u8, bytes: usize) -> *const u8 {
    // SAFETY: as the caller guarantees.
    let path = unsafe { taken(path, bytes) };
    result(|state| {
        let path = String::from_utf8_lossy(&path);
        state.library.text(&path).unwrap_or_default().into()
    })
}

/// Executes a [`Request`], and returns its [`Reply`], both as JSON.
///
/// # Safety
/// As for [`alfirk_start`].
#[no_mangle]
pub unsafe extern "C" fn alfirk_reply(request: *mut u8, bytes: usize) -> *const u8 {
    // SAFETY: as the caller guarantees.
    let request = unsafe { taken(request, bytes) };
    result(|state| {
        let request: Request = match serde_json::from_slice(&request) {
            Ok(request) => request,
            Err(error) => return refusal(format!("request: {error}")),
        };
        match &mut state.engine {
            Some(engine) => encoded(&engine.reply(&request)),
            None => refusal("the engine has not been started".to_owned()),
        }
    })
}

/// # Safety
/// As for [`alfirk_start`].
unsafe fn taken(buffer: *mut u8, bytes: usize) -> Box<[u8]> {
    // SAFETY: a boxed slice of this length was the origin of the pointer.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer, bytes)) }
}

/// Keeps the result of `compute`, and returns its address.
fn result(compute: impl FnOnce(&mut State) -> Vec<u8>) -> *const u8 {
    STATE.with_borrow_mut(|state| {
        // The result before is not needed while the next one is computed.
        state.result = Vec::new();
        state.result = compute(state);
        state.result.as_ptr()
    })
}

fn refusal(text: String) -> Vec<u8> {
    encoded(&Reply::Error { text })
}
