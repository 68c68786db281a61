//! Experiments: every point is run once and stored, with the same result as a separate run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use alfirk_roce::collective::Digest;
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use crate::common::{file, good, json, refused};

const SMALL: &str = "
name: small
run: {topology: testbed}
sweep:
  size: [64B, 8KiB]
  algorithms: [alfirk, chain]
  switch-early: [false]
repeats: 2
tables:
  - {rows: algorithms, columns: size, value: completion_ns}
plots:
  - {name: completion, x: size, y: completion_ns, lines: algorithms}
";

/// The points of an experiment with their commands; results are in the folder `out`.
fn list(spec: &str, out: &str) -> Vec<Value> {
    let list = json(&["experiment", "list", spec, "--out", out, "--json"]);
    list.as_array().expect("it is a list").clone()
}

fn run(spec: &str, out: &str, more: &[&str]) -> String {
    let arguments = ["experiment", "run", spec, "--out", out];
    String::from_utf8(good(&[&arguments[..], more].concat())).unwrap()
}

/// Name and SHA-256 of every file below a folder.
fn files(folder: &Path) -> Vec<(String, Digest)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, Digest::of(&fs::read(&path).unwrap())));
        }
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    files
}

#[test]
fn a_point_equals_the_run_of_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let spec = file(folder.path(), "small.yaml", SMALL);
    let out = folder.path().join("out");
    let table = run(&spec, out.to_str().unwrap(), &[]);
    assert!(table.contains("8 of 8 points"), "{table}");
    let points = list(&spec, out.to_str().unwrap());
    assert_eq!(points.len(), 8);
    for point in &points {
        assert_eq!(point["finished"], true);
        let command = point["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).chain(["--json"]).collect();
        let name = format!("points/{}.json", point["point"].as_str().unwrap());
        let record: Value = serde_json::from_slice(&fs::read(out.join(name)).unwrap()).unwrap();
        assert_eq!(record["report"], json(&words), "{command}");
    }
    let csv = fs::read_to_string(out.join("results.csv")).unwrap();
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    for column in [
        "command",
        "version",
        "flag.size",
        "completion_ns",
        "settings.mtu",
        "seed",
    ] {
        assert!(
            columns.contains(&column),
            "{column} is missing in {columns:?}"
        );
    }
    assert_eq!(lines.count(), 8);
    let plot = fs::read_to_string(out.join("completion.svg")).unwrap();
    assert!(plot.contains("chain") && plot.contains("8KiB"));
}

#[test]
fn results_do_not_depend_on_the_process_or_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let spec = file(folder.path(), "small.yaml", SMALL);
    let [together, alone] = ["together", "alone"].map(|name| folder.path().join(name));
    run(&spec, together.to_str().unwrap(), &["--jobs", "3"]);
    let out = alone.to_str().unwrap();
    for point in list(&spec, out).iter().rev() {
        let id = point["point"].as_str().unwrap();
        good(&["experiment", "point", &spec, id, "--out", out]);
    }
    good(&["experiment", "collect", &spec, "--out", out]);
    assert_eq!(files(&together), files(&alone));
}

#[test]
fn an_interrupted_run_continues_with_the_missing_points() {
    let folder = tempfile::tempdir().unwrap();
    let spec = file(folder.path(), "small.yaml", SMALL);
    let out = folder.path().join("out");
    run(&spec, out.to_str().unwrap(), &[]);
    let whole = files(&out);
    let ids: Vec<String> = list(&spec, out.to_str().unwrap())
        .iter()
        .map(|point| point["point"].as_str().unwrap().to_owned())
        .collect();
    let point = |id: &String| out.join(format!("points/{id}.json"));
    // One point is missing, and another one was incompletely written when the run was killed.
    fs::remove_file(point(&ids[2])).unwrap();
    let half = out.join(format!("points/.{}.json.4711", ids[3]));
    fs::write(&half, &fs::read(point(&ids[3])).unwrap()[..20]).unwrap();
    fs::remove_file(point(&ids[3])).unwrap();
    let kept = fs::metadata(point(&ids[0])).unwrap().modified().unwrap();
    run(&spec, out.to_str().unwrap(), &[]);
    assert_eq!(files(&out), whole, "half-written files are gone, too");
    let after = fs::metadata(point(&ids[0])).unwrap().modified().unwrap();
    assert_eq!(kept, after, "a finished point is not run again");
}

