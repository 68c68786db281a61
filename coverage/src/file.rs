//! Files with coverage, to which runs add their counts.

use crate::report::Report;
use alfirk_bmv2::coverage::Covered;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use thiserror::Error;

/// A file with coverage cannot be read or written. The message has the file's path.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FileError(String);

impl FileError {
    fn new(path: &Path, why: impl std::fmt::Display) -> FileError {
        FileError(format!("{}: {why}", path.display()))
    }
}

/// Reads an LCOV file.
///
/// # Errors
/// The file cannot be read, or is not LCOV.
pub fn read(path: &Path) -> Result<Report, FileError> {
    let text = fs::read_to_string(path).map_err(|error| FileError::new(path, error))?;
    Report::from_lcov(&text).map_err(|error| FileError::new(path, error))
}

/// Adds the counts of a switch to an LCOV file, and creates the file if it does not exist. An error leaves the file as it
/// is: the new content replaces it at once.
///
/// # Errors
/// The file cannot be read or written, is not LCOV, or is of another version of a program.
pub fn add_to_file(path: &Path, covered: &[Covered]) -> Result<Report, FileError> {
    let mut report = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Report::default(),
        _ => read(path)?,
    };
    let hint = "remove the file to begin again";
    report
        .add(&Report::new(covered))
        .map_err(|error| FileError::new(path, format_args!("{error}; {hint}")))?;
    replace(path, &report.to_lcov()).map_err(|error| FileError::new(path, error))?;
    Ok(report)
}

/// Replaces a file's content by way of a temporary file beside it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let result = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    }
    result
}
