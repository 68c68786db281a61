//! `alfirk reproduce`: measures the figures and tables of papers again, and compares them with what the papers state.

mod binomial_ack_table_1;
mod page;
mod report;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::exit::{print, Failure, Outcome};
use crate::experiment::spec::Extent;
use crate::experiment::{self, LoadedExperiment, Programs};

/// Reproduce figures and tables of the papers in virtual time, and compare them with the papers' claims.
///
/// Each is an experiment (`alfirk experiment`) with the paper's claims. Finished points are kept, and a stopped run resumes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk reproduce --list
  alfirk reproduce cepheus-figure-8
  alfirk reproduce binomial-ack-table-1
  alfirk reproduce all --quick --out /tmp/report       # report.html opens with all claims")]
pub struct Args {
    /// Figures and tables to measure: names from --list, or all
    #[arg(value_name = "FIGURE", required_unless_present = "list")]
    figures: Vec<String>,

    /// List the figures and tables
    #[arg(long)]
    list: bool,

    /// Use smaller groups and fewer points, as a quick check; claims need the whole
    #[arg(long)]
    quick: bool,

    /// Folder for report.html, and for a folder with the results of each figure [default: results/reproduction, with --quick
    /// results/reproduction-quick]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Number of parallel runs [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

/// Name and content of an experiment file in `experiments/papers`, which is embedded in the executable.
macro_rules! experiment {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../experiments/papers/", $name, ".yaml")),
        )
    };
}

/// Experiment files of figures and tables: names and contents.
const EXPERIMENTS: [(&str, &str); 22] = [
    experiment!("cepheus-figure-8"),
    experiment!("cepheus-figure-9"),
    experiment!("cepheus-figure-10"),
    experiment!("cepheus-table-1"),
    experiment!("cepheus-figure-11a"),
    experiment!("cepheus-figure-11-pb"),
    experiment!("cepheus-figure-11-rs"),
    experiment!("cepheus-figure-12"),
    experiment!("cepheus-figure-13"),
    experiment!("cepheus-figure-13-512"),
    experiment!("cepheus-figure-14"),
    experiment!("cepheus-figure-14-shared"),
    experiment!("gleam-figure-9"),
    experiment!("gleam-figure-13"),
    experiment!("gleam-figure-14"),
    experiment!("gleam-figure-15"),
    experiment!("gleam-figure-16"),
    experiment!("rdmc-steps"),
    experiment!("rdmc-slow-link"),
    experiment!("rdmc-delay"),
    experiment!("cyclic-figures-8-to-17"),
    experiment!("cyclic-unicast"),
];
/// Topology file that experiments refer to: its path in the repository and its content. It is written to the results
/// folder, since the executable may be used without the repository.
const TOPOLOGY: (&str, &str) = (
    "../../topologies/n-tree-8-3-infiniband.yaml",
    include_str!("../../topologies/n-tree-8-3-infiniband.yaml"),
);
/// Name of the only table that is measured without an experiment file.
const BINOMIAL_ACK: &str = "binomial-ack-table-1";
const BINOMIAL_ACK_ABOUT: &str =
    "MPI's broadcast by a binomial tree of connections, and multicast with acknowledgements up a binomial tree";

