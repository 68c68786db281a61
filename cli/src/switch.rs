//! `alfirk switch`: runs the software switch. A program that is P4 source is compiled first.

use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use alfirk_switch::{SwitchArgs, SwitchError};
use nix::sys::memfd::{memfd_create, MFdFlags};

use crate::debug;
use crate::exit::{print, Failure, Outcome};
use crate::program::{self, Target};

/// Sets up logging in the form of BMv2's `simple_switch`.
pub fn start_logging(args: &SwitchArgs, filter: &str) -> Outcome {
    args.start_logging(filter).map_err(failure)
}

/// Runs `alfirk switch` until it is stopped.
pub fn run(args: &SwitchArgs) -> Outcome {
    let source = args.json.as_deref().filter(|file| is_source(file));
    let compiled = source.map(CompiledFile::new).transpose()?;
    let args = &SwitchArgs {
        json: compiled
            .as_ref()
            .map(CompiledFile::path)
            .or(args.json.clone()),
        ..args.clone()
    };
    if let (true, Some(json)) = (args.disassemble, &args.json) {
        return print(alfirk_switch::disassemble(json).map_err(failure)?);
    }
    match alfirk_switch::run(args, Some(debug::of_switch)) {
        Ok(()) => Ok(()),
        Err(SwitchError::Usage(help)) if help.exit_code() == 0 => print(help),
        Err(error) => Err(failure(error)),
    }
}

/// Whether the file is P4 source, which must be compiled.
fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "p4")
}

/// BMv2 JSON of a compiled P4 file, in an anonymous file in memory.
struct CompiledFile(OwnedFd);

impl CompiledFile {
    fn new(source: &Path) -> Result<CompiledFile, Failure> {
        let program = program::compile_program(Target::V1model, Some(source))?;
        let shown = source.display();
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!(
                "{shown}: cannot store its compiled JSON: {error}"
            ))
        };
        let memory = memfd_create(c"program.json", MFdFlags::MFD_CLOEXEC);
        let mut file = fs::File::from(memory.map_err(|error| unusable(&error))?);
        let written = file.write_all(&program.device_config);
        written.map_err(|error| unusable(&error))?;
        Ok(CompiledFile(file.into()))
    }

    /// Path by which this process can open the memory file.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

fn failure(error: SwitchError) -> Failure {
    match error.exit_code() {
        2 => Failure::bad_input(error.to_string().trim_end()),
        _ => Failure::failed(error),
    }
}
