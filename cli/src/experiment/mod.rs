//! `alfirk experiment`: runs a parameter sweep that a file describes.

pub mod claims;
mod drawing;
mod flags;
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
use store::{Record, Store, Use, VERSION};
pub use table::CellTable;
use variations::Varied;

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
        place: Place,
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
        place: Place,
        /// Print an array of objects with each point's command and whether it is finished
        #[arg(long)]
        json: bool,
    },
    /// Run one point, whether it is finished or not
    Point {
        #[command(flatten)]
        place: Place,
        /// Name of the point, as `list` prints it
        #[arg(value_name = "POINT")]
        id: String,
    },
    /// Write results.csv and the plots of the finished points, and print the tables
    Collect {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
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
        Verb::Run { place, jobs, again } => {
            let set = Set::open(&place)?;
            set.measure_missing(again, jobs)?;
            set.collect()
        }
        Verb::List { place, json } => Set::open(&place)?.list(json),
        Verb::Point { place, id } => {
            let set = Set::open(&place)?;
            let Some(point) = set.points.iter().find(|point| point.id == id) else {
                return Err(Failure::bad_input(format_args!(
                    "{} has no point {id}; `alfirk experiment list` prints its points",
                    place.file.display()
                )));
            };
            set.store.make()?;
            let _hold = set.store.hold(Use::Shared)?;
            set.measure(vec![point], Some(1))
        }
        Verb::Collect { place } => {
            let set = Set::open(&place)?;
            set.store.make()?;
            set.collect()
        }
    }
}

/// Maximum number of failures in a message.
const SHOWN: usize = 10;

/// An experiment with its points and its results folder.
pub struct Set {
    experiment: Experiment,
    /// Points of the sweep, then further points of the claims' variations.
    points: Vec<Point>,
    /// Number of points of the sweep.
    swept: usize,
    varied: Vec<Varied>,
    store: Store,
    programs: Programs,
}

/// Compiled data planes by target and file; each is compiled once.
#[derive(Clone, Default)]
pub struct Programs(BTreeMap<(Target, Option<PathBuf>), Arc<Compiled>>);

/// A compiled data plane, with its name in results.
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

impl Set {
    fn open(place: &Place) -> Result<Set, Failure> {
        let shown = place.file.display();
        let text = fs::read_to_string(&place.file).map_err(|error| {
            Failure::bad_input(format_args!("cannot read the experiment {shown}: {error}"))
        })?;
        let extent = if place.quick {
            Extent::Quick
        } else {
            Extent::Whole
        };
        let programs = &mut Programs::default();
        Set::new(&place.file, &text, extent, place.out.as_deref(), programs)
    }

    /// Parses the text of an experiment file; compiled data planes are added to `programs`. `folder` is that of the results, by default `results/NAME`.
    pub fn new(
        file: &Path,
        text: &str,
        extent: Extent,
        folder: Option<&Path>,
        programs: &mut Programs,
    ) -> Result<Set, Failure> {
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
        Ok(Set {
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

    fn missing(&self) -> Result<Vec<&Point>, Failure> {
        let mut missing = Vec::new();
        for point in &self.points {
            if self.load(point)?.is_none() {
                missing.push(point);
            }
        }
        Ok(missing)
    }

    /// Runs the missing points, or all of them again.
    pub fn measure_missing(&self, again: bool, jobs: Option<u32>) -> Outcome {
        self.store.make()?;
        let _hold = self.store.hold(Use::Alone)?;
        self.store.remove_incomplete()?;
        let missing = match again {
            true => self.points.iter().collect(),
            false => self.missing()?,
        };
        self.measure(missing, jobs)
    }

    /// Runs points in parallel. A failed point does not prevent the others.
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
        let bar = bar(total);
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
                    let what = format!("{}: {}", command, message(failure));
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
                Some(stop) => stop.explained(stopped),
                None => stopped,
            };
        }
        if failed.is_empty() {
            return Ok(());
        }
        let (count, list) = (failed.len(), failed[..failed.len().min(SHOWN)].join("\n"));
        let more = if count > SHOWN { "\n..." } else { "" };
        Err(Failure::failed(format_args!(
            "{count} of {total} points failed; the others are kept\n{list}{more}"
        )))
    }

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
            let (ours, paper) = (finding.ours(), finding.paper());
            let _ = writeln!(text, "  measured {ours}, published {paper}: {verdict}");
            for dependence in finding.dependences() {
                let _ = writeln!(text, "  {dependence}");
            }
        }
        for path in self.save_plots(&results.plots())? {
            let _ = writeln!(text, "\n{}", path.display());
        }
        print(text)?;
        results.verified()
    }

    /// Writes plots as SVG and PNG; returns the files.
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

    /// Loads the finished points.
    ///
    /// # Errors
    /// A result is damaged or is of another version.
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

