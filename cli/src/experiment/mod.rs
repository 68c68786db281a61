//! `alfirk experiment`: a sweep of runs, described by a file.

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
pub use table::Sheet;
use variations::Varied;

/// Run `alfirk run` with all combinations of flags that a file names, and put the results side by side.
///
/// Each point is one run of one algorithm, the same to the byte wherever and whenever it is run. A finished point is kept: a
/// run that was stopped, or a file with more values, goes on with the points that are missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk experiment run experiments/overlays.yaml
  alfirk experiment list experiments/overlays.yaml
  alfirk experiment point experiments/overlays.yaml chain_64B_1_5d1c0a77
  alfirk experiment collect experiments/overlays.yaml

In experiments/README.md: the form of the file, and the same points on a cluster with Snakemake.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the points that are missing, side by side, and collect; a second such command for the same folder is refused
    Run {
        #[command(flatten)]
        place: Place,
        /// Points at once [default: one for each processor, fewer if points have several threads, and one on Mininet]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        jobs: Option<u32>,
        /// Measure every point anew
        #[arg(long)]
        again: bool,
    },
    /// Print the points, one in a line
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
        /// As `list` prints it
        #[arg(value_name = "POINT")]
        id: String,
    },
    /// Write results.csv and the plots of the points that are finished, and print the tables
    Collect {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The experiment, as YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The folder of its results [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// With what the file has for where time is short
    #[arg(long)]
    quick: bool,
}

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
                    "{} has no point {id}; `alfirk experiment list` prints those that it has",
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

/// Failures that a message names.
const SHOWN: usize = 10;

/// An experiment with its points and its folder.
pub struct Set {
    experiment: Experiment,
    /// Those of the sweep, then those that claims vary.
    points: Vec<Point>,
    /// How many are the sweep's.
    swept: usize,
    varied: Vec<Varied>,
    store: Store,
    programs: Programs,
}

/// Data planes by the file that they were compiled from, each compiled once.
#[derive(Clone, Default)]
pub struct Programs(BTreeMap<(Target, Option<PathBuf>), Arc<Compiled>>);

/// A data plane, and what results name it by.
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

    /// Of the text of a file; data planes that it needs are added to `programs`. `folder` is that of the results, `results/NAME` if it is not given.
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

    /// Of the experiment.
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

    /// Runs the points that are missing, or all of them again.
    pub fn measure_missing(&self, again: bool, jobs: Option<u32>) -> Outcome {
        self.store.make()?;
        let _hold = self.store.hold(Use::Alone)?;
        self.store.tidy()?;
        let missing = match again {
            true => self.points.iter().collect(),
            false => self.missing()?,
        };
        self.measure(missing, jobs)
    }

    /// Runs points side by side. A point that fails does not keep the others from being run.
    fn measure(&self, points: Vec<&Point>, jobs: Option<u32>) -> Outcome {
        let on_mininet = points
            .iter()
            .any(|point| point.value("driver") == run::name(Driver::Mininet));
        let jobs = match (jobs, on_mininet) {
            (Some(2..), true) => {
                return Err(Failure::bad_input(
                    "--jobs: networks on Mininet would share the processors, by which their times are made; leave it out, or give --jobs 1",
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
        // Before any thread is started. In virtual time there is nothing to take down.
        let stop = on_mininet.then(|| Stop::watch(Driver::Mininet, bars.runs()));
        let stop = stop.transpose()?;
        let bar = bar(total);
        let waiting = Mutex::new(points.into_iter());
        let failed = Mutex::new(Vec::new());
        // Where one result cannot be written no other can.
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
            let kept = "finished points are kept, and the same command goes on with the others";
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
            for told in finding.dependences() {
                let _ = writeln!(text, "  {told}");
            }
        }
        for path in self.save_plots(&results.plots())? {
            let _ = writeln!(text, "\n{}", path.display());
        }
        print(text)?;
        results.verified()
    }

    /// Writes plots as SVG and PNG; gives the files.
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

    /// What is finished.
    ///
    /// # Errors
    /// A result is damaged or comes from another version.
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
    /// Those of the sweep, then those that claims vary.
    records: Vec<(&'s Point, Record)>,
    /// How many are the sweep's.
    swept: usize,
    varied: &'s [Varied],
}

impl Results<'_> {
    /// Of the sweep.
    fn swept(&self) -> Vec<(&Point, &Record)> {
        self.some(&self.records[..self.swept])
    }

    fn some<'r>(&self, records: &'r [(&Point, Record)]) -> Vec<(&'r Point, &'r Record)> {
        records
            .iter()
            .map(|(point, record)| (*point, record))
            .collect()
    }

    pub fn csv(&self) -> Vec<u8> {
        let varied = variations::flags(self.experiment, &self.experiment.sweep);
        rows::csv(&self.axes, &varied, &self.some(&self.records))
    }

    /// All tables of the experiment, for a terminal.
    pub fn tables(&self) -> String {
        let tables = self.experiment.tables.iter();
        tables
            .map(|table| table::text(table, &self.axes, &self.swept()))
            .collect()
    }

    /// The same tables, cell by cell.
    pub fn sheets(&self) -> Vec<Sheet> {
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

    /// Whether all receivers of all runs had what was sent.
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
                "some receivers do not hold the bytes that were sent, in {}",
                wrong.join(", ")
            ))),
        }
    }
}

/// The experiment in the text of a file, without a look at its points.
pub fn parse(file: &Path, text: &str, extent: Extent) -> Result<Experiment, Failure> {
    Experiment::parse(file, text, &Flags::new(), extent).map_err(Failure::bad_input)
}

/// What the switches of a point run: the target, and a file that is not the built-in one.
fn program_source(point: &Point) -> (Target, Option<PathBuf>) {
    let value = |flag: &str| {
        let mut settings = point.settings.iter();
        settings
            .find(|setting| setting.flag == flag)?
            .value
            .as_ref()
    };
    // Whether there is such a target is checked with the other flags.
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

/// How far the points are, on a terminal only.
fn bar(total: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), progress::target());
    let style = ProgressStyle::with_template(
        "{bar:40} {pos} of {len} points, {elapsed}, {eta} left  {msg}",
    );
    bar.set_style(style.expect("the template is right"));
    bar
}
