//! Ports whose interfaces have a queueing discipline, as Mininet's TCLink sets them.

use std::{path::Path, process::Command, time::Instant};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_p4runtime::p4::v1::ForwardingPipelineConfig;
use tokio::runtime::Runtime;

use crate::{
    fixture, forward,
    links::Links,
    net::Wire,
    process::{Controller, Process},
    start, DEADLINE, FAR, NEAR,
};

/// Limits a port's interface to 125 frames of 1,000 bytes per second.
const SLOW: [&str; 2] = [
    "qdisc add dev near2 root handle 5: htb default 1",
    "class add dev near2 parent 5: classid 5:1 htb rate 1mbit burst 15k",
];

fn slow_down() {
    for line in SLOW {
        tc(line);
    }
}

fn tc(line: &str) -> String {
    let output = Command::new("tc")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tc {line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of frames sent by the second port's queueing discipline.
fn sent_by_discipline() -> u64 {
    let text = tc("-s qdisc show dev near2 root");
    // ` Sent 3000 bytes 3 pkt (dropped 0, ...`
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "pkt");
    words[at.expect("statistics") - 1].parse().unwrap()
}

/// Returns a frame for the program `queues.p4`.
fn frame(port: u8, priority: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2; 14];
    frame.extend([port, priority]);
    frame.extend(number.to_be_bytes());
    frame.resize(1000, 0);
    frame
}

/// Values that the program writes into the frame.
#[derive(Debug)]
struct Seen {
    priority: u8,
    number: u32,
    enq_qdepth: u32,
    deq_qdepth: u32,
    deq_timedelta: u32,
}

fn seen(frame: &[u8]) -> Seen {
    let long = |at: usize| u32::from_be_bytes(*frame[at..].first_chunk().unwrap());
    Seen {
        priority: frame[15],
        number: long(16),
        enq_qdepth: long(20),
        deq_qdepth: long(24),
        deq_timedelta: long(28),
    }
}

/// Starts a switch with the program `queues.p4`, two priorities, and queues for all frames of the tests.
fn start_with_queues() -> (Runtime, Process) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/queues.p4");
    let program = compile(&CompileOptions::new(source)).unwrap_or_else(|error| panic!("{error}"));
    let config = ForwardingPipelineConfig {
        p4info: Some(program.p4info),
        p4_device_config: program.json.to_text().into_bytes().into(),
        cookie: None,
    };
    let queues = ["--priority-queues", "2"].map(String::from);
    let process = Process::start_with(
        &["-i1@near1", "-i2@near2", "--queue-depth", "1000"],
        &queues,
    );
    let runtime = Runtime::new().unwrap();
    let mut controller = runtime.block_on(Controller::connect(process.address()));
    runtime.block_on(controller.set_pipeline(config));
    (runtime, process)
}

pub fn a_slow_discipline_fills_only_the_queues_of_its_port() {
    const BULK: u32 = 200;
    const URGENT: u32 = 5;
    slow_down();
    let (runtime, process) = start_with_queues();
    let mut links = Links::connect(&runtime, &process);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    for number in 0..BULK {
        one.send(&frame(2, 0, number));
    }
    for number in 0..URGENT {
        one.send(&frame(2, 1, number));
    }
    // The other port sends without delay.
    two.send(&frame(1, 0, 0));
    let other = one
        .receive(DEADLINE)
        .expect("the other port is not held up");
    assert_eq!(seen(&other).deq_qdepth, 0);
    // The switch receives frames from each port in batches.
    let deadline = Instant::now() + DEADLINE;
    loop {
        let waiting = links.list(&[2]).unwrap()[0].counters.unwrap();
        if waiting.queued > 20 {
            break;
        }
        assert!(Instant::now() < deadline, "{waiting:?}");
    }

    let all: Vec<Seen> = (0..BULK + URGENT)
        .map(|_| seen(&two.receive(DEADLINE).expect("nothing is lost")))
        .collect();
    let numbers = |priority: u8| -> Vec<u32> {
        let of = all.iter().filter(|seen| seen.priority == priority);
        of.map(|seen| seen.number).collect()
    };
    assert_eq!(numbers(0), Vec::from_iter(0..BULK), "each in its order");
    assert_eq!(numbers(1), Vec::from_iter(0..URGENT));
    let last_urgent = all.iter().rposition(|seen| seen.priority == 1).unwrap();
    let overtaken = all.len() - 1 - last_urgent;
    assert!(overtaken > 20, "the urgent pass {overtaken} that wait");

    // Frames that the kernel accepted at once saw empty queues; then the queues fill and drain.
    assert!(all[..50].iter().all(|seen| seen.deq_qdepth == 0), "{all:?}");
    let deepest = all.iter().map(|seen| seen.deq_qdepth).max().unwrap();
    assert!(deepest > 20, "{deepest}");
    let bulk = all.iter().filter(|seen| seen.priority == 0);
    let waited = bulk.filter(|seen| seen.enq_qdepth > 20);
    // The kernel accepts frames in batches, so those behind twenty others wait.
    assert!(waited.clone().count() > 20);
    assert!(
        waited.clone().all(|seen| seen.deq_timedelta > 8000),
        "{all:?}"
    );
    assert_eq!(all.last().unwrap().deq_qdepth, 0);

    assert_eq!(sent_by_discipline(), u64::from(BULK + URGENT));
    let counters = links.list(&[2]).unwrap()[0].counters.unwrap();
    assert_eq!(counters.sent, u64::from(BULK + URGENT));
    assert_eq!((counters.not_sent, counters.queue_full), (0, 0));
    process.stop();
}

pub fn drops_of_a_discipline_are_counted() {
    // Space for three frames, and one per 8 ms.
    tc("qdisc add dev near2 root handle 5: tbf rate 1mbit burst 1100 limit 3100");
    let (runtime, process) = start_with_queues();
    let mut links = Links::connect(&runtime, &process);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    for number in 0..50 {
        one.send(&frame(2, 0, number));
    }
    // The marker is repeated until it arrives.
    let mut arrived = Vec::new();
    while arrived.last() != Some(&99) {
        if arrived.len() >= 3 {
            one.send(&frame(2, 0, 99));
        }
        let next = two.receive(DEADLINE).expect("frames go on");
        arrived.push(seen(&next).number);
    }
    assert_eq!(arrived[..3], [0, 1, 2]);
    let counters = links.list(&[2]).unwrap()[0].counters.unwrap();
    assert!(counters.not_sent >= 20, "{counters:?}");
    process.stop();
}

pub fn disciplines_may_be_added_and_removed_while_the_switch_runs() {
    let (runtime, mut process, mut controller) = start(&["--log-console"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let cross = |count: usize| {
        for _ in 0..count {
            one.send(&fixture::frame(5));
            assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
        }
    };
    cross(3);
    slow_down();
    let line = process.wait_for_line("frames pass the interface's queueing discipline");
    assert!(line.contains(NEAR[1]) && line.contains("htb"), "{line}");
    cross(4);
    assert_eq!(sent_by_discipline(), 4);
    tc("qdisc del dev near2 root");
    process.wait_for_line("no queueing discipline any more");
    cross(5);
    process.stop();
}
