//! `alfirk experiment`: runs a parameter sweep that a file describes.

pub mod claims;
mod drawing;
mod flags;
mod letters;
mod plot;
mod points;
mod quantity;
mod rows;
mod setting;
pub mod spec;
mod store;
mod table;
mod timeline;
mod variations;

use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use alfirk_roce::collective::Digest;
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::exit::{print, Failure, Outcome};
use crate::program::{self, CompiledProgram, Target};
use crate::run::progress::{self, Bars};
use crate::run::stop::Stop;
use crate::run::{self, Driver};
use claims::{Dependence, Finding};
use drawing::Drawing;
use flags::Flags;
use points::Point;
use spec::{Experiment, Extent};
use store::{LockKind, Record, Store, VERSION};
pub use table::CellTable;
use variations::VariationPoints;

/// Run `alfirk run` with all combinations of flags in a file, and write tables, plots and a CSV file.
///
/// A point is one run of one algorithm; in virtual time its result is the same on every machine. Finished points are kept: after
/// an interrupt, or with more values in the file, only the missing points are run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk experiment run experiments/overlays.yaml
  alfirk experiment list experiments/overlays.yaml
  alfirk experiment point experiments/overlays.yaml chain_64B_1_5d1c0a77
  alfirk experiment collect experiments/overlays.yaml

experiments/README.md describes the file format, and how to run the points on a cluster with Snakemake.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the missing points in parallel, and collect; only one such command may run for a folder
    Run {
        #[command(flatten)]
        args: ExperimentArgs,
        /// Number of parallel points [default: one for each processor, fewer if points have several threads, and one on Mininet]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        jobs: Option<u32>,
        /// Measure finished points again
        #[arg(long)]
        again: bool,
    },
    /// List the points, one per line
    List {
        #[command(flatten)]
        args: ExperimentArgs,
        /// Print an array of objects with each point's command and whether it is finished
        #[arg(long)]
        json: bool,
    },
    /// Run one point, whether it is finished or not
    Point {
        #[command(flatten)]
        args: ExperimentArgs,
        /// Name of the point, as `list` prints it
        #[arg(value_name = "POINT")]
        id: String,
    },
    /// Write results.csv and the plots of the finished points, and print the tables
    Collect {
        #[command(flatten)]
        args: ExperimentArgs,
    },
}

/// The experiment file and results folder on the command line, common to all subcommands.
#[derive(Debug, clap::Args)]
struct ExperimentArgs {
    /// Experiment file (YAML)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Folder for the results [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Use the settings under `quick:` in the file, for a short run
    #[arg(long)]
    quick: bool,
}

/// Runs `alfirk experiment`.
pub fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Run { args, jobs, again } => {
            let set = LoadedExperiment::open(&args)?;
            set.measure_missing(again, jobs)?;
            set.collect()
        }
        Verb::List { args, json } => LoadedExperiment::open(&args)?.list(json),
        Verb::Point { args, id } => {
            let set = LoadedExperiment::open(&args)?;
            let Some(point) = set.points.iter().find(|point| point.id == id) else {
                return Err(Failure::bad_input(format_args!(
                    "{} has no point {id}; `alfirk experiment list` prints its points",
                    args.file.display()
                )));
            };
            set.store.make()?;
            let _hold = set.store.lock(LockKind::Shared)?;
            set.measure(vec![point], Some(1))
        }
        Verb::Collect { args } => {
            let set = LoadedExperiment::open(&args)?;
            set.store.make()?;
            set.collect()
        }
    }
}

/// Maximum number of failed points that an error message lists.
const MAX_LISTED_FAILURES: usize = 10;

/// An experiment file, with the runs (points) that it requires and its results folder.
pub struct LoadedExperiment {
    experiment: Experiment,
    /// Points of the sweep, then those that only claims need, which vary a flag.
    points: Vec<Point>,
    /// Number of entries at the beginning of `points` that belong to the sweep.
    swept: usize,
    varied: Vec<VariationPoints>,
    store: Store,
    programs: Programs,
}

/// Compiled data planes, by target and P4 file (`None`: the built-in program). Each is compiled once.
#[derive(Clone, Default)]
pub struct Programs(BTreeMap<(Target, Option<PathBuf>), Arc<Compiled>>);

/// A compiled data plane, and the SHA-256 that identifies it in results.
struct Compiled {
    program: CompiledProgram,
    sha256: String,
}

impl Programs {
    fn compile(&mut self, source: (Target, Option<PathBuf>)) -> Result<(), Failure> {
        if let Entry::Vacant(place) = self.0.entry(source) {
            let (target, file) = place.key();
            let program = program::compile_program(*target, file.as_deref())?;
            let sha256 = Digest::of(&program.device_config).to_string();
            place.insert(Arc::new(Compiled { program, sha256 }));
        }
        Ok(())
    }
}

