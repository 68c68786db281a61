//! `alfirk cli` with scripts as input, connected to a scripted server or to our switch.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use alfirk_thrift::standard::{self, BmAddEntryOptions, BmMatchParamType, BmMtEntry};
use alfirk_thrift::{simple_pre_lag, simple_switch, Call, Incoming, Reply, Requests};

/// The JSON of `live.p4`.
fn program() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live.p4");
    let options = alfirk_compiler::driver::CompileOptions::new(source);
    let compiled = alfirk_compiler::driver::compile(&options).expect("live.p4 compiles");
    compiled.json.to_text()
}

/// Runs the CLI on a script; returns the requests to the server, except those for the program.
fn run(script: &str, answer: impl Fn(&Call) -> Reply + Send + 'static) -> (Output, Vec<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let json = program();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the CLI connects");
        let mut requests = Requests::new(&stream, &stream);
        let mut asked = Vec::new();
        while let Ok(Incoming::Request(ticket, call)) = requests.receive() {
            let reply = match &*call {
                Call::Standard(standard::Call::BmGetConfig(_)) => {
                    Reply::Standard(standard::Reply::BmGetConfig(json.clone()))
                }
                call => {
                    asked.push(call.clone());
                    answer(call)
                }
            };
            requests
                .send_reply(&ticket, &reply)
                .expect("the CLI listens");
        }
        asked
    });
    let output = cli(
        &[
            "--thrift-ip",
            "127.0.0.1",
            "--thrift-port",
            &port.to_string(),
        ],
        script,
    );
    (output, server.join().expect("the server has not failed"))
}

