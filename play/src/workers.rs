//! Processes that run the engine, and the pool of them.
//!
//! A compiler or a switch cannot be interrupted in a thread. A process can: one that takes too long is killed, and one that takes
//! too much memory ends itself. The next request starts another process.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alfirk_json_lines::{encode, Lines};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

use crate::engine::{encoded, Engine, Request};
use crate::limits;

/// Executes requests from `input`, one JSON object per line, and writes a reply to each to `output`, until the input ends.
///
/// Call it on a large stack ([`alfirk_compiler::on_deep_stack`]).
///
/// # Errors
/// The input or the output fails, or the input is not a request.
pub fn work(
    engine: &mut Engine,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request: Request = serde_json::from_slice(&line)?;
        let mut reply = encoded(&engine.reply(&request));
        reply.push(b'\n');
        output.write_all(&reply)?;
        output.flush()?;
    }
}

/// Settings of a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Program of a worker process, which calls [`work`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Maximum number of worker processes.
    pub workers: usize,
    /// Maximum duration of a request.
    pub time: Duration,
}

/// Why a request has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The request was stopped at the time limit.
    #[error("this took longer than {} s and was stopped", .0.as_secs_f32())]
    Time(Duration),
    /// The process ended, which it does if it needs too much memory.
    #[error("this needs more memory than a program may have, and was stopped")]
    Ended,
    /// No process can be started.
    #[error("cannot start a process: {0}")]
    Start(String),
}

/// A worker process that waits for a request.
struct Worker {
    /// Killed when dropped.
    _child: Child,
    input: ChildStdin,
    output: ChildStdout,
    lines: Lines,
}

/// Worker processes, which execute requests independently of each other.
pub struct Pool {
    options: PoolOptions,
    /// One permit for each process.
    free: Semaphore,
    idle: Mutex<Vec<Worker>>,
}

impl Pool {
    /// Creates a pool. Processes are started when they are first needed.
    pub fn new(options: PoolOptions) -> Pool {
        Pool {
            free: Semaphore::new(options.workers),
            options,
            idle: Mutex::default(),
        }
    }

    /// Executes a request. The future must be polled to its end: dropped earlier, it ends the process.
    ///
    /// # Errors
    /// The process has exceeded a limit, or none can be started.
    pub async fn reply(&self, request: &Request) -> Result<Vec<u8>, WorkError> {
        let mut line = Vec::new();
        encode(request, &mut line).map_err(|error| WorkError::Start(error.to_string()))?;
        let permit = self.free.acquire().await;
        let _permit = permit.map_err(|error| WorkError::Start(error.to_string()))?;
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(worker) = idle {
            match self.execute(worker, &line).await {
                // Earlier requests may have left too little memory.
                Err(WorkError::Ended) => {}
                done => return done,
            }
        }
        let worker = self.start()?;
        self.execute(worker, &line).await
    }

    async fn execute(&self, mut worker: Worker, line: &[u8]) -> Result<Vec<u8>, WorkError> {
        let time = self.options.time;
        let reply = tokio::time::timeout(time, worker.exchange(line)).await;
        let reply = reply.map_err(|_| WorkError::Time(time))?;
        let reply = reply.map_err(|_| WorkError::Ended)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(worker);
        Ok(reply)
    }

    fn start(&self) -> Result<Worker, WorkError> {
        let failed = |error: io::Error| WorkError::Start(error.to_string());
        let mut child = Command::new(&self.options.program)
            .args(&self.options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The message of an aborted allocation is of no use to the operator.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) =
            pipes.ok_or_else(|| failed(io::Error::other("the process has no pipes")))?;
        Ok(Worker {
            _child: child,
            input,
            output,
            lines: Lines::new(limits::REPLY_BYTES),
        })
    }
}

impl Worker {
    async fn exchange(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.input.write_all(line).await?;
        self.input.flush().await?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            if let Some(line) = self.lines.next_line()? {
                return Ok(line.to_vec());
            }
            match self.output.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.lines.push(&buffer[..count]),
            }
        }
    }
}