#[test]
fn a_failed_point_is_reported_and_the_others_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name: late\nrun: {topology: testbed, algorithms: alfirk}\nsweep: {size: [64B, 1KiB], time-limit: [1s, 1ns]}\n";
    let spec = file(folder.path(), "late.yaml", text);
    let out = folder.path().join("out").display().to_string();
    let command = ["experiment", "run", &spec, "--out", &out];
    refused(
        1,
        &command,
        &["2 of 4 points failed", "--size=1KiB --time-limit=1ns"],
    );
    let finished = list(&spec, &out)
        .iter()
        .filter(|point| point["finished"] == true)
        .count();
    assert_eq!(finished, 2);
}

#[test]
fn all_selects_the_algorithms_that_fit_the_other_flags() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name: all\nsweep: {topology: [testbed, fat-tree:4], algorithms: [all]}\n";
    let spec = file(folder.path(), "all.yaml", text);
    let out = folder.path().join("out");
    let points = list(&spec, out.to_str().unwrap());
    let hybrids = points.iter().filter(|point| {
        let command = point["command"].as_str().unwrap();
        command.contains("rdmc-hybrid") && command.contains("fat-tree:4")
    });
    assert_eq!(hybrids.count(), 1, "a single rack has no hybrid");
    assert!(points.len() > 30);
}

#[test]
fn values_can_add_flags_and_quick_can_shorten_runs() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
name: per
run: {topology: testbed}
sweep: {size: [64B, 1MiB], algorithms: [alfirk, chain]}
per: {algorithms: {chain: {slices: 4}}}
quick: {run: {group: 3}, sweep: {size: [64B]}}
";
    let spec = file(folder.path(), "per.yaml", text);
    let out = folder.path().join("out");
    let commands = |list: Vec<Value>| -> Vec<String> {
        let command = |point: &Value| point["command"].as_str().unwrap().to_owned();
        list.iter().map(command).collect()
    };
    let whole = commands(list(&spec, out.to_str().unwrap()));
    assert_eq!(whole.len(), 4);
    for command in &whole {
        assert_eq!(
            command.contains("--slices=4"),
            command.contains("chain"),
            "{command}"
        );
    }
    let all = file(
        folder.path(),
        "all.yaml",
        &text.replace("[alfirk, chain]", "all"),
    );
    let every = commands(list(&all, out.to_str().unwrap()));
    assert!(every.len() > 30);
    for command in &every {
        assert_eq!(
            command.contains("--slices=4"),
            command.contains("=chain"),
            "{command}"
        );
    }
    // A value that is valid only together with its additional flags.
    let text = "
