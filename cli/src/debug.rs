//! `alfirk debug`: a debugger for packets, for editors that speak the Debug Adapter Protocol.

use std::io::{self, Read, Write};
use std::path::Path;

use alfirk_compiler::on_deep_stack;
use alfirk_debug::{encode, Debugger, Decoder, Host, Launch};
use scapy::capture;

use crate::exit::{Failure, Outcome};
use crate::program::{compile_for_test, is_json, SourceFlags};

/// Debug a P4 program with the packets of a test, in an editor (Debug Adapter Protocol on standard input and output).
///
/// Breakpoints by line, table, action, parser state, written field or register, and drop; steps in, over, out and back; headers,
/// metadata, locals, tables, registers and counters. Editors start it themselves; the book shows how for VS Code and Neovim.
///
/// Exit codes: 0 the test passes or the editor ends the session, 1 it fails, 2 the input is not the protocol.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk debug                          as the debug adapter of VS Code or Neovim
  alfirk debug -I include -DPATHS=8     with flags for all programs

Launch configuration, as VS Code's launch.json has it:
  {\"type\": \"alfirk\", \"request\": \"launch\", \"name\": \"Debug packet test\", \"program\": \"basic.p4\", \"test\": \"basic.stf\"}

Optional: stopOnEntry, seed, includeDirs, defines, arch; capture (a pcap file), port and commands (an STF file) instead of test")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
}

/// Runs `alfirk debug` until the editor ends the session.
pub fn run(args: &Args) -> Outcome {
    let source = args.source.clone();
    on_deep_stack(move || serve(source))
}

fn serve(source: SourceFlags) -> Outcome {
    let mut debugger = Debugger::new(Box::new(Disk { source }));
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut decoder = Decoder::default();
    let mut buffer = [0; 1 << 16];
    while !debugger.is_done() {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::bad_input(format!("standard input: {error}"))),
        };
        decoder.push(&buffer[..count]);
        while let Some(message) = decoder.take_message().map_err(Failure::bad_input)? {
            for reply in debugger.handle(&message).map_err(Failure::bad_input)? {
                let written = output
                    .write_all(&encode(&reply))
                    .and_then(|()| output.flush());
                match written {
                    Ok(()) => {}
                    // The editor is gone.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    Err(error) => return Err(Failure::failed(format!("standard output: {error}"))),
                }
            }
        }
    }
    decoder.end().map_err(Failure::bad_input)?;
    match debugger.exit_code() {
        None | Some(0) => Ok(()),
        Some(_) => Err(Failure::AlreadyReported(1)),
    }
}

/// Files of this machine. The flags of the command are defaults for launch configurations.
struct Disk {
    source: SourceFlags,
}

impl Host for Disk {
    fn program(&self, launch: &Launch) -> Result<String, String> {
        let path = &launch.program;
        if is_json(path) {
            return self.text(path);
        }
        let mut source = self.source.clone();
        source.include.extend(launch.include_dirs.iter().cloned());
        source.define.extend(launch.defines.iter().cloned());
        if let Some(arch) = &launch.arch {
            source.arch.clone_from(arch);
        }
        let compiled = compile_for_test(&source, path).map_err(|error| error.message())?;
        Ok(compiled.json.to_text())
    }

    fn text(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn capture(&self, path: &Path) -> Result<Vec<Vec<u8>>, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let content = std::fs::read(path).map_err(|error| named(&error))?;
        let frames = capture::read(&content).map_err(|error| named(&error))?;
        Ok(frames.into_iter().map(|frame| frame.bytes).collect())
    }
}
