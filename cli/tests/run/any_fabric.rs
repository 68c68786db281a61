//! Fabrics of mixed rates, delays and queues, with default flags: a group is paced at its slowest path, all members receive all bytes,
//! and no member is removed.
//!
//! `make test` runs a few. The long tests are for a release build of the command:
//!
//! ```sh
//! ALFIRK_ANY_FABRIC_COMMAND=target/release/alfirk \
//!     tools/cargo test -p alfirk-cli --test run any_fabric::many -- --ignored --nocapture --test-threads 1
//! ```
//!
//! `ALFIRK_ANY_FABRIC_RUNS` is the number of seeds, `ALFIRK_ANY_FABRIC_FIRST` the first one. A failure is printed with the command that
//! reproduces it.

mod draw;
mod ideal;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

use alfirk_ctrl::topology::Topology;
use serde_json::Value;

use draw::Draw;
use ideal::Ideal;

/// Minimum length in bandwidth-delay products of messages that are expected to be fast.
const LONG: u64 = 10;

/// Maximum ratio of completion time to the ideal time, for such messages.
const MOST_OF_IDEAL: f64 = 1.5;

/// Maximum share of retransmitted packets on lossless links.
const MOST_RESENT: f64 = 0.05;

/// Limit of processor time in seconds for a run of the long tests.
const GIVE_UP: &str = "120";

/// One run.
struct Case {
    /// Name of its topology file.
    name: String,
    seed: u64,
    topology: Topology,
    ideal: Ideal,
    size: u64,
    /// Loss probability of links.
    loss: Option<f64>,
}

impl Case {
    /// A message of a little over [`LONG`] bandwidth-delay products, if that is at most `most` bytes; else a small one.
    fn drawn(seed: u64, most: u64) -> Case {
        let mut draw = Draw::new(seed);
        let topology = draw::topology(&mut draw);
        let ideal = Ideal::of(&topology);
        let long = LONG * (ideal.bandwidth_delay_product() + 1);
        let size = match long <= most {
            true => draw.within(long, (2 * long).min(most)),
            false => draw.magnitude(1, 64 << 10),
        };
        Case {
            name: format!("fabric-{seed}"),
            seed,
            topology,
            ideal,
            size,
            loss: None,
        }
    }

    /// A small message over links that lose up to a hundredth of their frames.
    fn lossy(seed: u64) -> Case {
        let mut draw = Draw::new(seed);
        let topology = draw::topology(&mut draw);
        let ideal = Ideal::of(&topology);
        let size = draw.magnitude(1, 64 << 10);
        let loss = draw.magnitude(1, 100) as f64 / 1e4;
        Case {
            name: format!("lossy-{seed}"),
            seed,
            topology,
            ideal,
            size,
            loss: Some(loss),
        }
    }

    /// A run on a topology file with a message of `size` bytes.
    fn of(name: &str, yaml: &str, size: u64) -> Case {
        let topology = Topology::from_yaml(name, yaml).expect("it is a good topology");
        Case {
            name: name.to_owned(),
            seed: 1,
            ideal: Ideal::of(&topology),
            topology,
            size,
            loss: None,
        }
    }

    fn is_long(&self) -> bool {
        self.size >= LONG * self.ideal.bandwidth_delay_product()
    }

    /// Flags of the run.
    fn flags(&self, algorithms: &str, model: &str) -> Vec<String> {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let file = file.join(format!("any-{}.yaml", self.name));
        fs::write(&file, self.topology.to_yaml()).expect("the folder is for tests");
        let (size, seed) = (format!("{}B", self.size), self.seed.to_string());
        let file = file.to_str().expect("a name of letters");
        let words = ["run", "--topology", file, "--size", &size, "--seed", &seed];
        let more = ["--algorithms", algorithms, "--model", model, "--json"];
        let mut flags: Vec<String> = words.iter().chain(&more).map(|&w| w.to_owned()).collect();
        if let Some(loss) = self.loss {
            flags.extend(["--loss".to_owned(), loss.to_string()]);
        }
        flags
    }