name: grids
run: {algorithms: [alfirk]}
sweep: {workload: [\"hpl:grid=1x8\", \"hpl:grid=1x64\"]}
per: {workload: {\"hpl:grid=1x64\": {topology: \"fat-tree:8\"}}}
";
    let grids = file(folder.path(), "grids.yaml", text);
    let grids = commands(list(&grids, out.to_str().unwrap()));
    assert!(
        grids[1].contains("1x64") && grids[1].contains("fat-tree:8"),
        "{grids:?}"
    );
    let quick = json(&["experiment", "list", &spec, "--quick", "--json"]);
    let quick = commands(quick.as_array().unwrap().clone());
    assert_eq!(quick.len(), 2);
    assert!(quick
        .iter()
        .all(|command| command.contains("--group=3") && command.contains("64B")));
}

#[test]
fn claims_are_ratios_of_measured_values() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
name: claims
run: {topology: testbed, size: 64B}
sweep: {algorithms: [alfirk, chain], completion-delay: [500ns, 1us]}
claims:
  - {text: Three times., of: {algorithms: chain}, to: {algorithms: alfirk}, value: completion_ns, paper: [3, 3]}
  - {text: Seven times., of: {algorithms: chain}, to: {algorithms: alfirk}, value: completion_ns, paper: 7}
  - {text: A number., of: {algorithms: alfirk, completion-delay: 1us}, value: completion_ns, paper: 1}
  - {text: Nowhere., of: {algorithms: chain}, to: {algorithms: alfirk}, at: {completion-delay: 9us}, value: completion_ns, paper: 7}
";
    let spec = file(folder.path(), "claims.yaml", text);
    let out = folder.path().join("out");
    let said = run(&spec, out.to_str().unwrap(), &[]);
    // A chain of 4 takes three transfers in sequence, each as long as the multicast.
    assert!(
        said.contains("Three times.\n  measured 3.00, published 3.00: holds"),
        "{said}"
    );
    assert!(
        said.contains("Seven times.\n  measured 3.00, published 7.00: differs"),
        "{said}"
    );
    let number = said.split("A number.\n  measured ").nth(1).unwrap();
    let number: f64 = number.split(',').next().unwrap().parse().unwrap();
    assert!(number > 1_000.0, "{said}");
    assert!(
        said.contains("Nowhere.\n  measured -, published 7.00: not measured"),
        "{said}"
    );
}

#[test]
fn variations_of_claims_are_measured_in_addition_to_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
name: varied
run: {topology: testbed, size: 64B}
sweep: {algorithms: [alfirk, chain]}
claims:
  - text: Three to five times.
    of: {algorithms: chain}
    to: {algorithms: alfirk}
    value: completion_ns
    paper: [3, 5.2]
    vary:
      - {flag: host-model, about: Cost of relays, values: {none: relay-delay=0ns, 2us: relay-delay=2us, 4us: relay-delay=4us}}
      - {flag: host-model, about: Pace of the multicast, side: to, values: [packet-interval=0ns, packet-interval=1us]}
";
    let spec = file(folder.path(), "varied.yaml", text);
    let out = folder.path().join("out");
    let said = run(&spec, out.to_str().unwrap(), &[]);
    assert!(
        said.contains("measured 3.00, published 3.00 to 5.20: explained"),
        "{said}"
    );
    // The two relays of a chain of four take this share of a transfer of 2.424 us.
    let cost = said.split("the paper's 5.20 at about ").nth(1).unwrap();
    let cost: f64 = cost.split(' ').next().unwrap().parse().unwrap();
    assert!((2.5..2.9).contains(&cost), "{said}");
    // Points: two of the sweep, two for each relay time, and one of the multicast for each packet interval.
    assert!(said.contains("10 of 10 points"), "{said}");
    let csv = fs::read_to_string(out.join("results.csv")).unwrap();
    assert!(
        csv.lines().next().unwrap().contains("flag.host-model"),
        "{csv}"
    );
    for plot in ["claim-1-1-host-model", "claim-1-2-host-model"] {
        let plot = fs::read_to_string(out.join(format!("{plot}.svg"))).unwrap();
        assert!(plot.contains("paper: 5.20"));
    }
    let quick = json(&["experiment", "list", &spec, "--quick", "--json"]);
    assert_eq!(quick.as_array().unwrap().len(), 2, "the sweep alone");
}

#[test]
fn figures_of_the_papers_have_all_claims_and_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = json(&["reproduce", "all", "--quick", "--json", "--out", out]);
    let claims = said["claims"].as_array().unwrap();
    let of = |figure: &str| {
        claims
            .iter()
            .filter(|claim| claim["figure"] == figure)
            .count()
    };
    let names = String::from_utf8(good(&["reproduce", "--list"])).unwrap();
    for line in names.lines() {
        let name = line.split(' ').next().unwrap();
        assert!(
            name == "binomial-ack-table-1" || of(name) > 0,
            "{name} makes no claim"
        );
    }
    let measured = claims.iter().filter(|claim| !claim["measured"].is_null());
    assert!(measured.count() > 15, "{claims:?}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(
        page.contains("A quick run")
            && page.contains("<svg")
            && page.contains("Mansoor and Meehan")
    );
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org").count()
    );
    let png = fs::read(folder.path().join("cepheus-figure-12/completion.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    refused(
        2,
        &["reproduce", "cepheus-figure-99"],
        &["cepheus-figure-99", "--list"],
    );
    refused(2, &["reproduce"], &["FIGURE"]);
}

