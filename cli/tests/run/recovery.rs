//! Effect of packet loss with selective repeat and with go-back-N.

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

/// Upper limit of the goodput with go-back-N, in expectation and relative to that without loss. Each link of the multicast
/// tree loses a frame with probability `loss`. `links`: number of links of the tree. `round_trip`: round trip to the farthest
/// receiver, in packets.
///
/// A NAK acknowledges all packets before its PSN. So it reaches the source no earlier than the farthest receiver's ACK of these,
/// and the source resends at least a round trip of packets. They also repair all other losses of that round trip. The next
/// loss is `between_losses` new packets later. Losses of resends, ACKs and NAKs are not counted: they reduce the goodput further.
fn limit_of_go_back_n(loss: f64, links: i32, round_trip: f64) -> f64 {
    let between_losses = 1.0 / (1.0 - (1.0 - loss).powi(links));
    (between_losses + round_trip) / (between_losses + 2.0 * round_trip)
}

/// One loss costs go-back-N a round trip. With many, the goodput is near the limit, except that some lost resends and
/// NAKs are repaired by timeouts.
#[test]
fn go_back_n_is_near_its_limit() {
    let large = ["--size", "16MiB", "--algorithms", "alfirk"];
    let whole = nanoseconds(&run("go-back-n", "0", &large));
    // The link of a farthest receiver loses what is sent in the time of one packet: one or two packets, or an ACK as well.
    let once = run("go-back-n", "h16-p4e2:1@300us-300400ns", &large);
    let round_trip = once["retransmissions"].as_f64().expect("a count");
    assert!((39.0..48.0).contains(&round_trip), "{round_trip}");
    let seeds = 1..=5;
    for (loss, of_limit) in [("0.0001", 0.95), ("0.001", 0.65)] {
        let shares = seeds.clone().map(|seed| {
            let seed = seed.to_string();
            let more = [&large[..], &["--seed", &seed]].concat();
            whole / nanoseconds(&run("go-back-n", loss, &more))
        });
        let mean = shares.sum::<f64>() / seeds.clone().count() as f64;
        let rate = loss.parse().expect("a number");
        // The tree to 15 receivers has 28 links: 16 of hosts, 8 between edge and aggregation, 4 of the core.
        let limit = limit_of_go_back_n(rate, 28, round_trip);
        assert!(mean >= of_limit * limit, "{mean} at {loss}, limit {limit}");
        // The limit is an expectation, and the mean is of five seeds.
        assert!(mean <= limit + 0.02, "{mean} at {loss}, limit {limit}");
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
