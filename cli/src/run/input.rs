//! Reads or generates the data that a run sends.

use alfirk_experiment::stream;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use alfirk_roce::collective::ExpectedData;

use crate::exit::Failure;

use alfirk_roce::rc::MAX_MESSAGE;

/// Where the data of a run comes from.
#[derive(Debug)]
pub enum Source {
    /// The content of this file.
    File(PathBuf),
    /// Data of this length in bytes, generated from the run's seed.
    Seeded(u64),
    /// No data, for a barrier.
    Nothing,
}

/// The data of a run, and the file that it was read from.
pub struct Input {
    /// Path of the file as given; `None` for generated data.
    pub file: Option<String>,
    pub data: Arc<ExpectedData>,
}

impl Input {
    /// Reads the data from its file, or generates it from `seed`.
    pub fn load(source: &Source, seed: u64) -> Result<Input, Failure> {
        let (file, bytes): (_, Arc<[u8]>) = match source {
            Source::File(path) => {
                let name = path.display().to_string();
                let bad = |what: &dyn std::fmt::Display| {
                    Failure::bad_input(format_args!("--input {name}: {what}"))
                };
                let length = fs::metadata(path).map_err(|e| bad(&e))?.len();
                check(length).map_err(|e| bad(&e))?;
                let bytes = fs::read(path).map_err(|e| bad(&e))?;
                check(bytes.len() as u64).map_err(|e| bad(&e))?;
                (Some(name), bytes.into())
            }
            Source::Nothing => (None, Arc::default()),
            Source::Seeded(length) => {
                check(*length)
                    .map_err(|e| Failure::bad_input(format_args!("--size {length}B: {e}")))?;
                (None, stream::shared_bytes(seed, "input", *length as usize))
            }
        };
        let data = Arc::new(ExpectedData::new(bytes));
        // Without instructions for SHA-256 a processor hashes about 100 MB/s, so the fabric starts meanwhile. If there is no thread,
        // the data is hashed when the digest is read.
        let ahead = data.clone();
        let _ = thread::Builder::new().spawn(move || ahead.sha256());
        Ok(Input { file, data })
    }
}

fn check(length: u64) -> Result<(), String> {
    match length {
        0 => Err("there are no bytes to send".to_string()),
        1..=MAX_MESSAGE => Ok(()),
        _ => Err(format!(
            "{length} bytes exceed the limit of an RDMA message, 2 GiB"
        )),
    }
}
