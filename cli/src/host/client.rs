//! Client of a host's control socket, which the orchestrator (`alfirk run`) uses.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use alfirk_json_lines::Lines;
use anyhow::{bail, Context};

use super::control::MAX_UNREAD;
use super::protocol::{Event, Line, NumberedRequest, Reply, Request};

/// Time limit for a host's reply to a request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection of the orchestrator to one host.
pub struct HostClient {
    /// Name of the host in messages, with its kind: `host h1`.
    what: String,
    stream: UnixStream,
    next_id: u64,
    input: Lines,
    events: VecDeque<Event>,
}

impl HostClient {
    /// Connects to the socket at `path`; `name` is the host's name in messages.
    pub fn connect(name: &str, path: &Path) -> anyhow::Result<HostClient> {
        let stream = UnixStream::connect(path).with_context(|| {
            format!(
                "host {name}: cannot connect to its control socket {}",
                path.display()
            )
        })?;
        Ok(HostClient::over(name, stream))
    }

    /// Creates a client over an existing connection; `name` is the host's name in messages.
    pub fn over(name: &str, stream: UnixStream) -> HostClient {
        HostClient {
            what: format!("host {name}"),
            stream,
            next_id: 1,
            input: Lines::new(MAX_UNREAD),
            events: VecDeque::new(),
        }
    }

    /// Sends a request and waits for its reply. Events that arrive before it are queued for [`HostClient::next_event`].
    pub fn request(&mut self, request: Request) -> anyhow::Result<Reply> {
        let id = self.next_id;
        self.next_id += 1;
        let text = alfirk_json_lines::to_line(&NumberedRequest { id, request })?;
        self.stream
            .write_all(&text)
            .with_context(|| format!("{}: cannot send a request", self.what))?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            match self.line(deadline)? {
                None => bail!(
                    "{}: no reply within {} s",
                    self.what,
                    REPLY_TIMEOUT.as_secs()
                ),
                Some(Line::Event(event)) => self.events.push_back(event),
                Some(Line::Reply { id: of, reply }) if of == id => return Ok(reply),
                Some(Line::Error { id: of, error }) if of == id => bail!("{}: {error}", self.what),
                // The reply to an earlier request that timed out.
                Some(Line::Reply { .. } | Line::Error { .. }) => {}
            }
        }
    }

    /// Returns the next event of the host; `None` if none arrives before `deadline`.
    pub fn next_event(&mut self, deadline: Instant) -> anyhow::Result<Option<Event>> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.line(deadline)? {
                None => return Ok(None),
                Some(Line::Event(event)) => return Ok(Some(event)),
                Some(Line::Reply { .. } | Line::Error { .. }) => {}
            }
        }
    }

    /// Returns the next line from the host; `None` if none arrives before `deadline`.
    fn line(&mut self, deadline: Instant) -> anyhow::Result<Option<Line>> {
        loop {
            if let Some(line) = self.input.next_line().context(self.what.clone())? {
                let text = String::from_utf8_lossy(&line);
                let line = serde_json::from_slice(&line).with_context(|| {
                    format!("{}: cannot parse the line {}", self.what, text.trim())
                })?;
                return Ok(Some(line));
            }
            // A socket timeout of zero would mean no timeout.
            let left = deadline
                .saturating_duration_since(Instant::now())
                .max(Duration::from_micros(1));
            self.stream.set_read_timeout(Some(left))?;
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) => bail!("{}: closed its control socket", self.what),
                Ok(count) => self.input.push(&chunk[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("{}: control socket", self.what))
                }
            }
        }
    }
}

impl AsFd for HostClient {
    /// The socket, readable when an event may have arrived. Events that [`HostClient::request`] has queued do not make
    /// it readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
