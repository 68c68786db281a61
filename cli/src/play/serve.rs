//! The server of the playground, and its worker processes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Duration;

use alfirk_compiler::driver::{CompileOptions, Session as Compilation};
use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::{normalize, DiskLoader, SourceLoader};
use alfirk_play::server::{serve, Project};
use alfirk_play::workers::{work, Pool, PoolOptions};
use alfirk_play::{Document, Engine, Library};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use tokio::runtime::Builder;

use super::Args;
use crate::exit::{Failure, Outcome};
use crate::program::embedded;
use crate::view::{listen, serve_until_ended};

/// Minimum number of worker processes, so that a few slow programs do not stop the others.
const WORKERS: usize = 4;

/// Maximum duration of a request, such as compiling a program and running its test.
const TIME: Duration = Duration::from_secs(10);

/// Maximum size of a worker's memory in bytes, of which up to 2 GB are reserved for the compiler's stack and mostly unused.
const MEMORY: u64 = 3 << 30;

/// Runs `alfirk play` until it is stopped.
pub(super) fn run(args: &Args) -> Outcome {
    if args.worker {
        return run_worker(library(args));
    }
    let start = args.program.as_deref();
    let start = start.map(|path| project(path, &args.include)).transpose()?;
    let listener = listen(args.listen, "--listen")?;
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let processors = available_parallelism().map_or(1, usize::from);
    let mut arguments = vec!["play".into(), "--worker".into()];
    if args.without_solutions {
        arguments.push("--without-solutions".into());
    }
    let pool = Pool::new(PoolOptions {
        program,
        arguments,
        workers: processors.max(WORKERS),
        time: TIME,
    });
    let mut runtime = Builder::new_multi_thread();
    serve_until_ended(listener, runtime.worker_threads(2), |listener, until| {
        serve(listener, pool, library(args), start, until)
    })
}

/// The files of this repository that programs may include and the page offers as examples.
fn library(args: &Args) -> Library {
    let all = embedded::P4SRC.iter().chain(embedded::PLAY);
    let all = all.chain(embedded::TOPOLOGIES).copied();
    let is_solution = |path: &str| path.starts_with("labs/") && path.ends_with("/solution.p4");
    Library::new(all.filter(|(path, _)| !args.without_solutions || !is_solution(path)))
}

fn run_worker(library: Library) -> Outcome {
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).map_err(Failure::failed)?;
    let memory = MEMORY.min(hard);
    setrlimit(Resource::RLIMIT_AS, memory, hard).map_err(Failure::failed)?;
    on_deep_stack(|| {
        let mut engine = Engine::new(library);
        work(
            &mut engine,
            &mut io::stdin().lock(),
            &mut io::stdout().lock(),
        )
    })
    .map_err(Failure::failed)
}

/// Reads a program with the files that it includes, and the test beside it.
fn project(path: &Path, include: &[PathBuf]) -> Result<Project, Failure> {
    let recorder = Recorder::default();
    let mut options = CompileOptions::new(path);
    options.preprocessor.include_dirs = include.to_vec();
    on_deep_stack(|| Compilation::new(options).tokens(&recorder).map(drop))
        .map_err(|error| Failure::bad_input(format_args!("{}: {error}", path.display())))?;
    let files = recorder.0.into_inner().unwrap_or_default();
    let main = normalize(path);
    // Paths of the playground are relative to the folder that all files share.
    let shared = files.keys().fold(folder(&main), |shared, path| {
        let mut shared = shared;
        while !path.starts_with(&shared) && shared.pop() {}
        shared
    });
    let name = |path: &Path| {
        let relative = path.strip_prefix(&shared).unwrap_or(path);
        format!("/{}", relative.display())
    };
    let files = files.iter().map(|(path, text)| (name(path), text.clone()));
    let document = Document {
        main: name(&main),
        files: files.collect(),
    };
    document.check().map_err(Failure::bad_input)?;
    let test = std::fs::read_to_string(path.with_extension("stf")).unwrap_or_default();
    Ok(Project { document, test })
}

fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// A loader that keeps the texts that it has read.
#[derive(Default)]
struct Recorder(Mutex<BTreeMap<PathBuf, String>>);

impl SourceLoader for Recorder {
    fn load(&self, path: &Path) -> io::Result<String> {
        let text = DiskLoader.load(path)?;
        if let Ok(mut files) = self.0.lock() {
            files.insert(normalize(path), text.clone());
        }
        Ok(text)
    }
}