fn cli(args: &[&str], script: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("cli")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut input = child.stdin.take().expect("it is piped");
    // A command that could not connect has already ended.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    child.wait_with_output().expect("it ends with its input")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const HEAD: &str =
    "Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation\n";

#[test]
fn entries_are_added_with_the_arguments_that_the_table_needs() {
    let script = "table_add routes forward 0x2&&&0xf 1 5->9 => 3 10\n\
                  table_add prefixes drop 0a:00:00:00:00:00/8 7&&&0xffff => 1\n";
    let (output, asked) = run(script, |call| match call {
        Call::Standard(standard::Call::BmMtAddEntry(add)) => {
            Reply::Standard(standard::Reply::BmMtAddEntry(match &*add.table_name {
                "I.routes" => Ok(0x0100_0000),
                _ => Err(standard::TableOperationErrorCode::DuplicateEntry.into()),
            }))
        }
        other => panic!("not asked for: {other:?}"),
    });
    assert_eq!(
        text(&output.stdout),
        HEAD.to_owned()
            + "RuntimeCmd: Adding entry to range match table routes\n\
               match key:           TERNARY-00:00:00:00:00:02 &&& 00:00:00:00:00:0f\tEXACT-01\tRANGE-00:05 -> 00:09\n\
               action:              forward\n\
               runtime data:        00:03\n\
               Entry has been added with handle 16777216\n\
               RuntimeCmd: Adding entry to ternary match table prefixes\n\
               match key:           LPM-0a:00:00:00:00:00/8\tTERNARY-00:07 &&& ff:ff\n\
               action:              drop\n\
               runtime data:        \n\
               Invalid table operation (DUPLICATE_ENTRY)\n\
               RuntimeCmd: \n"
    );
    assert_eq!(output.status.code(), Some(0));
    let Call::Standard(standard::Call::BmMtAddEntry(add)) = &asked[0] else {
        panic!("not asked for: {:?}", asked[0]);
    };
    assert_eq!(
        (&*add.table_name, &*add.action_name),
        ("I.routes", "I.forward")
    );
    assert_eq!(add.action_data, [[0, 3]]);
    assert_eq!(add.options.priority, Some(10));
    let kinds: Vec<_> = add.match_key.iter().map(|param| param.r#type).collect();
    assert_eq!(
        kinds,
        [
            BmMatchParamType::Ternary,
            BmMatchParamType::Exact,
            BmMatchParamType::Range
        ]
    );
}

#[test]
fn a_table_is_dumped_with_its_default_entry() {
    let (output, _) = run("table_dump prefixes\n", |call| match call {
        Call::Standard(standard::Call::BmMtGetEntries(_)) => {
            let entry = BmMtEntry {
                options: BmAddEntryOptions { priority: Some(4) },
                entry_handle: 1,
                ..Default::default()
            };
            Reply::Standard(standard::Reply::BmMtGetEntries(Ok(vec![entry])))
        }
        Call::Standard(standard::Call::BmMtGetDefaultEntry(_)) => {
            Reply::Standard(standard::Reply::BmMtGetDefaultEntry(Ok(Default::default())))
        }
        other => panic!("not asked for: {other:?}"),
    });
    assert_eq!(
        text(&output.stdout),
        HEAD.to_owned()
            + "RuntimeCmd: ==========\nTABLE ENTRIES\n**********\nDumping entry 0x1\nMatch key:\n\
               Priority: 4\nEMPTY\n==========\nDumping default entry\nEMPTY\n==========\nRuntimeCmd: \n"
    );
}

#[test]
fn multicast_clone_and_register_commands_use_their_services() {
    let script = "# a node with two ports\n\
                  mc_node_create 7 1 2\n\
                  mirroring_add 9 2\n\
                  register_read sources 1\n\
                  quit\n\
                  register_read sources 2\n";
    let (output, asked) = run(script, |call| match call {
        Call::SimplePreLag(simple_pre_lag::Call::BmMcNodeCreate(_)) => {
            Reply::SimplePreLag(simple_pre_lag::Reply::BmMcNodeCreate(Ok(4)))
        }
        Call::SimpleSwitch(simple_switch::Call::MirroringSessionAdd(_)) => {
            Reply::SimpleSwitch(simple_switch::Reply::MirroringSessionAdd(Ok(())))
        }
        Call::Standard(standard::Call::BmRegisterRead(_)) => {
            Reply::Standard(standard::Reply::BmRegisterRead(Ok(-1)))
        }
        other => panic!("not asked for: {other:?}"),
    });
    assert_eq!(
        text(&output.stdout),
        HEAD.to_owned()
            + "RuntimeCmd: RuntimeCmd: Creating node with rid 7 , port map 110 and lag map \n\
               node was created with handle 4\n\
               RuntimeCmd: RuntimeCmd: sources[1]= -1\nRuntimeCmd: "
    );
    assert_eq!(asked.len(), 3);
    let Call::SimplePreLag(simple_pre_lag::Call::BmMcNodeCreate(node)) = &asked[0] else {
        panic!("not asked for: {:?}", asked[0]);
    };
    assert_eq!((&*node.port_map, node.rid), ("110", 7));
}

#[test]
fn wrong_line_is_reported_and_the_next_one_executed() {
    let script = "table_add nowhere a 1 =>\nfly\nregister_read\nswap_configs\n";
    let (output, asked) = run(script, |_| {
        let refused = standard::SwapOperationErrorCode::NoOngoingSwap;
        Reply::Standard(standard::Reply::BmSwapConfigs(Err(refused.into())))
    });
    assert_eq!(
        text(&output.stdout),
        HEAD.to_owned()
            + "RuntimeCmd: Error: Invalid table name (nowhere)\n\
               RuntimeCmd: *** Unknown syntax: fly\n\
               RuntimeCmd: Error: Insufficient number of args\n\
               RuntimeCmd: Swapping configs\nInvalid swap operation (NO_ONGOING_SWAP)\nRuntimeCmd: \n"
    );
    assert_eq!(asked.len(), 1);
}

#[test]
fn missing_switch_is_reported_with_exit_code_1() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let output = cli(&["--thrift-port", &port.to_string()], "show_tables\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        format!(
            "Could not connect to thrift client on port {port}\n\
             Make sure the switch is running and that you have the right port\n"
        )
    );
}

/// A switch of its own process, ended when dropped.
struct Switch(Child);

impl Drop for Switch {
    fn drop(&mut self) {
        // Fails if the process has already ended, which is not an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts our switch without ports, under the name `simple_switch`, and waits for its Thrift server.
fn started(json: &Path) -> (Switch, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg0("simple_switch")
        .args(["--thrift-port", &port.to_string()])
        .arg(json)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was just built");
    let mut switch = Switch(child);
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = switch.0.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "the switch has ended: {ended:?}");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no Thrift server at port {port}"
        );
        thread::sleep(Duration::from_millis(10));
    }
    (switch, port)
}

