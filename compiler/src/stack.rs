//! Room to recurse in.

use std::panic::resume_unwind;
use std::thread;

/// Bytes of stack that hold every phase on the deepest program that the parser accepts, in a build without optimisation. The system
/// gives memory only to what is touched of it.
const DEEP: usize = 64 << 20;

/// Runs `work` on a stack of known size, whatever is left of the caller's: a test's thread has 2 MiB, a shell may set less.
pub fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("compiler".to_owned())
            .stack_size(DEEP)
            .spawn_scoped(scope, work)
            .expect("the system can start one thread")
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}