/// Runs `alfirk reproduce`.
pub fn run(args: &Args) -> Outcome {
    if args.list {
        return print(list()?);
    }
    let all = args.figures.iter().any(|name| name == "all");
    let known =
        |name: &str| name == BINOMIAL_ACK || EXPERIMENTS.iter().any(|(known, _)| *known == name);
    if let Some(unknown) = args
        .figures
        .iter()
        .find(|name| *name != "all" && !known(name))
    {
        return Err(Failure::bad_input(format_args!(
            "there is no figure `{unknown}`; `alfirk reproduce --list` prints the names"
        )));
    }
    let wanted = |name: &str| all || args.figures.iter().any(|figure| figure == name);
    let folder = match (&args.out, args.quick) {
        (Some(folder), _) => folder.clone(),
        (None, false) => PathBuf::from("results/reproduction"),
        (None, true) => PathBuf::from("results/reproduction-quick"),
    };
    let extent = if args.quick {
        Extent::Quick
    } else {
        Extent::Whole
    };
    let (mut experiments, mut programs) = (Vec::new(), Programs::default());
    for (name, text) in EXPERIMENTS.into_iter().filter(|(name, _)| wanted(name)) {
        let results = folder.join(name);
        let text = with_topology(text, &results)?;
        let file = file_name(name);
        experiments.push(LoadedExperiment::new(
            &file,
            &text,
            extent,
            Some(&results),
            &mut programs,
        )?);
    }
    for experiment in &experiments {
        let begun = Instant::now();
        experiment.measure_missing(false, args.jobs)?;
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!("{}: {seconds:.1} s", experiment.name());
    }
    let results = experiments
        .iter()
        .map(LoadedExperiment::results)
        .collect::<Result<Vec<_>, _>>()?;
    for (experiment, results) in experiments.iter().zip(&results) {
        results.check_verified()?;
        experiment.save_plots(&results.plots())?;
    }
    let table = wanted(BINOMIAL_ACK)
        .then(binomial_ack_table_1::measure_all)
        .transpose()?;
    let page = page::html(
        &results,
        table.as_ref().map(|table| table.text()).as_deref(),
        args.quick,
    );
    let written = folder.join("report.html");
    let unwritable =
        |error| Failure::failed(format_args!("cannot write {}: {error}", written.display()));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&written, page))
        .map_err(unwritable)?;
    if args.json {
        let claims: Vec<_> = results.iter().flat_map(report::claims).collect();
        let mut object = json!({ "quick": args.quick, "claims": claims });
        if let Some(table) = table {
            object[BINOMIAL_ACK] = table.json();
        }
        return print(format_args!("{object}\n"));
    }
    let mut out = String::new();
    for results in &results {
        let experiment = results.experiment;
        let _ = writeln!(
            out,
            "{}: {}\n{}{}",
            experiment.name,
            experiment.source,
            experiment.about,
            results.tables()
        );
    }
    if let Some(table) = table {
        let _ = writeln!(
            out,
            "{BINOMIAL_ACK}: {BINOMIAL_ACK_ABOUT}\n\n{}",
            table.text()
        );
    }
    out += &report::summary(&results, args.quick);
    let _ = writeln!(out, "\n{}", written.display());
    print(out)
}

fn list() -> Result<String, Failure> {
    let mut out = String::new();
    let width = EXPERIMENTS
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    for (name, text) in EXPERIMENTS {
        let experiment = experiment::parse(&file_name(name), text, Extent::Whole)?;
        let _ = writeln!(
            out,
            "{name:width$}  {} [{}]",
            experiment.about, experiment.source
        );
    }
    let _ = writeln!(
        out,
        "{BINOMIAL_ACK:width$}  {BINOMIAL_ACK_ABOUT} [Mansoor and Meehan, table 1]"
    );
    Ok(out)
}

/// Returns the text of an experiment with the path of [`TOPOLOGY`] replaced by that of a copy, which is written to
/// `results`.
fn with_topology(text: &str, results: &Path) -> Result<String, Failure> {
    let (name, content) = TOPOLOGY;
    if !text.contains(name) {
        return Ok(text.to_owned());
    }
    let file = results.join(Path::new(name).file_name().unwrap_or_default());
    let unwritable =
        |error| Failure::failed(format_args!("cannot write {}: {error}", file.display()));
    let written = fs::create_dir_all(results).and_then(|()| fs::write(&file, content));
    let absolute = written.and_then(|()| std::path::absolute(&file));
    let absolute = absolute.map_err(unwritable)?;
    Ok(text.replace(name, &absolute.display().to_string()))
}

/// File name of the embedded experiment `name`, for messages.
fn file_name(name: &str) -> PathBuf {
    Path::new("experiments/papers").join(format!("{name}.yaml"))
}
