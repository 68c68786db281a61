//! `alfirk fmt`: formats P4_16 source.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use alfirk_compiler::format::format;
use similar::TextDiff;

use crate::exit::{print, Failure, Outcome};

/// Format P4_16 source files, including headers and fragments of programs.
///
/// Changes indentation, spaces, braces and blank lines, and breaks lines of more than 120 columns. Comments, directives and
/// line breaks inside statements stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: alfirk fmt --check p4src")]
pub struct Args {
    /// Files, or folders for all .p4 files below them; `-` formats stdin to stdout.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write nothing: list unformatted files with their changes, and exit with 1 if there are any.
    #[arg(long, conflicts_with = "stdout")]
    check: bool,

    /// Print the result instead of writing the file.
    #[arg(long)]
    stdout: bool,
}

/// Runs `alfirk fmt`.
pub fn run(args: &Args) -> Outcome {
    let mut files = Vec::new();
    for path in &args.files {
        match path.is_dir() {
            true => collect(path, &mut files)?,
            false => files.push(path.clone()),
        }
    }
    let texts: Vec<(&Path, String)> = files
        .iter()
        .map(|path| Ok((path.as_path(), read(path)?)))
        .collect::<Result<_, Failure>>()?;
    let mut unformatted = false;
    for (path, text) in texts {
        let formatted = format(&text);
        if args.check {
            if formatted != text {
                unformatted = true;
                print(difference(path, &text, &formatted))?;
            }
        } else if args.stdout || is_stdin(path) {
            print(formatted)?;
        } else if formatted != text {
            fs::write(path, formatted).map_err(|error| {
                Failure::failed(format_args!("cannot write {}: {error}", path.display()))
            })?;
        }
    }
    match unformatted {
        true => Err(Failure::AlreadyReported(1)),
        false => Ok(()),
    }
}

/// Collects the P4 files below a folder into `into`, sorted by name.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| {
        Failure::bad_input(format_args!("cannot read {}: {error}", folder.display()))
    })?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            into.push(path);
        }
    }
    Ok(())
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = match is_stdin(path) {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(path),
    };
    text.map_err(|error| {
        Failure::bad_input(format_args!("cannot read {}: {error}", path.display()))
    })
}

fn difference(path: &Path, before: &str, after: &str) -> String {
    let name = path.display().to_string();
    TextDiff::from_lines(before, after)
        .unified_diff()
        .header(&name, &format!("{name} (formatted)"))
        .to_string()
}
