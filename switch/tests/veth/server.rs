//! The P4Runtime server of a process: its addresses, and reconnecting controllers.

use std::{
    fs,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use crate::{
    fixture, forward,
    net::Wire,
    process::{Controller, Process},
    start, DEADLINE, FAR,
};
use tokio::runtime::Runtime;

pub fn the_server_listens_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.sock");
    let address = format!("unix:{}", path.display());
    let process = Process::start_at(&address, &[], &[]);
    assert_eq!(process.address(), address);
    let runtime = Runtime::new().unwrap();
    let mut controller = runtime.block_on(Controller::connect(&address));
    runtime.block_on(controller.set_pipeline(fixture::config()));
    process.stop();
    assert!(!path.exists(), "the switch takes its socket away");
}

pub fn the_unix_socket_of_a_killed_switch_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.sock");
    let address = format!("unix:{}", path.display());
    drop(Process::start_at(&address, &[], &[]));
    assert!(path.exists(), "a killed switch takes nothing away");
    let process = Process::start_at(&address, &[], &[]);

    let refused = |address: &str| {
        let (status, output) = Process::fail_at(address, &[]);
        assert_eq!(status, Some(1), "{output}");
        assert!(output.contains("another switch uses it"), "{output}");
    };
    refused(&address);
    let file = folder.path().join("file");
    fs::write(&file, "data").unwrap();
    refused(&format!("unix:{}", file.display()));
    assert_eq!(fs::read_to_string(file).unwrap(), "data");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(Controller::connect(&address));
    process.stop();
}

pub fn a_flood_of_connections_does_not_affect_others() {
    let process = Process::start(&[]);
    process.limit_files(32);
    let connect = || TcpStream::connect(process.address()).unwrap();
    let flood: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    // No event is visible from outside; the wait is the measurement.
    let (before, since) = (process.busy(), Instant::now());
    thread::sleep(Duration::from_secs(1));
    let (used, passed) = (process.busy() - before, since.elapsed());
    assert!(used < passed / 2, "{used:?} of {passed:?}");
    drop(flood);
    Runtime::new()
        .unwrap()
        .block_on(Controller::connect(process.address()));
    process.stop();
}

pub fn forwarding_continues_without_a_controller() {
    let (runtime, process, mut controller) = start(&[]);
    forward(&runtime, &mut controller, 5, 2);
    // Its connections end like those of a killed process.
    drop(controller);
    drop(runtime);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));

    // The next controller reads the current state.
    let runtime = Runtime::new().unwrap();
    let mut controller = runtime.block_on(Controller::connect(process.address()));
    forward(&runtime, &mut controller, 6, 2);
    for destination in [5, 6] {
        one.send(&fixture::frame(destination));
        assert_eq!(two.receive(DEADLINE), Some(fixture::frame(destination)));
    }
    process.stop();
}
