//! `alfirk coverage`: sums coverage of several runs, and shows it.

use std::fs;
use std::path::{Path, PathBuf};

use alfirk_coverage::{html, read, FileError, Report};

use crate::exit::{print, Failure, Outcome};

/// Show the coverage of P4 programs by tests, which `alfirk stf`, `alfirk ptf` and `alfirk switch` write with --coverage.
///
/// Prints covered and all lines, branches, and functions (parser states, actions, controls) of each source file. Branches are the
/// outcomes of conditions, the cases of a `select`, and a table's hit, miss and actions. Code that the compiler has removed is not
/// counted. Counts of several files are added.
///
/// Exit codes: 0 done, 1 coverage is below --at-least, 2 unreadable input.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  alfirk stf --coverage cov.info basic.p4 basic.stf\n  alfirk coverage cov.info --missed --html cov.html"
)]
pub struct Args {
    /// LCOV files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// List each line and branch that was not reached.
    #[arg(long)]
    missed: bool,

    /// Write the sources with their counts as one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the sum as LCOV.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Read sources relative to this folder, in which the compiler ran.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    sources: PathBuf,

    /// Show only files whose paths begin with this text, such as a folder.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true
    )]
    only: String,

    /// Fail if a smaller percentage of lines was executed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    at_least: Option<u8>,
}

/// Runs `alfirk coverage`.
pub fn run(args: &Args) -> Outcome {
    let mut report = Report::default();
    for path in &args.files {
        let more = read(path).map_err(failure)?;
        report.add(&more).map_err(|error| {
            Failure::bad_input(format_args!(
                "{}: {error}; cover one version of the source",
                path.display()
            ))
        })?;
    }
    // Paths of the compiler are absolute if those of its arguments were.
    let sources = args
        .sources
        .canonicalize()
        .map_err(|error| Failure::bad_input(format_args!("{}: {error}", args.sources.display())))?;
    let report = report.relative_to(&sources.to_string_lossy(), &args.only);
    let source = |path: &str| fs::read_to_string(args.sources.join(path)).ok();
    if let Some(path) = &args.output {
        write(path, &report.to_lcov())?;
    }
    if let Some(path) = &args.html {
        write(path, &html(&report, "Coverage", source))?;
    }
    print(report.table())?;
    if args.missed {
        print(report.missed(source))?;
    }
    let (covered, all) = report.summary().lines;
    match args.at_least {
        Some(least) if covered * 100 < usize::from(least) * all => Err(Failure::failed(
            format_args!("{covered} of {all} lines were executed, which is less than {least} %"),
        )),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text)
        .map_err(|error| Failure::bad_input(format_args!("{}: {error}", path.display())))
}

/// Returns an unusable file with coverage as bad input.
pub fn failure(error: FileError) -> Failure {
    Failure::bad_input(error)
}