/// The finished points of an experiment.
pub struct Results<'s> {
    pub experiment: &'s Experiment,
    axes: Vec<&'s str>,
    /// Points of the sweep, then further points of the claims' variations.
    records: Vec<(&'s Point, Record)>,
    /// Number of points of the sweep.
    swept: usize,
    varied: &'s [Varied],
}

impl Results<'_> {
    /// Records of the sweep.
    fn swept(&self) -> Vec<(&Point, &Record)> {
        self.some(&self.records[..self.swept])
    }

    fn some<'r>(&self, records: &'r [(&Point, Record)]) -> Vec<(&'r Point, &'r Record)> {
        records
            .iter()
            .map(|(point, record)| (*point, record))
            .collect()
    }

    /// The results of all points as CSV.
    pub fn csv(&self) -> Vec<u8> {
        let varied = variations::flags(self.experiment, &self.experiment.sweep);
        rows::csv(&self.axes, &varied, &self.some(&self.records))
    }

    /// All tables of the experiment as text.
    pub fn tables(&self) -> String {
        let tables = self.experiment.tables.iter();
        tables
            .map(|table| table::text(table, &self.axes, &self.swept()))
            .collect()
    }

    /// All tables of the experiment, cell by cell.
    pub fn sheets(&self) -> Vec<CellTable> {
        let tables = self.experiment.tables.iter();
        tables
            .flat_map(|table| table::sheets(table, &self.axes, &self.swept()))
            .collect()
    }

    /// All plots.
    pub fn plots(&self) -> Vec<Drawing> {
        let records = self.swept();
        let plots = self.experiment.plots.iter();
        let plots = plots.flat_map(|plot| plot::draw(plot, &self.axes, &records));
        let mut drawn: Vec<Drawing> = plots.chain(timeline::draw(&records)).collect();
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
                let varied = self.varied.iter().filter(|varied| varied.of.0 == number);
                let dependences = varied.map(|varied| self.dependence(varied)).collect();
                claims::look(claim, &self.axes, &self.swept(), dependences)
            })
            .collect()
    }

    fn dependence(&self, varied: &Varied) -> Dependence<'_> {
        let claim = &self.experiment.claims[varied.of.0];
        let variation = &claim.vary[varied.of.1];
        let ratios = varied.values.iter().map(|names| {
            let all = self.some(&self.records);
            let here: Vec<_> = all
                .into_iter()
                .filter(|(point, _)| names.contains(&point.id))
                .collect();
            claims::depends(claim, variation, &self.axes, &here)
        });
        Dependence {
            variation,
            ratios: ratios.collect(),
        }
    }

    /// Checks that all receivers of all runs received the sent bytes.
    pub fn verified(&self) -> Outcome {
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

/// Parses the text of an experiment file, without enumerating its points.
pub fn parse(file: &Path, text: &str, extent: Extent) -> Result<Experiment, Failure> {
    Experiment::parse(file, text, &Flags::new(), extent).map_err(Failure::bad_input)
}

/// Data plane of a point: the target, and a file if it is not the built-in program.
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

fn message(failure: Failure) -> String {
    match failure {
        Failure::Failed(error) | Failure::BadInput(error) => format!("{error:#}"),
        Failure::Quiet(code) => format!("exit code {code}"),
        Failure::PipeClosed => "a pipe was closed".to_owned(),
    }
}

/// Progress bar of the points, on terminals only.
fn bar(total: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), progress::target());
    let style = ProgressStyle::with_template(
        "{bar:40} {pos} of {len} points, {elapsed}, {eta} left  {msg}",
    );
    bar.set_style(style.expect("the template is right"));
    bar
}
