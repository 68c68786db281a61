//! Programs that several servers of one process have in common.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use alfirk_bmv2::{LoadError, LoadedProgram};

/// Loaded programs by their text. Servers that share one load the same text once; clones are the
/// same. A program lives as long as a switch runs it.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    known: Arc<Mutex<Vec<Known>>>,
    with_notes: bool,
}

#[derive(Debug)]
struct Known {
    text: String,
    program: Weak<LoadedProgram>,
}

impl Programs {
    /// Programs with notes for the log; see [`LoadedProgram::with_notes`].
    pub fn with_notes() -> Programs {
        Programs {
            with_notes: true,
            ..Programs::default()
        }
    }

    /// The program of a text.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn load(&self, text: &str) -> Result<Arc<LoadedProgram>, LoadError> {
        // Nothing below leaves the list half changed.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.program.strong_count() > 0);
        let same = known.iter().find(|known| known.text == text);
        if let Some(program) = same.and_then(|known| known.program.upgrade()) {
            return Ok(program);
        }
        let program = Arc::new(match self.with_notes {
            true => LoadedProgram::with_notes(text)?,
            false => LoadedProgram::from_json(text)?,
        });
        known.push(Known {
            text: text.to_owned(),
            program: Arc::downgrade(&program),
        });
        Ok(program)
    }
}