impl LoadedExperiment {
    fn open(args: &ExperimentArgs) -> Result<LoadedExperiment, Failure> {
        let shown = args.file.display();
        let text = fs::read_to_string(&args.file).map_err(|error| {
            Failure::bad_input(format_args!("cannot read the experiment {shown}: {error}"))
        })?;
        let extent = if args.quick {
            Extent::Quick
        } else {
            Extent::Whole
        };
        let programs = &mut Programs::default();
        LoadedExperiment::new(&args.file, &text, extent, args.out.as_deref(), programs)
    }

    /// Parses an experiment file with the content `text`, lists its points and compiles their data planes, which are
    /// added to `programs`. `folder`: the results folder, by default `results/NAME`.
    pub fn new(
        file: &Path,
        text: &str,
        extent: Extent,
        folder: Option<&Path>,
        programs: &mut Programs,
    ) -> Result<LoadedExperiment, Failure> {
        let experiment = parse(file, text, extent)?;
        let mut points = points::enumerate(&experiment)?;
        let swept = points.len();
        let (varied, more) = variations::enumerate(&experiment, &points)?;
        points.extend(more);
        for point in &points {
            programs.compile(program_source(point))?;
        }
        let folder = match folder {
            Some(folder) => folder.to_path_buf(),
            None => Path::new("results").join(&experiment.name),
        };
        Ok(LoadedExperiment {
            store: Store::new(&folder),
            experiment,
            points,
            swept,
            varied,
            programs: programs.clone(),
        })
    }

    /// Name of the experiment.
    pub fn name(&self) -> &str {
        &self.experiment.name
    }

    fn compiled(&self, point: &Point) -> &Compiled {
        &self.programs.0[&program_source(point)]
    }

    fn load(&self, point: &Point) -> Result<Option<Record>, Failure> {
        self.store.load(point, &self.compiled(point).sha256)
    }

    /// Points without a result.
    fn missing(&self) -> Result<Vec<&Point>, Failure> {
        let mut missing = Vec::new();
        for point in &self.points {
            if self.load(point)?.is_none() {
                missing.push(point);
            }
        }
        Ok(missing)
    }

    /// Runs the points without a result, or with `again` all points. `jobs`: number of runs in parallel.
    pub fn measure_missing(&self, again: bool, jobs: Option<u32>) -> Outcome {
        self.store.make()?;
        let _hold = self.store.lock(LockKind::Exclusive)?;
        self.store.remove_incomplete()?;
        let missing = match again {
            true => self.points.iter().collect(),
            false => self.missing()?,
        };
        self.measure(missing, jobs)
    }

    /// Runs points in parallel and saves their results. After a failed point, the others still run.
    fn measure(&self, points: Vec<&Point>, jobs: Option<u32>) -> Outcome {
        let on_mininet = points
            .iter()
            .any(|point| point.value("driver") == run::name(Driver::Mininet));
        let jobs = match (jobs, on_mininet) {
            (Some(2..), true) => {
                return Err(Failure::bad_input(
                    "--jobs: parallel networks on Mininet would slow each other down; leave it out, or give --jobs 1",
                ));
            }
            (Some(jobs), _) => jobs as usize,
            (None, true) => 1,
            (None, false) => {
                let threads = points
                    .iter()
                    .filter_map(|point| point.value("threads").parse().ok());
                run::fabrics_at_once(threads.max().unwrap_or(1))
            }
        };
        let total = points.len();
        let bars = Bars::hidden();
        // Created before any thread is started. In virtual time there is no network to remove.
        let stop = on_mininet.then(|| Stop::watch(Driver::Mininet, bars.runs()));
        let stop = stop.transpose()?;
        let bar = points_bar(total);
        let waiting = Mutex::new(points.into_iter());
        let failed = Mutex::new(Vec::new());
        // If one result cannot be written, the others cannot either.
        let unwritable = OnceLock::new();
        let work = || loop {
            let next = waiting.lock().expect("taking one cannot fail").next();
            let is_over = unwritable.get().is_some() || bars.runs().interrupted().is_some();
            let Some(point) = next.filter(|_| !is_over) else {
                return;
            };
            bar.set_message(point.id.clone());
            match self.measure_one(point, &bars) {
                Ok(record) => {
                    if let Err(failure) = self.store.save(&record) {
                        let _ = unwritable.set(failure);
                    }
                }
                Err(failure) => {
                    let command = flags::command_line(&point.settings);
                    let what = format!("{command}: {}", failure.message());
                    failed.lock().expect("pushing cannot fail").push(what);
                }
            }
            bar.inc(1);
        };
        thread::scope(|scope| {
            for _ in 1..jobs.min(total.max(1)) {
                scope.spawn(work);
            }
            work();
        });
        bar.finish_and_clear();
        if let Some(failure) = unwritable.into_inner() {
            return Err(failure);
        }
        let failed = failed.into_inner().expect("pushing cannot fail");
        if bars.runs().interrupted().is_some() {
            let kept = "finished points are kept; repeat the command to run the others";
            let stopped = Err(Failure::failed(kept));
            return match &stop {
                Some(stop) => stop.with_signal_name(stopped),
                None => stopped,
            };
        }
        if failed.is_empty() {
            return Ok(());
        }
        let (count, list) = (
            failed.len(),
            failed[..failed.len().min(MAX_LISTED_FAILURES)].join("\n"),
        );
        let more = if count > MAX_LISTED_FAILURES {
            "\n..."
        } else {
            ""
        };
        Err(Failure::failed(format_args!(
            "{count} of {total} points failed; the others are kept\n{list}{more}"
        )))
    }