#[test]
fn a_script_configures_a_switch_and_reads_its_state() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let json = folder.path().join("live.json");
    std::fs::write(&json, program()).expect("the folder can be written");
    let (_switch, port) = started(&json);
    let script = "table_add routes forward 0x2&&&0xf 1 5->9 => 3 10\n\
                  table_add routes forward 0x2&&&0xf 1 5->9 => 4 10\n\
                  table_dump routes\n\
                  counter_write hits 0 2 128\n\
                  counter_read hits 0\n\
                  register_write sources 1 42\n\
                  register_read sources 1\n\
                  register_read sources 9\n\
                  meter_set_rates rates 1 0.5:10 1:20\n\
                  meter_get_rates rates 1\n\
                  mc_mgrp_create 3\n\
                  mc_node_create 7 1 2\n\
                  mc_node_associate 3 0\n\
                  mc_dump\n\
                  mirroring_add 9 2\n\
                  mirroring_get 9\n\
                  table_delete routes 0\n\
                  table_num_entries routes\n";
    let output = cli(&["--thrift-port", &port.to_string()], script);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let added = "RuntimeCmd: Adding entry to range match table routes\n\
                 match key:           TERNARY-00:00:00:00:00:02 &&& 00:00:00:00:00:0f\tEXACT-01\tRANGE-00:05 -> 00:09\n\
                 action:              forward\n\
                 runtime data:        00:0";
    assert_eq!(
        text(&output.stdout),
        format!(
            "{HEAD}{added}3\n\
             Entry has been added with handle 0\n\
             {added}4\n\
             Invalid table operation (DUPLICATE_ENTRY)\n\
             RuntimeCmd: ==========\nTABLE ENTRIES\n**********\n\
             Dumping entry 0x0\nMatch key:\n\
             * ethernet.dst        : TERNARY   000000000002 &&& 00000000000f\n\
             * ethernet_valid      : EXACT     01\n\
             * ethernet.kind       : RANGE     0005 -> 0009\n\
             Priority: 10\nAction entry: I.forward - 03\n\
             ==========\nDumping default entry\nAction entry: I.drop - \n==========\n\
             RuntimeCmd: writing to direct counter for table I.routes\nhits[0] has been updated\n\
             RuntimeCmd: this is the direct counter for table I.routes\nhits[0]= (128 bytes, 2 packets)\n\
             RuntimeCmd: RuntimeCmd: sources[1]= 42\n\
             RuntimeCmd: Invalid register operation (INVALID_INDEX)\n\
             RuntimeCmd: RuntimeCmd: 0: info rate = 0.5, burst size = 10\n1: info rate = 1.0, burst size = 20\n\
             RuntimeCmd: Creating multicast group 3\n\
             RuntimeCmd: Creating node with rid 7 , port map 110 and lag map \nnode was created with handle 0\n\
             RuntimeCmd: Associating node 0 to multicast group 3\n\
             RuntimeCmd: ==========\nMC ENTRIES\n**********\nmgrp(3)\n\
             \x20 -> (L1h=0, rid=7) -> (ports=[1, 2], lags=[])\n==========\nLAGS\n==========\n\
             RuntimeCmd: RuntimeCmd: MirroringSessionConfig(port=2, mgid=None)\n\
             RuntimeCmd: Deleting entry 0 from routes\n\
             RuntimeCmd: 0\nRuntimeCmd: \n"
        )
    );
}

#[test]
fn a_program_different_from_the_loaded_one_causes_a_warning() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let json = folder.path().join("live.json");
    std::fs::write(&json, program()).expect("the folder can be written");
    let (_switch, port) = started(&json);
    let port = port.to_string();
    let given = |json: &Path| {
        let json = json.to_str().expect("its name is plain");
        text(&cli(&["--thrift-port", &port, "--json", json], "show_actions\n").stdout)
    };
    let same = given(&json);
    assert!(same.starts_with("Control utility"), "{same}");
    let other = folder.path().join("other.json");
    std::fs::write(&other, program() + "\n").expect("the folder can be written");
    let warned = given(&other);
    assert!(warned.contains("don't have the same md5 sum"), "{warned}");
}