    /// Runs the command; returns the rows of the report.
    fn run(&self, algorithms: &str, model: &str, patience: Option<&str>) -> Result<Value, String> {
        let flags = self.flags(algorithms, model);
        let output = alfirk(&flags, patience);
        let why = |what: String| {
            let message = String::from_utf8_lossy(&output.stderr);
            let message = message.trim();
            let command = flags.join(" ");
            format!("seed {}: {what} {message}\n  alfirk {command}", self.seed)
        };
        match output.status.code() {
            Some(0) => {}
            Some(124) => return Err(why(format!("no end in {GIVE_UP} s"))),
            code => return Err(why(format!("exit code {code:?}"))),
        }
        let report: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| why(format!("no JSON: {error}")))?;
        Ok(report["results"].clone())
    }

    /// Runs the group, and checks the results.
    fn check(&self, exact: Exact, patience: Option<&str>) -> Result<Figures, String> {
        let results = self.run("alfirk", "fast", patience)?;
        let row = &results[0];
        let wrong = |what: String| {
            let command = self.flags("alfirk", "fast").join(" ");
            let size = self.size;
            Err(format!(
                "seed {}: {what}; {size} bytes, {:?}\n  alfirk {command}",
                self.seed, self.ideal
            ))
        };
        let others = self.topology.hosts().len() as u64 - 1;
        let counted = [&row["receivers"], &row["receivers_verified"]];
        if row["verified"] != true || counted.iter().any(|count| **count != others) {
            return wrong(format!(
                "{} of {others} verified",
                row["receivers_verified"]
            ));
        }
        if !row["lost"].is_null() {
            return wrong(format!("lost {}", row["lost"]));
        }
        let completion = row["completion_ns"].as_f64().unwrap_or(0.0);
        if completion <= 0.0 {
            return wrong("it took no time".to_owned());
        }
        let resent = row["retransmissions"].as_f64().unwrap_or(f64::MAX);
        let figures = Figures {
            seed: self.seed,
            of_ideal: self
                .is_long()
                .then(|| completion / self.ideal.completion_ns(self.size)),
            resent: resent / self.ideal.packets(self.size) as f64,
        };
        if self.loss.is_none() {
            if figures.of_ideal.is_some_and(|ratio| ratio > MOST_OF_IDEAL) {
                let ratio = figures.of_ideal.unwrap_or_default();
                let resent = figures.resent * 100.0;
                return wrong(format!("{ratio:.2} times the ideal, {resent:.1} % resent"));
            }
            if figures.resent > MOST_RESENT {
                let share = figures.resent * 100.0;
                return wrong(format!("{share:.1} % resent: {resent} packets"));
            }
        }
        let hops = self.topology.links().len() as u64;
        if exact.is_wanted(self.ideal.packets(self.size) * hops) {
            let exactly = self.run("alfirk", "exact", patience)?;
            if exactly != results {
                return wrong(format!("models differ: exact {exactly}, fast {results}"));
            }
        }
        Ok(figures)
    }
}

/// Selects the runs that are repeated with the exact model.
#[derive(Clone, Copy)]
enum Exact {
    Always,
    /// With at most this product of packets and links.
    UpTo(u64),
}

impl Exact {
    fn is_wanted(self, crossings: u64) -> bool {
        match self {
            Exact::Always => true,
            Exact::UpTo(most) => crossings <= most,
        }
    }
}

/// Results of a run.
#[derive(Debug, Clone, Copy)]
struct Figures {
    seed: u64,
    /// Ratio of the completion time to the ideal one; `None` for short messages.
    of_ideal: Option<f64>,
    /// Ratio of retransmitted packets to those of the message.
    resent: f64,
}

/// Runs the command, or the one that the environment names.
fn alfirk(flags: &[String], patience: Option<&str>) -> Output {
    let built = env!("CARGO_BIN_EXE_alfirk").to_owned();
    let name = std::env::var("ALFIRK_ANY_FABRIC_COMMAND").unwrap_or(built);
    let mut command = match patience {
        None => Command::new(&name),
        Some(seconds) => {
            let mut command = Command::new("timeout");
            command.args([seconds, &name]);
            command
        }
    };
    let output = command.args(flags).env_remove("ALFIRK_LOG").output();
    output.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs `count` seeds, one at a time on each processor; returns the results by seed.
fn each(
    first: u64,
    count: u64,
    run: impl Fn(u64) -> Result<Figures, String> + Sync,
) -> (Vec<Figures>, Vec<String>) {
    let next = AtomicU64::new(first);
    let done = Mutex::new(Vec::new());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + count {
            return;
        }
        let outcome = run(seed);
        done.lock()
            .expect("nothing panics here")
            .push((seed, outcome));
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("nothing panics here");
    done.sort_by_key(|(seed, _)| *seed);
    let (mut figures, mut failures) = (Vec::new(), Vec::new());
    for (_, outcome) in done {
        match outcome {
            Ok(of_run) => figures.push(of_run),
            Err(why) => failures.push(why),
        }
    }
    (figures, failures)
}

/// Median, 95th percentile and worst, with the seed of the last.
fn spread(mut values: Vec<(f64, u64)>) -> String {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| values.get(((values.len() - 1) as f64 * share).round() as usize);
    if values.is_empty() {
        return "none".to_owned();
    }
    let value = |share| at(share).map_or(f64::NAN, |(value, _)| *value);
    let (worst, seed) = values[values.len() - 1];
    format!(
        "median {:.4}, 95th percentile {:.4}, worst {worst:.4} (seed {seed})",
        value(0.5),
        value(0.95)
    )
}

fn show(what: &str, figures: &[Figures], failures: &[String]) {
    for failure in failures {
        println!("{failure}");
    }
    let (good, all) = (figures.len(), figures.len() + failures.len());
    println!("{what}: {good} of {all} good");
    let long = figures.iter();
    let long: Vec<_> = long
        .filter_map(|of_run| Some((of_run.of_ideal?, of_run.seed)))
        .collect();
    println!(
        "completion / ideal of {} long messages: {}",
        long.len(),
        spread(long)
    );
    let resent = figures.iter().map(|of_run| (of_run.resent, of_run.seed));
    println!("share resent: {}", spread(resent.collect()));
}

fn from_environment(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text}: not a whole number"))
    })
}