#[test]
fn invalid_experiment_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let bad = |text: &str, words: &[&str]| {
        let spec = file(folder.path(), "bad.yaml", text);
        let out = folder.path().join("out").display().to_string();
        refused(2, &["experiment", "list", &spec, "--out", &out], words);
    };
    bad("name: [\n", &["bad.yaml"]);
    bad("about: x\n", &["name is missing"]);
    bad("name: ../x\n", &["../x", "letters"]);
    bad(
        "name: x\nsweep: {size: [1B, 2B]}\nplots: [{name: ../y, x: size, y: completion_ns, lines: size}]\n",
        &["plots: name", "../y", "letters"],
    );
    bad(
        "name: x\nsweeps: {}\n",
        &["`sweeps`", "did you mean `sweep`?"],
    );
    bad(
        "name: x\nrun: {sizes: 1}\n",
        &["`sizes`", "did you mean `size`?"],
    );
    bad("name: x\nrun: {json: true}\n", &["`json`"]);
    bad(
        "name: x\nrun: {size: 1KiB}\nsweep: {size: [64B]}\n",
        &["`size`", "one place"],
    );
    bad("name: x\nsweep: {size: []}\n", &["`size` has no values"]);
    bad(
        "name: x\nsweep: {size: [1KiB, 64B, 1KiB]}\n",
        &["1KiB", "twice"],
    );
    bad(
        "name: x\nsweep: {size: [{a: 1}]}\n",
        &["`size` needs a value"],
    );
    bad(
        "name: x\nsweep: {store-and-forward: [3]}\n",
        &["true or false"],
    );
    bad("name: x\nrepeats: 0\n", &["repeats"]);
    bad(
        "name: x\nrepeats: 2\nrun: {seed: 3}\n",
        &["repeats", "seed"],
    );
    bad("name: x\nrepeats: 1000000\n", &["100000 points"]);
    bad("name: x\nrun: {size: big}\n", &["--size=big", "big"]);
    bad("name: x\nrun: {driver: moon}\n", &["--driver", "moon"]);
    bad(
        "name: x\nsweep: {topology: [fat-tree:4, testbed], algorithms: [rdmc-hybrid]}\n",
        &["--topology=testbed", "one rack"],
    );
    bad("name: x\nrun: {topology: 'fat-tree:x'}\n", &["fat-tree:x"]);
    bad(
        "name: x\nsweep: {size: [1KiB]}\ntables: [{rows: size, columns: loss, value: completion_ns}]\n",
        &["`loss` is not swept"],
    );
    let two = "name: x\nsweep: {size: [1KiB], loss: [0]}\n";
    bad(
        &format!("{two}per: {{loss: {{0: {{size: 4}}}}}}\n"),
        &["`size` is swept"],
    );
    bad(
        &format!("{two}per: {{mtu: {{1024: {{}}}}}}\n"),
        &["`mtu` is not swept"],
    );
    let claim = |rest: &str| format!("{two}claims: [{{text: T, value: completion_ns, {rest}}}]\n");
    bad(
        &claim("of: {size: 1KiB}, to: {loss: 0}, paper: 1"),
        &["`of` and `to`"],
    );
    bad(
        &claim("of: {size: 1KiB}, to: {size: 1KiB}, paper: much"),
        &["`paper`"],
    );
    bad(
        &claim("of: {size: 1KiB}, to: {size: 1KiB}, paper: -1"),
        &["`paper`"],
    );
    bad(
        &claim("to: {size: 1KiB}, paper: 1"),
        &["claims: of is missing"],
    );
    let ratio = "of: {size: 1KiB}, to: {size: 1KiB}";
    bad(
        &claim(&format!("{ratio}, paper: 1, above: 2")),
        &["`paper`", "`above`"],
    );
    let varied = |vary: &str| claim(&format!("{ratio}, paper: 1, vary: [{{{vary}}}]"));
    bad(
        &varied("flag: size, values: [1B, 2B]"),
        &["`size` selects the sides of the ratio"],
    );
    bad(&varied("flag: mtus, values: [1, 2]"), &["`mtus`", "`mtu`"]);
    bad(&varied("flag: mtu, values: [1024]"), &["fewer than two"]);
    bad(&varied("flag: mtu, values: 1024"), &["expected a list"]);
    bad(
        &varied("flag: mtu, values: [512, 1024], side: left"),
        &["`side` is both, of or to"],
    );
    bad(&varied("flag: mtu, values: [512, 1025]"), &["--mtu=1025"]);
    let quick = format!("{two}quick: {{tables: []}}\n");
    let spec = file(folder.path(), "bad.yaml", &quick);
    refused(
        2,
        &["experiment", "list", &spec, "--quick"],
        &["`tables`", "run, sweep"],
    );
    bad(
        "name: x\nsweep: {size: [1KiB], loss: [0]}\ntables: [{rows: size, columns: loss, value: completion}]\n",
        &["`completion`", "completion_ns"],
    );
}