    /// Runs one point and returns its result with its origin.
    fn measure_one(&self, point: &Point, bars: &Bars) -> Result<Record, Failure> {
        let Compiled { program, sha256 } = self.compiled(point);
        let config = point.config()?;
        let report = run::measure(&config, program, bars)?;
        Ok(Record {
            experiment: self.experiment.name.clone(),
            id: point.id.clone(),
            version: VERSION.to_owned(),
            program: sha256.clone(),
            command: flags::command_line(&point.settings),
            report: serde_json::to_value(&report).expect("a report has no strange keys"),
        })
    }

    fn list(&self, json: bool) -> Outcome {
        let mut text = String::new();
        if !json {
            for point in &self.points {
                let _ = writeln!(text, "{}", point.id);
            }
            return print(text);
        }
        let mut list = Vec::new();
        for point in &self.points {
            list.push(json!({
                "point": point.id,
                "command": flags::command_line(&point.settings),
                "finished": self.load(point)?.is_some(),
            }));
        }
        print(format_args!("{}\n", serde_json::Value::from(list)))
    }

    fn collect(&self) -> Outcome {
        let results = self.results()?;
        let (finished, total) = (results.records.len(), self.points.len());
        let csv = self.store.save_file("results.csv", &results.csv())?;
        let mut text = format!(
            "{}: {finished} of {total} points, in {}\n",
            self.experiment.name,
            csv.display()
        );
        if !self.experiment.about.is_empty() {
            let _ = writeln!(text, "{}", self.experiment.about);
        }
        text += &results.tables();
        for finding in results.findings() {
            let _ = writeln!(text, "\n{}", finding.claim.text);
            let verdict = finding.verdict();
            let (ours, paper) = (finding.measured_text(), finding.published_text());
            let _ = writeln!(text, "  measured {ours}, published {paper}: {verdict}");
            for dependence in finding.dependence_sentences() {
                let _ = writeln!(text, "  {dependence}");
            }
        }
        for path in self.save_plots(&results.plots())? {
            let _ = writeln!(text, "\n{}", path.display());
        }
        print(text)?;
        results.check_verified()
    }

    /// Writes plots as SVG and PNG files to the results folder; returns their paths.
    ///
    /// # Errors
    /// The disk is full, or the folder cannot be written.
    pub fn save_plots(&self, plots: &[Drawing]) -> Result<Vec<PathBuf>, Failure> {
        let files = plots.iter().flat_map(|plot| {
            let named = |ending| format!("{}.{ending}", plot.name);
            [
                (named("svg"), plot.svg.as_bytes()),
                (named("png"), plot.png.as_slice()),
            ]
        });
        files
            .map(|(name, bytes)| self.store.save_file(&name, bytes))
            .collect()
    }

    /// Loads the results of all finished points.
    ///
    /// # Errors
    /// A result file is damaged, or was written by another version or with another data plane.
    pub fn results(&self) -> Result<Results<'_>, Failure> {
        let (mut records, mut swept) = (Vec::new(), 0);
        for (number, point) in self.points.iter().enumerate() {
            if let Some(record) = self.load(point)? {
                records.push((point, record));
                swept += usize::from(number < self.swept);
            }
        }
        Ok(Results {
            experiment: &self.experiment,
            axes: spec::axes(&self.experiment.sweep),
            records,
            swept,
            varied: &self.varied,
        })
    }
}

/// Results of the finished points of an experiment.
pub struct Results<'s> {
    pub experiment: &'s Experiment,
    axes: Vec<&'s str>,
    /// Finished points of the sweep, then those that only claims need, each with its result.
    records: Vec<(&'s Point, Record)>,
    /// Number of entries at the beginning of `records` that belong to the sweep.
    swept: usize,
    varied: &'s [VariationPoints],
}

