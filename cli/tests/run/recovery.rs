//! Effect of packet loss with selective repeat.

use serde_json::Value;

use crate::common::{json, refused};

fn run(recovery: &str, loss: &str, more: &[&str]) -> Value {
    let mut args = vec!["run", "--model", "fast", "--recovery", recovery];
    args.extend(["--loss", loss, "--json"]);
    args.extend(more);
    json(&args)["results"][0].clone()
}

fn nanoseconds(result: &Value) -> f64 {
    result["completion_ns"].as_f64().expect("it completed")
}

/// One packet in 10,000, 1,000 and 100 is lost on each link, 16 MiB go to 15 receivers.
#[test]
fn goodput_under_loss_is_nearly_that_without() {
    let large = ["--size", "16MiB", "--algorithms", "alfirk"];
    let whole = nanoseconds(&run("selective-repeat", "0", &large));
    assert_eq!(whole, nanoseconds(&run("go-back-n", "0", &large)));
    for (loss, seeds, at_least, back) in [
        ("0.0001", 1..=1, 0.97, 0.95),
        ("0.001", 1..=1, 0.9, 0.6),
        // At this loss rate, the time of packets that are lost repeatedly varies most between seeds.
        ("0.01", 4..=7, 0.5, 0.1),
    ] {
        for seed in seeds {
            let seed = seed.to_string();
            let result = run(
                "selective-repeat",
                loss,
                &[&large[..], &["--seed", &seed]].concat(),
            );
            assert_eq!(result["receivers_verified"], 15);
            assert_eq!(result["implausible_packets"], 0);
            let share = whole / nanoseconds(&result);
            assert!(share >= at_least, "{share} at {loss}, seed {seed}");
        }
        let share = whole / nanoseconds(&run("go-back-n", loss, &large));
        assert!(share < back, "{share} at {loss} with go-back-N");
    }
}

/// Each of 15 receivers reports a packet that is lost at the source's link: the source sends it once.
#[test]
fn packets_lost_near_the_source_are_retransmitted_once() {
    let lossy = [
        "--size",
        "4MiB",
        "--algorithms",
        "alfirk",
        "--loss",
        "h1-p1e1:0.02@0us-1s",
    ];
    let result = run("selective-repeat", "0", &lossy);
    let dropped = result["dropped_packets"].as_u64().expect("a count");
    let again = result["retransmissions"].as_u64().expect("a count");
    assert!(dropped > 10, "{dropped}");
    // A lost ACK and the last packets can each cause one more retransmission.
    assert!(again <= dropped + 2, "{again} for {dropped}");
}

/// A hostile member sends arbitrary selective NAKs. Those of packets that all members have are dropped. Those of outstanding packets cause
/// one retransmission each, and delay the other members by at most a fifth.
#[test]
fn a_hostile_member_costs_only_the_retransmissions_it_requests() {
    let quiet = ["--size", "4MiB", "--algorithms", "alfirk"];
    let hostile = [&quiet[..], &["--hostile", "h5"]].concat();
    let quietly = run("selective-repeat", "0", &quiet);
    let result = run("selective-repeat", "0", &hostile);
    assert_eq!(result["receivers_verified"], 15);
    // Ratios of the completion times and of the sent packets, with and without the hostile member.
    let share = |of: fn(&Value) -> f64| of(&result) / of(&quietly);
    let slower = share(nanoseconds);
    let more = share(|result| result["sender_payload_bytes"].as_f64().expect("bytes"));
    assert!(slower < 1.2, "{slower}");
    assert!(slower < 1.05 * more, "{slower}, {more}");
}

#[test]
fn linux_guests_go_back() {
    let arguments = [
        "run",
        "--driver",
        "mininet",
        "--guests",
        "h2",
        "--recovery",
        "selective-repeat",
    ];
    refused(2, &arguments, &["go-back-N only", "--guest-rdma alfirk"]);
}