#[test]
fn results_of_another_experiment_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name: one\nrun: {topology: testbed, size: 64B, algorithms: alfirk}\n";
    let spec = file(folder.path(), "one.yaml", text);
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    run(&spec, out, &[]);
    let id = list(&spec, out)[0]["point"].as_str().unwrap().to_owned();
    let path = format!("{out}/points/{id}.json");
    let text = fs::read_to_string(&path).unwrap();
    let collect = ["experiment", "collect", &spec, "--out", out];
    let version = concat!("\"", env!("CARGO_PKG_VERSION"), "\"");
    fs::write(&path, text.replace(version, "\"0.0.1\"")).unwrap();
    refused(2, &collect, &[&path, "alfirk 0.0.1", "--again"]);
    run(&spec, out, &["--again"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::write(&path, &text[..40]).unwrap();
    refused(2, &collect, &[&path, "remove it"]);
    refused(
        2,
        &["experiment", "point", &spec, "no", "--out", out],
        &["no point no", "list"],
    );
    let in_the_way = file(folder.path(), "file", "");
    refused(
        2,
        &["experiment", "run", &spec, "--out", &in_the_way],
        &["cannot create", "file"],
    );
}

#[test]
fn a_second_run_in_a_folder_is_rejected_with_the_first_process() {
    let folder = tempfile::tempdir().unwrap();
    let long = SMALL.replace("[64B, 8KiB]", "[64MiB]") + "\n";
    let long = long.replace(
        "run: {topology: testbed}",
        "run: {topology: testbed, model: exact}",
    );
    let spec = file(folder.path(), "small.yaml", &long);
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let mut first = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["experiment", "run", &spec, "--out", out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It holds the lock until it ends.
    let lock = Path::new(out).join(".lock");
    let limit = Instant::now() + Duration::from_secs(600);
    while !holds_lock(first.id()) {
        assert!(first.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < limit, "it holds nothing");
        std::thread::yield_now();
    }
    let process = format!("process {} is using this folder", first.id());
    let again = ["experiment", "run", &spec, "--out", out];
    refused(1, &again, &[&process, "--out"]);
    first.kill().unwrap();
    first.wait().unwrap();
    // The kernel has released the lock.
    assert!(!is_locked(&lock));
}

/// Whether a process holds a lock on a file. Reads the kernel's list, because a lock taken to try it could make the process
/// fail that is about to take it.
fn holds_lock(process: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let process = process.to_string();
    let mut holders = locks.lines().map(|lock| lock.split_whitespace().nth(4));
    holders.any(|holder| holder == Some(process.as_str()))
}

/// Whether the file exists and a process holds a lock on it.
fn is_locked(file: &Path) -> bool {
    let Ok(file) = fs::File::open(file) else {
        return false;
    };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}
