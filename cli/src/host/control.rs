//! The control socket: clients come and go, requests come in, answers and events go out. Nothing blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::protocol::{Line, NumberedRequest};

/// The longest request. A list of endpoints of some 10,000 members fits.
const LONGEST_REQUEST: usize = 16 << 20;
/// Bytes that a client may leave unread before it is dropped.
const MOST_UNREAD: usize = 64 << 20;

/// One orchestrator.
struct Client {
    token: u64,
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The listening socket and its clients. The socket's file goes away with it.
pub(super) struct Control {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
    next_token: u64,
}

/// A request, and whom to answer.
pub(super) struct Incoming {
    pub(super) client: u64,
    /// Or what is wrong with it.
    pub(super) request: Result<NumberedRequest, String>,
}

impl Control {
    /// Listens at `path`. A file that a dead process left there is replaced; a socket that answers is not. Clients get tokens from
    /// `first_token` on.
    pub(super) fn listen(path: &Path, first_token: u64) -> io::Result<Control> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if UnixStream::connect(path).is_ok() {
                    return Err(io::Error::new(
                        error.kind(),
                        "another process listens there",
                    ));
                }
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        listener.set_nonblocking(true)?;
        Ok(Control {
            path: path.to_owned(),
            listener,
            clients: Vec::new(),
            next_token: first_token,
        })
    }

    pub(super) fn listener_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Takes clients that wait at the door; descriptors to watch, with their tokens.
    pub(super) fn accept(&mut self) -> Vec<(RawFd, u64)> {
        let mut new = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let token = self.next_token;
            self.next_token += 1;
            new.push((stream.as_raw_fd(), token));
            self.clients.push(Client {
                token,
                stream,
                input: Vec::new(),
                output: Vec::new(),
            });
        }
        new
    }

    /// Reads what a client has sent. A client that has gone or sends nonsense without end is dropped.
    pub(super) fn read(&mut self, token: u64) -> Vec<Incoming> {
        let Some(index) = self.clients.iter().position(|c| c.token == token) else {
            return Vec::new();
        };
        let client = &mut self.clients[index];
        let alive = client.fill();
        let mut requests = Vec::new();
        while let Some(end) = client.input.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = client.input.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            requests.push(Incoming {
                client: token,
                request: serde_json::from_slice(&line)
                    .map_err(|error| format!("malformed request: {error}")),
            });
        }
        if !alive || client.input.len() > LONGEST_REQUEST {
            self.clients.remove(index);
        }
        requests
    }

    /// Queues a line for one client.
    pub(super) fn send(&mut self, token: u64, line: &Line) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.token == token) {
            client.push(line);
        }
    }

    /// Queues a line for all clients.
    pub(super) fn broadcast(&mut self, line: &Line) {
        for client in &mut self.clients {
            client.push(line);
        }
    }

    pub(super) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Writes what clients can take, and says whether something is left. Clients that have gone, or that do not read, are dropped.
    pub(super) fn flush(&mut self) -> bool {
        self.clients
            .retain_mut(|c| c.drain() && c.output.len() <= MOST_UNREAD);
        self.clients.iter().any(|c| !c.output.is_empty())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Client {
    /// False when the client has gone.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        while self.input.len() <= LONGEST_REQUEST {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn push(&mut self, line: &Line) {
        serde_json::to_writer(&mut self.output, line).expect("lines hold nothing that JSON cannot");
        self.output.push(b'\n');
    }

    /// False when the client has gone.
    fn drain(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}