/// Two switches with a link of the given rate between them, and three hosts with links of 10 Gbit/s.
fn two_switches(between: &str, everywhere: &str) -> String {
    format!(
        "name: mylab
defaults: {{rate: {everywhere}, delay: 1us}}
switches: [{{name: s1, id: 1}}, {{name: s2, id: 2}}]
hosts:
  - {{name: h1, ip: 10.0.0.1/8, mac: \"02:00:00:00:00:01\"}}
  - {{name: h2, ip: 10.0.0.2/8, mac: \"02:00:00:00:00:02\"}}
  - {{name: h3, ip: 10.0.0.3/8, mac: \"02:00:00:00:00:03\"}}
links:
  - {{ends: [h1, \"s1:1\"]}}
  - {{ends: [h2, \"s1:2\"]}}
  - {{ends: [h3, \"s2:1\"]}}
  - {{ends: [\"s1:3\", \"s2:3\"], rate: {between}}}
"
    )
}

#[test]
fn a_slow_link_between_switches_limits_only_the_rate() {
    let yaml = two_switches("1Gbps", "10Gbps");
    let case = Case::of("slow-link", &yaml, 1 << 20);
    case.check(Exact::Always, None).unwrap();
}

#[test]
fn slow_links_take_their_serialisation_time() {
    let yaml = two_switches("10Mbps", "10Mbps");
    let case = Case::of("slow-links", &yaml, 256 << 10);
    case.check(Exact::Always, None).unwrap();
}

#[test]
fn a_group_has_the_rate_of_its_slowest_path_on_any_fabric() {
    let run = |seed| Case::drawn(seed, 1 << 20).check(Exact::UpTo(4_000), None);
    let (figures, failures) = each(1, 25, run);
    show("fabrics", &figures, &failures);
    assert!(failures.is_empty(), "{} fabrics failed", failures.len());
    let long = figures.iter().filter(|of_run| of_run.of_ideal.is_some());
    assert!(long.count() >= 10);
}

#[test]
fn members_behind_lossy_links_are_not_removed() {
    let (figures, failures) = each(1_000_001, 40, |seed| {
        Case::lossy(seed).check(Exact::UpTo(0), None)
    });
    show("lossy fabrics", &figures, &failures);
    assert!(failures.is_empty(), "{} fabrics failed", failures.len());
    assert!(figures.iter().any(|of_run| of_run.resent > 0.0));
}

/// An overlay takes at most slightly longer than all its copies in sequence through the bottleneck of the group's tree.
#[test]
fn overlays_take_the_time_of_their_copies_at_the_bottleneck() {
    let yaml = two_switches("100Mbps", "10Gbps");
    let slow = Case::of("overlays", &yaml, 128 << 10);
    let results = slow.run("all", "fast", None).unwrap();
    let rows = results.as_array().expect("a list");
    let copies = slow.topology.hosts().len() as f64 - 1.0;
    for row in rows {
        assert_eq!(row["verified"], true, "{row}");
        let ratio = row["completion_ns"].as_f64().unwrap() / slow.ideal.completion_ns(slow.size);
        assert!(ratio < MOST_OF_IDEAL * copies, "{ratio}: {row}");
    }
    assert!(rows.len() > 5, "{results}");
}

#[test]
#[ignore = "takes a release build and minutes"]
fn many_fabrics() {
    let first = from_environment("ALFIRK_ANY_FABRIC_FIRST", 1);
    let count = from_environment("ALFIRK_ANY_FABRIC_RUNS", 1_000);
    let run = |seed| Case::drawn(seed, 8 << 20).check(Exact::UpTo(50_000), Some(GIVE_UP));
    let (figures, failures) = each(first, count, run);
    show("fabrics", &figures, &failures);
    assert!(failures.is_empty(), "{} fabrics failed", failures.len());
}

#[test]
#[ignore = "takes a release build and minutes"]
fn many_lossy_fabrics() {
    let first = from_environment("ALFIRK_ANY_FABRIC_FIRST", 1_000_001);
    let count = from_environment("ALFIRK_ANY_FABRIC_RUNS", 10_000);
    let run = |seed| Case::lossy(seed).check(Exact::UpTo(0), Some(GIVE_UP));
    let (figures, failures) = each(first, count, run);
    show("lossy fabrics", &figures, &failures);
    assert!(failures.is_empty(), "{} fabrics failed", failures.len());
}
