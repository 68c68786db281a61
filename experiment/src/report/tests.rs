use super::text::{gbps, grouped};
use super::*;
use crate::fabric::{FlowControl, PausedLink};

fn row(algorithm: &str, completion_ns: u64) -> Row {
    Row {
        algorithm: algorithm.to_string(),
        completion_ns,
        goodput_gbps: goodput_gbps(16_384, completion_ns),
        verified: true,
        receivers: 3,
        receivers_verified: 3,
        sender_tx_bytes: 16_700,
        sender_payload_bytes: 16_384,
        wire_packets: 40,
        sender_acks: 1,
        sender_cnps: None,
        marked_packets: None,
        cnps_sent: None,
        cnps_filtered: None,
        copies_filtered: None,
        feedback_work: None,
        retransmissions: 0,
        dropped_packets: Some(0),
        implausible_packets: 0,
        flow_control: None,
        registration_ns: None,
        fallback: None,
        requests: None,
        safeguard: Vec::new(),
        failures: Vec::new(),
        lost: Vec::new(),
        missing: Vec::new(),
        given_up: None,
        sender: None,
        parts: Vec::new(),
        phases: Vec::new(),
        fairness: None,
    }
}

fn report() -> Report {
    Report {
        results: vec![row("alfirk", 5_000), row("chain", 12_345)],
        input: Some(Input {
            file: None,
            size: 16_384,
            sha256: "0f".repeat(32),
        }),
        workload: None,
        topology: TopologySummary {
            name: "testbed".to_string(),
            hosts: 4,
            switches: 1,
            links: 4,
        },
        group: Some(GroupSummary {
            size: 4,
            source: "h1".to_string(),
            members: ["h1", "h2", "h3", "h4"].map(str::to_string).to_vec(),
        }),
        settings: Settings {
            driver: "virtual".to_string(),
            collective: "broadcast".to_string(),
            op: "send".to_string(),
            write: None,
            min_psn: "tree".to_string(),
            icrc: "neutral".to_string(),
            tree_policy: "reuse-least-loaded".to_string(),
            switch_source: 0,
            switch_early: false,
            congestion: "none".to_string(),
            recovery: None,
            mtu: 4096,
            slices: None,
            loss: 0.0,
            outages: Vec::new(),
            suspensions: Vec::new(),
            rates: Vec::new(),
            fallback_below: None,
            registration: "api".to_string(),
            switching: None,
            host_model: None,
        },
        clock: None,
        machines: None,
        seed: 1,
    }
}

#[test]
fn table_is_aligned_and_compares_with_alfirk() {
    insta::assert_snapshot!(report().table());
}

#[test]
fn table_reports_retransmissions() {
    let mut report = report();
    report.results[0].sender_payload_bytes = 16_384 + 4_096;
    assert!(report.table().ends_with(
        "the link of h1 carried 20,480 message bytes for a message of 16,384: \
         1.2500 times, retransmissions included\n"
    ));
}

#[test]
fn table_reports_failures_and_recovery() {
    let mut report = report();
    report.settings.registration = "mrp".to_string();
    let row = &mut report.results[0];
    row.registration_ns = Some(1_234_000);
    row.lost = vec!["h3".to_string()];
    row.failures = vec![Failure {
        what: "h3".to_string(),
        at_ns: 10_000,
        repaired_ns: Some(20_000_000),
        going_on_ns: Some(20_100_000),
    }];
    report.results[1].fallback = Some(Fallback {
        to: "binomial".to_string(),
        why: "s1 is full".to_string(),
    });
    assert!(report.table().ends_with(
        "alfirk: group registered in 1.234 ms (mrp)\n\
         alfirk: h3 failed after 10.000 us; the controller repaired the group 20.000 ms later, \
         acknowledgements resumed 20.100 ms later\n\
         alfirk: the group continued without h3\n\
         chain: no group, so binomial ran instead: s1 is full\n"
    ));
}

#[test]
fn table_reports_paused_senders() {
    let mut report = report();
    report.settings.switching = Some("{queueing: output, pfc: {class: 3}}".to_string());
    let paused = |link: &str, paused_ns| PausedLink {
        link: link.to_string(),
        pauses: 1,
        paused_ns,
    };
    report.results[0].flow_control = Some(FlowControl {
        pauses: 2,
        paused_ns: 3_500,
        links: vec![paused("h1:0 -> s1:1", 500), paused("s2:1 -> s1:2", 3_000)],
    });
    report.results[1].flow_control = Some(FlowControl::default());
    let table = report.table();
    assert!(table.contains(", switches {queueing: output, pfc: {class: 3}}\n"));
    assert!(table.ends_with(
        "alfirk: 2 PAUSEs, 3.500 us of stopped senders on 2 links, most of it 3.000 us on s2:1 -> s1:2\n\
         chain: 0 PAUSEs, 0 ns of stopped senders\n"
    ));
}

#[test]
fn table_reports_the_slow_clock_and_overloaded_processors() {
    let mut report = report();
    let load = |algorithm: &str, wait_ns, is_limited| LoadSummary {
        algorithm: algorithm.to_string(),
        network_busy: 0.25,
        machine_busy: 0.5,
        wait_ns,
        wait_limit_ns: 60.0,
        is_limited,
    };
    let mut clock = ClockSummary {
        scale: 5_000,
        is_chosen_here: true,
        processors: 2,
        load: vec![load("alfirk", 12.0, false)],
    };
    report.clock = Some(clock.clone());
    // Messages of the controller took real time.
    report.results[0].registration_ns = Some(8_882);
    let registered =
        "alfirk: group registered in 8.882 us of the network's clock, 44.410 ms of real time (api)\n";
    assert!(report.table().contains(registered), "{}", report.table());
    report.results[0].registration_ns = None;
    let line = "clock: 5,000 times slower than real time, chosen for this machine; times above are on it; \
                the network had up to 25 % of 2 processors, and a process waited up to 12 ns for a processor in the mean\n";
    assert!(report.table().ends_with(line), "{}", report.table());
    clock.load.push(load("chain", 100.0, true));
    report.clock = Some(clock);
    assert!(report
        .table()
        .contains("\nwarning: processors were overloaded during chain, whose"));
}

#[test]
fn durations_and_numbers_are_readable() {
    assert_eq!(duration(999), "999 ns");
    assert_eq!(duration(1_001), "1.001 us");
    assert_eq!(duration(1_377_123), "1.377 ms");
    assert_eq!(duration(2_000_000_000), "2.000 s");
    assert_eq!(grouped(7), "7");
    assert_eq!(grouped(1_000), "1,000");
    assert_eq!(grouped(123_456_789), "123,456,789");
}

#[test]
fn goodput_is_bits_per_nanosecond() {
    assert_eq!(goodput_gbps(1_000, 80), Some(100.0));
    assert_eq!(goodput_gbps(0, 80), None);
    assert_eq!(goodput_gbps(1, 0), None);
    assert_eq!(gbps(None), "-");
}
