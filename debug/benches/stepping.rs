//! Steps of the debugger in the built-in program, forward and backward: messages of the protocol in, messages out.

use std::path::{Path, PathBuf};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_debug::{Debugger, Host, Launch};
use serde_json::{json, Value};

/// Number of packets of the test.
const PACKETS: usize = 100;

/// An IPv4 packet that the built-in program parses and drops.
const PACKET: &str = "packet 1 02000000000102000000000208004500001c0000000040110000\
                      c0a80001c0a80002000012b700080000\n";

fn main() {
    divan::main();
}

struct Files;

impl Host for Files {
    fn program(&self, launch: &Launch) -> Result<String, String> {
        let compiled =
            compile(&CompileOptions::new(&launch.program)).map_err(|error| error.to_string())?;
        Ok(compiled.json.to_text())
    }

    fn text(&self, _: &Path) -> Result<String, String> {
        Ok(PACKET.repeat(PACKETS))
    }

    fn capture(&self, _: &Path) -> Result<Vec<Vec<u8>>, String> {
        Err("there are no captures".to_owned())
    }
}

fn request(debugger: &mut Debugger, command: &str, arguments: Value) {
    let request = json!({"seq": 1, "type": "request", "command": command, "arguments": arguments});
    let replies = debugger.handle(&request).expect("it is a request");
    assert_eq!(replies[0]["success"], true, "{}", replies[0]);
}

/// Returns a debugger after 1,100 steps.
fn debugger() -> Debugger {
    let mut debugger = Debugger::new(Box::new(Files));
    let program: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../p4src/v1model/main.p4"]
        .iter()
        .collect();
    let launch = json!({"program": program, "test": "test", "stopOnEntry": true});
    request(&mut debugger, "launch", launch);
    request(&mut debugger, "configurationDone", json!({}));
    steps(&mut debugger, "stepIn", 1_100);
    debugger
}

fn steps(debugger: &mut Debugger, command: &str, count: usize) {
    for _ in 0..count {
        request(debugger, command, json!({"threadId": 1}));
    }
}

/// 1,000 steps back, and 1,000 forward in the recording.
#[divan::bench(sample_count = 20)]
fn thousand_back_and_forward(bencher: divan::Bencher) {
    let mut debugger = debugger();
    bencher.bench_local(|| {
        steps(&mut debugger, "stepBack", 1_000);
        steps(&mut debugger, "stepIn", 1_000);
    });
}

/// The stack, the scopes and the headers at a stop, as editors request them after each step.
#[divan::bench]
fn view_of_a_stop(bencher: divan::Bencher) {
    let mut debugger = debugger();
    bencher.bench_local(|| {
        request(&mut debugger, "stackTrace", json!({"threadId": 1}));
        request(&mut debugger, "scopes", json!({"frameId": 1}));
        request(&mut debugger, "variables", json!({"variablesReference": 2}));
    });
}
