//! Compilation of programs to machine code.

use std::{sync::Arc, thread};

use alfirk_bmv2::{Engine, LoadedProgram};
use alfirk_p4rt::Programs;
use tracing::{info, warn};

/// Returns the programs of a switch, compiled for an engine. If packets are recorded, programs are interpreted.
pub(crate) fn compiling(programs: Programs, engine: Engine, is_recorded: bool) -> Programs {
    match engine {
        Engine::Auto if Engine::HAS_COMPILER && !is_recorded => programs.compiled_by(|program| {
            let thread = thread::Builder::new().name("compiler".into());
            if let Err(error) = thread.spawn(move || compile(&program)) {
                warn!("the program is interpreted, since no thread can compile it: {error}");
            }
        }),
        Engine::Compiled if !is_recorded => programs.compiled_by(|program| compile(&program)),
        Engine::Auto | Engine::Compiled | Engine::Interpreter => {
            info!("engine: interpreter");
            programs
        }
    }
}

/// Compiles a program, and logs which engine runs it.
fn compile(program: &Arc<LoadedProgram>) {
    match program.compile() {
        Ok(()) => info!("engine: machine code"),
        Err(error) => warn!("engine: interpreter, since {error}"),
    }
}
