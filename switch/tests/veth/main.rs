//! `alfirk switch` as a process on veth pairs, controlled over gRPC.
//!
//! The test runs in its own network namespace, which the kernel removes when the process ends. This needs root; without
//! it, the cases with ports are ignored, and the test prints why.

#[allow(dead_code)]
#[path = "../../../p4rt/tests/fuzz/chance.rs"]
mod chance;
#[allow(dead_code)]
#[path = "../../../p4rt/tests/server/fixture.rs"]
mod fixture;
mod hostile;
mod links;
mod net;
mod process;
mod robustness;
mod server;
mod shaping;
mod soak;
mod sockets;
mod streams;
mod tls;

use std::time::Duration;

use alfirk_p4runtime::p4::v1::*;
use tokio::runtime::Runtime;

use net::{ip, Wire};
use process::{Controller, Process};

/// The far end of each port's veth pair.
const FAR: [&str; 2] = ["far1", "far2"];
const NEAR: [&str; 2] = ["near1", "near2"];
const DEADLINE: Duration = Duration::from_secs(10);

type Case = (&'static str, fn());

/// Cases without ports, which do not need root.
const PORTLESS: &[Case] = &[
    (
        "the_server_listens_on_a_unix_socket",
        server::the_server_listens_on_a_unix_socket,
    ),
    (
        "the_unix_socket_of_a_killed_switch_is_replaced",
        server::the_unix_socket_of_a_killed_switch_is_replaced,
    ),
    (
        "a_flood_of_connections_does_not_affect_others",
        server::a_flood_of_connections_does_not_affect_others,
    ),
    (
        "clients_that_trust_the_authority_are_served",
        tls::clients_that_trust_the_authority_are_served,
    ),
    (
        "clients_without_a_required_certificate_are_rejected",
        tls::clients_without_a_required_certificate_are_rejected,
    ),
    (
        "errors_of_tls_files_name_the_file",
        tls::errors_of_tls_files_name_the_file,
    ),
];

const CASES: &[Case] = &[
    (
        "frames_are_forwarded_between_ports",
        frames_are_forwarded_between_ports,
    ),
    (
        "a_frame_too_long_for_a_link_affects_no_others",
        a_frame_too_long_for_a_link_affects_no_others,
    ),
    (
        "packets_are_exchanged_with_the_controller",
        packets_are_exchanged_with_the_controller,
    ),
    ("vlan_tags_are_kept", vlan_tags_are_kept),
    (
        "checksums_of_kernel_packets_are_complete",
        checksums_of_kernel_packets_are_complete,
    ),
    (
        "an_interface_may_be_removed_and_added_again",
        an_interface_may_be_removed_and_added_again,
    ),
    (
        "links_lose_the_frames_that_the_seed_determines",
        links_lose_the_frames_that_the_seed_determines,
    ),
    ("delayed_frames_arrive_late", delayed_frames_arrive_late),
    (
        "links_with_a_rate_queue_faster_traffic",
        links_with_a_rate_queue_faster_traffic,
    ),
    (
        "links_change_while_the_switch_runs",
        links::links_change_while_the_switch_runs,
    ),
    (
        "backups_are_used_while_a_link_is_cut",
        links::backups_are_used_while_a_link_is_cut,
    ),
    (
        "queued_packets_are_sent_when_a_rate_is_removed",
        links::queued_packets_are_sent_when_a_rate_is_removed,
    ),
    (
        "invalid_links_change_nothing",
        links::invalid_links_change_nothing,
    ),
    (
        "a_slow_discipline_fills_only_the_queues_of_its_port",
        shaping::a_slow_discipline_fills_only_the_queues_of_its_port,
    ),
    (
        "drops_of_a_discipline_are_counted",
        shaping::drops_of_a_discipline_are_counted,
    ),
    (
        "disciplines_may_be_added_and_removed_while_the_switch_runs",
        shaping::disciplines_may_be_added_and_removed_while_the_switch_runs,
    ),
    ("traces_are_printed", traces_are_printed),
    (
        "the_log_has_the_steps_of_packets",
        the_log_has_the_steps_of_packets,
    ),
    (
        "metrics_count_frames_and_requests",
        metrics_count_frames_and_requests,
    ),
    (
        "forwarding_continues_without_a_controller",
        server::forwarding_continues_without_a_controller,
    ),
    (
        "an_idle_switch_uses_no_processor_time_and_little_memory",
        an_idle_switch_uses_no_processor_time_and_little_memory,
    ),
    (
        "errors_at_the_start_name_their_cause",
        errors_at_the_start_name_their_cause,
    ),
    (
        "frames_of_all_lengths_arrive_by_each_kind_of_socket",
        sockets::frames_of_all_lengths_arrive_by_each_kind_of_socket,
    ),
    (
        "vlan_tags_are_sent_by_each_kind_of_socket",
        sockets::vlan_tags_are_sent_by_each_kind_of_socket,
    ),
    (
        "a_killed_switch_leaves_the_interface_to_the_next_one",
        sockets::a_killed_switch_leaves_the_interface_to_the_next_one,
    ),
    (
        "the_xdp_socket_follows_its_interface",
        sockets::the_xdp_socket_follows_its_interface,
    ),
    (
        "tcp_segments_arrive_unchanged",
        streams::tcp_segments_arrive_unchanged,
    ),
    (
        "signals_end_the_switch_under_load_and_files_are_complete",
        robustness::signals_end_the_switch_under_load_and_files_are_complete,
    ),
    (
        "bursts_stay_in_order_and_dropped_frames_are_counted",
        robustness::bursts_stay_in_order_and_dropped_frames_are_counted,
    ),
    (
        "replacing_the_program_under_load_loses_few_packets",
        robustness::replacing_the_program_under_load_loses_few_packets,
    ),
    (
        "streams_beyond_the_limit_are_rejected",
        hostile::streams_beyond_the_limit_are_rejected,
    ),
    (
        "clients_that_do_not_read_use_little_memory",
        hostile::clients_that_do_not_read_use_little_memory,
    ),
    (
        "a_batch_of_failing_updates_gets_a_complete_status",
        hostile::a_batch_of_failing_updates_gets_a_complete_status,
    ),
    (
        "random_bytes_on_the_socket_do_not_harm_the_switch",
        hostile::random_bytes_on_the_socket_do_not_harm_the_switch,
    ),
    (
        "requests_with_random_bytes_do_not_harm_the_switch",
        hostile::requests_with_random_bytes_do_not_harm_the_switch,
    ),
    (
        "memory_does_not_grow_at_full_rate_and_churn",
        soak::memory_does_not_grow_at_full_rate_and_churn,
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|first| first == process::AS_SWITCH)
    {
        process::run_as_switch(&arguments[2..]);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        // cargo-nextest lists ignored tests a second time, alone.
        let cases: Vec<&Case> = match arguments.iter().any(|argument| argument == "--ignored") {
            false => PORTLESS.iter().chain(CASES).collect(),
            true if net::enter_own_namespace().is_ok() => Vec::new(),
            true => CASES.iter().collect(),
        };
        for (name, _) in cases {
            println!("{name}: test");
        }
        return;
    }
    // `cargo test NAME` runs the cases whose name contains NAME; cargo-nextest runs one exactly.
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let filter = arguments[1..]
        .iter()
        .find(|argument| !argument.starts_with('-'))
        .map_or("", String::as_str);
    let is_chosen = |name: &str| match exact {
        true => name == filter,
        false => name.contains(filter),
    };
    let chosen = |cases: &'static [Case]| cases.iter().filter(|(name, _)| is_chosen(name));
    let mut outcomes: Vec<bool> = chosen(PORTLESS).map(run).collect();
    let mut ignored = 0;
    match net::enter_own_namespace() {
        Ok(()) => outcomes.extend(chosen(CASES).map(run_with_ports)),
        Err(why) => {
            println!("\n*** veth tests NOT RUN: {why} (run them as root) ***\n");
            ignored = chosen(CASES).count();
        }
    }
    let passed = outcomes.iter().filter(|well| **well).count();
    let failed = outcomes.len() - passed;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored");
    if failed > 0 {
        std::process::exit(101);
    }
}

/// Runs a case; returns whether it passed.
fn run((name, case): &Case) -> bool {
    let well = std::panic::catch_unwind(case).is_ok();
    println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
    well
}

fn run_with_ports(case: &Case) -> bool {
    for (near, far) in NEAR.iter().zip(FAR) {
        net::make_pair(near, far);
    }
    let well = run(case);
    for near in NEAR {
        ip(&format!("link del {near}")).ok();
    }
    well
}

/// Starts a switch with both ports and the fixture's program, and a primary controller.
fn start(options: &[&str]) -> (Runtime, Process, Controller) {
    let ports: Vec<String> = (1..)
        .zip(NEAR)
        .map(|(port, near)| format!("-i{port}@{near}"))
        .collect();
    let mut line: Vec<&str> = ports.iter().map(String::as_str).collect();
    line.extend(options);
    let process = Process::start(&line);
    let runtime = Runtime::new().unwrap();
    let mut controller = runtime.block_on(Controller::connect(process.address()));
    runtime.block_on(controller.set_pipeline(fixture::config()));
    (runtime, process, controller)
}

fn forward(runtime: &Runtime, controller: &mut Controller, dst: u8, port: u8) {
    runtime.block_on(controller.insert(&fixture::l2(dst, port, "")));
}

/// Returns an entry that sends frames for station 5 to the CPU port.
fn to_controller() -> String {
    format!(
        r#"table_entry {{ table_id: {} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {} params {{ param_id: 1 value: "\x01\xfe" }} }} }} }}"#,
        fixture::L2,
        fixture::FORWARD
    )
}

fn frames_are_forwarded_between_ports() {
    let (runtime, process, mut controller) = start(&[]);
    forward(&runtime, &mut controller, 5, 2);
    forward(&runtime, &mut controller, 6, 1);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    two.send(&fixture::frame(6));
    assert_eq!(one.receive(DEADLINE), Some(fixture::frame(6)));
    // Bursts arrive complete and in order.
    let numbered = |n: u32| [&fixture::frame(5)[..], &n.to_be_bytes()].concat();
    for n in 0..1000 {
        one.send(&numbered(n));
    }
    for n in 0..1000 {
        assert_eq!(two.receive(DEADLINE), Some(numbered(n)));
    }
    process.stop();
}

fn a_frame_too_long_for_a_link_affects_no_others() {
    for end in [NEAR[0], FAR[0]] {
        ip(&format!("link set {end} mtu 9000")).unwrap();
    }
    let (runtime, process, mut controller) = start(&[]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let numbered = |n: u8| [&fixture::frame(5)[..], &[n]].concat();
    for n in 0..60 {
        one.send(&numbered(n));
        one.send(&[&fixture::frame(5)[..], &[n; 3000]].concat());
    }
    for n in 0..60 {
        assert_eq!(two.receive(DEADLINE), Some(numbered(n)));
    }
    process.stop();
}

fn packets_are_exchanged_with_the_controller() {
    let (runtime, process, mut controller) = start(&[]);
    runtime.block_on(controller.insert(&to_controller()));
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    two.send(&fixture::frame(5));
    let packet = runtime.block_on(controller.packet_in());
    assert_eq!(packet.payload, fixture::frame(5));
    assert_eq!(packet.metadata[2].value, [2]);

    let metadata = [(1, 0), (2, 0), (3, 1)].map(|(metadata_id, value)| PacketMetadata {
        metadata_id,
        value: vec![value],
    });
    runtime.block_on(controller.packet_out(PacketOut {
        payload: fixture::frame(9),
        metadata: metadata.to_vec(),
    }));
    assert_eq!(one.receive(DEADLINE), Some(fixture::frame(9)));
    process.stop();
}

fn vlan_tags_are_kept() {
    let (runtime, process, mut controller) = start(&[]);
    runtime.block_on(controller.insert(&to_controller()));
    // The kernel removes the tag on the way, and would do so again at the far end of another port. The packet-in shows
    // the frame as the program received it.
    let mut tagged = fixture::frame(5);
    tagged.splice(12..12, [0x81, 0x00, 0x20, 77]);
    Wire::open(FAR[0]).send(&tagged);
    assert_eq!(runtime.block_on(controller.packet_in()).payload, tagged);
    process.stop();
}

fn checksums_of_kernel_packets_are_complete() {
    let (runtime, process, mut controller) = start(&[]);
    forward(&runtime, &mut controller, 5, 2);
    ip(&format!("addr add 10.9.0.1/24 dev {}", FAR[0])).unwrap();
    ip(&format!(
        "neigh add 10.9.0.2 lladdr 00:00:00:00:00:05 dev {}",
        FAR[0]
    ))
    .unwrap();
    let two = Wire::open(FAR[1]);
    let socket = std::net::UdpSocket::bind("10.9.0.1:4000").unwrap();
    socket
        .send_to(b"without a checksum so far", "10.9.0.2:4001")
        .unwrap();
    let frame = two.receive(DEADLINE).expect("the datagram arrives");
    assert_eq!(frame[23], 17);
    let mut sum: u32 = 17 + (frame.len() as u32 - 34);
    for pair in frame[26..].chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    assert_eq!(sum, 0xffff);
    process.stop();
}

fn an_interface_may_be_removed_and_added_again() {
    let (runtime, mut process, mut controller) = start(&["--log-console", "-L", "info"]);
    forward(&runtime, &mut controller, 5, 2);
    ip(&format!("link del {}", NEAR[1])).unwrap();
    process.wait_for_line("interface was removed");
    let one = Wire::open(FAR[0]);
    one.send(&fixture::frame(5));
    net::make_pair(NEAR[1], FAR[1]);
    process.wait_for_line("interface exists again");
    let two = Wire::open(FAR[1]);
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    // The port also works after being set down and up.
    ip(&format!("link set {} down", NEAR[0])).unwrap();
    process.wait_for_line("interface is down");
    ip(&format!("link set {} up", NEAR[0])).unwrap();
    process.wait_for_line("interface is up");
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    process.stop();
}

fn links_lose_the_frames_that_the_seed_determines() {
    let run = || {
        let (runtime, process, mut controller) = start(&["--port-loss", "1=0.5", "--seed", "3"]);
        forward(&runtime, &mut controller, 5, 2);
        forward(&runtime, &mut controller, 6, 2);
        let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
        let numbered = |dst: u8, n: u8| [&fixture::frame(dst)[..], &[n]].concat();
        for n in 0..100 {
            one.send(&numbered(5, n));
        }
        // The end marker may be lost, so it is repeated until it arrives.
        let mut arrived = Vec::new();
        loop {
            one.send(&numbered(6, 0));
            while let Some(frame) = two.receive(Duration::from_millis(200)) {
                if frame[5] == 6 {
                    process.stop();
                    return arrived;
                }
                arrived.push(*frame.last().unwrap());
            }
        }
    };
    let first = run();
    assert!((20..80).contains(&first.len()), "{}", first.len());
    assert_eq!(run(), first);
}

fn delayed_frames_arrive_late() {
    let (runtime, process, mut controller) = start(&["--port-delay", "2=50ms"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let sent = std::time::Instant::now();
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    assert!(sent.elapsed() >= Duration::from_millis(50));
    process.stop();
}

fn links_with_a_rate_queue_faster_traffic() {
    let (runtime, process, mut controller) =
        start(&["--port-rate", "2=100pps", "--queue-depth", "5"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let numbered = |n: u8| [&fixture::frame(5)[..], &[n]].concat();
    let sent = std::time::Instant::now();
    for n in 0..30 {
        one.send(&numbered(n));
    }
    // The link takes one frame, five are queued, and the others are dropped. With a slow start of the switch, a few
    // more may pass.
    let arrived: Vec<u8> = std::iter::from_fn(|| two.receive(Duration::from_millis(500)))
        .inspect(|_| assert!(sent.elapsed() >= Duration::from_millis(10)))
        .map(|frame| *frame.last().unwrap())
        .collect();
    assert!((6..15).contains(&arrived.len()), "{arrived:?}");
    assert_eq!(arrived[..6], [0, 1, 2, 3, 4, 5]);
    process.stop();
}

fn traces_are_printed() {
    let (runtime, mut process, mut controller) = start(&["--trace=json"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    one.send(&fixture::frame(5));
    process.wait_for_line(r#"{"packet":1,"event":"in","port":1,"#);
    process.wait_for_line(r#""event":"table""#);
    process.wait_for_line(r#"{"packet":1,"event":"out","port":2,"#);
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    process.stop();
}

fn the_log_has_the_steps_of_packets() {
    let line = [
        "--log-console",
        "--dump-packet-data",
        "4",
        "--nanolog",
        "ipc:///tmp/bm-log.ipc",
    ];
    let (runtime, mut process, mut controller) = start(&line);
    forward(&runtime, &mut controller, 5, 2);
    Wire::open(FAR[0]).send(&fixture::frame(5));
    let received = process.wait_for_line("Received packet of length");
    let shown: String = fixture::frame(5)[..4]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert!(
        received
            .trim_end()
            .ends_with(&format!("on port 1: {shown}")),
        "{received}"
    );
    let processing = process.wait_for_line("Processing packet received on port 1");
    let (time, rest) = processing.split_once("] [bmv2] [D] [thread ").unwrap();
    assert_eq!(time.len(), "[13:15:44.123".len());
    assert!(rest.contains("] [0.0] [cxt 0] "), "{processing}");
    process.wait_for_line("Applying table 'ingress.l2'");
    process.wait_for_line("Sending packet of length");
    process.stop();
}

/// Returns the metrics address of a switch started with `--metrics` and `--log-console`.
fn metrics_address(process: &mut Process) -> String {
    let line = process.wait_for_line("metrics at http://");
    let address = line.split("http://").nth(1).unwrap().trim();
    address.trim_end_matches("/metrics").to_owned()
}

/// Sends an HTTP request; returns the response.
fn http_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: switch\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

fn metrics_count_frames_and_requests() {
    let (runtime, mut process, mut controller) =
        start(&["--metrics", "127.0.0.1:0", "--log-console", "-L", "info"]);
    let address = metrics_address(&mut process);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    let reply = http_get(&address, "/metrics");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    for sample in [
        "alfirk_port_up{port=\"1\",interface=\"near1\"} 1\n",
        "alfirk_port_frames_total{port=\"1\",way=\"in\"} 1\n",
        "alfirk_port_frames_total{port=\"2\",way=\"out\"} 1\n",
        "alfirk_switch_streams 1\n",
    ] {
        assert!(reply.contains(sample), "{sample}{reply}");
    }
    assert!(http_get(&address, "/").starts_with("HTTP/1.1 404 "));
    process.stop();
}

fn an_idle_switch_uses_no_processor_time_and_little_memory() {
    let (_runtime, process, _controller) = start(&[]);
    let before = process.processor_ticks();
    // No frame arrives; the wait is the measurement.
    assert_eq!(Wire::open(FAR[1]).receive(Duration::from_secs(2)), None);
    let used = process.processor_ticks() - before;
    assert!(used <= 1, "{used} ticks in two seconds");
    // Tens of switches share a laptop. Most of the memory is this test binary.
    let memory = process.memory();
    assert!(memory < 64 << 20, "{memory} bytes");
    process.stop();
}

fn errors_at_the_start_name_their_cause() {
    let refused = |line: &[&str], code: i32, why: &str| {
        let (status, output) = Process::fail(line);
        assert_eq!(status, Some(code), "{output}");
        assert!(output.contains(why), "{output}");
    };
    refused(&["-i1@nosuch"], 1, "interface nosuch does not exist");
    refused(&["-i1@near1", "-i1@near2"], 2, "port 1 occurs twice");
    refused(&["-i1@near1", "-i2@near1"], 2, "near1 occurs twice");
    refused(
        &["-i1@near1", "--pcap", "/no/such/directory"],
        1,
        "no such directory",
    );
    let running = Process::start(&[]);
    let address = running.address().to_owned();
    let (status, output) = Process::fail_at(&address, &[]);
    assert_eq!(status, Some(1), "{output}");
    assert!(
        output.contains("give each its own --grpc-server-addr"),
        "{output}"
    );
    running.stop();
}
