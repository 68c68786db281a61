//! A cache of loaded programs and verified pipeline configs, shared by several servers of one process.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use alfirk_bmv2::{LoadError, LoadOptions, LoadedProgram};
use alfirk_bmv2_json::BmV2Json;
use alfirk_p4runtime::p4::v1::ForwardingPipelineConfig;

use super::pipeline::VerifiedConfig;
use super::schema::Schema;

/// Cache of loaded programs, by their JSON text. Servers that share a cache load each text once. Clones refer to the
/// same cache. A program is freed with the last switch that runs it.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    programs: Arc<Mutex<Vec<CachedProgram>>>,
    configs: Arc<Mutex<Vec<CachedConfig>>>,
    with_notes: bool,
    with_coverage: bool,
    compile: Option<Compile>,
}

/// How programs are compiled.
#[derive(Clone, Copy, Debug)]
struct Compile {
    /// Number of packets that one switch interprets before; `None`: the program is compiled when it is loaded.
    after: Option<u32>,
    by: fn(Arc<LoadedProgram>),
}

#[derive(Debug)]
struct CachedProgram {
    text: String,
    program: Weak<LoadedProgram>,
}

#[derive(Debug)]
struct CachedConfig {
    config: Weak<ForwardingPipelineConfig>,
    program: Weak<LoadedProgram>,
    schema: Weak<Schema>,
}

impl CachedConfig {
    fn upgrade(&self) -> Option<VerifiedConfig> {
        Some(VerifiedConfig {
            config: self.config.upgrade()?,
            program: self.program.upgrade()?,
            schema: self.schema.upgrade()?,
        })
    }
}

impl Programs {
    /// Creates a cache whose programs write conditions and primitives to the log; see [`LoadedProgram::with_notes`].
    pub fn with_notes() -> Programs {
        Programs {
            with_notes: true,
            ..Programs::default()
        }
    }

    /// Returns the cache whose programs count what packets execute; see [`Switch::coverage`](alfirk_bmv2::Switch::coverage).
    pub fn with_coverage(self) -> Programs {
        Programs {
            with_coverage: true,
            ..self
        }
    }

    /// Returns the cache with a function that compiles each program that it loads, now or in another thread; see
    /// [`LoadedProgram::compile`].
    pub fn compiled_by(self, compile: fn(Arc<LoadedProgram>)) -> Programs {
        Programs {
            compile: Some(Compile {
                after: None,
                by: compile,
            }),
            ..self
        }
    }

    /// Returns the cache with a function that compiles each program of which its switches have interpreted this number of packets;
    /// see [`LoadedProgram::compile_after`].
    pub fn compiled_after(self, packets: u32, compile: fn(Arc<LoadedProgram>)) -> Programs {
        Programs {
            compile: Some(Compile {
                after: Some(packets),
                by: compile,
            }),
            ..self
        }
    }

    /// Returns the program with this JSON text, loading it if necessary.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn load(&self, text: &str) -> Result<Arc<LoadedProgram>, LoadError> {
        self.load_by(text, |options| LoadedProgram::from_text(text, options))
    }

    /// As [`Programs::load`], for JSON text that its caller has parsed: `json`.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn load_parsed(
        &self,
        text: &str,
        json: &BmV2Json,
    ) -> Result<Arc<LoadedProgram>, LoadError> {
        self.load_by(text, |options| LoadedProgram::with_options(json, options))
    }

    /// Returns the program with this JSON text from the cache, or from `load`.
    fn load_by(
        &self,
        text: &str,
        load: impl FnOnce(LoadOptions) -> Result<LoadedProgram, LoadError>,
    ) -> Result<Arc<LoadedProgram>, LoadError> {
        // The list stays consistent even if a thread panics while holding the lock.
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.retain(|programs| programs.program.strong_count() > 0);
        let same = programs.iter().find(|programs| programs.text == text);
        if let Some(program) = same.and_then(|programs| programs.program.upgrade()) {
            return Ok(program);
        }
        let options = LoadOptions {
            notes: self.with_notes,
            coverage: self.with_coverage,
            ..LoadOptions::default()
        };
        let program = Arc::new(load(options)?);
        programs.push(CachedProgram {
            text: text.to_owned(),
            program: Arc::downgrade(&program),
        });
        match self.compile {
            None => {}
            Some(Compile { after: None, by }) => by(program.clone()),
            Some(Compile {
                after: Some(packets),
                by,
            }) => program.compile_after(packets, by),
        }
        Ok(program)
    }

    /// Returns the verified form of a config that is equal to `config` and in use by another server.
    pub(super) fn verified(&self, config: &ForwardingPipelineConfig) -> Option<VerifiedConfig> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.retain(|cached| cached.config.strong_count() > 0);
        let mut verified = configs.iter().filter_map(CachedConfig::upgrade);
        verified.find(|verified| is_equal(&verified.config, config))
    }

    /// Adds a verified config to the cache. It is freed with the last server that uses it.
    pub(super) fn remember(&self, verified: &VerifiedConfig) {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.push(CachedConfig {
            config: Arc::downgrade(&verified.config),
            program: Arc::downgrade(&verified.program),
            schema: Arc::downgrade(&verified.schema),
        });
    }
}

/// Whether two configs are equal. What they share is not compared byte by byte.
fn is_equal(a: &ForwardingPipelineConfig, b: &ForwardingPipelineConfig) -> bool {
    if std::ptr::eq(a, b) {
        return true;
    }
    let [x, y] = [a, b].map(|config| &config.p4_device_config);
    let shares = x.as_ptr() == y.as_ptr() && x.len() == y.len();
    (shares || x == y) && a.p4info == b.p4info && a.cookie == b.cookie
}