impl Results<'_> {
    /// Finished points of the sweep, with their results.
    fn swept(&self) -> Vec<(&Point, &Record)> {
        self.as_refs(&self.records[..self.swept])
    }

    /// The records with references to their results, the form that other modules use.
    fn as_refs<'r>(&self, records: &'r [(&Point, Record)]) -> Vec<(&'r Point, &'r Record)> {
        records
            .iter()
            .map(|(point, record)| (*point, record))
            .collect()
    }

    /// The results of all finished points as CSV.
    pub fn csv(&self) -> Vec<u8> {
        let varied = variations::flags(self.experiment, &self.experiment.sweep);
        rows::csv(&self.axes, &varied, &self.as_refs(&self.records))
    }

    /// All tables of the experiment as text.
    pub fn tables(&self) -> String {
        let tables = self.experiment.tables.iter();
        tables
            .map(|table| table::text(table, &self.axes, &self.swept()))
            .collect()
    }

    /// All tables of the experiment as rows of cells.
    pub fn cell_tables(&self) -> Vec<CellTable> {
        let tables = self.experiment.tables.iter();
        tables
            .flat_map(|table| table::cell_tables(table, &self.axes, &self.swept()))
            .collect()
    }

    /// All plots of the experiment: those of its file, throughput over time, and the dependences of claims.
    pub fn plots(&self) -> Vec<Drawing> {
        let records = self.swept();
        let plots = self.experiment.plots.iter();
        let plots = plots.flat_map(|plot| plot::draw(plot, &self.axes, &records));
        let mut drawn: Vec<Drawing> = plots.chain(timeline::draw(&self.axes, &records)).collect();
        for (number, finding) in self.findings().iter().enumerate() {
            drawn.extend(plot::draw_dependences(number, finding));
        }
        drawn
    }

    /// Compares the measured ratio of each claim with the published one.
    pub fn findings(&self) -> Vec<Finding<'_>> {
        let claims = self.experiment.claims.iter();
        claims
            .enumerate()
            .map(|(number, claim)| {
                let varied = self
                    .varied
                    .iter()
                    .filter(|varied| varied.claim_and_variation.0 == number);
                let dependences = varied.map(|varied| self.dependence(varied)).collect();
                claims::evaluate(claim, &self.axes, &self.swept(), dependences)
            })
            .collect()
    }

    /// Evaluates the ratio of a claim for each value of a varied flag.
    fn dependence(&self, varied: &VariationPoints) -> Dependence<'_> {
        let claim = &self.experiment.claims[varied.claim_and_variation.0];
        let variation = &claim.vary[varied.claim_and_variation.1];
        let ratios = varied.values.iter().map(|names| {
            let all = self.as_refs(&self.records);
            let here: Vec<_> = all
                .into_iter()
                .filter(|(point, _)| names.contains(&point.id))
                .collect();
            claims::evaluate_at_value(claim, variation, &self.axes, &here)
        });
        Dependence {
            variation,
            ratios: ratios.collect(),
        }
    }

    /// Returns an error if a receiver of a run did not receive the bytes that were sent; the error names the points.
    pub fn check_verified(&self) -> Outcome {
        let wrong: Vec<&str> = self
            .records
            .iter()
            .filter(|(_, record)| !rows::verified(record))
            .map(|(point, _)| point.id.as_str())
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::failed(format_args!(
                "some receivers do not have the bytes that were sent, in {}",
                wrong.join(", ")
            ))),
        }
    }
}

/// Parses the experiment file `file` with the content `text`. Its points are not listed or checked.
pub fn parse(file: &Path, text: &str, extent: Extent) -> Result<Experiment, Failure> {
    Experiment::parse(file, text, &Flags::new(), extent).map_err(Failure::bad_input)
}

/// Data plane that a point uses: the target, and the P4 file (`None`: the built-in program).
fn program_source(point: &Point) -> (Target, Option<PathBuf>) {
    let value = |flag: &str| {
        let mut settings = point.settings.iter();
        settings
            .find(|setting| setting.flag == flag)?
            .value
            .as_ref()
    };
    // The target is checked with the other flags.
    let target = value("target").and_then(|name| Target::from_str(name, true).ok());
    (
        target.unwrap_or_default(),
        value("p4src").map(PathBuf::from),
    )
}

/// Creates the progress bar for `total` points; it is hidden unless stderr is a terminal.
fn points_bar(total: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), progress::target());
    let style = ProgressStyle::with_template(
        "{bar:40} {pos} of {len} points, {elapsed}, {eta} left  {msg}",
    );
    bar.set_style(style.expect("the template is right"));
    bar
}
