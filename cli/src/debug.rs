//! `alfirk debug`: a debugger for packets, for editors that speak the Debug Adapter Protocol.

pub mod editor;
mod relay;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alfirk_bmv2::LoadedProgram;
use alfirk_compiler::on_deep_stack;
use alfirk_debug::{Debugger, Host, Launch, Released};
use alfirk_switch::{DebuggedFrame, PacketDebugger, ReleasedPacket};
use scapy::capture;
use serde_json::{json, Value};

use self::editor::Editor;
use self::relay::Relay;
use crate::connection::TlsArgs;
use crate::exit::{Failure, Outcome};
use crate::program::{self, compile_for_test, is_json, SourceFlags};

/// Debug a P4 program in an editor, with the packets of a test or of a running switch (Debug Adapter Protocol).
///
/// Breakpoints by line, table, action, parser state, written field or register, and drop; steps in, over, out and back; headers,
/// metadata, locals, tables, registers and counters. Editors start it themselves; the book shows how for VS Code and Neovim.
///
/// In a running `alfirk switch`, a packet that hits a breakpoint is held until the debugger continues; all others are forwarded.
/// A fabric in virtual time is debugged by `alfirk run --debug`.
///
/// Exit codes: 0 the test passes or the editor ends the session, 1 it fails, 2 the input is not the protocol.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk debug                          as the debug adapter of VS Code or Neovim
  alfirk debug -I include -DPATHS=8     with flags for all programs
  alfirk debug --listen 127.0.0.1:4711  for editors that connect by TCP
  alfirk debug --attach 127.0.0.1:9559  for requests `attach` without an address
  alfirk debug --cacert ca.pem          for a switch that uses TLS

