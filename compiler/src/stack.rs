//! A thread with a large stack, for recursion over nested programs.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

/// Maximum nesting of a program on the full stack, in levels: see [`levels`].
const MAX_LEVELS: u32 = 40_000;

/// Maximum stack use per level in any phase, in bytes. Unoptimised builds keep every temporary.
const LEVEL_BYTES: usize = match cfg!(debug_assertions) {
    true => 96 << 10,
    false => 48 << 10,
};

/// Maximum nesting, in levels, on a thread of unknown stack size, such as that of a test.
const SHALLOW: u32 = 200;

thread_local! {
    static LEVELS: Cell<u32> = const { Cell::new(SHALLOW) };
}

/// Maximum nesting of a program on this thread, in levels. Each parenthesis, brace, operator and `else if` of a chain is one level. Every
/// phase of the compiler recurses as deeply as the program is nested.
pub fn levels() -> u32 {
    LEVELS.get()
}

/// Runs `work` on a thread with a stack for [`MAX_LEVELS`] levels, independent of the caller's stack. The system allocates only the
/// touched part. If it refuses so large a stack (`ulimit -v`), the stack is smaller, and [`levels`] returns less.
pub fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    thread::scope(|scope| {
        let mut levels = MAX_LEVELS;
        let thread = loop {
            let work = &work;
            let run = move || {
                LEVELS.set(levels);
                let work = work.lock().expect("no other thread has it").take();
                work.expect("one thread is started")()
            };
            let started = thread::Builder::new()
                .name("compiler".to_owned())
                .stack_size(levels as usize * LEVEL_BYTES)
                .spawn_scoped(scope, run);
            match started {
                Ok(thread) => break thread,
                Err(_) if levels > SHALLOW => levels = (levels / 2).max(SHALLOW),
                Err(error) => panic!("the system cannot start a thread: {error}"),
            }
        };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