Launch configuration, as VS Code's launch.json has it:
  {\"type\": \"alfirk\", \"request\": \"launch\", \"name\": \"Debug packet test\", \"program\": \"basic.p4\", \"test\": \"basic.stf\"}

Optional: stopOnEntry, seed, includeDirs, defines, arch; capture (a pcap file), port and commands (an STF file) instead of test

For a running switch:
  {\"type\": \"alfirk\", \"request\": \"attach\", \"name\": \"Debug switch\", \"address\": \"127.0.0.1:9559\", \"program\": \"basic.p4\"}

Optional: filter, stopOnEntry, stopAt, holdSeconds, includeDirs, defines, arch")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,

    /// The P4Runtime server of the switch for requests `attach` without an address: ADDRESS:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR")]
    attach: Option<String>,

    #[command(flatten)]
    tls: TlsArgs,

    /// Wait for an editor at this address instead of standard input and output; port 0 for any free one.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
}

/// Runs `alfirk debug` until the editor ends the session.
pub fn run(args: &Args) -> Outcome {
    let mut editor = Editor::connect(args.listen.as_deref())?;
    let mut attaching = None;
    on_deep_stack(|| serve(args, &mut editor, &mut attaching))?;
    match attaching {
        Some((relay, first, seq)) => relay.run(&first, &mut editor, seq),
        None => Ok(()),
    }
}

/// A connection to a switch, the requests for its debugger, and the number of the last message to the editor.
type Attaching = (Relay, Vec<Value>, i64);

/// Handles requests of the editor, up to a successful `attach`.
fn serve(args: &Args, editor: &mut Editor, attaching: &mut Option<Attaching>) -> Outcome {
    let source = args.source.clone();
    let disk = Disk { source };
    let mut debugger = Debugger::new(Box::new(disk.clone()));
    let mut initialize = None;
    let mut seq = 0;
    while !debugger.is_done() {
        let Some(message) = editor.next()? else {
            break;
        };
        let replies = match message["command"].as_str() {
            Some("attach") => match attach(&disk, args, &message) {
                Ok((relay, request)) => {
                    let first = initialize.into_iter().chain([request]);
                    *attaching = Some((relay, first.collect(), seq));
                    return Ok(());
                }
                Err(why) => debugger.refuse(&message, why),
            },
            command => {
                let replies = debugger.handle(&message).map_err(Failure::bad_input)?;
                if command == Some("initialize") {
                    initialize = Some(message);
                }
                replies
            }
        };
        seq += replies.len() as i64;
        if !editor.send(&replies)? {
            return Ok(());
        }
    }
    match debugger.exit_code() {
        None | Some(0) => Ok(()),
        Some(_) => Err(Failure::AlreadyReported(1)),
    }
}

/// Connects to the switch of a request `attach`. Also returns the request for the switch, with the compiled program.
fn attach(disk: &Disk, args: &Args, request: &Value) -> Result<(Relay, Value), String> {
    let named = request
        .pointer("/arguments/address")
        .and_then(Value::as_str);
    let address = named.or(args.attach.as_deref());
    let address = address
        .ok_or("`attach` needs the attribute `address`, that of the switch's P4Runtime server")?;
    let mut request = request.clone();
    if request
        .pointer("/arguments/program")
        .is_some_and(|program| !program.is_null())
    {
        let launch: Launch = serde_json::from_value(request["arguments"].clone())
            .map_err(|error| format!("wrong arguments: {error}"))?;
        request["arguments"]["compiled"] = json!(disk.compilations(&launch)?);
    }
    Ok((Relay::connect(address, &args.tls)?, request))
}

/// Creates the debugger of a running switch that runs the program in this BMv2 JSON.
pub fn of_switch(json: &str) -> Box<dyn PacketDebugger> {
    let parse = |text: &str, json: &str| alfirk_switch::frame_filter(text, Some(json));
    Box::new(OfSwitch(Debugger::of_switch(json, parse)))
}

/// The debugger in a switch.
struct OfSwitch(Debugger);

impl PacketDebugger for OfSwitch {
    fn handle(&mut self, message: &str) -> Result<Vec<String>, String> {
        let message = serde_json::from_str(message)
            .map_err(|error| format!("the content of a message is not JSON: {error}"))?;
        self.0.handle(&message).map(to_text)
    }

    fn program(&self) -> Option<&Arc<LoadedProgram>> {
        self.0.program()
    }

    fn wants(&self, frame: &[u8]) -> bool {
        self.0.wants(frame)
    }

    fn packet(&mut self, id: u64, frame: DebuggedFrame) -> (bool, Vec<String>) {
        let DebuggedFrame {
            port,
            bytes,
            at,
            before,
        } = frame;
        let (is_held, messages) = self.0.packet(id, (port, at), bytes, before);
        (is_held, to_text(messages))
    }

    fn take_released(&mut self) -> Vec<ReleasedPacket> {
        let released = self.0.take_released().into_iter();
        let packets = released.map(|Released { id, frames }| ReleasedPacket { id, frames });
        packets.collect()
    }

    fn hold_time(&self) -> Duration {
        Duration::from_secs(self.0.hold_seconds())
    }

    fn expired(&mut self, id: u64) -> Vec<String> {
        to_text(self.0.expired(id))
    }

    fn end(&mut self, why: &str) -> Vec<String> {
        to_text(self.0.end_live(why))
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

fn to_text(messages: Vec<Value>) -> Vec<String> {
    messages.iter().map(Value::to_string).collect()
}

/// Files of this machine. The flags of the command are defaults for launch configurations.
#[derive(Clone)]
struct Disk {
    source: SourceFlags,
}

impl Disk {
    /// Returns a program as BMv2 JSON in the forms that a switch may run: as this command compiles it for tests, and as
    /// `alfirk switch` compiles it.
    fn compilations(&self, launch: &Launch) -> Result<Vec<String>, String> {
        let mut all = vec![self.program(launch)?];
        if !is_json(&launch.program) {
            let options = self.flags(launch).options(&launch.program);
            let options = options.map_err(|error| error.message())?;
            let compiled = program::compile_source(&options).map_err(|error| error.message())?;
            all.push(compiled.json.to_text());
        }
        Ok(all)
    }

    /// Returns the flags for a program: those of the command, and those of the configuration.
    fn flags(&self, launch: &Launch) -> SourceFlags {
        let mut source = self.source.clone();
        source.include.extend(launch.include_dirs.iter().cloned());
        source.define.extend(launch.defines.iter().cloned());
        if let Some(arch) = &launch.arch {
            source.arch.clone_from(arch);
        }
        source
    }
}

impl Host for Disk {
    fn program(&self, launch: &Launch) -> Result<String, String> {
        let path = &launch.program;
        if is_json(path) {
            return self.text(path);
        }
        let compiled = compile_for_test(&self.flags(launch), path);
        let compiled = compiled.map_err(|error| error.message())?;
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
